"""Many processes on one study at once, and objects shared by threads and forks."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.lengths import lengths
from tests.storage.problem import DELTA, measure, problem
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.policies.decisions import Stop
from bestarm.storage.base import Entries
from bestarm.storage.opening import open_storage
from bestarm.storage.sql.storage import SQLStorage
from bestarm.study.record.decider import Decider

WORKERS = 8
ROOT = Path(__file__).parents[2]
SCRIPT = [sys.executable, "-m", "tests.storage.test_concurrency"]


def work(url: str, worker: int, folder: str) -> None:
    """Ask and tell until the study is done; write down what was handed out when, and what was told."""
    rng = random.Random(worker)
    study = ba.Study.open("raced", storage=url)
    handed, told = [], []
    while not study.done:
        lease = rng.choice([0.2, 100.0])
        before = time.time()
        tests = study.ask(rng.randint(1, 5), lease=lease)
        after = time.time()
        if not tests:
            # Seven who ask again at once would keep the one busy who has a test.
            time.sleep(0.1)
        for test in tests:
            # Some are forgotten, and go to another worker when the lease has run out.
            kept = lease > 1 or rng.random() < 0.8
            handed.append([test.id, before, after, lease])
            if kept:
                # On a busy machine it may have another holder by now.
                with contextlib.suppress(ba.AlreadyTold):
                    study.tell(test, measure(test))
                    told.append(test.id)
    Path(folder, f"{worker}.json").write_text(json.dumps({"handed": handed, "told": told, "holder": study.holder}))


def import_drivers(url: str) -> None:
    """Once, before there are children who would each do it."""
    with contextlib.suppress(ba.InvalidInput):
        open_storage(url).close()


def race(url: str, folder: str) -> None:
    """Fork the workers."""
    import_drivers(url)
    children = []
    for worker in range(WORKERS):
        child = os.fork()
        if not child:
            try:
                work(url, worker, folder)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


@pytest.mark.torture
@pytest.mark.parametrize("policy", lengths("certify", "feasible-lucb"))
def test_eight_processes_on_one_study(database_url: str, policy: str, tmp_path: Path) -> None:
    created = ba.Study.create(problem(), name="raced", delta=DELTA, policy=policy, storage=database_url)
    created.storage.close()
    run = subprocess.run(
        [*SCRIPT, database_url, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    workers = [json.loads((tmp_path / f"{k}.json").read_text()) for k in range(WORKERS)]
    storage = open_storage(database_url)
    study = ba.Study.open("raced", storage=storage)
    history = {row.id: row for row in storage.history(study.record.key)}
    assert list(history) == list(range(1, len(history) + 1))

    # Every test that was handed out is in the record, and no other.
    handed = defaultdict(list)
    for worker in workers:
        for test, before, after, lease in worker["handed"]:
            handed[test].append((before, after, lease))
    assert sorted(handed) == list(history)
    # To one holder at a time: of two that had it, one came when the lease of the other had run out.
    for times in handed.values():
        for (before, after, lease), (before2, after2, lease2) in itertools.combinations(times, 2):
            assert after2 >= before + lease or after >= before2 + lease2
    assert sum(len(times) > 1 for times in handed.values()) > 0

    # Whatever was told is there, once, with its value.
    for worker in workers:
        for test in worker["told"]:
            assert len(history[test].outcomes) == 1
    for row in history.values():
        test = ba.Test(row.id, study.plan.arm_names[row.arm], study.plan.metrics[row.metric])
        assert [outcome.value for outcome in row.outcomes] in ([], [measure(test)])
        assert bool(row.outcomes) == any(row.id in worker["told"] for worker in workers)

    # The answer is what the record says, read anew or one result after the other.
    answer = study.answer
    assert answer is not None
    assert answer.arm == "safe"
    decider = Decider(study.plan, study.record.seed)
    for part in storage.entries(study.record.key, 0):
        for k in range(len(part.ids)):
            one = slice(k, k + 1)
            columns: list[Any] = [column[one] for column in part]
            decider.enter(Entries(*columns))
    assert decider.stop == Stop(0)
    assert (decider.policy.streams.counts == study._decider.policy.streams.counts).all()
    assert (decider.policy.streams.means == study._decider.policy.streams.means).all()
    storage.close()


def test_one_study_object_in_many_threads(database_url: str) -> None:
    study = ba.Study.create(problem(), delta=DELTA, storage=database_url)
    handed: list[int] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while not study.done:
                for test in study.ask(2):
                    handed.append(test.id)
                    study.tell(test, measure(test))
                study.status()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
    assert sorted(handed) == list(range(1, study.storage.issued(study.record.key) + 1))
    assert study.answer is not None
    assert study.answer.arm == "safe"
    study.storage.close()


def _in_child(work: object) -> int:
    """The exit status of a forked child that calls `work`."""
    assert callable(work)
    child = os.fork()
    if not child:
        try:
            os._exit(work() or 0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fork_and_go_on(url: str) -> None:
    """Parent and children use the study that was open before the fork."""
    study = ba.Study.create(problem(), delta=DELTA, name="forked", storage=url)
    mine = study.ask(1)

    def child() -> None:
        for test in study.ask(2):
            study.tell(test, measure(test))
        # What the parent holds is not the child's to give back.
        study.release(mine)

    for turn in range(5):
        assert _in_child(child) == 0
        assert study.storage.issued(study.record.key) == 3 * turn + 3
        study.tell(mine[0], measure(mine[0]))
        mine = study.ask(1)
        assert [test.id for test in mine] == [3 * turn + 4]
    assert len(study.pending()) == 1


def fork_from_memory() -> None:
    """A database in memory cannot be shared, and says so; the parent's is none the worse."""
    study = ba.Study.create(problem(), storage=":memory:")

    def child() -> int:
        try:
            study.ask(1)
        except ba.InvalidInput as error:
            return 7 if "belongs to the process that made it" in str(error) else 8
        return 9

    assert _in_child(child) == 7
    assert [test.id for test in study.ask(1)] == [1]


def create_at_once(url: str) -> None:
    """Eight processes make the same database, each a study in it."""
    import_drivers(url)
    start, ready = os.pipe()
    children = []
    for k in range(WORKERS):
        child = os.fork()
        if not child:
            try:
                os.close(ready)
                # Ends when the parent has forked all of them.
                os.read(start, 1)
                SQLStorage(url, create=True).create_study(f"study {k}", "{}", 0)
                os._exit(0)
            except BaseException as error:
                print(repr(error), file=sys.stderr)
                os._exit(99)
        children.append(child)
    os.close(start)
    os.close(ready)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * WORKERS


def _run(*arguments: str) -> None:
    run = subprocess.run([*SCRIPT, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert (run.returncode, run.stderr) == (0, "")


def test_forked_children_have_connections_of_their_own(database_url: str) -> None:
    _run("fork", database_url)
    if "://" not in database_url:
        storage = SQLStorage(database_url)
        with storage._database.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        storage.close()


def test_a_database_in_memory_is_not_forked() -> None:
    _run("memory")


@pytest.mark.torture
@pytest.mark.parametrize("files", lengths(2, 10))
def test_processes_create_one_database_at_once(database_url: str, files: int, tmp_path: Path) -> None:
    urls = [database_url] if "://" in database_url else [str(tmp_path / f"{k}.db") for k in range(files)]
    _run("create", *urls)
    for url in urls:
        storage = SQLStorage(url)
        assert len(storage.studies()) == WORKERS
        if "://" not in url:
            with storage._database.connect() as connection:
                assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        storage.close()


if __name__ == "__main__":
    if sys.argv[1] == "fork":
        fork_and_go_on(sys.argv[2])
    elif sys.argv[1] == "memory":
        fork_from_memory()
    elif sys.argv[1] == "create":
        for url in sys.argv[2:]:
            create_at_once(url)
    else:
        race(sys.argv[1], sys.argv[2])
