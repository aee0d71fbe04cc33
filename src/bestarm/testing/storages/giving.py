"""Checks of results measured without asking."""

from __future__ import annotations

from bestarm.storage.errors import SourceTaken
from bestarm.testing.storages.common import (
    ANN,
    BOB,
    LONG,
    MakeStorage,
    ask,
    must_refuse,
    new_study,
    no_rounds,
    one_round,
    values,
)


def check_given_results_withdraw_the_plan(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        storage.hand_out(study.key, 2, ANN, LONG, 0, one_round((0, 0), (0, 1), (1, 0), (1, 1)))
        assert list(storage.give(study.key, [(2, 0, 5.0), (2, 1, 6.0), (3, 0, 7.0)], BOB, "", [0])) == [3, 4, 5]
        # Two tests of the round were never issued, and are not waited for.
        assert storage.hand_out(study.key, 9, BOB, LONG, 0, no_rounds) == []
        storage.tell_many(study.key, [(1, 1.0), (2, 2.0)], ANN)
        parts = list(storage.entries(study.key, 0))
        assert [int(x) for part in parts for x in part.arms] == [0, 0, 2, 2, 3]
        assert [int(x) for part in parts for x in part.metrics] == [0, 1, 0, 1, 0]
        assert [int(x) for part in parts for x in part.ends] == [0, 0, 1, 0, 1]
        assert [test.given for test in storage.history(study.key)] == [False, False, True, True, True]
        assert [test.id for test in ask(storage, study, 2)] == [6, 7]
        assert [e.test for e in storage.log(study.key) if e.kind == "given" and e.holder == BOB] == [3, 4, 5]


def check_a_source_is_taken_once(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        storage.give(study.key, [(0, 0, 1.0)], ANN, "file.csv")
        with must_refuse("file.csv", "already", kind=SourceTaken):
            storage.give(study.key, [(0, 0, 2.0)], BOB, "file.csv")
        assert values(storage, study) == [1.0]
        storage.give(study.key, [(0, 0, 3.0)], BOB, "")
        storage.give(study.key, [(0, 0, 3.0)], BOB, "")
        assert len(storage.give(study.key, [], BOB, "empty.csv")) == 0
        assert values(storage, study) == [1.0, 3.0, 3.0]
        other = storage.create_study(study.name + " other", "{}", seed=0)
        assert list(storage.give(other.key, [(0, 0, 1.0)], ANN, "file.csv")) == [1]
