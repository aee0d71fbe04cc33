"""Starting the same study joins it, and telling while it is archived waits."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.storage.problem import problem
from tests.tools.patience import PATIENCE, wait_until
from tests.tools.postgres import PostgresServer

import bestarm as ba
from bestarm.storage.base import Storage, StudyRecord
from bestarm.storage.errors import StudyArchived
from bestarm.storage.opening import open_storage
from bestarm.storage.sql.storage import SQLStorage

_JOIN = """
import os, sys
import bestarm as ba
problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(0.2)))
def measure(arm, metric):
    return 1.0 if arm == "b" else 0.0
# With what is imported late, so that all begin at the same time.
ba.identify(problem, measure)
try:
    ba.Study.open("shared", storage=sys.argv[1])
except ba.InvalidInput:
    pass
waiting, starting = os.pipe()
children = []
for _ in range(4):
    child = os.fork()
    if not child:
        os.close(starting)
        os.read(waiting, 1)  # until all are there
        answer = ba.identify(problem, measure, name="shared", storage=sys.argv[1])
        os.write(1, f"{answer.arm}\\n".encode())  # whole, where print might write the line's end on its own
        os._exit(0)
    children.append(child)
os.close(starting)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


def test_many_who_start_the_same_study_at_once_join_it(database_url: str) -> None:
    command = [sys.executable, "-c", _JOIN, database_url]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (run.returncode, run.stdout, run.stderr) == (0, "b\n" * 4, "")
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
    with storage._database.transaction():
        assert storage.tell(key, tests[0].id, 1.0, "ann") is None
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
