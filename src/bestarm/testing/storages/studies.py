"""Checks of studies: found again, kept apart, archived."""

from __future__ import annotations

import time
from typing import Any

from bestarm.storage.errors import NameTaken
from bestarm.testing.storages.common import (
    ANN,
    BOB,
    LONG,
    MakeStorage,
    ask,
    endless,
    must_refuse,
    new_study,
    pending_ids,
    values,
)


def check_studies_are_found_again(make_storage: MakeStorage) -> None:
    before = time.time() - 60
    with new_study(make_storage) as (storage, study):
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
        with must_refuse(study.name, "exists already", kind=NameTaken):
            storage.create_study(study.name, "{}", seed=1)
        assert storage.find_study(study.name) == study
        assert storage.look(study) == study
        storage.archive(study.key, ANN)
        assert storage.look(study) == storage.find_study(study.name) != study
        assert storage.look(study._replace(name="no such study")) is None


def check_the_seed_of_items_is_kept(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        assert study.items_seed is None
        if not storage.keeps_items_seed:
            return
        for seed in (0, 2**63 - 1):
            made = storage.create_study(f"{study.name} {seed}", "{}", 3, items_seed=seed)
            assert (made.seed, made.items_seed) == (3, seed)
            assert storage.find_study(made.name) == storage.study(made.key) == storage.look(made) == made
            storage.archive(made.key, ANN)
            for found in (storage.look(made), storage.find_study(made.name)):
                assert found is not None
                assert found.items_seed == seed


def check_studies_can_be_listed_in_pages(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        start = f"{study.name}: "
        words = ["one", "Two", "50% of"] * 3
        made = [storage.create_study(f"{start}{word} {k}", "{}", 0) for k, word in enumerate(words)]
        storage.archive(made[4].key, ANN)

        def names(limit: int, *, contains: str = "", **wanted: Any) -> list[str]:
            found = storage.newest(limit, contains=start + contains, **wanted)
            return [record.name.removeprefix(start) for record in found]

        assert names(3) == ["50% of 8", "Two 7", "one 6"]
        assert names(3, before=made[6].key) == ["50% of 5", "Two 4", "one 3"]
        assert names(2, before=made[6].key, archived="false") == ["50% of 5", "one 3"]
        assert names(9, archived="only") == ["Two 4"]
        assert names(9, contains="TWO") == ["Two 7", "Two 4", "Two 1"]
        assert names(9, contains="50% o") == ["50% of 8", "50% of 5", "50% of 2"]
        assert names(9, contains="50_ o") == []
        assert storage.study(made[2].key) == made[2]
        assert storage.study(made[-1].key + 1) is None


def check_studies_do_not_mix(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, first):
        second = storage.create_study(first.name + " again", "{}", seed=0)
        for study in (first, second):
            assert [test.id for test in ask(storage, study, 3)] == [1, 2, 3]
        storage.tell(first.key, 1, 1.0, ANN)
        storage.tell(second.key, 2, 2.0, ANN)
        storage.release(first.key, [2, 3], ANN)
        storage.correct(first.key, 1, 1.5, ANN, "")
        assert values(storage, first, gaps=True) == [1.5]
        assert values(storage, second, gaps=True) == [2.0]
        assert pending_ids(storage, second) == [1, 3]
        assert [test.id for test in ask(storage, second, 1)] == [4]
        found = storage.find_study(second.name)
        assert found is not None
        assert found.revision == 0


def check_an_archive_is_noted_once(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
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


def check_the_last_remark_is_read(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        assert storage.last_remark(study.key) == ""
        for words in ("broken: it pauses", "broken: it pauses", "doubtful: …"):
            storage.remark(study.key, words, ANN)
            assert storage.last_remark(study.key) == words
        remarks = [event.detail for event in storage.log(study.key) if event.kind == "remarked"]
        assert remarks == ["broken: it pauses", "doubtful: …"]
        storage.remark(study.key, "", BOB)
        assert storage.last_remark(study.key) == ""


def check_unknown_studies_and_tests_are_refused(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        ask(storage, study, 2)
        nowhere = study.key + 1_000_000
        with must_refuse("study", "no such study"):
            storage.hand_out(nowhere, 1, ANN, LONG, 0, endless)
        with must_refuse("study", "no such study"):
            storage.give(nowhere, [(0, 0, 1.0)], ANN, "")
        with must_refuse("study", "no such study"):
            storage.archive(nowhere, ANN)
        for key, test in ((study.key, 3), (study.key, 10**12), (nowhere, 1)):
            with must_refuse("no such"):
                storage.tell(key, test, 1.0, ANN)
            with must_refuse("no such"):
                storage.tell_many(key, [(test, 1.0)], ANN)
            with must_refuse("no such"):
                storage.drop(key, test, ANN, "")
            with must_refuse("no such"):
                storage.fail(key, test, ANN, "")
            with must_refuse("no such"):
                storage.correct(key, test, 1.0, ANN, "")
            assert storage.test(key, test) is None
        assert storage.issued(nowhere) == 0
        assert storage.pending(nowhere) == []
        assert storage.log(nowhere) == []
        assert list(storage.entries(nowhere, 0)) == []
        assert list(storage.history(nowhere)) == []
        assert storage.issued(study.key) == 2
        assert pending_ids(storage, study) == [1, 2]
        assert [event.kind for event in storage.log(study.key)] == ["created", "asked", "asked"]
