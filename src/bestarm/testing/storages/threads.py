"""Checks of many threads at once."""

from __future__ import annotations

import itertools
import threading

from bestarm.testing.storages.common import LONG, MakeStorage, endless, new_study, values
from bestarm.validation import InvalidInput


def check_many_threads_at_once(make_storage: MakeStorage) -> None:
    """Half share one storage, half open their own: nothing is lost, told twice, or held by two."""
    threads, goal = 8, 200
    handed: list[list[int]] = [[] for _ in range(threads)]
    accepted: list[list[int]] = [[] for _ in range(threads)]
    errors: list[BaseException] = []
    with new_study(make_storage) as (shared, study):

        def work(k: int) -> None:
            storage = shared if k % 2 else make_storage()
            try:
                while storage.issued(study.key) < goal:
                    tests = storage.hand_out(study.key, 3, f"thread {k}", LONG, 0, endless)
                    handed[k] += [test.id for test in tests]
                    for test in tests[1:]:
                        if storage.tell(study.key, test.id, float(test.id), f"thread {k}") is None:
                            accepted[k].append(test.id)
                    # This thread and its neighbor both tell some tests, alone and in batches. One of them counts.
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
        assert values(shared, study) == [float(test) for test in everyone]
        assert shared.pending(study.key) == []


def check_many_threads_create_one_study(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
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
