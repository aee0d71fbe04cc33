"""Follows a study's record as it grows: what it says so far, and what to do next."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from bestarm.analysis.health.watch import Watch
from bestarm.analysis.standing.quantiles import RawValues
from bestarm.analysis.standing.timeline import Timeline
from bestarm.storage.base import Entries, Issued, Pending, Rounds, Storage, StudyRecord
from bestarm.study.intake.blocks import (
    FreeBlocks,
    MeasuredBlocks,
    blocks_out,
    measured_places,
    slices_in,
    to_watch,
    whole_rounds,
)
from bestarm.study.intake.items import FreeItems, Stream
from bestarm.study.intake.names import Numbering, Test
from bestarm.study.record.checks import check_test, check_tests, read_plan
from bestarm.study.record.clock import is_time_up
from bestarm.study.record.conclusion import is_spent, no_block_is_left, within_budget
from bestarm.study.record.decider import Decider, Results
from bestarm.study.record.entries import tests_of, unasked_in
from bestarm.study.record.far_values import TypicalValues
from bestarm.study.record.judges import JudgeScores
from bestarm.validation import NotFound

MOST_PLACES = 2**53
"""Places of items that come again and again, or of blocks, are below this."""


class Follower:
    """Reads each result of a study's record once, and keeps what follows from it. `Study` adds asking and telling."""

    def __init__(self, storage: Storage, record: StudyRecord) -> None:
        self._storage, self._record = storage, record
        self._lock = threading.RLock()
        self._read_plan()
        self._restart()

    def _read_plan(self) -> None:
        """Take over the plan of the study's entry."""
        self.plan = read_plan(self._record)
        self._numbering = Numbering(self.plan)

    def _restart(self) -> None:
        """Before the first result has entered."""
        self._items = measured_places(self.plan, self._record.order_seed)
        slices = slices_in(self._items)
        self._decider = Decider(self.plan, self._record.seed, by_arrival=self._record.by_arrival, slices=slices)
        self._results = Results(self.plan, slices)
        self._timeline, self._watch = Timeline(self.plan.arm_costs), Watch(self.plan)
        self._raw, self._typical, self._scores = RawValues(self.plan), TypicalValues(self.plan), JudgeScores(self.plan)
        self._unasked = 0
        """Results that have entered and were not asked for."""

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

    def _test(self, issued: Issued | Pending) -> Test:
        """A test of the record, by name."""
        if issued.arm >= len(self.plan.arms):
            self._look_for_arms()
        check_test(self.plan, issued, self._places)
        plan, lead = self.plan, issued.metric
        item = self.item_name(issued.item)
        return Test(issued.id, plan.arm_names[issued.arm], plan.test_names[lead], plan.yields[lead], item)

    def item_name(self, place: int | None) -> str | None:
        """The item at a place of the study's order, from 0, as the log and the record have it."""
        return None if place is None or self._items is None else self._items.order.name(place)

    def _placed(self) -> tuple[list[tuple[Stream, int | None]], list[Entries]]:
        """The places of tests that are out, and the results that have not entered, after the others have."""
        with self._storage.snapshot():
            self._sync()
            pending, late = self._pending(), self._recorded_late()
        return [((test.arm, test.metric), test.item) for test in pending], late

    def _free_items(self) -> FreeItems | FreeBlocks:
        """Where results may be put in the order of items, or after the last block."""
        with self._lock:
            out, late = self._placed()
            assert self._items is not None
            if isinstance(self._items, MeasuredBlocks):
                assert self.plan.blocks is not None
                return FreeBlocks(self.plan.blocks, self._items.next_number(out, late))
            return FreeItems(self.plan, self._items.order, self._items.taken(out, late))

    @property
    def _address(self) -> str:
        """Where the study is kept, for commands that are shown."""
        return self._storage.url

    # ------------------------------------------------------------------------------------------------ inside
    def _look(self) -> None:
        """Read the study's entry, and start over if something in its past, or its plan, has changed."""
        record = self._storage.look(self._record)
        if record is None:
            raise NotFound("study", self.name, f"is no longer in {self._storage.url!r}")
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
            if entries.arms.max(initial=0) >= len(self.plan.arms) and self._look_for_arms():
                self._sync()
                return
            self._enter(entries)

    def _new_entries(self) -> Iterator[Entries]:
        """The outcomes that may enter and have not yet, in order."""
        read = self._storage.arrivals if self._record.by_arrival else self._storage.entries
        found = read(self._record.key, self._decider.entered)
        return found if self.plan.blocks is None else whole_rounds(found)

    @property
    def _places(self) -> range | None:
        """The places that tests can have, in the order of items or in blocks."""
        return None if self._items is None else range(self._items.order.places or MOST_PLACES)

    def _pending(self, *, after: int = 0, limit: int | None = None) -> list[Pending]:
        """The tests without an outcome."""
        pending = self._storage.pending(self._record.key, after=after, limit=limit)
        if max((test.arm for test in pending), default=0) >= len(self.plan.arms):
            self._look_for_arms()
        for test in pending:
            check_test(self.plan, test, self._places)
        return pending

    def _enter(self, entries: Entries) -> None:
        check_tests(self.plan, entries, self._places)
        if self.plan.judges:
            entries = self._enter_scores(entries)
        self._unasked += unasked_in(entries)
        results, shown = self._results.with_denominators(entries)
        self._decider.enter(results)
        if self._items is not None:
            self._items.enter(entries)
        self._timeline.extend(entries.told, entries.arms, entries.metrics, entries.values)
        results, shown = self._results.in_turn.of(results, shown, self._decider.policy)
        self._raw.extend(results.arms, results.metrics, shown, results.items)
        watched = results if self.plan.blocks is None else to_watch(self.plan.blocks, results)
        columns = watched.ids, watched.arms, watched.metrics, watched.values
        self._watch.extend(*columns, watched.holders.tolist(), watched.issued, watched.items)
        self._typical.enter(entries)

    def _enter_scores(self, entries: Entries) -> Entries:
        """Take in the scores of judges. Returns the other outcomes."""
        scores, others = self._scores.split(entries)
        assert self._items is not None
        self._timeline.add_cost(self._scores.enter(scores, self._decider.policy))
        self._items.enter(scores)
        self._typical.enter(scores)
        self._decider.pass_over(entries)
        return others

    @property
    def _is_done(self) -> bool:
        return self._decider.stop is not None or is_spent(self.plan, self._decider.policy) or self._is_over

    @property
    def _is_over(self) -> bool:
        """Whether the time is up, and every test that began before has its outcome."""
        if not is_time_up(self._record) or self._storage.count_pending(self._record.key):
            return False
        return not self._recorded_late()

    def _recorded_late(self) -> list[Entries]:
        """Results that came before those of earlier tests, or after the end. They are recorded but are not evidence."""
        if self._record.by_arrival:
            return []
        late = list(self._storage.entries(self._record.key, self._decider.settled, gaps=True))
        for entries in late:
            check_tests(self.plan, entries, self._places)
        return late

    def _count_unasked(self, late: Iterable[Entries]) -> int:
        """How many results were recorded that were not asked for. All scores of judges are needed, so that none can be
        chosen."""
        return self._unasked + sum(unasked_in(self._scores.split(part)[1]) for part in late)

    def _plan_rounds(self, count: int) -> Rounds:
        """What to do next, decided on everything that has been told by now."""
        # All from one moment. Otherwise a result that comes in between would count twice, or not at all.
        with self._storage.snapshot():
            # The plan may have changed since the request.
            self._sync()
            decider = self._decider
            if self._is_done or is_time_up(self._record):
                return []
            pending = self._pending()
            late = self._recorded_late()
        out = [(test.arm, test.metric) for test in pending]
        if not self._scores.is_complete:
            rounds: Rounds = [self._scores.tests(count)]
        elif out and self.plan.blocks is None:
            rounds = decider.rounds_ahead(count, self._results.out(pending), self._results.of_tests(late))
        else:
            rounds = [decider.next_round()]
        if self._items is not None:
            places = [((test.arm, test.metric), test.item) for test in pending]
            if self.plan.blocks is not None and no_block_is_left(self.plan, decider.policy, blocks_out(places, late)):
                return []
            rounds = self._items.planned(rounds, places, late)
        return within_budget(self.plan, decider.policy, rounds, [*out, *tests_of(late)])
