"""Many processes on one study at once, and objects shared by threads and by forked children."""

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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lengths import lengths

import bestarm as ba
from bestarm.storage.base import Entries, Storage, StudyRecord
from bestarm.storage.errors import StudyArchived
from bestarm.storage.opening import open_storage
from bestarm.storage.sql import SQLStorage
from bestarm.study.decider import Decider
from bestarm.testing.patience import PATIENCE, wait_until
from bestarm.testing.postgres import PostgresServer

WORKERS = 8
DELTA = 1e-6
"""A study may err with this probability; the tests here make ten or so."""

MEANS = {"safe": (2.0, -1.5), "bold": (4.0, 1.5), "poor": (0.0, -1.5)}


def problem() -> ba.Problem:
    """Its answer is "safe"."""
    return ba.Problem(
        arms=tuple(ba.Arm(name, {"gain": gain, "risk": risk}) for name, (gain, risk) in MEANS.items()),
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("risk", 0.0, noise=ba.Gaussian(1.0)),),
    )


def measure(test: ba.Test) -> float:
    return MEANS[test.arm][("gain", "risk").index(test.metric)] + float(np.random.default_rng(test.id).normal())


def work(url: str, worker: int, folder: str) -> None:
    """Ask and tell until the study is done; write down what was handed out when, and what was told."""
    lots = random.Random(worker)
    study = ba.Study.open("raced", storage=url)
    handed, told = [], []
    while not study.done:
        lease = lots.choice([0.2, 100.0])
        before = time.time()
        tests = study.ask(lots.randint(1, 5), lease=lease)
        after = time.time()
        if not tests:
            time.sleep(0.01)
        for test in tests:
            # Some are forgotten, and go to another worker when the lease has run out.
            kept = lease > 1 or lots.random() < 0.8
            handed.append([test.id, before, after, lease])
            if kept:
                # On a busy machine it may be somebody else's by now.
                with contextlib.suppress(ba.AlreadyTold):
                    study.tell(test, measure(test))
                    told.append(test.id)
    Path(folder, f"{worker}.json").write_text(json.dumps({"handed": handed, "told": told, "holder": study.holder}))


def race(url: str, folder: str) -> None:
    """Fork the workers."""
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


@pytest.mark.parametrize("policy", lengths("certify", "feasible-lucb"))
def test_eight_processes_on_one_study(database_url: str, policy: str, tmp_path: Path) -> None:
    created = ba.Study.create(problem(), name="raced", delta=DELTA, policy=policy, storage=database_url)
    created.storage.close()
    run = subprocess.run(
        [sys.executable, __file__, database_url, str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE
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
    assert decider.stop == (0,)
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
    """Parent and children use the study that was open before the fork, turn and turn about."""
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
    start = time.time() + 0.3
    children = []
    for k in range(WORKERS):
        child = os.fork()
        if not child:
            try:
                time.sleep(max(0.0, start - time.time()))
                SQLStorage(url, create=True).create_study(f"study {k}", "{}", 0)
                os._exit(0)
            except BaseException as error:
                print(repr(error), file=sys.stderr)
                os._exit(99)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * WORKERS


def _run(*arguments: str) -> None:
    run = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, timeout=PATIENCE)
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


def test_processes_create_one_database_at_once(database_url: str, tmp_path: Path) -> None:
    urls = [database_url] if "://" in database_url else [str(tmp_path / f"{k}.db") for k in range(5)]
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


_JOIN = """
import sys
import bestarm as ba
problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(0.2)))
print("ready", flush=True)
sys.stdin.read()  # until all are
answer = ba.identify(problem, lambda arm, metric: 1.0 if arm == "b" else 0.0, name="shared", storage=sys.argv[1])
print(answer.arm)
"""


def test_many_who_start_the_same_study_at_once_join_it(database_url: str) -> None:
    command = [sys.executable, "-c", _JOIN, database_url]
    programs = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.close()
    said = [program.stdout.read() for program in programs if program.stdout is not None]
    assert [program.wait(PATIENCE) for program in programs] == [0] * 4
    assert said == ["b\n"] * 4
    storage = open_storage(database_url)
    assert [record.name for record in storage.studies()] == ["shared"]
    storage.close()


def test_threads_that_start_the_same_study_at_once_join_it(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if all of them look before any makes it."""
    storage = open_storage(database_url, create=True)
    looked = threading.Barrier(6)
    find = storage.find_study

    def find_together(name: str) -> StudyRecord | None:
        found = find(name)
        if found is None:
            looked.wait(PATIENCE)
        return found

    monkeypatch.setattr(storage, "find_study", find_together)
    problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(0.2)))

    def run(_: int) -> str | None:
        return ba.identify(problem, lambda arm, metric: float(arm == "b"), name="shared", storage=storage).arm

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(run, range(6))) == ["b"] * 6
    for change, words in (
        ({"delta": 0.1}, "delta is 0.05 there and 0.1 here"),
        ({"policy": "racing"}, "policy is 'certify' there and 'racing' here"),
    ):
        with pytest.raises(ba.InvalidInput, match=words):
            ba.identify(problem, lambda arm, metric: 0.0, name="shared", storage=storage, **change)
    other = ba.Problem(arms=["a", "b", "c"], objective=problem.objective)
    with pytest.raises(ba.InvalidInput, match=r"with another plan \(arms are 2 there and 3 here\); give another name"):
        ba.identify(other, lambda arm, metric: 0.0, name="shared", storage=storage)
    storage.close()


def test_whoever_tells_while_a_study_is_being_archived_waits(postgres_server: PostgresServer) -> None:
    """On a server statements overlap: one that began before the archive is heard before it, or not at all."""
    url = postgres_server.new_database()
    study = ba.Study.create(problem(), name="mine", storage=url)
    key, tests = study.record.key, study.ask(6, days=1)
    storage = study.storage
    assert isinstance(storage, SQLStorage)
    changes: list[Callable[[Storage], object]] = [
        lambda other: other.tell(key, tests[0].id, 1.0, "ann"),
        lambda other: other.tell_many(key, [(tests[1].id, 1.0)], "ann"),
        lambda other: other.drop(key, tests[2].id, "ann", "broke"),
        lambda other: other.give(key, [(0, 0, 1.0)], "ann", ""),
        lambda other: other.hand_out(key, 1, "ann", None, 0, lambda count: [[(0, 0)]]),
    ]

    def waiting() -> int:
        with storage._database.connect() as connection:
            here = "FROM pg_stat_activity WHERE datname = current_database()"
            query = f"SELECT count(*) {here} AND wait_event_type = 'Lock'"
            return int(connection.exec_driver_sql(query).scalar_one())

    def try_it(change: Any) -> BaseException | None:
        other = open_storage(url)
        try:
            change(other)
        except BaseException as error:
            return error
        finally:
            other.close()
        return None

    with ThreadPoolExecutor(len(changes)) as pool:
        with psycopg_connection(url) as archiving:
            # As `archive` does it, up to its commit.
            archiving.execute("SELECT * FROM bestarm_studies FOR UPDATE")
            archiving.execute("UPDATE bestarm_studies SET archived = 1.0")
            tried = [pool.submit(try_it, change) for change in changes]
            wait_until(lambda: waiting() == len(changes) or any(each.done() for each in tried))
            archiving.commit()
        assert [type(each.result()) for each in tried] == [StudyArchived] * len(changes)
    assert study.status().tests == 0
    storage.archive(key, "ann", undo=True)
    # The other way round: the archive waits for who has begun to tell.
    with storage._database.transaction() as connection:
        assert storage._outcomes.settle(connection, key, tests[0].id, 1.0, "ann") is None
        done = threading.Event()

        def archive() -> None:
            other = open_storage(url)
            other.archive(key, "bob")
            done.set()
            other.close()

        thread = threading.Thread(target=archive)
        thread.start()
        watcher = open_storage(url)
        assert isinstance(watcher, SQLStorage)

        def is_blocked() -> bool:
            with watcher._database.connect() as looking:
                query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
                return bool(looking.exec_driver_sql(query).scalar_one())

        wait_until(lambda: is_blocked() or done.is_set())
        assert not done.is_set(), "the study was archived over a result that was being told"
        watcher.close()
    thread.join()
    assert study.status().tests == 1
    storage.close()


def psycopg_connection(url: str) -> Any:
    import psycopg

    return psycopg.connect(url)
