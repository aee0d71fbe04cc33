"""Checks of studies: made, found again, listed, archived. Nothing changes in an archived study."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bestarm.storage.base import Outcome, Storage
from bestarm.storage.errors import NameTaken, StudyArchived
from bestarm.testing.storages.common import ANN, BOB, LONG, NewStudy, endless, must_refuse, no_rounds, run_in_threads
from bestarm.validation import InvalidInput


def check_studies_are_found_again(storage: Storage, study: NewStudy) -> None:
    record = study.record
    assert (record.plan, record.seed, record.archived, record.revision) == ('{"plan": "π"}', 7, None, 0)
    assert abs(record.created - time.time()) < 60
    assert storage.find_study(study.name) == record
    big = storage.create_study(study.name + " ✓ 'quoted' %s ?", "{}", seed=2**63 - 1)
    assert storage.find_study(big.name) == big
    assert big.key != study.key
    assert [record.name for record in storage.studies()][-2:] == [study.name, big.name]
    assert storage.find_study("no such study") is None
    assert storage.find_study(study.name.upper()) is None
    with must_refuse(study.name, "exists already", kind=NameTaken):
        storage.create_study(study.name, "{}", seed=1)
    assert storage.find_study(study.name) == storage.look(record) == record
    storage.archive(study.key, ANN)
    assert storage.look(record) == storage.find_study(study.name) != record
    assert storage.look(record._replace(name="no such study")) is None


def check_the_seed_of_items_is_kept(storage: Storage, study: NewStudy) -> None:
    assert study.record.items_seed is None
    if not storage.keeps_items_seed:
        return
    for seed in (0, 2**63 - 1):
        made = storage.create_study(f"{study.name} {seed}", "{}", 3, items_seed=seed)
        assert (made.seed, made.items_seed) == (3, seed)
        assert storage.find_study(made.name) == storage.study(made.key) == storage.look(made) == made
        storage.archive(made.key, ANN)
        assert [made.name, seed] == [study.found(made.name).name, study.found(made.name).items_seed]
        assert storage.look(made) == study.found(made.name)


def check_studies_can_be_listed_in_pages(storage: Storage, study: NewStudy) -> None:
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


def check_studies_do_not_mix(storage: Storage, study: NewStudy) -> None:
    second = study.another()
    for each in (study, second):
        assert each.ask_ids(3) == [1, 2, 3]
    storage.tell(study.key, 1, 1.0, ANN)
    storage.tell(second.key, 2, 2.0, ANN)
    storage.release(study.key, [2, 3], ANN)
    storage.correct(study.key, 1, 1.5, ANN, "")
    assert study.values(gaps=True) == [1.5]
    assert second.values(gaps=True) == [2.0]
    assert second.pending_ids() == [1, 3]
    assert second.ask_ids(1) == [4]
    assert second.found().revision == 0


def check_an_archive_is_noted_once(storage: Storage, study: NewStudy) -> None:
    storage.archive(study.key, ANN)
    storage.archive(study.key, ANN)
    assert study.found().archived is not None
    storage.archive(study.key, BOB, undo=True)
    storage.archive(study.key, BOB, undo=True)
    assert study.found() == study.record
    logged = [(event.kind, event.holder) for event in storage.log(study.key)]
    assert logged == [("created", ""), ("archived", ANN), ("restored", BOB)]


def check_the_last_remark_is_read(storage: Storage, study: NewStudy) -> None:
    assert storage.last_remark(study.key) == ""
    for words in ("broken: it pauses", "broken: it pauses", "doubtful: …"):
        storage.remark(study.key, words, ANN)
        assert storage.last_remark(study.key) == words
    remarks = [event.detail for event in storage.log(study.key) if event.kind == "remarked"]
    assert remarks == ["broken: it pauses", "doubtful: …"]
    storage.remark(study.key, "", BOB)
    assert storage.last_remark(study.key) == ""


def check_unknown_studies_and_tests_are_refused(storage: Storage, study: NewStudy) -> None:
    study.ask(2)
    nowhere = study.key + 1_000_000
    for refused in (
        partial(storage.hand_out, nowhere, 1, ANN, LONG, 0, endless),
        partial(storage.give, nowhere, [(0, 0, 1.0)], ANN, ""),
        partial(storage.archive, nowhere, ANN),
    ):
        with must_refuse("study", "no such study"):
            refused()
    for key, test in ((study.key, 3), (study.key, 10**12), (nowhere, 1)):
        changes: list[Callable[[], object]] = [
            partial(storage.tell, key, test, 1.0, ANN),
            partial(storage.tell_many, key, [(test, 1.0)], ANN),
            partial(storage.drop, key, test, ANN, ""),
            partial(storage.fail, key, test, ANN, ""),
            partial(storage.correct, key, test, 1.0, ANN, ""),
        ]
        for change in changes:
            with must_refuse("no such"):
                change()
        assert storage.test(key, test) is None
    read = storage.pending(nowhere), storage.log(nowhere), [*storage.entries(nowhere, 0)], [*storage.history(nowhere)]
    assert (storage.issued(nowhere), *read) == (0, [], [], [], [])
    assert storage.issued(study.key) == 2
    assert study.pending_ids() == [1, 2]
    assert [event.kind for event in storage.log(study.key)] == ["created", "asked", "asked"]


def check_many_threads_create_one_study(storage: Storage, study: NewStudy) -> None:
    made: list[bool] = []

    def create() -> None:
        try:
            storage.create_study(study.name + " raced", "{}", seed=0)
            made.append(True)
        except InvalidInput:
            made.append(False)

    run_in_threads(*[create] * 6)
    assert sorted(made) == [False] * 5 + [True]


def check_archived_studies_do_not_change(storage: Storage, study: NewStudy) -> None:
    key = study.key
    study.ask(5)
    storage.tell(key, 1, 1.0, ANN)
    # By another process, unnoticed by those that have it open.
    study.open_again().archive(key, BOB)
    before = study.seen()
    changes: list[Callable[[], object]] = [
        lambda: storage.tell(key, 2, 2.0, ANN),
        lambda: storage.tell_many(key, [(2, 2.0), (3, 3.0)], ANN),
        lambda: storage.drop(key, 2, ANN, "broke"),
        lambda: storage.give(key, [(0, 0, 1.0)], ANN, ""),
        lambda: storage.give(key, [(0, 0, 1.0)], ANN, "a file"),
        lambda: storage.correct(key, 1, 9.0, ANN, "typing"),
        lambda: storage.fail(key, 2, ANN, "power"),
        lambda: storage.set_aside(key, 2, ANN, "failed", "broke"),
        lambda: storage.release(key, [2], ANN),
        lambda: storage.renew(key, [2], ANN, LONG),
        lambda: storage.hand_out(key, 1, ANN, LONG, 0, endless),
        lambda: storage.hand_out(key, 1, ANN, LONG, 0, no_rounds),
    ]
    for change in changes:
        with must_refuse(study.name, "is archived", "--undo"):
            change()
        assert study.seen() == before
    # Telling again what was told before does no harm.
    assert storage.tell(key, 1, 1.0, ANN) == Outcome(1.0, None, ANN)
    assert storage.tell_many(key, [(1, 1.0)], ANN) == {}
    storage.correct(key, 1, 1.0, ANN, "the same")
    assert study.seen() == before
    storage.archive(key, ANN, undo=True)
    assert storage.tell(key, 2, 2.0, ANN) is None
    assert list(storage.give(key, [(0, 0, 6.0)], ANN, "a file")) == [6]
    assert study.ask_ids(1) == [7]
    assert study.pending_ids() == [3, 4, 5, 7]


def check_nothing_is_recorded_once_a_study_is_archived(storage: Storage, study: NewStudy) -> None:
    """A call that tells, adds or asks at that very moment takes effect before it, or not at all."""
    key, threads = study.key, 4
    study.ask(1000)
    started, all_told = threading.Barrier(threads + 1, timeout=60), threading.Event()
    recorded: list[int] = []

    def work(k: int) -> None:
        mine = study.open_again()
        mine.tell(key, 990 + k, 0.0, ANN)
        started.wait()
        try:
            for test in range(k + 1, 900, threads):
                # Not as fast as it goes: archiving must have a turn before there is nothing left to tell.
                time.sleep(0.01)
                if k == 0:
                    mine.give(key, [(0, 0, 1.0)], BOB, "")
                elif k == 1:
                    mine.tell_many(key, [(test, 1.0)], ANN)
                else:
                    mine.tell(key, test, 1.0, ANN)
        except StudyArchived:
            return
        finally:
            all_told.set()
        raise AssertionError("the study was never archived")

    def archive() -> None:
        started.wait()
        while storage.told(key, 0) < 20 and not all_told.is_set():
            time.sleep(0.005)
        storage.archive(key, BOB)
        recorded.append(storage.told(key, 0))

    run_in_threads(archive, *(partial(work, k) for k in range(threads)))
    assert [storage.told(key, 0)] == recorded, "something was recorded after the study was archived"
