"""Follows a study's record as it grows: what it says so far, and what to do next."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bestarm.analysis.health.notes import Health, with_remark
from bestarm.analysis.health.watch import Watch
from bestarm.analysis.standing.arms import ArmStanding, findings_of, named, standings
from bestarm.analysis.standing.knowledge import Moment, differences_of, moment_of
from bestarm.analysis.standing.quantiles import RawValues
from bestarm.analysis.standing.timeline import Progress, Timeline
from bestarm.analysis.status.outlook import Outlook
from bestarm.analysis.status.status import Status, basis_of
from bestarm.analysis.status.waiting import Awaited, is_unresolved
from bestarm.answer import Answer, Difference
from bestarm.storage.base import Entries, Issued, Pending, Rounds, Storage, StudyRecord
from bestarm.study.forecast.continuations import simulate_continuations
from bestarm.study.intake.items import FreeItems, MeasuredItems
from bestarm.study.intake.names import Numbering, Test
from bestarm.study.record.checks import read_plan
from bestarm.study.record.conclusion import answer_of, is_spent, status_of
from bestarm.study.record.decider import Decider, Results
from bestarm.study.record.far_values import TypicalValues
from bestarm.study.record.seeds import seeds_of
from bestarm.validation import InvalidInput


class Follower:
    """Reads each result of a study's record once, and keeps what follows from it. `Study` adds asking and telling."""

    _heeds_remarks = True
    """Whether a remark on the answer counts in its health. A race, which makes them, judges by itself."""

    def __init__(self, storage: Storage, record: StudyRecord) -> None:
        self._storage = storage
        self._record = record
        self._lock = threading.RLock()
        self._read_plan()
        self._restart()

    def _read_plan(self) -> None:
        """Take over the plan of the study's entry."""
        self.plan = read_plan(self._record)
        self._results = Results(self.plan)
        self._numbering = Numbering(self.plan)

    def _restart(self) -> None:
        """Before the first result has entered."""
        self._decider = Decider(self.plan, self._record.seed, by_arrival=self._record.by_arrival)
        self._timeline = Timeline(self.plan.costs)
        self._watch = Watch(self.plan)
        self._raw = RawValues(self.plan)
        self._typical = TypicalValues(self.plan)
        self._items = None if self.plan.items is None else MeasuredItems(self.plan, self._record.order_seed)

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def storage(self) -> Storage:
        return self._storage

    @property
    def record(self) -> StudyRecord:
        """The study's entry in the storage, as of the last look."""
        return self._record

    @property
    def done(self) -> bool:
        """Whether the study has its answer, or has spent its budget."""
        with self._lock:
            self._sync()
            return self._is_done

    @property
    def answer(self) -> Answer | None:
        """What the study concludes, with the reasons for every arm; None while it is running."""
        with self._lock:
            self._sync()
            return answer_of(self.plan, self._decider.policy, self._decider.stop, self._raw, self._health())

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
            policy = self._decider.policy
            return tuple(standings(self.plan, policy, findings_of(policy, self._decider.stop), self._raw))

    @property
    def health(self) -> Health:
        """Whether the results contradict what the guarantee rests on."""
        with self._lock:
            self._sync()
            return self._health()

    def status(self) -> Status:
        """Everything at a glance."""
        with self._lock:
            self._sync()
            late = _tests(self._recorded_late())
            tests, cost = self._timeline.total
            return status_of(
                self.plan,
                self._decider.policy,
                self._decider.stop,
                self._raw,
                self._health(),
                revision=self._record.revision,
                study=self.name,
                tests=tests + len(late),
                cost=cost + sum(self.plan.costs[metric] for _, metric in late),
                pending=self._storage.count_pending(self._record.key),
                waiting=0 if self._is_done else len(late),
                awaited=None if self._is_done else self._awaited(),
                **seeds_of(self.plan, self._record)._asdict(),
            )

    def differences(self, arm: str | None = None) -> dict[str, Difference]:
        """By how much, at least and at most, `arm` performs better than each other arm, in the objective's units: by
        default the leader, or the answer. Empty if no arm leads.

        All of them, whichever arm is asked about and whenever, hold at once together with the answer, as long as the
        study's assumptions do, with probability 1 - 2 delta; `docs/certify.md` has the cases where it is less.

        >>> import bestarm as ba
        >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(0.1)))
        >>> study = ba.Study.create(problem, delta=0.05, storage=":memory:")
        >>> study.differences()
        {}
        >>> for test in study.ask(2):
        ...     study.tell(test, {"old": 1.0, "new": 2.0}[test.arm])
        >>> {arm: f"{limits.low:.2f} to {limits.high:.2f}" for arm, limits in study.differences("old").items()}
        {'new': '-2.57 to 0.57'}
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
        return [self._as_awaited(row) for row in self._storage.pending(self._record.key) if is_unresolved(row)]

    def _awaited(self) -> Awaited | None:
        first = self._storage.pending(self._record.key, limit=1)
        return self._as_awaited(first[0]) if first else None

    def _as_awaited(self, row: Pending) -> Awaited:
        test = self._test(row)
        return Awaited.of(
            row, test.arm, test.metric, study=self.name, url=self._address, metrics=test.metrics, item=test.item
        )

    def _test(self, issued: Issued | Pending) -> Test:
        """A test of the record, by name."""
        if issued.arm >= len(self.plan.arms):
            self._look_for_arms()
        plan, lead = self.plan, issued.metric
        item = self.item_name(issued.item)
        return Test(issued.id, plan.arm_names[issued.arm], plan.test_names[lead], plan.yields[lead], item)

    def item_name(self, place: int | None) -> str | None:
        """The item at a place of the study's order, from 0, as the log and the record have it."""
        return None if place is None or self._items is None else self._items.order.name(place)

    def items_left(self, arm: str) -> list[str]:
        """The items that some test of the arm has no result for yet, in the study's order. None without items, or if
        items are drawn again and again."""
        number = self._numbering.arm(arm)
        with self._lock:
            self._sync()
            if self._items is None or self._items.order.places is None:
                return []
            order, tests = self._items.order, [(number, lead) for lead in self.plan.yields]
            taken = self._items.taken([], self._recorded_late(), tests)
            return [
                order.name(place)
                for place in range(order.count)
                if not all(test in taken and place in taken[test] for test in tests)
            ]

    def _free_items(self) -> FreeItems:
        """Where results may be put in the order of items."""
        with self._lock:
            self._look()
            assert self._items is not None
            with self._storage.snapshot():
                for entries in self._new_entries():
                    self._enter(entries)
                pending = self._storage.pending(self._record.key)
                late = self._recorded_late()
            out = [((test.arm, test.metric), test.item) for test in pending]
            return FreeItems(self.plan, self._items.order, self._items.taken(out, late))

    @property
    def _address(self) -> str:
        """Where the study is kept, for commands that are shown."""
        return self._storage.url

    def forecast(self, *, runs: int = 100, seed: int = 0) -> Outlook | None:
        """How many more tests it will take, by simulating the rest of the study in worlds that its results leave
        possible. With few results its state is "too early", and it says nothing else.

        If the budget is spent, it says what is lacking: the rest is simulated as if there were no budget.

        None when the study has its answer, or not every metric of every arm has a result yet.
        """
        return self._forecast(runs, seed, lambda: True)

    def _forecast(self, runs: int, seed: int, is_wanted: Callable[[], bool]) -> Outlook | None:
        """As `forecast`. Stops with `NotWanted` as soon as it is no longer wanted."""
        with self._lock:
            self._sync()
            if self._decider.stop is not None or self._decider.policy.untested:
                return None
            plan = dataclasses.replace(self.plan, budget=None) if self._is_done else self.plan
            policy = copy.deepcopy(self._decider.policy)
            after, basis = self._timeline.total[0], self._forecast_basis()
        # Asking and telling must not wait for the simulation.
        outlook = simulate_continuations(plan, policy, runs=runs, seed=seed, is_wanted=is_wanted)
        return dataclasses.replace(outlook, after=after, basis=basis)

    def _forecast_basis(self) -> str:
        """`Status.basis` of a study without an answer."""
        candidates = named(self.plan, findings_of(self._decider.policy, None).candidates)
        return basis_of(self._record.revision, "budget_spent" if self._is_done else "running", candidates)

    def progress(self) -> Progress:
        """How tests and cost have grown over time, in a few hundred points."""
        with self._lock:
            self._sync()
            return self._timeline.progress()

    def course(self, points: int = 100) -> list[Moment]:
        """How the study went: what was certain and what was open at about this many moments, the first before any
        result.

        It reads the record once more, so on a long one it takes as long as opening the study.
        """
        if isinstance(points, bool) or not isinstance(points, int) or not 1 <= points <= 10_000:
            raise InvalidInput("points", points, "must be a whole number from 1 to 10,000")
        self._look_for_arms()
        again = Follower(self._storage, self._record)
        with self._storage.snapshot():
            parts = [*again._new_entries()]
        results = sum(len(part.ids) for part in parts)
        looks = np.unique(np.linspace(0, results, min(points, results) + 1).round().astype(int)).tolist()
        decider, read = again._decider, 0
        moments = [moment_of(again.plan, decider.policy, None, 0)]
        for piece in _cut(parts, looks):
            again._enter(piece)
            read += len(piece.ids)
            if decider.stop is not None or read in looks:
                moments.append(moment_of(again.plan, decider.policy, decider.stop, decider.policy.spent[0]))
            if decider.stop is not None:
                break
        return moments

    # ------------------------------------------------------------------------------------------------ inside

    def _health(self) -> Health:
        """What the results say and, of an answer, what was remarked on it."""
        health = self._watch.health()
        has_remark = self._heeds_remarks and self._decider.stop is not None
        return with_remark(health, self._storage.last_remark(self._record.key) if has_remark else "")

    def _look(self) -> None:
        """Read the study's entry, and start over if something in its past, or its plan, has changed."""
        record = self._storage.look(self._record)
        if record is None:
            raise InvalidInput("study", self.name, f"is no longer in {self._storage.url!r}")
        before, self._record = self._record, record
        if record.revision != before.revision:
            if record.plan != before.plan:
                self._read_plan()
            self._restart()

    def _look_for_arms(self) -> bool:
        """Look whether arms have come that are not known here."""
        known = len(self.plan.arms)
        with self._lock:
            self._look()
        return len(self.plan.arms) > known

    def _sync(self) -> None:
        """Take in what has been told since the last look, as far as it is complete."""
        self._look()
        for entries in self._new_entries():
            self._enter(entries)

    def _new_entries(self) -> Iterator[Entries]:
        """The outcomes that may enter and have not yet, in order."""
        read = self._storage.arrivals if self._record.by_arrival else self._storage.entries
        return read(self._record.key, self._decider.entered)

    def _enter(self, entries: Entries) -> None:
        results, shown = self._results.with_denominators(entries)
        self._decider.enter(results)
        if self._items is not None:
            self._items.enter(entries)
        self._timeline.extend(entries.told, entries.metrics, entries.values)
        columns = results.ids, results.arms, results.metrics, results.values
        self._watch.extend(*columns, results.holders.tolist(), results.issued, results.items)
        self._raw.extend(results.arms, results.metrics, shown)
        self._typical.enter(entries)

    @property
    def _is_done(self) -> bool:
        return self._decider.stop is not None or is_spent(self.plan, self._decider.policy)

    def _recorded_late(self) -> list[Entries]:
        """Results that came before those of earlier tests, or after the end. They are recorded but are not evidence."""
        if self._record.by_arrival:
            return []
        return list(self._storage.entries(self._record.key, self._decider.settled, gaps=True))

    def _plan_rounds(self, count: int) -> Rounds:
        """What to do next, decided on everything that has been told by now."""
        # All from one moment. Otherwise a result that comes in between would count twice, or not at all.
        with self._storage.snapshot():
            # The plan may have changed since the request.
            self._sync()
            decider = self._decider
            if self._is_done:
                return []
            pending = self._storage.pending(self._record.key)
            late = self._recorded_late()
        out = [(test.arm, test.metric) for test in pending]
        waiting = [result for part in late for result in self._results.of_tests(part)]
        rounds: Rounds = decider.rounds_ahead(count, out, waiting) if out else [decider.next_round()]
        if self._items is not None:
            places = [((test.arm, test.metric), test.item) for test in pending]
            rounds = self._items.planned(rounds, places, late)
        return self._within_budget(rounds, [*out, *_tests(late)])

    def _within_budget(self, rounds: Rounds, issued: Sequence[tuple[int, int]]) -> Rounds:
        """The rounds, cut where the budget ends, counting what has entered and what is out."""
        tests, cost = self._decider.policy.spent
        tests, cost = tests + len(issued), cost + sum(self.plan.costs[metric] for _, metric in issued)
        kept: list[list[tuple[int, int] | tuple[int, int, int]]] = []
        for tests_of_round in rounds:
            kept.append([])
            for test in tests_of_round:
                if tests >= self.plan.max_tests or cost >= self.plan.max_cost:
                    break
                kept[-1].append(test)
                tests += 1
                cost += self.plan.costs[test[1]]
        return [part for part in kept if part]


def _tests(parts: Iterable[Entries]) -> list[tuple[int, int]]:
    """The tests (arm, metric) that have a result."""
    return [
        (arm, metric)
        for part in parts
        for arm, metric, value in zip(part.arms.tolist(), part.metrics.tolist(), part.values.tolist(), strict=True)
        if value == value
    ]


def _cut(parts: Iterable[Entries], looks: Iterable[int]) -> Iterator[Entries]:
    """The parts in pieces that end where to look."""
    start = 0
    for part in parts:
        end = start + len(part.ids)
        edges = [start, *(look for look in looks if start < look < end), end]
        for first, last in itertools.pairwise(edges):
            columns: list[Any] = [column[first - start : last - start] for column in part]
            yield Entries(*columns)
        start = end
