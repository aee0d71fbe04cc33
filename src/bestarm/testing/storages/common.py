"""What the checks of storages share."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator

from bestarm.storage.base import Issued, PlanRounds, Rounds, Storage, StudyRecord
from bestarm.validation import InvalidInput

MakeStorage = Callable[[], Storage]

ANN, BOB = "ann", "bob"
LONG = 100_000.0
SHORT = 0.05
"""Seconds of lease: longer than a check takes, and short enough to wait for."""

_names = itertools.count(1)


@contextlib.contextmanager
def new_study(make_storage: MakeStorage) -> Iterator[tuple[Storage, StudyRecord]]:
    """A new study, in a database that may hold others."""
    storage = make_storage()
    try:
        taken = {record.name for record in storage.studies()}
        name = next(name for name in (f"study {k}" for k in _names) if name not in taken)
        yield storage, storage.create_study(name, '{"plan": "π"}', seed=7)
    finally:
        storage.close()


@contextlib.contextmanager
def study_by_arrival(make_storage: MakeStorage) -> Iterator[tuple[Storage, StudyRecord]]:
    """A new study whose results count in the order in which they arrive."""
    with new_study(make_storage) as (storage, study):
        made = storage.create_study(study.name + " by arrival", "{}", seed=0, by_arrival=True)
        assert made.by_arrival
        assert storage.find_study(made.name) == made
        assert not study.by_arrival
        yield storage, made


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


def one_round(*tests: tuple[int, int] | tuple[int, int, int]) -> PlanRounds:
    """Plans one round of these tests, and then nothing."""
    rounds: list[Rounds] = [[list(tests)]]
    return lambda count: rounds.pop() if rounds else []


def no_rounds(count: int) -> Rounds:
    return []


def endless(count: int) -> Rounds:
    """Rounds of two tests for as long as any are wanted."""
    return [[(0, 0), (1, 1)]]


def ask(
    storage: Storage, study: StudyRecord, count: int, holder: str = ANN, lease: float | None = LONG
) -> list[Issued]:
    return storage.hand_out(study.key, count, holder, lease, 0, endless)


def fall_silent(storage: Storage, study: StudyRecord, lease: float = SHORT) -> None:
    """Wait until it is certain that a holder with such a lease counts as gone."""
    time.sleep(2 * lease)
    # A request for no tests notices the silence.
    storage.hand_out(study.key, 0, "a stranger", LONG, 0, no_rounds)
    time.sleep(2 * lease)


def ids(storage: Storage, study: StudyRecord, *, gaps: bool = False, after: int = 0) -> list[int]:
    return [int(k) for part in storage.entries(study.key, after, gaps=gaps) for k in part.ids]


def values(storage: Storage, study: StudyRecord, *, gaps: bool = False, after: int = 0) -> list[float]:
    return [float(value) for part in storage.entries(study.key, after, gaps=gaps) for value in part.values]


def pending_ids(storage: Storage, study: StudyRecord) -> list[int]:
    return [test.id for test in storage.pending(study.key)]


def revision(storage: Storage, study: StudyRecord) -> int:
    found = storage.find_study(study.name)
    assert found is not None
    return found.revision
