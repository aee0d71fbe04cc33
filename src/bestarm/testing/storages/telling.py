"""Checks of outcomes: told, dropped and corrected; and of results measured without asking."""

from __future__ import annotations

import math

import numpy as np

from bestarm.storage.base import Issued, Outcome, Storage
from bestarm.storage.errors import SourceTaken
from bestarm.testing.storages.common import ANN, BOB, NewStudy, must_refuse, one_round


def check_telling_is_idempotent(storage: Storage, study: NewStudy) -> None:
    study.ask(3)
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
    assert np.array_equal(study.values(), [0.1, math.nan], equal_nan=True)


def check_values_come_back_to_the_last_bit(storage: Storage, study: NewStudy) -> None:
    awkward = [0.1, 1 / 3, -1e-300, 5e-324, 1.7976931348623157e308, -2.5, 0.0, 123456789.123456789, 1e16 + 2]
    study.ask(2 * len(awkward))
    for k, value in enumerate(awkward):
        storage.tell(study.key, k + 1, value, ANN)
    storage.tell_many(study.key, [(len(awkward) + k + 1, value) for k, value in enumerate(awkward)], ANN)
    storage.give(study.key, [(0, 0, value) for value in awkward], ANN, "")
    assert study.values() == awkward * 3
    for k, value in enumerate(awkward):
        told = storage.tell(study.key, k + 1, value, ANN)
        assert told is not None
        assert told.value == value


def check_several_results_are_told_together_or_not_at_all(storage: Storage, study: NewStudy) -> None:
    study.ask(1200)
    assert storage.tell_many(study.key, [], ANN) == {}
    assert storage.tell_many(study.key, [(2, 2.0), (1, 1.0)], ANN) == {}
    assert storage.tell_many(study.key, [(2, 2.0), (3, 3.0), (3, 3.0)], BOB) == {}
    storage.drop(study.key, 6, ANN, "broke")
    refused = storage.tell_many(study.key, [(4, 4.0), (1, 9.0), (5, 5.0), (6, 6.0)], BOB)
    assert refused == {1: Outcome(1.0, None, ANN), 6: Outcome(None, "broke", ANN)}
    refused = storage.tell_many(study.key, [(4, 4.0), (4, 4.5)], BOB)
    assert list(refused) == [4]
    with must_refuse("5000"):
        storage.tell_many(study.key, [(4, 4.0), (5000, 5.0)], BOB)
    assert study.values() == [1.0, 2.0, 3.0]
    assert storage.test(study.key, 4) == (Issued(4, 1, 1), None)
    rest = [(test, float(test)) for test in range(7, 1201)]
    assert storage.tell_many(study.key, rest, ANN) == {}
    assert storage.tell_many(study.key, rest, BOB) == {}
    assert study.pending_ids() == [4, 5]


def check_corrections_keep_history(storage: Storage, study: NewStudy) -> None:
    study.ask(3)
    with must_refuse("1", "nothing to correct"):
        storage.correct(study.key, 1, 1.0, ANN, "")
    storage.tell(study.key, 1, 1.0, ANN)
    storage.drop(study.key, 2, ANN, "broke")
    assert storage.correct(study.key, 1, 1.0, BOB, "same") == Outcome(1.0, None, ANN)
    assert study.found().revision == 0
    assert storage.correct(study.key, 1, 2.0, BOB, "typing") == Outcome(1.0, None, ANN)
    assert storage.correct(study.key, 1, 3.0, BOB, "again") == Outcome(2.0, "typing", BOB)
    assert storage.correct(study.key, 2, 4.0, BOB, "mended") == Outcome(None, "broke", ANN)
    assert study.found().revision == 3
    assert storage.tell(study.key, 1, 1.0, ANN) == Outcome(3.0, "again", BOB)
    assert study.values() == [3.0, 4.0]
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


def check_any_text_can_be_kept(storage: Storage, study: NewStudy) -> None:
    """A command's error message may hold anything: bytes that are not text, NUL, quotes, line breaks, all scripts."""
    text = "line 1\nline 2\t'\" % ? : \\ \u0000 \udcff 漢 🎉 " + "x" * 10_000
    study.ask(3, holder=text)
    storage.fail(study.key, 1, text, text)
    storage.drop(study.key, 2, text, text)
    storage.give(study.key, [(0, 0, 1.0)], text, text)
    storage.correct(study.key, 2, 1.0, text, text)
    storage.release(study.key, [3], text)
    assert study.ask_ids(2) == [1, 3]
    kept = next(event.detail for event in storage.log(study.key) if event.kind == "failed")
    assert kept.startswith("line 1\nline 2\t'\" % ? : \\ ")
    assert kept.endswith(" 漢 🎉 " + "x" * 10_000)
    assert storage.find_study(text) is None


def check_given_results_withdraw_the_plan(storage: Storage, study: NewStudy) -> None:
    study.ask(2, plan=one_round((0, 0), (0, 1), (1, 0), (1, 1)))
    assert list(storage.give(study.key, [(2, 0, 5.0), (2, 1, 6.0), (3, 0, 7.0)], BOB, "", [0])) == [3, 4, 5]
    # Two tests of the round were never issued, and are not waited for.
    assert study.hand_again(9, BOB) == []
    storage.tell_many(study.key, [(1, 1.0), (2, 2.0)], ANN)
    parts = list(storage.entries(study.key, 0))
    assert [int(x) for part in parts for x in part.arms] == [0, 0, 2, 2, 3]
    assert [int(x) for part in parts for x in part.metrics] == [0, 1, 0, 1, 0]
    assert [int(x) for part in parts for x in part.ends] == [0, 0, 1, 0, 1]
    assert [test.given for test in storage.history(study.key)] == [False, False, True, True, True]
    assert study.ask_ids(2) == [6, 7]
    assert [e.test for e in storage.log(study.key) if e.kind == "given" and e.holder == BOB] == [3, 4, 5]


def check_a_source_is_taken_once(storage: Storage, study: NewStudy) -> None:
    storage.give(study.key, [(0, 0, 1.0)], ANN, "file.csv")
    with must_refuse("file.csv", "already", kind=SourceTaken):
        storage.give(study.key, [(0, 0, 2.0)], BOB, "file.csv")
    assert study.values() == [1.0]
    storage.give(study.key, [(0, 0, 3.0)], BOB, "")
    storage.give(study.key, [(0, 0, 3.0)], BOB, "")
    assert len(storage.give(study.key, [], BOB, "empty.csv")) == 0
    assert study.values() == [1.0, 3.0, 3.0]
    other = study.another()
    assert list(storage.give(other.key, [(0, 0, 1.0)], ANN, "file.csv")) == [1]
