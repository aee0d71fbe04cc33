"""Checks of studies whose results count in the order in which they arrive."""

from __future__ import annotations

from functools import partial

from bestarm.storage.base import Storage
from bestarm.testing.storages.common import ANN, BOB, NewStudy, run_in_threads


def _arrived(study: NewStudy, after: int = 0) -> list[tuple[int, float]]:
    """Tests and values in the order of arrival; NaN for a test without a value."""
    parts = list(study.storage.arrivals(study.key, after))
    numbers = [int(number) for part in parts for number in part.arrivals]
    assert numbers == sorted(set(numbers)), "numbers of arrivals grow"
    return [(int(test), float(value)) for part in parts for test, value in zip(part.ids, part.values, strict=True)]


def _last(study: NewStudy) -> int:
    return max((int(part.arrivals[-1]) for part in study.storage.arrivals(study.key, 0)), default=0)


def check_arrivals_are_in_the_order_of_telling(storage: Storage, study: NewStudy) -> None:
    study = study.another(by_arrival=True)
    assert _arrived(study) == []
    study.ask(5)
    storage.tell(study.key, 4, 4.0, ANN)
    storage.tell(study.key, 2, 2.0, BOB)
    # A result told twice arrives once, even after failed attempts.
    storage.tell(study.key, 4, 9.0, BOB)
    seen = _last(study)
    storage.give(study.key, [(2, 0, 6.0), (2, 1, 7.0)], BOB, "")
    storage.tell_many(study.key, [(5, 5.0), (1, 1.0)], ANN)
    storage.drop(study.key, 3, ANN, "broke")
    arrived = _arrived(study)
    assert [test for test, _ in arrived] == [4, 2, 6, 7, 5, 1, 3]
    assert [value for _, value in arrived[:-1]] == [4.0, 2.0, 6.0, 7.0, 5.0, 1.0]
    assert _arrived(study, seen)[:-1] == arrived[2:-1]
    # A test that has its outcome is out of the way, wherever it is in the order.
    assert study.hand_again(9, BOB) == []
    assert storage.pending(study.key) == []


def check_arrivals_keep_their_place(storage: Storage, study: NewStudy) -> None:
    """A correction changes the value in its place; other studies have no arrivals."""
    study = study.another(by_arrival=True)
    study.ask(3)
    for test in (3, 1, 2):
        storage.tell(study.key, test, float(test), ANN)
    storage.correct(study.key, 1, 1.5, BOB, "typing")
    storage.correct(study.key, 1, 1.25, BOB, "typing")
    storage.correct(study.key, 3, 3.5, BOB, "typing")
    assert _arrived(study) == [(3, 3.5), (1, 1.25), (2, 2.0)]
    study.ask(1)
    history = list(storage.history(study.key))
    assert [test.id for test in history] == [3, 1, 2, 4]
    assert [[told.value for told in test.outcomes] for test in history] == [[3.0, 3.5], [1.0, 1.5, 1.25], [2.0], []]
    other = study.another()
    storage.give(other.key, [(0, 0, 1.0)], ANN, "")
    assert list(storage.arrivals(other.key, 0)) == []


def check_arrivals_of_many_threads(storage: Storage, study: NewStudy) -> None:
    """A reader that follows sees everything once and in one order, even if many tell at the same time."""
    study = study.another(by_arrival=True)
    count, threads = 240, 6
    study.ask(count)
    finished: list[int] = []
    followed: list[int] = []

    def tell(first: int) -> None:
        mine = study.open_again()
        try:
            for test in range(first, count + 1, threads):
                if test % 5:
                    mine.tell(study.key, test, float(test), ANN)
                else:
                    mine.tell_many(study.key, [(test, float(test))], BOB)
        finally:
            finished.append(first)

    def follow() -> None:
        after, was_done = 0, False
        while not was_done:
            was_done = len(finished) == threads
            for part in storage.arrivals(study.key, after):
                followed.extend(part.ids.tolist())
                after = int(part.arrivals[-1])

    run_in_threads(follow, *(partial(tell, k) for k in range(1, threads + 1)))
    assert sorted(followed) == list(range(1, count + 1))
    assert followed == [test for test, _ in _arrived(study)]
