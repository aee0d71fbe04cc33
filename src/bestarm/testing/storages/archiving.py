"""Checks of archived studies: they can be read, and nothing in them changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from bestarm.storage.base import Outcome
from bestarm.storage.errors import StudyArchived
from bestarm.testing.storages.common import (
    ANN,
    BOB,
    LONG,
    MakeStorage,
    ask,
    endless,
    must_refuse,
    new_study,
    no_rounds,
    pending_ids,
    values,
)


def check_archived_studies_do_not_change(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        key = study.key
        ask(storage, study, 5)
        storage.tell(key, 1, 1.0, ANN)
        other = make_storage()
        try:
            # By another process, unnoticed by those that have it open.
            other.archive(key, BOB)
        finally:
            other.close()

        def look() -> tuple[object, ...]:
            return storage.log(key), storage.pending(key), values(storage, study, gaps=True), list(storage.history(key))

        before = look()
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
            assert look() == before
        # Telling again what was told before does no harm.
        assert storage.tell(key, 1, 1.0, ANN) == Outcome(1.0, None, ANN)
        assert storage.tell_many(key, [(1, 1.0)], ANN) == {}
        storage.correct(key, 1, 1.0, ANN, "the same")
        assert look() == before
        storage.archive(key, ANN, undo=True)
        assert storage.tell(key, 2, 2.0, ANN) is None
        assert list(storage.give(key, [(0, 0, 6.0)], ANN, "a file")) == [6]
        assert [test.id for test in storage.hand_out(key, 1, ANN, LONG, 0, endless)] == [7]
        assert pending_ids(storage, study) == [3, 4, 5, 7]


def check_nothing_is_recorded_once_a_study_is_archived(make_storage: MakeStorage) -> None:
    """A call that tells, adds or asks at that very moment takes effect before it, or not at all."""
    with new_study(make_storage) as (storage, study):
        key, threads = study.key, 4
        storage.hand_out(key, 1000, ANN, LONG, 0, endless)
        errors: list[BaseException] = []
        started = threading.Barrier(threads + 1)

        def work(k: int) -> None:
            mine = make_storage()
            try:
                mine.tell(key, 990 + k, 0.0, ANN)
                started.wait()
                for test in range(k + 1, 900, threads):
                    # Not as fast as it goes: archiving must have a turn before there is nothing left to tell.
                    time.sleep(0.01)
                    if k == 0:
                        mine.give(key, [(0, 0, 1.0)], BOB, "")
                    elif k == 1:
                        mine.tell_many(key, [(test, 1.0)], ANN)
                    else:
                        mine.tell(key, test, 1.0, ANN)
                errors.append(AssertionError("the study was never archived"))
            except StudyArchived:
                pass
            except BaseException as error:
                errors.append(error)
                started.abort()
            finally:
                mine.close()

        workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
        for worker in workers:
            worker.start()
        started.wait()
        while storage.told(key, 0) < 20 and not errors:
            time.sleep(0.005)
        storage.archive(key, BOB)
        recorded = storage.told(key, 0)
        for worker in workers:
            worker.join()
        if errors:
            raise errors[0]
        assert storage.told(key, 0) == recorded, "something was recorded after the study was archived"
