"""Checks of reading: entries, log, history, and all of it after reopening."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from bestarm.storage.base import Issued, Storage
from bestarm.testing.storages.common import ANN, BOB, LONG, NewStudy, must_refuse, no_rounds, one_round


def check_entries_stop_at_the_first_gap(storage: Storage, study: NewStudy) -> None:
    assert study.ids() == []
    study.ask(6)
    for test in (1, 2, 4, 6):
        storage.tell(study.key, test, float(test), ANN)
    assert study.ids() == [1, 2]
    assert study.ids(gaps=True) == [1, 2, 4, 6]
    assert study.ids(after=2) == []
    assert study.ids(after=2, gaps=True) == [4, 6]
    assert study.ids(after=3) == [4]
    assert study.ids(after=6, gaps=True) == []
    storage.correct(study.key, 4, 4.5, ANN, "")
    storage.correct(study.key, 4, 4.0, ANN, "")
    found = storage.find_tests(study.key, [6, 1, 99, 3])
    assert {test: issued.id for test, (issued, _) in found.items()} == {1: 1, 3: 3, 6: 6}
    assert {test: told.value for test, (_, told) in found.items() if told is not None} == {1: 1.0, 6: 6.0}
    assert storage.find_tests(study.key, []) == {}
    assert [storage.told(study.key, after) for after in (0, 2, 3, 6)] == [4, 2, 2, 0]
    storage.drop(study.key, 3, ANN, "")
    assert np.array_equal(study.values(after=1), [2.0, math.nan, 4.0], equal_nan=True)
    part = next(storage.entries(study.key, 0))
    assert [str(column.dtype) for column in part] == [
        *("int64", "int64", "int64", "float64", "int8", "float64", "int64", "object"),
        *("object", "int64", "float64", "int8"),
    ]
    assert len(part.more) == len(part.items) == 0
    # A storage need not say who told.
    assert part.holders.tolist() in ([], [ANN] * len(part.ids))


def check_entries_have_the_last_correction_wherever_they_are_cut(storage: Storage, study: NewStudy) -> None:
    """Readers fetch parts. A corrected test must neither be split between two parts nor fill one alone."""
    count = 700
    storage.give(study.key, [(0, 0, float(k)) for k in range(1, count + 1)], ANN, "")
    expected = {k: float(k) for k in range(1, count + 1)}
    for test in (*range(125, 131), *range(250, 259), 511, 512, 513, count):
        for correction in range(1, 4):
            expected[test] = test + correction / 8
            storage.correct(study.key, test, expected[test], BOB, "")
    assert study.ids() == list(expected)
    assert study.values() == list(expected.values())
    for after in (0, 120, 126, 255, 256, 512, count - 1, count):
        assert study.values(after=after, gaps=True) == list(expected.values())[after:]
    for correction in range(600):
        storage.correct(study.key, 3, float(correction) + 0.5, BOB, "")
    expected[3] = 599.5
    assert study.values(after=2) == list(expected.values())[2:]
    assert study.values() == list(expected.values())


def check_the_log_is_in_order(storage: Storage, study: NewStudy) -> None:
    begin = storage.log(study.key)[0].time
    study.ask(2)
    storage.fail(study.key, 1, ANN, "exit status 1")
    storage.tell(study.key, 2, 2.0, BOB)
    storage.tell(study.key, 1, 1.0, ANN)
    storage.correct(study.key, 2, 2.5, ANN, "typing")
    storage.give(study.key, [(0, 1, 3.0)], BOB, "")
    storage.archive(study.key, ANN)
    log = storage.log(study.key)
    assert [(event.kind, event.test) for event in log] == [
        *[("created", None), ("asked", 1), ("asked", 2), ("failed", 1), ("told", 2), ("told", 1)],
        *[("corrected", 2), ("given", 3), ("archived", None)],
    ]
    assert [event.time for event in log] == sorted(event.time for event in log)
    # One clock sets all times.
    assert 0 <= log[-1].time - begin < 60
    assert (log[4].arm, log[4].metric, log[4].value, log[4].holder) == (1, 1, 2.0, BOB)
    for last in range(len(log) + 2):
        assert storage.log(study.key, last) == log[max(0, len(log) - last) :]


def check_an_equal_change_mark_means_that_nothing_was_written(storage: Storage, study: NewStudy) -> None:
    other = study.open_again()
    for name, writer in (("one", storage), ("other", other)):
        changes: list[Callable[[], object]] = [
            partial(NewStudy(writer, study.record, study.open_again).ask, 1),
            partial(writer.give, study.key, [(0, 0, 1.0)], ANN, ""),
            partial(writer.create_study, f"{study.name}: {name}", "{}", 0),
            partial(writer.archive, study.key, ANN),
            partial(writer.archive, study.key, ANN, undo=True),
        ]
        for change in changes:
            before = storage.change_mark()
            change()
            assert before is None or storage.change_mark() != before


def check_history_has_every_test(storage: Storage, study: NewStudy) -> None:
    assert list(storage.history(study.key)) == []
    study.ask(3)
    storage.tell(study.key, 3, 3.0, BOB)
    storage.give(study.key, [(4, 2, 0.5)], ANN, "")
    history = list(storage.history(study.key))
    assert [(t.id, t.arm, t.metric, t.ends, t.given) for t in history] == [
        (1, 0, 0, False, False),
        (2, 1, 1, True, False),
        (3, 0, 0, False, False),
        (4, 4, 2, True, True),
    ]
    given = [one for part in storage.entries(study.key, 0, gaps=True) for one in part.given.tolist()]
    assert given in ([0, 1], [])
    told = [[(told.value, told.holder) for told in t.outcomes] for t in history]
    assert told == [[], [], [(3.0, BOB)], [(0.5, ANN)]]
    assert all(t.issued <= told.time for t in history for told in t.outcomes)


def check_everything_is_there_after_reopening(storage: Storage, study: NewStudy) -> None:
    storage.hand_out(study.key, 2, ANN, LONG, 0, one_round((0, 0), (0, 1), (1, 0)))
    storage.tell(study.key, 2, 2.0, ANN)
    storage.give(study.key, [(3, 0, 7.0)], BOB, "a file")
    storage.correct(study.key, 3, 8.0, BOB, "typing")
    storage.hand_out(study.key, 1, ANN, LONG, 0, one_round((1, 0), (1, 1)))
    seen = study.seen()
    other = study.open_again()
    beside = NewStudy(other, study.record, study.open_again)
    # Beside the first, and after it.
    assert beside.seen() == seen
    storage.close()
    assert beside.seen() == seen
    with must_refuse("a file"):
        other.give(study.key, [(3, 0, 7.0)], BOB, "a file")
    assert other.hand_out(study.key, 1, BOB, LONG, 0, no_rounds) == [Issued(5, 1, 1)]
    other.release(study.key, [1], ANN)
    assert [test.id for test in other.hand_out(study.key, 1, BOB, LONG, 0, no_rounds)] == [1]
