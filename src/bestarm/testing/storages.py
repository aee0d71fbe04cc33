"""What every storage must do. Run each of `STORAGE_CHECKS` on your own:

@pytest.mark.parametrize("check", STORAGE_CHECKS)
def test_my_storage(check, tmp_path):
    check(lambda: MyStorage(tmp_path / "studies"))

The function opens the same database, empty at first, anew at each call; checks close what they open.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bestarm.study.storage import Issued, Outcome, PlanRounds, Rounds, Storage, StudyRecord
from bestarm.validation import InvalidInput

MakeStorage = Callable[[], Storage]

ANN, BOB = "ann", "bob"
LONG = 1000.0
SHORT = 0.05
"""Seconds of lease: longer than a check takes, and short enough to wait for."""

_names = itertools.count(1)


@contextlib.contextmanager
def _study(make_storage: MakeStorage) -> Iterator[tuple[Storage, StudyRecord]]:
    """A new study, in a database that may hold others."""
    storage = make_storage()
    try:
        taken = {record.name for record in storage.studies()}
        name = next(name for name in (f"study {k}" for k in _names) if name not in taken)
        yield storage, storage.create_study(name, '{"plan": "π"}', seed=7)
    finally:
        storage.close()


@contextlib.contextmanager
def _refused(*words: str) -> Iterator[None]:
    """The block must raise `InvalidInput` in one line that has these words."""
    try:
        yield
    except InvalidInput as error:
        said = str(error)
        assert "\n" not in said, f"an error is one line: {said!r}"
        assert all(word in said for word in words), f"expected {words} in {said!r}"
    else:
        raise AssertionError(f"expected InvalidInput with {words}")


def _one_round(*tests: tuple[int, int]) -> PlanRounds:
    """Plans one round of these tests, and then nothing."""
    rounds: list[Rounds] = [[list(tests)]]
    return lambda count: rounds.pop() if rounds else []


def _nothing(count: int) -> Rounds:
    return []


def _endless(count: int) -> Rounds:
    """Rounds of two tests for as long as any are wanted."""
    return [[(0, 0), (1, 1)]]


def _ask(storage: Storage, study: StudyRecord, count: int, holder: str = ANN, lease: float = LONG) -> list[Issued]:
    return storage.hand_out(study.key, count, holder, lease, 0, _endless)


def _ids(storage: Storage, study: StudyRecord, *, gaps: bool = False, after: int = 0) -> list[int]:
    return [int(k) for part in storage.entries(study.key, after, gaps=gaps) for k in part.ids]


def _values(storage: Storage, study: StudyRecord, *, gaps: bool = False, after: int = 0) -> list[float]:
    return [float(value) for part in storage.entries(study.key, after, gaps=gaps) for value in part.values]


def _pending(storage: Storage, study: StudyRecord) -> list[int]:
    return [test.id for test in storage.pending(study.key)]


# --------------------------------------------------------------------------------------------------- studies


def check_studies_are_found_again(make_storage: MakeStorage) -> None:
    before = time.time() - 60
    with _study(make_storage) as (storage, study):
        assert study.plan == '{"plan": "π"}'
        assert (study.seed, study.archived, study.revision) == (7, None, 0)
        assert before < study.created < time.time() + 60
        assert storage.find_study(study.name) == study
        big = storage.create_study(study.name + " ✓ 'quoted' %s ?", "{}", seed=2**63 - 1)
        assert storage.find_study(big.name) == big
        assert big.key != study.key
        assert [record.name for record in storage.studies()][-2:] == [study.name, big.name]
        assert storage.find_study("no such study") is None
        assert storage.find_study(study.name.upper()) is None
        with _refused(study.name, "exists already"):
            storage.create_study(study.name, "{}", seed=1)
        assert storage.find_study(study.name) == study


def check_studies_do_not_mix(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, first):
        second = storage.create_study(first.name + " again", "{}", seed=0)
        for study in (first, second):
            assert [test.id for test in _ask(storage, study, 3)] == [1, 2, 3]
        storage.tell(first.key, 1, 1.0, ANN)
        storage.tell(second.key, 2, 2.0, ANN)
        storage.release(first.key, [2, 3], ANN)
        storage.correct(first.key, 1, 1.5, ANN, "")
        assert _values(storage, first, gaps=True) == [1.5]
        assert _values(storage, second, gaps=True) == [2.0]
        assert _pending(storage, second) == [1, 3]
        assert [test.id for test in _ask(storage, second, 1)] == [4]
        found = storage.find_study(second.name)
        assert found is not None
        assert found.revision == 0


def check_an_archive_is_noted_once(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        storage.archive(study.key, ANN)
        storage.archive(study.key, ANN)
        archived = storage.find_study(study.name)
        assert archived is not None
        assert archived.archived is not None
        storage.archive(study.key, BOB, undo=True)
        storage.archive(study.key, BOB, undo=True)
        assert storage.find_study(study.name) == study
        assert [(event.kind, event.holder) for event in storage.log(study.key)] == [
            ("created", ""),
            ("archived", ANN),
            ("restored", BOB),
        ]


def check_unknown_studies_and_tests_are_refused(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        _ask(storage, study, 2)
        nowhere = study.key + 1_000_000
        with _refused("study", "no such study"):
            storage.hand_out(nowhere, 1, ANN, LONG, 0, _endless)
        with _refused("study", "no such study"):
            storage.give(nowhere, [(0, 0, 1.0)], ANN, "")
        with _refused("study", "no such study"):
            storage.archive(nowhere, ANN)
        for key, test in ((study.key, 3), (study.key, 10**12), (nowhere, 1)):
            with _refused("no such"):
                storage.tell(key, test, 1.0, ANN)
            with _refused("no such"):
                storage.tell_many(key, [(test, 1.0)], ANN)
            with _refused("no such"):
                storage.drop(key, test, ANN, "")
            with _refused("no such"):
                storage.fail(key, test, ANN, "")
            with _refused("no such"):
                storage.correct(key, test, 1.0, ANN, "")
            assert storage.test(key, test) is None
        assert storage.issued(nowhere) == 0
        assert storage.pending(nowhere) == []
        assert storage.log(nowhere) == []
        assert list(storage.entries(nowhere, 0)) == []
        assert list(storage.history(nowhere)) == []
        assert storage.issued(study.key) == 2
        assert _pending(storage, study) == [1, 2]
        assert [event.kind for event in storage.log(study.key)] == ["created", "asked", "asked"]


# ---------------------------------------------------------------------------------------------------- telling


def check_telling_is_idempotent(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        _ask(storage, study, 3)
        assert storage.tell(study.key, 1, 0.1, ANN) is None
        log = storage.log(study.key)
        first = Outcome(0.1, None, ANN)
        assert storage.tell(study.key, 1, 0.1, BOB) == first
        assert storage.tell(study.key, 1, 0.2, BOB) == first
        assert storage.drop(study.key, 1, BOB, "late") == first
        assert storage.log(study.key) == log
        assert storage.test(study.key, 1) == (Issued(1, 0, 0), first)
        assert storage.test(study.key, 2) == (Issued(2, 1, 1), None)
        assert storage.drop(study.key, 2, BOB, "broke") is None
        dropped = Outcome(None, "broke", BOB)
        assert storage.drop(study.key, 2, ANN, "again") == dropped
        assert storage.tell(study.key, 2, 1.0, ANN) == dropped
        assert storage.test(study.key, 2) == (Issued(2, 1, 1), dropped)
        assert np.array_equal(_values(storage, study), [0.1, math.nan], equal_nan=True)


def check_values_come_back_to_the_last_bit(make_storage: MakeStorage) -> None:
    awkward = [0.1, 1 / 3, -1e-300, 5e-324, 1.7976931348623157e308, -2.5, 0.0, 123456789.123456789, 1e16 + 2]
    with _study(make_storage) as (storage, study):
        _ask(storage, study, 2 * len(awkward))
        for k, value in enumerate(awkward):
            storage.tell(study.key, k + 1, value, ANN)
        storage.tell_many(study.key, [(len(awkward) + k + 1, value) for k, value in enumerate(awkward)], ANN)
        storage.give(study.key, [(0, 0, value) for value in awkward], ANN, "")
        assert _values(storage, study) == awkward * 3
        for k, value in enumerate(awkward):
            told = storage.tell(study.key, k + 1, value, ANN)
            assert told is not None
            assert told.value == value


def check_several_results_are_told_together_or_not_at_all(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        _ask(storage, study, 1200)
        assert storage.tell_many(study.key, [], ANN) == {}
        assert storage.tell_many(study.key, [(2, 2.0), (1, 1.0)], ANN) == {}
        assert storage.tell_many(study.key, [(2, 2.0), (3, 3.0), (3, 3.0)], BOB) == {}
        storage.drop(study.key, 6, ANN, "broke")
        refused = storage.tell_many(study.key, [(4, 4.0), (1, 9.0), (5, 5.0), (6, 6.0)], BOB)
        assert refused == {1: Outcome(1.0, None, ANN), 6: Outcome(None, "broke", ANN)}
        refused = storage.tell_many(study.key, [(4, 4.0), (4, 4.5)], BOB)
        assert list(refused) == [4]
        with _refused("5000"):
            storage.tell_many(study.key, [(4, 4.0), (5000, 5.0)], BOB)
        assert _values(storage, study) == [1.0, 2.0, 3.0]
        assert storage.test(study.key, 4) == (Issued(4, 1, 1), None)
        rest = [(test, float(test)) for test in range(7, 1201)]
        assert storage.tell_many(study.key, rest, ANN) == {}
        assert storage.tell_many(study.key, rest, BOB) == {}
        assert _pending(storage, study) == [4, 5]


def check_corrections_keep_history(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        _ask(storage, study, 3)
        with _refused("1", "nothing to correct"):
            storage.correct(study.key, 1, 1.0, ANN, "")
        storage.tell(study.key, 1, 1.0, ANN)
        storage.drop(study.key, 2, ANN, "broke")
        assert storage.correct(study.key, 1, 1.0, BOB, "same") == Outcome(1.0, None, ANN)
        assert _revision(storage, study) == 0
        assert storage.correct(study.key, 1, 2.0, BOB, "typing") == Outcome(1.0, None, ANN)
        assert storage.correct(study.key, 1, 3.0, BOB, "again") == Outcome(2.0, "typing", BOB)
        assert storage.correct(study.key, 2, 4.0, BOB, "mended") == Outcome(None, "broke", ANN)
        assert _revision(storage, study) == 3
        assert storage.tell(study.key, 1, 1.0, ANN) == Outcome(3.0, "again", BOB)
        assert _values(storage, study) == [3.0, 4.0]
        events = [(event.kind, event.test, event.value, event.detail) for event in storage.log(study.key)[4:]]
        assert events == [
            ("told", 1, 1.0, ""),
            ("dropped", 2, None, "broke"),
            ("corrected", 1, 2.0, "typing"),
            ("corrected", 1, 3.0, "again"),
            ("corrected", 2, 4.0, "mended"),
        ]
        told = [[(told.value, told.reason) for told in test.outcomes] for test in storage.history(study.key)]
        assert told == [[(1.0, None), (2.0, "typing"), (3.0, "again")], [(None, "broke"), (4.0, "mended")], []]


def _revision(storage: Storage, study: StudyRecord) -> int:
    found = storage.find_study(study.name)
    assert found is not None
    return found.revision


def check_any_text_can_be_kept(make_storage: MakeStorage) -> None:
    """What a command complains of may hold anything: bytes that are no text, NUL, quotes, line breaks, all scripts."""
    text = "line 1\nline 2\t'\" % ? : \\ \u0000 \udcff 漢 🎉 " + "x" * 10_000
    with _study(make_storage) as (storage, study):
        _ask(storage, study, 3, holder=text)
        storage.fail(study.key, 1, text, text)
        storage.drop(study.key, 2, text, text)
        storage.give(study.key, [(0, 0, 1.0)], text, text)
        storage.correct(study.key, 2, 1.0, text, text)
        storage.release(study.key, [3], text)
        assert [test.id for test in _ask(storage, study, 2)] == [1, 3]
        kept = next(event.detail for event in storage.log(study.key) if event.kind == "failed")
        assert kept.startswith("line 1\nline 2\t'\" % ? : \\ ")
        assert kept.endswith(" 漢 🎉 " + "x" * 10_000)
        assert storage.find_study(text) is None


# ----------------------------------------------------------------------------------------------------- leases


def check_tests_are_issued_in_order(make_storage: MakeStorage) -> None:
    """Rounds are handed out in pieces, and asked for only when what is planned has been handed out."""
    wanted: list[int] = []

    def plan(count: int) -> Rounds:
        wanted.append(count)
        return [[(0, 1), (1, 0), (2, 2)], [(3, 0)]] if len(wanted) < 3 else []

    with _study(make_storage) as (storage, study):

        def ask(count: int) -> list[Issued]:
            return storage.hand_out(study.key, count, ANN, LONG, 0, plan)

        assert ask(2) == [Issued(1, 0, 1), Issued(2, 1, 0)]
        assert ask(1) == [Issued(3, 2, 2)]
        assert wanted == [2]
        assert ask(3) == [Issued(4, 3, 0), Issued(5, 0, 1), Issued(6, 1, 0)]
        assert wanted == [2, 2]
        assert ask(9) == [Issued(7, 2, 2), Issued(8, 3, 0)]
        assert wanted == [2, 2, 7]
        assert storage.issued(study.key) == 8
        assert [(test.id, test.holder, test.attempts) for test in storage.pending(study.key)] == [
            (k, ANN, 1) for k in range(1, 9)
        ]
        assert [test.ends for test in storage.history(study.key)] == [False, False, True, True] * 2


def check_planning_sees_what_was_handed_out(make_storage: MakeStorage) -> None:
    seen: list[list[int]] = []
    with _study(make_storage) as (storage, study):

        def plan(count: int) -> Rounds:
            seen.append([*_pending(storage, study), storage.issued(study.key), *_ids(storage, study, gaps=True)])
            return [[(0, 0)]] if len(seen) < 4 else []

        storage.hand_out(study.key, 2, ANN, LONG, 0, plan)
        storage.tell(study.key, 1, 1.0, ANN)
        storage.hand_out(study.key, 5, ANN, LONG, 1, plan)
        assert seen == [[0], [1, 1], [2, 2, 1], [2, 3, 3, 1]]


def check_a_failing_plan_changes_nothing(make_storage: MakeStorage) -> None:
    def plan(count: int) -> Rounds:
        if count < 3:
            raise ZeroDivisionError
        return [[(0, 0)]]

    with _study(make_storage) as (storage, study):
        _ask(storage, study, 2, lease=SHORT)
        time.sleep(2 * SHORT)
        before = storage.log(study.key), storage.pending(study.key)
        try:
            storage.hand_out(study.key, 5, BOB, LONG, 0, plan)
        except ZeroDivisionError:
            pass
        else:
            raise AssertionError("what the plan raises must come through")
        assert (storage.log(study.key), storage.pending(study.key)) == before
        assert [test.id for test in _ask(storage, study, 3, holder=BOB)] == [1, 2, 3]


def check_a_lease_that_ran_out_is_handed_out_again(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        _ask(storage, study, 4, holder=ANN, lease=SHORT)
        storage.tell(study.key, 2, 2.0, ANN)
        time.sleep(2 * SHORT)
        again = storage.hand_out(study.key, 2, BOB, LONG, 0, _nothing)
        assert [test.id for test in again] == [1, 3]
        assert [(test.id, test.holder, test.attempts) for test in storage.pending(study.key)] == [
            (1, BOB, 2),
            (3, BOB, 2),
            (4, ANN, 1),
        ]
        # The first holder is late, and welcome once; then the second is.
        assert storage.tell(study.key, 1, 1.0, ANN) is None
        assert storage.tell(study.key, 1, 9.0, BOB) == Outcome(1.0, None, ANN)
        assert storage.tell(study.key, 3, 3.0, BOB) is None
        assert storage.tell(study.key, 3, 9.0, ANN) == Outcome(3.0, None, BOB)
        # What is left goes before anything new.
        assert [test.id for test in _ask(storage, study, 2, holder=BOB)] == [4, 5]
        assert _values(storage, study) == [1.0, 2.0, 3.0]


def check_a_live_lease_has_one_holder(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        mine, yours = _ask(storage, study, 3, holder=ANN), _ask(storage, study, 3, holder=BOB)
        assert {test.id for test in mine} | {test.id for test in yours} == {1, 2, 3, 4, 5, 6}
        assert storage.hand_out(study.key, 5, BOB, LONG, 0, _nothing) == []


def check_only_the_holder_can_let_go(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        _ask(storage, study, 6, holder=ANN, lease=SHORT)
        storage.renew(study.key, [1, 2, 3, 4], ANN, LONG)
        storage.renew(study.key, [5, 6], BOB, LONG)
        time.sleep(2 * SHORT)
        # Who has lost a test cannot renew it.
        storage.renew(study.key, [5], ANN, LONG)
        assert [test.id for test in storage.hand_out(study.key, 9, BOB, LONG, 0, _nothing)] == [5, 6]
        storage.release(study.key, [1, 2, 3, 4, 10**6], BOB)
        storage.fail(study.key, 3, BOB, "no")
        storage.fail(study.key, 5, ANN, "too late")
        storage.release(study.key, [5, 6], ANN)
        assert storage.hand_out(study.key, 9, "carl", LONG, 0, _nothing) == []
        storage.release(study.key, [1, 2], ANN)
        storage.fail(study.key, 3, ANN, "exit status 1")
        assert [test.id for test in storage.hand_out(study.key, 9, "carl", LONG, 0, _nothing)] == [1, 2, 3]
        failed = [(e.test, e.holder, e.detail) for e in storage.log(study.key) if e.kind == "failed"]
        assert failed == [(3, BOB, "no"), (5, ANN, "too late"), (3, ANN, "exit status 1")]


def check_outcomes_end_leases(make_storage: MakeStorage) -> None:
    """A test with an outcome is not handed out again, whatever becomes of its lease."""
    with _study(make_storage) as (storage, study):
        _ask(storage, study, 4)
        storage.tell(study.key, 1, 1.0, ANN)
        storage.drop(study.key, 2, ANN, "")
        storage.tell(study.key, 3, 1.0, BOB)
        storage.fail(study.key, 1, ANN, "after all")
        storage.release(study.key, [1, 2, 3, 4], ANN)
        again = storage.hand_out(study.key, 9, BOB, LONG, 3, _nothing)
        assert [test.id for test in again] == [4]
        assert _pending(storage, study) == [4]


# ------------------------------------------------------------------------------------- results without asking


def check_given_results_withdraw_the_plan(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        storage.hand_out(study.key, 2, ANN, LONG, 0, _one_round((0, 0), (0, 1), (1, 0), (1, 1)))
        assert storage.give(study.key, [(2, 0, 5.0), (2, 1, 6.0), (3, 0, 7.0)], BOB, "", [0]) == [3, 4, 5]
        # Two tests of the round were never issued, and are not waited for.
        assert storage.hand_out(study.key, 9, BOB, LONG, 0, _nothing) == []
        storage.tell_many(study.key, [(1, 1.0), (2, 2.0)], ANN)
        parts = list(storage.entries(study.key, 0))
        assert [int(x) for part in parts for x in part.arms] == [0, 0, 2, 2, 3]
        assert [int(x) for part in parts for x in part.metrics] == [0, 1, 0, 1, 0]
        assert [int(x) for part in parts for x in part.ends] == [0, 0, 1, 0, 1]
        assert [test.given for test in storage.history(study.key)] == [False, False, True, True, True]
        assert [test.id for test in _ask(storage, study, 2)] == [6, 7]
        assert [e.test for e in storage.log(study.key) if e.kind == "given" and e.holder == BOB] == [3, 4, 5]


def check_a_source_is_taken_once(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        storage.give(study.key, [(0, 0, 1.0)], ANN, "file.csv")
        with _refused("file.csv", "already"):
            storage.give(study.key, [(0, 0, 2.0)], BOB, "file.csv")
        assert _values(storage, study) == [1.0]
        storage.give(study.key, [(0, 0, 3.0)], BOB, "")
        storage.give(study.key, [(0, 0, 3.0)], BOB, "")
        assert storage.give(study.key, [], BOB, "empty.csv") == []
        assert _values(storage, study) == [1.0, 3.0, 3.0]
        other = storage.create_study(study.name + " other", "{}", seed=0)
        assert storage.give(other.key, [(0, 0, 1.0)], ANN, "file.csv") == [1]


# ---------------------------------------------------------------------------------------------------- reading


def check_entries_stop_at_the_first_gap(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        assert _ids(storage, study) == []
        _ask(storage, study, 6)
        for test in (1, 2, 4, 6):
            storage.tell(study.key, test, float(test), ANN)
        assert _ids(storage, study) == [1, 2]
        assert _ids(storage, study, gaps=True) == [1, 2, 4, 6]
        assert _ids(storage, study, after=2) == []
        assert _ids(storage, study, after=2, gaps=True) == [4, 6]
        assert _ids(storage, study, after=3) == [4]
        assert _ids(storage, study, after=6, gaps=True) == []
        storage.drop(study.key, 3, ANN, "")
        assert np.array_equal(_values(storage, study, after=1), [2.0, math.nan, 4.0], equal_nan=True)
        part = next(storage.entries(study.key, 0))
        assert [str(column.dtype) for column in part] == ["int64", "int64", "int64", "float64", "int8", "float64"]


def check_entries_have_the_last_correction_wherever_they_are_cut(make_storage: MakeStorage) -> None:
    """Readers fetch parts; a corrected test must not be torn in two by a border, nor fill a part alone."""
    count = 700
    with _study(make_storage) as (storage, study):
        storage.give(study.key, [(0, 0, float(k)) for k in range(1, count + 1)], ANN, "")
        expected = {k: float(k) for k in range(1, count + 1)}
        for test in (*range(125, 131), *range(250, 259), 511, 512, 513, count):
            for correction in range(1, 4):
                expected[test] = test + correction / 8
                storage.correct(study.key, test, expected[test], BOB, "")
        assert _ids(storage, study) == list(expected)
        assert _values(storage, study) == list(expected.values())
        for after in (0, 120, 126, 255, 256, 512, count - 1, count):
            assert _values(storage, study, after=after, gaps=True) == list(expected.values())[after:]
        for correction in range(600):
            storage.correct(study.key, 3, float(correction) + 0.5, BOB, "")
        expected[3] = 599.5
        assert _values(storage, study, after=2) == list(expected.values())[2:]
        assert _values(storage, study) == list(expected.values())


def check_the_log_is_in_order(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        begin = storage.log(study.key)[0].time
        _ask(storage, study, 2)
        storage.fail(study.key, 1, ANN, "exit status 1")
        storage.tell(study.key, 2, 2.0, BOB)
        storage.tell(study.key, 1, 1.0, ANN)
        storage.correct(study.key, 2, 2.5, ANN, "typing")
        storage.give(study.key, [(0, 1, 3.0)], BOB, "")
        storage.archive(study.key, ANN)
        log = storage.log(study.key)
        assert [(event.kind, event.test) for event in log] == [
            ("created", None),
            ("asked", 1),
            ("asked", 2),
            ("failed", 1),
            ("told", 2),
            ("told", 1),
            ("corrected", 2),
            ("given", 3),
            ("archived", None),
        ]
        assert [event.time for event in log] == sorted(event.time for event in log)
        # One clock stamps everything, whoever reports it.
        assert 0 <= log[-1].time - begin < 60
        assert (log[4].arm, log[4].metric, log[4].value, log[4].holder) == (1, 1, 2.0, BOB)
        for last in range(len(log) + 2):
            assert storage.log(study.key, last) == log[max(0, len(log) - last) :]


def check_history_has_every_test(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        assert list(storage.history(study.key)) == []
        _ask(storage, study, 3)
        storage.tell(study.key, 3, 3.0, BOB)
        storage.give(study.key, [(4, 2, 0.5)], ANN, "")
        history = list(storage.history(study.key))
        assert [(t.id, t.arm, t.metric, t.ends, t.given) for t in history] == [
            (1, 0, 0, False, False),
            (2, 1, 1, True, False),
            (3, 0, 0, False, False),
            (4, 4, 2, True, True),
        ]
        assert [[(told.value, told.holder) for told in t.outcomes] for t in history] == [
            [],
            [],
            [(3.0, BOB)],
            [(0.5, ANN)],
        ]
        assert all(t.issued <= told.time for t in history for told in t.outcomes)


def check_everything_is_there_after_reopening(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        storage.hand_out(study.key, 2, ANN, LONG, 0, _one_round((0, 0), (0, 1), (1, 0)))
        storage.tell(study.key, 2, 2.0, ANN)
        storage.give(study.key, [(3, 0, 7.0)], BOB, "a file")
        storage.correct(study.key, 3, 8.0, BOB, "typing")
        storage.hand_out(study.key, 1, ANN, LONG, 0, _one_round((1, 0), (1, 1)))

        def look(storage: Storage) -> tuple[object, ...]:
            return (
                storage.find_study(study.name),
                storage.log(study.key),
                storage.pending(study.key),
                _values(storage, study, gaps=True),
                list(storage.history(study.key)),
                storage.issued(study.key),
            )

        seen = look(storage)
        other = make_storage()
        try:
            # Beside the first, and after it.
            assert look(other) == seen
            storage.close()
            assert look(other) == seen
            with _refused("a file"):
                other.give(study.key, [(3, 0, 7.0)], BOB, "a file")
            assert other.hand_out(study.key, 1, BOB, LONG, 0, _nothing) == [Issued(5, 1, 1)]
            other.release(study.key, [1], ANN)
            assert [test.id for test in other.hand_out(study.key, 1, BOB, LONG, 0, _nothing)] == [1]
        finally:
            other.close()


# ---------------------------------------------------------------------------------------------------- threads


def check_many_threads_at_once(make_storage: MakeStorage) -> None:
    """Half share one storage, half open their own: nothing is lost, told twice, or held by two."""
    threads, goal = 8, 400
    handed: list[list[int]] = [[] for _ in range(threads)]
    accepted: list[list[int]] = [[] for _ in range(threads)]
    errors: list[BaseException] = []
    with _study(make_storage) as (shared, study):

        def work(k: int) -> None:
            storage = shared if k % 2 else make_storage()
            try:
                while storage.issued(study.key) < goal:
                    tests = storage.hand_out(study.key, 3, f"thread {k}", LONG, 0, _endless)
                    handed[k] += [test.id for test in tests]
                    for test in tests[1:]:
                        if storage.tell(study.key, test.id, float(test.id), f"thread {k}") is None:
                            accepted[k].append(test.id)
                    # Both this thread and its neighbor tell some tests, alone and in batches: one is heard.
                    for other in {tests[0].id, tests[0].id + 1} & set(range(1, storage.issued(study.key) + 1)):
                        if storage.tell(study.key, other, float(other), f"thread {k}") is None:
                            accepted[k].append(other)
                    storage.tell_many(study.key, [(test.id, float(test.id)) for test in tests], f"thread {k}")
            except BaseException as error:
                errors.append(error)
            finally:
                if storage is not shared:
                    storage.close()

        workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if errors:
            raise errors[0]
        issued = shared.issued(study.key)
        everyone = sorted(itertools.chain(*handed))
        assert everyone == list(range(1, issued + 1)), "a test was handed to two, or to none"
        told = sorted(itertools.chain(*accepted))
        assert len(told) == len(set(told)), "a result was accepted twice"
        assert _values(shared, study) == [float(test) for test in everyone]
        assert shared.pending(study.key) == []


def check_many_threads_create_one_study(make_storage: MakeStorage) -> None:
    with _study(make_storage) as (storage, study):
        made: list[bool] = []

        def create() -> None:
            try:
                storage.create_study(study.name + " raced", "{}", seed=0)
                made.append(True)
            except InvalidInput:
                made.append(False)

        workers = [threading.Thread(target=create) for _ in range(6)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert sorted(made) == [False] * 5 + [True]


STORAGE_CHECKS: Sequence[Callable[[MakeStorage], None]] = [
    check_studies_are_found_again,
    check_studies_do_not_mix,
    check_an_archive_is_noted_once,
    check_unknown_studies_and_tests_are_refused,
    check_telling_is_idempotent,
    check_values_come_back_to_the_last_bit,
    check_several_results_are_told_together_or_not_at_all,
    check_corrections_keep_history,
    check_any_text_can_be_kept,
    check_tests_are_issued_in_order,
    check_planning_sees_what_was_handed_out,
    check_a_failing_plan_changes_nothing,
    check_a_lease_that_ran_out_is_handed_out_again,
    check_a_live_lease_has_one_holder,
    check_only_the_holder_can_let_go,
    check_outcomes_end_leases,
    check_given_results_withdraw_the_plan,
    check_a_source_is_taken_once,
    check_entries_stop_at_the_first_gap,
    check_entries_have_the_last_correction_wherever_they_are_cut,
    check_the_log_is_in_order,
    check_history_has_every_test,
    check_everything_is_there_after_reopening,
    check_many_threads_at_once,
    check_many_threads_create_one_study,
]
