"""One study after another, worked on until something breaks, and checked after every fault."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import NamedTuple

import bestarm as ba
from bestarm.storage.base import Storage
from bestarm.storage.opening import open_storage
from tests.torture.deeds import DECISIVE, DEEDS, LONG, TORN, Deed, Facts, holder, plan, value
from tests.torture.results import Row
from tests.torture.seen import Seen, faults, replayed

TRIALS_OF_A_STUDY = 25
POLICIES = ("certify", "feasible-lucb", "racing")


class Keyed(ba.Study):
    """A study whose next call is made under a given key, so that another process can repeat it."""

    request = ""

    def _new_request(self) -> str:
        return self.request or super()._new_request()


class Here:
    """A study in a database that this process opens."""

    def __init__(self, storage: Storage, name: str, mark: int) -> None:
        self._storage, self._name, self._mark = storage, name, mark
        record = storage.find_study(name)
        assert record is not None
        self.study = Keyed(storage, record, holder=holder(mark))

    @property
    def other(self) -> ba.Study:
        return ba.Study.open(self._name, storage=self._storage, holder=f"other {self._mark}")

    def create(self, name: str) -> object:
        return ba.Study.create(plan(name, "certify", "issue"), storage=self._storage, seed=0)


@contextlib.contextmanager
def opened(url: str) -> Iterator[Storage]:
    storage = open_storage(url, create=True)
    try:
        yield storage
    finally:
        storage.close()


class Expected(NamedTuple):
    """How often a deed must be found for good."""

    deed: Deed
    facts: Facts
    times: int


class Trials:
    """The trials of one fault on one database: which deed is next, on which study, and what is known about it."""

    def __init__(self, row: Row, url: str, rng: random.Random, deeds: tuple[Deed, ...] = DEEDS) -> None:
        self.row = row
        row.silent = row.done = row.repeated = 0
        self.is_remote = False
        """Whether deeds are done on a server, under keys that its client makes up."""
        self.url = url
        self.rng = rng
        self._deeds = deeds
        self._queue: list[Deed] = []
        self._studies = 0
        self._left = 0
        self._mark = 0
        self.name = ""
        self._expected: list[Expected] = []

    def next(self) -> tuple[Deed, int]:
        """A deed to break, and its mark. Each deed gets its turn equally often."""
        if not self._left:
            self.finish()
            self._begin()
        self._left -= 1
        self._mark += 1
        if not self._queue:
            self._queue = self.rng.sample(self._deeds, len(self._deeds))
        return self._queue.pop(), self._mark

    def _begin(self) -> None:
        self._studies += 1
        self._left = TRIALS_OF_A_STUDY
        self.name = f"study {self._studies}"
        policy = POLICIES[self._studies % len(POLICIES)]
        order = "arrival" if policy == "certify" and self._studies % 2 else "issue"
        with opened(self.url) as storage:
            ba.Study.create(plan(self.name, policy, order), storage=storage, seed=0)

    def repeat(self, deed: Deed, facts: Facts, mark: int) -> None:
        """Repeat a deed that may or may not have been done, under the same key and in the same name."""
        self.row.repeated = (self.row.repeated or 0) + 1
        with opened(self.url) as storage:
            place = Here(storage, self.name, mark)
            place.study.request = f"key {mark}"
            deed.do(place, facts)

    def settle(self, deed: Deed, facts: Facts, mark: int, answered: bool, *, struck: bool = True) -> None:
        """See what has become of a deed, then repeat it or leave it, and go on with the study.

        A fault that did not happen is not counted.
        """
        row = self.row
        row.times += struck
        row.by_deed[deed.name] += struck
        row.silent = (row.silent or 0) + (not answered)
        try:
            repeats = not answered and not (self.is_remote and deed.has_own_key) and self.rng.random() < 0.5
            count = self._look(deed, facts, answered, goes_on=not repeats)
            row.done = (row.done or 0) + (not answered and count == 1)
            if repeats:
                self.repeat(deed, facts, mark)
                count = self._look(deed, facts, answered=True)
            if deed.lasts:
                self._expected.append(Expected(deed, facts, count))
        except Exception as error:
            row.complain("stuck", f"{self.name}, {deed.name} {facts}: {type(error).__name__}: {error}"[:500])
            self._left = 0
            self._expected.clear()
            self.name = ""

    def _look(self, deed: Deed, facts: Facts, answered: bool, *, goes_on: bool = True) -> int:
        """How often it is in the record, which must be consistent; then go on with the study."""
        with opened(self.url) as storage:
            self._mark += 1
            # An earlier holder may not tell a test that somebody else has now.
            study = ba.Study.open(self.name, storage=storage, holder=f"tidier {self._mark}")
            seen = Seen.of(study)
            for fault in faults(study, seen):
                self.row.complain("stuck", f"{self.name}, after {deed.name}: {fault}")
            count = deed.found(seen, facts)
            self._judge(deed, facts, count, answered)
            if goes_on:
                self._go_on(study)
            return count

    def _judge(self, deed: Deed, facts: Facts, count: int, answered: bool) -> None:
        where = f"{self.name}, {deed.name} {facts}"[:300]
        if count == TORN:
            self.row.complain("torn", where)
        elif count > 1:
            self.row.complain("twice", where)
        elif answered and count == 0:
            self.row.complain("lost", where)

    def _go_on(self, study: ba.Study) -> None:
        """Bring the study back, tell pending tests, and ask for more."""
        if study.record.archived is not None:
            study.archive(undo=True)
        out = [test for test, _ in study.pending()]
        study.tell_many([(test, value(self._mark, k)) for k, test in enumerate(out)])
        if not study.done:
            more = study.ask(1, lease=LONG)
            assert more, "a study that goes on must have tests to make"
            study.tell(more[0], value(self._mark, len(out)))

    def finish(self) -> None:
        """Bring the study to its answer, and check that everything is still as it was."""
        if not self.name:
            return
        with opened(self.url) as storage:
            study = ba.Study.open(self.name, storage=storage, holder="finisher")
            study.tell_many([(test, value(0, 1)) for test, _ in study.pending()])
            metrics = list(enumerate(study.plan.metrics))
            rows = [(arm, metric, values[k]) for arm, values in DECISIVE.items() for k, metric in metrics]
            for _ in range(20):
                if not study.done:
                    study.add(rows * 40)
            fresh = ba.Study.open(self.name, storage=storage)
            seen = Seen.of(fresh)
            for fault in faults(fresh, seen):
                self.row.complain("stuck", f"{self.name}, at its end: {fault}")
            answer, stop = fresh.answer, replayed(storage, fresh).stop
            if answer is None or answer.arm != "safe" or stop is None or stop.arm != 0:
                self.row.complain("stuck", f"{self.name}: the answer is {answer}, by its record {stop}")
            for deed, facts, count in self._expected:
                now = deed.found(seen, facts)
                if now != count:
                    kind = "twice" if now > count else "lost"
                    self.row.complain(kind, f"{self.name}, later: {deed.name} {facts}"[:300])
        self._expected.clear()
        self.name = ""
        self._left = 0
