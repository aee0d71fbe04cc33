"""What the checks of storages share."""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bestarm.storage.base import Issued, Outcome, PlanRounds, Rounds, Storage, StudyRecord
from bestarm.validation import InvalidInput

MakeStorage = Callable[[], Storage]

ANN, BOB = "ann", "bob"
LONG = 100_000.0
SHORT = 0.05
"""Seconds of lease: longer than a check takes, and short enough to wait for."""

_numbers = itertools.count(1)


def on_new_study(check: Callable[[Storage, NewStudy], None]) -> Callable[[MakeStorage], None]:
    """The check, run on a new study in a database that may hold others. What it opens is closed at its end."""

    @functools.wraps(check)
    def run(make_storage: MakeStorage) -> None:
        with contextlib.ExitStack() as opened:

            def open_again() -> Storage:
                return opened.enter_context(contextlib.closing(make_storage()))

            storage = open_again()
            taken = {record.name for record in storage.studies()}
            name = next(name for name in (f"study {k}" for k in _numbers) if name not in taken)
            check(storage, NewStudy(storage, storage.create_study(name, '{"plan": "π"}', seed=7), open_again))

    return run


class NewStudy:
    """A study to check a storage with, and what checks often do with it."""

    def __init__(self, storage: Storage, record: StudyRecord, open_again: MakeStorage) -> None:
        self.storage, self.record, self.open_again = storage, record, open_again
        self.key, self.name = record.key, record.name

    def another(self, *, by_arrival: bool = False) -> NewStudy:
        """A second study in the same storage."""
        name = f"{self.name} {'by arrival' if by_arrival else 'again'}"
        made = self.storage.create_study(name, "{}", seed=0, by_arrival=by_arrival)
        assert made.by_arrival == by_arrival
        assert self.found(name) == made
        return NewStudy(self.storage, made, self.open_again)

    def found(self, name: str = "") -> StudyRecord:
        """The study's entry as it is now."""
        found = self.storage.find_study(name or self.name)
        assert found is not None
        return found

    def ask(
        self, count: int, holder: str = ANN, lease: float | None = LONG, plan: PlanRounds | None = None, **more: Any
    ) -> list[Issued]:
        return self.storage.hand_out(self.key, count, holder, lease, 0, plan or endless, **more)

    def ask_ids(self, count: int, holder: str = ANN, **more: Any) -> list[int]:
        return [test.id for test in self.ask(count, holder, **more)]

    def hand_again(self, count: int, holder: str) -> list[int]:
        """Hand out what is free or planned, and plan nothing."""
        return self.ask_ids(count, holder, plan=no_rounds)

    def fall_silent(self, lease: float = SHORT) -> None:
        """Wait until a holder with this lease certainly counts as gone."""
        time.sleep(2 * lease)
        # A request for no tests notices the silence.
        self.hand_again(0, "a stranger")
        time.sleep(2 * lease)

    def ids(self, *, gaps: bool = False, after: int = 0) -> list[int]:
        return [int(k) for part in self.storage.entries(self.key, after, gaps=gaps) for k in part.ids]

    def values(self, *, gaps: bool = False, after: int = 0) -> list[float]:
        return [float(value) for part in self.storage.entries(self.key, after, gaps=gaps) for value in part.values]

    def pending_ids(self) -> list[int]:
        return [test.id for test in self.storage.pending(self.key)]

    def outcome(self, test: int) -> Outcome:
        found = self.storage.test(self.key, test)
        assert found is not None
        assert found[1] is not None
        return found[1]

    def told_values(self) -> list[list[tuple[float | None, tuple[float, ...]]]]:
        """The values of each test, the current ones last."""
        return [[(told.value, told.more) for told in test.outcomes] for test in self.storage.history(self.key)]

    def seen(self) -> tuple[object, ...]:
        """Everything that can be read of it."""
        storage, key = self.storage, self.key
        entry = storage.find_study(self.name), storage.issued(key)
        return *entry, storage.log(key), storage.pending(key), self.values(gaps=True), list(storage.history(key))


@contextlib.contextmanager
def must_refuse(*words: str, kind: type[InvalidInput] = InvalidInput) -> Iterator[None]:
    """The block must raise `InvalidInput`, of that kind, in one line that has these words."""
    try:
        yield
    except InvalidInput as error:
        said, raised = str(error), type(error)
        assert "\n" not in said, f"an error is one line: {said!r}"
        assert all(word in said for word in words), f"expected {words} in {said!r}"
        assert issubclass(raised, kind), f"expected {kind.__name__}, not {raised.__name__}: {said}"
    else:
        raise AssertionError(f"expected InvalidInput with {words}")


@contextlib.contextmanager
def must_raise(kind: type[Exception]) -> Iterator[None]:
    """What a caller's function raises must be raised."""
    raised = False
    try:
        yield
    except kind:
        raised = True
    assert raised, f"expected {kind.__name__}"


def run_in_threads(*works: Callable[[], object]) -> None:
    """Run all of these at once, and raise what one of them raises."""
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


def one_round(*tests: tuple[int, int] | tuple[int, int, int]) -> PlanRounds:
    """Plans one round of these tests, and then nothing."""
    rounds: list[Rounds] = [[list(tests)]]
    return lambda count: rounds.pop() if rounds else []


def no_rounds(count: int) -> Rounds:
    return []


def endless(count: int) -> Rounds:
    """Rounds of two tests for as long as any are wanted."""
    return [[(0, 0), (1, 1)]]
