"""A study: ask which tests to make, tell their results, and have the answer when it is certain enough."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bestarm.analysis.status.status import status_html
from bestarm.analysis.status.words import question
from bestarm.policies import policy_for
from bestarm.problem import Amount, Budget, Plan, Problem
from bestarm.problem.budget import UNITS
from bestarm.storage.base import Amendment, Rounds, Storage, StudyRecord
from bestarm.storage.columns import Columns
from bestarm.storage.errors import BlockTaken, BlockUnfinished, OutcomeUnknown
from bestarm.storage.keys import check_key
from bestarm.storage.opening import open_storage
from bestarm.storage.projects import DEFAULT_PROJECT
from bestarm.study.asking import AlreadyTold as AlreadyTold  # re-exported
from bestarm.study.framing import Framing
from bestarm.study.intake.blocks import ends_of_blocks, refused_block
from bestarm.study.intake.items import MeasuredItems
from bestarm.study.intake.names import Test as Test  # re-exported
from bestarm.study.intake.new_results import GivenResult, NewResults, read_given
from bestarm.study.intake.values import Result, check_metric, check_names
from bestarm.study.place import Placed
from bestarm.study.record.amending import changed_words, extended, raised, with_arms, with_reserve, without_arm
from bestarm.study.record.checks import check_can_be_decided, find_record, new_record, read_plan
from bestarm.study.record.clock import hours_since
from bestarm.study.record.conclusion import within_budget
from bestarm.study.record.entries import tests_of
from bestarm.study.record.far_values import Typed
from bestarm.study.record.frame import frame_of
from bestarm.study.record.seeds import choose_seeds
from bestarm.texts import quoted
from bestarm.validation import InvalidInput, Parameter

if TYPE_CHECKING:
    import pandas as pd


class Study(Placed, Framing):
    """A durable study. Make one with `create`, come back to it with `open`, from any number of processes.

    >>> import bestarm as ba
    >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(0.1)))
    >>> study = ba.Study.create(problem, delta=0.05, storage=":memory:")
    >>> yields = {"old": 1.0, "new": 2.0}
    >>> while not study.done:
    ...     for test in study.ask(2):
    ...         study.tell(test, yields[test.arm])
    >>> print(study.answer)
    new: feasible and best, with 95% confidence, after 4 tests
    """

    # ---------------------------------------------------------------------------------------- create and open

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        name: str | None = None,
        delta: float | None = None,
        policy: str | None = None,
        options: Mapping[str, Parameter] | None = None,
        budget: float | Budget | None = None,
        storage: str | os.PathLike[str] | Storage | None = None,
        seed: int | None = None,
        items_seed: int | None = None,
        holder: str | None = None,
        project: str = DEFAULT_PROJECT,
    ) -> Study:
        """A new study of `problem`, kept in `storage`: a path, a URL, or by default what `BESTARM_DB` says.

        `delta` is the probability of a wrong answer that you accept: 0.05, unless the problem is a `Plan` that says
        otherwise. `name` is the name to open it by; the default is the plan's own. `budget` is how many tests it may
        make, or a `Budget`.

        `seed` is for random choices of the policy, `items_seed` for the random order of the items. Both are drawn at
        random and recorded unless they are stated, to repeat a study. Never use an `items_seed` again for arms that
        were improved after a study on the same items: the guarantee would be void.

        `project` is the project that it belongs to.
        """
        plan = Plan.of(problem, delta=delta, name=name, policy=policy, options=options, budget=budget)
        seeds = choose_seeds(plan, seed, items_seed)
        check_can_be_decided(plan)
        kept = open_storage(storage, create=True)
        return cls(kept, new_record(kept, plan, seeds, author=holder, project=project), holder=holder)

    @classmethod
    def open(
        cls, name: str, *, storage: str | os.PathLike[str] | Storage | None = None, holder: str | None = None
    ) -> Study:
        """The study of that name."""
        kept = open_storage(storage)
        return cls(kept, find_record(kept, name), holder=holder)

    def __repr__(self) -> str:
        return f"<bestarm.Study {self.name!r} in {self._storage.url!r}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return status_html(self.status(), asks=question(self.plan))

    def _ask_each(self, arms: Sequence[str]) -> list[Test]:
        """A test of everything for each of these arms, whatever the policy would ask for; none when the study is done.

        Certificates hold whichever tests are made, as long as results do not decide which of them count.
        """
        numbers = [self._numbering.arm(arm) for arm in arms]

        def plan_rounds(_: int) -> Rounds:
            with self._storage.snapshot():
                self._sync()
                policy = self._decider.policy
                if self._is_done:
                    return []
                pending, late = self._pending(), self._recorded_late()
            streams = [(arm, metric) for arm in numbers for metric in range(policy.metrics)]
            rounds: Rounds = [policy.tests_of(streams)]
            out = [((test.arm, test.metric), test.item) for test in pending]
            if self._items is not None:
                rounds = self._items.planned(rounds, out, late)
            return within_budget(self.plan, policy, rounds, [*(test for test, _ in out), *tests_of(late)])

        return self._ask(len(numbers), None, None, None, plan_rounds)

    # ------------------------------------------------------------------------------ results without asking

    def add(
        self,
        results: Iterable[GivenResult],
        *,
        source: str = "",
        ends: Collection[int] = (),
        key: str | None = None,
    ) -> list[int]:
        """Record results (arm, metric, value) that were measured without asking, in the order given, all or none.

        A test of several metrics is given as (arm, {metric: value, …}). In a study with items the item comes last, as
        in (arm, metric, value, item). In a study with blocks it names the block, whose results follow each other.

        Returns their test ids. Give every result there is: picking some of them would bias the answer. A `source`,
        such as a file's name and digest, is accepted once. Nothing is decided before the last of them, unless `ends`
        has the positions, from 0, of results after which the study they come from decided. Scores of judges count
        before the other results given with them.

        The same results under the same `key` are recorded once, and a repeat returns the same ids. Without a key, one
        is made up. If a server is lost before it answers, `OutcomeUnknown` has it in `key`, for you to repeat.
        """
        results = list(results)
        try:
            rows = read_given(self.plan, self._numbering, results)
        except InvalidInput:
            if not self._look_for_arms():
                raise
            rows = read_given(self.plan, self._numbering, results)
        found = NewResults.of(self.plan, rows)
        found.ends = [*ends]
        return list(self._add(found, source, key))

    def _add(self, found: NewResults, source: str, key: str | None) -> Sequence[int]:
        """As `add`, for results by number that have been checked."""
        request = self._new_request() if key is None else check_key(key)
        where: dict[str, Any] = {}
        if self._items is not None:
            where["places"] = lambda: self._places_of(found)
        order = found.put_first(self.plan.judges) if self.plan.judges else None
        blocks = self.plan.blocks
        if blocks is not None:
            labels = [blocks.label_in(row.item or "") for row in found.rows]
            found.ends, where["names"] = ends_of_blocks(labels), [*dict.fromkeys(labels)]
        try:
            # The holder of the storage's lock must not wait for this one.
            with self._lock if where else contextlib.nullcontext():
                ids = self._storage.give(
                    self._record.key, found.columns, self.holder, source, found.ends, request=request, **where
                )
            return ids if order is None else [ids[place] for place in order]
        except (BlockTaken, BlockUnfinished) as error:
            assert blocks is not None
            raise refused_block(blocks, error) from None
        except OutcomeUnknown as error:
            raise error.advised(f"repeat it with key={request!r}, under which it is recorded once", request) from error

    def _places_of(self, found: NewResults) -> list[int]:
        """Where in the order of items new results belong."""
        places = found.places(self._free_items())
        if self.plan.judges:
            assert isinstance(self._items, MeasuredItems)
            self._scores.check_labels(found.columns, places, self._items.order)
        return places

    def _plan_now(self) -> Plan:
        self._look_for_arms()
        return self.plan

    def frame(self, *, wide: bool = False) -> pd.DataFrame:
        """Every result as a pandas data frame, in the order of the record: test, arm, metric, value, holder, told.

        A test of several metrics has a row for each. With `wide` it has one row, and each metric has a column. In a
        study with items there is a column item. A test that was corrected has its present value. Tests without a result
        are left out.

        >>> import bestarm as ba
        >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(0.1)))
        >>> study = ba.Study.create(problem, storage=":memory:")
        >>> _ = study.add([("old", "yield", 1.0), ("new", "yield", 2.0)])
        >>> study.frame().groupby("arm").value.mean().to_dict()
        {'new': 2.0, 'old': 1.0}
        """
        self._look_for_arms()
        return frame_of(self, wide=wide)

    def check_far(self, told: Iterable[tuple[Test | int, Result]] = (), given: Iterable[GivenResult] = ()) -> None:
        """Raise `FarValue` if a value lies far outside those that its metric has shown. Nothing is recorded.

        `told` are results of tests, as for `tell_many`, and `given` results measured without asking, as for `add`. Ask
        the person who typed it, and if it is right record it as it is. Leave no value out, and correct none, because
        it is surprising: correct it only if it was mistyped.

        >>> import bestarm as ba
        >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Symmetric()))
        >>> study = ba.Study.create(problem, storage=":memory:")
        >>> _ = study.add([("old", "yield", value) for value in (66, 58, 74, 63, 68, 70, 61, 65)])
        >>> study.check_far(given=[("old", "yield", 661)])
        Traceback (most recent call last):
        bestarm.study.record.far_values.FarValue: yield of old: 661? The others lie between 58 and 74
        """
        typed = []
        for test, value in told:
            issued = self._issued(test)
            metrics = self.plan.yields[issued.metric]
            values = dict(value) if isinstance(value, Mapping) else dict.fromkeys(metrics, value)
            if not isinstance(value, Mapping):
                check_names(metrics[:1], values)
            on = "" if self.plan.items is None else f" ({self.item_name(issued.item)})"
            typed += [
                Typed(f"test {issued.id}{on}, ", issued.arm, metric, check_metric(self.plan, metric, number))
                for metric, number in values.items()
                if metric in metrics
            ]
        self._check_far(typed, NewResults.of(self.plan, read_given(self.plan, self._numbering, given)).columns)

    def _check_far(self, typed: Sequence[Typed], rows: Columns) -> None:
        """As `check_far`, for results that have been checked. `rows` are by number."""
        typed = [*typed]
        for k, (arm, lead, value) in enumerate(zip(rows.arms, rows.metrics, rows.values, strict=True)):
            numbers = (value, *rows.more(k))
            metrics = self.plan.yields[lead]
            typed += [Typed("", arm, metric, number) for metric, number in zip(metrics, numbers, strict=True)]
        with self._lock:
            self._sync()
            self._typical.check(typed, self._recorded_late())

    def report(self, file: str | os.PathLike[str], *, note: str = "", forecast: bool = True) -> None:
        """Write the report: one HTML file to read, print and keep. An older file is replaced once it is complete.

        `note` says more about where the measurements come from. With `forecast`, a study without an answer is also
        simulated to see what remains.

        >>> import bestarm as ba, tempfile
        >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(0.1)))
        >>> study = ba.Study.create(problem, storage=":memory:")
        >>> _ = study.add([("old", "yield", 1.0), ("new", "yield", 2.0)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     study.report(f"{folder}/report.html")
        """
        from bestarm.study.reports.report import study_report
        from bestarm.study.reports.whole_file import whole_file

        page = study_report(self, note=note, forecast=forecast)
        with whole_file("file", file) as stream:
            stream.write(page)

    # ----------------------------------------------------------------------------------------- another plan

    def extend(
        self, tests: Amount = None, cost: Amount = None, *, blocks: Amount = None, hours: Amount = None
    ) -> Budget:
        """Raise the budget by this many tests, blocks or hours, or by this cost. Returns what is allowed now. If the
        time is up, or there was no budget, what is added counts from now on.

        This costs nothing: certificates hold at all times at once, however long one looks.
        """
        more = {"tests": tests, "cost": cost}
        more |= {name: amount for name, amount in (("blocks", blocks), ("hours", hours)) if amount is not None}
        with self._lock:
            self._sync()
            policy = self._decider.policy
            spent = dict(zip(UNITS, (*policy.spent, policy.blocks_made, hours_since(self._record)), strict=True))
        self._amend("extend", more, lambda plan: extended(plan, more, spent))
        assert self.plan.budget is not None
        return self.plan.budget

    def _extend_to(self, budget: Budget) -> None:
        """Allow what `budget` allows, if that is more than before."""
        if raised(self.plan, budget) != self.plan:
            self._amend("extend to", repr(budget), lambda plan: raised(plan, budget))

    def add_arms(self, arms: Iterable[str]) -> None:
        """Let further arms take part. What they may add to the probability of error is what the plan's `reserve` keeps
        for them. On items, what was measured before is no evidence about them: they may have been made to suit it."""
        new = [arms] if isinstance(arms, str) else list(arms)
        with self._lock:
            since = self._items.met(*self._placed()) if isinstance(self._items, MeasuredItems) else 0
        self._amend("add arms", new, lambda plan: with_arms(plan, new, since))

    def retire(self, arm: str, reason: str = "") -> None:
        """Take an arm out: it is no longer measured, and the question is about the others. Tests of it whose results
        are out are given up.

        Needs a `reserve` in the plan, since the next best arm becomes the one that must not be missed.
        """
        self._amend("retire", [arm, reason], lambda plan: without_arm(plan, arm), reason)

    def set_reserve(self, share: float) -> None:
        """Change the share of delta that is kept for arms that come later or are retired; 0 keeps nothing.

        Only before the first test: a share that was chosen by results would not be worth what it says.
        """

        def change(plan: Plan) -> Plan:
            if any(True for _ in self._storage.history(self._record.key)):
                raise InvalidInput("reserve", share, "can only be changed before the first test; start a new study")
            return with_reserve(plan, share)

        self._amend("reserve", share, change)

    def _amend(self, what: str, asked: Any, change: Callable[[Plan], Plan], reason: str = "") -> None:
        """Have the storage change the plan under its lock."""
        because = f" ({reason})" if reason else ""

        def amendment(record: StudyRecord) -> Amendment:
            before = read_plan(record)
            after = change(before)
            policy_for(after, after.policy)
            pairs = enumerate(zip(before.arms, after.arms, strict=False))
            retired = tuple(k for k, (old, new) in pairs if new.retired and not old.retired)
            detail = f"{changed_words(before, after)}{because}"
            # A larger budget does not invalidate planned tests. The rest of a block must not depend on its beginning.
            withdraws = after.arms != before.arms
            waits = withdraws and after.blocks is not None
            return Amendment(after.to_json(), detail, retired, f"its arm is retired{because}", withdraws, waits)

        request = self._new_request()
        try:
            asked = json.dumps([what, asked], default=quoted)
            self._storage.amend(self._record.key, asked, amendment, self.holder, request=request)
        except BlockUnfinished as error:
            assert self.plan.blocks is not None
            raise refused_block(self.plan.blocks, error) from None
        except OutcomeUnknown as error:
            raise error.advised("`bestarm log` says whether it was done") from error
        with self._lock:
            self._look()

    def arm_number(self, name: str) -> int:
        return self._numbering.arm(name)

    def metric_number(self, name: str) -> int:
        """The number of a metric; of a test that yields several, that of the first."""
        return self._numbering.metric(name)
