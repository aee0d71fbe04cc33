"""What a study says so far: its answer, where every arm stands, its health, a forecast."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable

from bestarm.analysis.health.notes import Health, with_remark
from bestarm.analysis.standing.arms import ArmStanding, findings_of, named
from bestarm.analysis.standing.knowledge import differences_of, standings_shown
from bestarm.analysis.standing.timeline import Progress
from bestarm.analysis.status.outlook import Outlook
from bestarm.analysis.status.status import Status, basis_of
from bestarm.analysis.status.waiting import Awaited, HeldResults, is_unresolved
from bestarm.answer import Answer, Difference
from bestarm.kernel.state import Ints
from bestarm.storage.base import Issued, Pending
from bestarm.study.forecast.continuations import simulate_continuations
from bestarm.study.intake.items import MeasuredItems
from bestarm.study.record.clock import ends_at
from bestarm.study.record.conclusion import answer_of, status_of
from bestarm.study.record.entries import tests_of
from bestarm.study.record.follower import Follower
from bestarm.study.record.seeds import seeds_of


class Overview(Follower):
    """A study's record, and what people are shown of it."""

    _heeds_remarks = True
    """Whether a remark on the answer counts in its health. A race, which makes them, judges by itself."""
    _latest_forecast: Outlook | None = None

    @property
    def answer(self) -> Answer | None:
        """What the study concludes, with the reasons for every arm; None while it is running."""
        with self._lock:
            self._sync()
            policy, stop = self._decider.policy, self._decider.stop
            if not self._is_done:
                return None
            unasked = self._count_unasked(self._recorded_late())
            return answer_of(self.plan, policy, stop, self._raw, self._health(), is_over=self._is_over, unasked=unasked)

    @property
    def confidence(self) -> float:
        """The confidence in the current best answer, from 0 to 1."""
        with self._lock:
            self._sync()
            return self._decider.policy.present_answer(self._decider.stop).confidence

    @property
    def state(self) -> tuple[ArmStanding, ...]:
        """Where every arm stands, metric by metric."""
        with self._lock:
            self._sync()
            policy, stop = self._decider.policy, self._decider.stop
            return standings_shown(self.plan, policy, findings_of(policy, stop), stop, self._raw)

    @property
    def health(self) -> Health:
        """Whether the results contradict what the guarantee rests on."""
        with self._lock:
            self._sync()
            return self._health()

    def status(self) -> Status:
        """Everything at a glance."""
        # All from one moment: an arm that comes in between would have results here, and no place in the plan.
        with self._lock, self._storage.snapshot():
            self._sync()
            parts = self._recorded_late()
            late = tests_of(parts)
            tests, cost = self._timeline.total
            return status_of(
                self.plan,
                self._decider.policy,
                self._decider.stop,
                self._raw,
                self._health(),
                is_over=self._is_over,
                ends=ends_at(self._record),
                unasked=self._count_unasked(parts),
                revision=self._record.revision,
                scores=self._scores.told,
                study=self.name,
                tests=tests + sum(metric not in self.plan.judges for _, metric in late),
                cost=cost + self.plan.cost_of(late),
                pending=self._storage.count_pending(self._record.key),
                waiting=0 if self._is_done else len(late),
                awaited=None if self._is_done else self._awaited(),
                held=None if self._is_done else self._about_held(),
                outlook=self._latest_forecast,
                **seeds_of(self.plan, self._record)._asdict(),
            )

    @property
    def _reached(self) -> Ints:
        """How many items the evidence has reached, by arm and part."""
        return self._decider.policy.streams.items.reached

    def _about_held(self) -> HeldResults | None:
        """Results on items whose turn has not come, and the item that they wait for."""
        items = self._items
        if not isinstance(items, MeasuredItems) or not (rows := items.held(self._reached)):
            return None
        wanted = rows[0].arm, rows[0].metric, items.waits_for(rows[0], self._reached)
        test = next((row.id for row in self._pending() if (row.arm, row.metric, row.item) == wanted), None)
        missing = self._test(Issued(0, *wanted))
        return HeldResults.of(len(rows), f"{missing.metric} of {missing.arm} on {missing.item}", test)

    def differences(self, arm: str | None = None) -> dict[str, Difference]:
        """By how much, at least and at most, `arm` performs better than each other arm, in the objective's units: by
        default the leader, or the answer. Empty if no arm leads.

        All of them, whichever arm is asked about and whenever, hold at once together with the answer, as long as the
        study's assumptions do, with probability 1 - 2 delta: Proposition K.6 in `docs/certificates/known.md`, which has
        the cases where it is less.

        >>> import bestarm as ba
        >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(0.1)))
        >>> study = ba.Study.create(problem, delta=0.05, storage=":memory:")
        >>> study.differences()
        {}
        >>> for test in study.ask(2):
        ...     study.tell(test, {"old": 1.0, "new": 2.0}[test.arm])
        >>> {arm: f"{limits.low:.2f} to {limits.high:.2f}" for arm, limits in study.differences("old").items()}
        {'new': '-2.57 to 0.37'}
        """
        with self._lock:
            self._sync()
            policy = self._decider.policy
            if arm is None:
                leader = policy.present_answer(self._decider.stop).leader
            else:
                leader = self._numbering.arm(arm)
            return {} if leader is None else differences_of(self.plan, policy, leader, self._decider.stop)

    def awaited(self) -> Awaited | None:
        """The test whose result counts next, and that later ones wait for. None if no result is out, or none needed."""
        with self._lock:
            self._sync()
            return None if self._is_done else self._awaited()

    def unresolved(self) -> list[Awaited]:
        """The tests that need attention: overdue, or set aside until it is known what a failed attempt counts as."""
        return [self._as_awaited(row) for row in self._pending() if is_unresolved(row)]

    def _awaited(self) -> Awaited | None:
        first = self._pending(limit=1)
        return self._as_awaited(first[0]) if first else None

    def _as_awaited(self, row: Pending) -> Awaited:
        test = self._test(row)
        names = {"study": self.name, "url": self._address}
        block = None if self.plan.blocks is None else self.plan.blocks.name
        return Awaited.of(row, test.arm, test.metric, metrics=test.metrics, item=test.item, block=block, **names)

    def items_left(self, arm: str) -> list[str]:
        """The items that some test of the arm has no result for yet, in the study's order. None without items, or if
        items are drawn again and again. The maker of an arm that is added later must not know this order."""
        number = self._numbering.arm(arm)
        with self._lock:
            self._sync()
            items = self._items if isinstance(self._items, MeasuredItems) else None
            return [] if items is None else items.left(number, self._recorded_late(), [*self.plan.yields])

    def forecast(self, *, runs: int = 100, seed: int = 0) -> Outlook | None:
        """How many more tests it will take, by simulating the rest of the study in worlds that its results leave
        possible. With few results its state is "too early", and it says nothing else.

        If the budget is spent, it says what is lacking: the rest is simulated as if there were no budget.

        None when the study has its answer, a metric of some arm has no result yet, or tests had several trials.
        """
        return self._forecast(runs, seed, lambda: True)

    def _forecast(self, runs: int, seed: int, is_wanted: Callable[[], bool]) -> Outlook | None:
        """As `forecast`. Stops with `NotWanted` as soon as it is no longer wanted."""
        with self._lock:
            self._sync()
            if self._decider.stop is not None or self._decider.policy.untested or self._decider.has_trials:
                return None
            plan = dataclasses.replace(self.plan, budget=None) if self._is_done else self.plan
            policy = copy.deepcopy(self._decider.policy)
            after, basis = self._timeline.total[0], self._forecast_basis()
        # Asking and telling must not wait for the simulation.
        outlook = simulate_continuations(plan, policy, runs=runs, seed=seed, is_wanted=is_wanted)
        self._latest_forecast = dataclasses.replace(outlook, after=after, basis=basis)
        return self._latest_forecast

    def _forecast_basis(self) -> str:
        """`Status.basis` of a study without an answer."""
        candidates = named(self.plan, findings_of(self._decider.policy, None).candidates)
        return basis_of(self._record.revision, "budget_spent" if self._is_done else "running", candidates)

    def progress(self) -> Progress:
        """How tests and cost have grown over time, in a few hundred points."""
        with self._lock:
            self._sync()
            return self._timeline.progress()

    def _health(self) -> Health:
        """What the results say and, of an answer, what was remarked on it."""
        health = self._watch.health()
        has_remark = self._heeds_remarks and self._decider.stop is not None
        return with_remark(health, self._storage.last_remark(self._record.key) if has_remark else "")
