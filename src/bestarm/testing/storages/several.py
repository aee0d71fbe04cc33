"""Checks of tests that yield several values at once: all of them or none."""

from __future__ import annotations

from bestarm.storage.base import Issued, Outcome, Storage
from bestarm.storage.columns import Columns
from bestarm.testing.storages.common import ANN, BOB, NewStudy, must_refuse

Values = tuple[float, ...]


def _told(study: NewStudy, *, gaps: bool = False) -> dict[int, Values]:
    """The values of each test that has an outcome, as readers of entries, or of arrivals, find them."""
    found: dict[int, Values] = {}
    key, storage = study.key, study.storage
    for part in storage.arrivals(key, 0) if study.record.by_arrival else storage.entries(key, 0, gaps=gaps):
        assert len(part.more) in (0, len(part.ids)), "values after the first are of all tests, or of none"
        more: list[Values] = part.more.tolist() if len(part.more) else [()] * len(part.ids)
        found |= {int(k): (float(v), *m) for k, v, m in zip(part.ids, part.values, more, strict=True)}
    return found


def check_several_values_are_told_at_once(storage: Storage, study: NewStudy) -> None:
    study.ask(4)
    assert storage.tell(study.key, 1, 0.5, ANN, more=(1.5, -2.0)) is None
    assert storage.tell(study.key, 2, 2.0, BOB) is None
    assert storage.drop(study.key, 3, ANN, "broke") is None
    outcome = Outcome(0.5, None, ANN, (1.5, -2.0))
    assert storage.test(study.key, 1) == (Issued(1, 0, 0), outcome)
    found = storage.find_tests(study.key, [1, 2, 3, 4])
    expected = [outcome, Outcome(2.0, None, BOB), Outcome(None, "broke", ANN), None]
    assert [told for _, told in found.values()] == expected
    [part] = storage.entries(study.key, 0)
    assert part.values[:2].tolist() == [0.5, 2.0]
    assert part.more.tolist() == [(1.5, -2.0), (), ()]
    assert study.told_values() == [[(0.5, (1.5, -2.0))], [(2.0, ())], [(None, ())], []]
    log = [(event.kind, event.value, event.more) for event in storage.log(study.key) if event.kind != "asked"]
    assert log[1:] == [("told", 0.5, (1.5, -2.0)), ("told", 2.0, ()), ("dropped", None, ())]
    # One outcome, so one arrival and one test less to make.
    assert storage.told(study.key, 0) == 3
    assert study.pending_ids() == [4]
    # A reader who is past those with several values finds none.
    assert [len(part.more) for part in storage.entries(study.key, 1)] == [0]


def check_telling_several_values_is_idempotent(storage: Storage, study: NewStudy) -> None:
    study.ask(3)
    storage.tell(study.key, 1, 0.1, ANN, more=(0.2, 0.3))
    first, log = Outcome(0.1, None, ANN, (0.2, 0.3)), storage.log(study.key)
    for more in ((0.2, 0.3), (0.2, 0.4), (0.3, 0.2), (0.2,), (0.2, 0.3, 0.4), ()):
        assert storage.tell(study.key, 1, 0.1, BOB, more=more) == first
        refused = storage.tell_many(study.key, [(1, 0.1, *more)], BOB)
        assert refused == ({} if more == first.more else {1: first})
    assert storage.drop(study.key, 1, BOB, "late") == first
    storage.tell(study.key, 2, 2.0, ANN)
    assert storage.tell(study.key, 2, 2.0, BOB, more=(3.0,)) == Outcome(2.0, None, ANN)
    assert _told(study) == {1: (0.1, 0.2, 0.3), 2: (2.0,)}
    assert storage.log(study.key)[: len(log)] == log


def check_several_values_come_back_to_the_last_bit(storage: Storage, study: NewStudy) -> None:
    awkward = (0.1, 1 / 3, -1e-300, 5e-324, 1.7976931348623157e308, -2.5, 0.0, 123456789.123456789, 1e16 + 2, 7.0)
    study.ask(2)
    storage.tell(study.key, 1, 1.0, ANN, more=awkward)
    storage.tell_many(study.key, [(2, 1.0, *awkward)], ANN)
    storage.give(study.key, [(0, 0, 1.0, awkward)], ANN, "")
    storage.give(study.key, [(0, 0, 1.0)], ANN, "")
    storage.correct(study.key, 4, 1.0, ANN, "", more=awkward)
    assert _told(study) == dict.fromkeys((1, 2, 3, 4), (1.0, *awkward))
    kept = [test.outcomes[-1].more for test in storage.history(study.key)]
    assert kept == [awkward] * 4
    assert all(type(value) is float for more in kept for value in more)
    told = storage.tell(study.key, 1, 1.0, ANN, more=awkward)
    assert told is not None
    assert told.more == awkward


def check_tests_of_one_and_of_several_values_are_told_together(storage: Storage, study: NewStudy) -> None:
    study.ask(8)
    assert storage.tell_many(study.key, [(2, 2.0, 2.5), (1, 1.0), (3, 3.0, 3.25, 3.5)], ANN) == {}
    assert storage.tell_many(study.key, [(2, 2.0, 2.5), (4, 4.0), (4, 4.0)], BOB) == {}
    told = {1: (1.0,), 2: (2.0, 2.5), 3: (3.0, 3.25, 3.5), 4: (4.0,)}
    assert _told(study) == told
    # The first value is the same, and so all is refused for the sake of the second.
    refused = storage.tell_many(study.key, [(5, 5.0, 5.5), (2, 2.0, 2.75), (6, 6.0), (3, 3.0)], BOB)
    assert refused == {2: Outcome(2.0, None, ANN, (2.5,)), 3: Outcome(3.0, None, ANN, (3.25, 3.5))}
    assert list(storage.tell_many(study.key, [(5, 5.0, 5.5), (5, 5.0, 5.25)], BOB)) == [5]
    with must_refuse("99"):
        storage.tell_many(study.key, [(5, 5.0, 5.5), (99, 9.0, 9.5)], BOB)
    assert _told(study, gaps=True) == told
    assert study.pending_ids() == [5, 6, 7, 8]


def check_corrections_replace_all_values(storage: Storage, study: NewStudy) -> None:
    study.ask(3)
    storage.tell(study.key, 1, 1.0, ANN, more=(1.5,))
    storage.drop(study.key, 2, ANN, "broke")
    first = Outcome(1.0, None, ANN, (1.5,))
    assert storage.correct(study.key, 1, 1.0, BOB, "same", more=(1.5,)) == first
    assert study.found().revision == 0
    assert storage.correct(study.key, 1, 1.0, BOB, "typing", more=(1.75,)) == first
    assert storage.correct(study.key, 1, 3.0, BOB, "again", more=(1.75,)) == Outcome(1.0, "typing", BOB, (1.75,))
    assert storage.correct(study.key, 2, 4.0, BOB, "mended", more=(4.5,)) == Outcome(None, "broke", ANN)
    assert study.found().revision == 3
    assert storage.tell(study.key, 1, 1.0, ANN, more=(1.5,)) == Outcome(3.0, "again", BOB, (1.75,))
    assert _told(study) == {1: (3.0, 1.75), 2: (4.0, 4.5)}
    corrected = [(event.value, event.more) for event in storage.log(study.key) if event.kind == "corrected"]
    assert corrected == [(1.0, (1.75,)), (3.0, (1.75,)), (4.0, (4.5,))]
    assert study.told_values() == [[(1.0, (1.5,)), (1.0, (1.75,)), (3.0, (1.75,))], [(None, ()), (4.0, (4.5,))], []]


def check_several_values_are_given_once(storage: Storage, study: NewStudy) -> None:
    # Enough for several statements, whether the first of them have several values or not.
    rows = [(k % 3, 0, float(k), (k / 3, -k / 7)) if k > 5 else (k, 1, float(k), ()) for k in range(300)]
    expected = {k + 1: (float(k), k / 3, -k / 7) if k > 5 else (float(k),) for k in range(300)}
    assert list(storage.give(study.key, rows, ANN, "", request="r1")) == list(expected)
    assert _told(study) == expected
    columns = Columns()
    for row in rows:
        columns.append(*row)
    # The same, in whatever form.
    assert list(storage.give(study.key, columns, BOB, "", request="r1")) == list(expected)
    plain = [(arm, metric, value) for arm, metric, value, _ in rows]
    moved = [*rows[:6], (0, 0, 6.0, (2.0,)), (1, 0, 7.0, (-6 / 7, 7 / 3, -1.0)), *rows[8:]]
    for others in (plain, moved, rows[:-1]):
        with must_refuse("r1", "something else"):
            storage.give(study.key, others, ANN, "", request="r1")
    assert list(storage.give(study.key, plain, ANN, "", request="r2")) == list(range(301, 601))
    with must_refuse("r2", "something else"):
        storage.give(study.key, rows, ANN, "", request="r2")
    assert _told(study) == expected | {k + 301: (float(k),) for k in range(300)}
    given = [(event.value, *event.more) for event in storage.log(study.key) if event.kind == "given"]
    assert given == list(_told(study).values())


def check_several_values_arrive_at_once(storage: Storage, study: NewStudy) -> None:
    study = study.another(by_arrival=True)
    study.ask(4)
    storage.tell(study.key, 3, 3.0, ANN, more=(3.5, 3.75))
    storage.tell(study.key, 1, 1.0, ANN)
    storage.give(study.key, [(0, 0, 5.0, (5.5,)), (1, 0, 6.0)], BOB, "")
    storage.tell_many(study.key, [(4, 4.0), (2, 2.0, 2.5)], ANN)
    storage.correct(study.key, 3, 3.0, BOB, "typing", more=(3.5, 3.25))
    told = _told(study)
    assert list(told) == [3, 1, 5, 6, 4, 2]
    assert list(told.values()) == [(3.0, 3.5, 3.25), (1.0,), (5.0, 5.5), (6.0,), (4.0,), (2.0, 2.5)]
    history = [(test.id, [each.more for each in test.outcomes]) for test in storage.history(study.key)]
    assert history[0] == (3, [(3.5, 3.75), (3.5, 3.25)])
    assert [test for test, _ in history] == list(told)
