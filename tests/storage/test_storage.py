"""Every storage keeps the whole contract, on files, in memory and on a PostgreSQL server."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from tests.lengths import cases
from tests.tools.postgres import PostgresServer

import bestarm as ba
from bestarm.storage.base import Storage
from bestarm.storage.sql.storage import SQLStorage
from bestarm.testing import storages
from bestarm.testing.storages import STORAGE_CHECKS, MakeStorage, reading, telling

Check = Callable[[MakeStorage], None]


def test_every_check_is_in_the_list() -> None:
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.iter_modules(storages.__path__, "bestarm.testing.storages.")
    ]
    written = {name for module in modules for name in vars(module) if name.startswith("check_")}
    assert {check.__name__ for check in STORAGE_CHECKS} == written


@pytest.fixture(scope="module")
def shared_database(postgres_server: PostgresServer) -> str:
    """One for all checks, each of which makes studies of its own: a new database takes longer than most of them."""
    return postgres_server.new_database()


@cases(24)
@pytest.mark.parametrize("check", STORAGE_CHECKS)
def test_sql_storage_in_files(check: Check, tmp_path: Path) -> None:
    check(lambda: SQLStorage(str(tmp_path / "studies.db"), create=True))


@pytest.mark.parametrize("check", STORAGE_CHECKS)
def test_sql_storage_on_a_server(check: Check, shared_database: str) -> None:
    check(lambda: SQLStorage(shared_database, create=True))


class _Kept(SQLStorage):
    """A database in memory ends when it is closed; this one does not close."""

    def close(self) -> None:
        return


@pytest.fixture(scope="module")
def kept() -> Storage:
    """One object stands for all: a second would be another database."""
    return _Kept(":memory:", create=True)


# Long, and about statements, which are the same in a file.
SAME_IN_FILES = (
    reading.check_entries_have_the_last_correction_wherever_they_are_cut.__name__,
    telling.check_several_results_are_told_together_or_not_at_all.__name__,
)


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, marks=[pytest.mark.torture] if check.__name__ in SAME_IN_FILES else [])
        for check in STORAGE_CHECKS
    ],
)
def test_storage_in_memory(check: Check, kept: Storage) -> None:
    check(lambda: kept)


@pytest.mark.parametrize("order", ["issue", "arrival"])
def test_told_tests_do_not_stay_in_the_queue(order: Literal["issue", "arrival"], tmp_path: Path) -> None:
    """Every request reads the queue, so asks would take longer with each result."""
    path = tmp_path / "studies.db"
    arms = [f"arm {k}" for k in range(40)]
    plan = ba.Plan(arms=arms, objective=ba.maximize("gain", noise=ba.Gaussian(1.0)), order=order, name="wide")
    study = ba.Study.create(plan, storage=path)
    for _ in range(60):
        for test in study.ask(1):
            study.tell(test, 0.0)
    with contextlib.closing(sqlite3.connect(path)) as file:
        [(queued,)] = file.execute("SELECT count(*) FROM bestarm_queue")
    assert queued <= 2
    study.storage.close()


@pytest.mark.parametrize("change", ["rounds SET first = 'x'", "rounds SET tests = '[[1'", "queue SET expires = 'x'"])
def test_damaged_rows_about_what_is_out_are_reported_as_such(change: str, tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
    study = ba.Study.create(problem, name="mine", storage=path)
    study.ask(1)
    with contextlib.closing(sqlite3.connect(path)) as file:
        assert file.execute(f"UPDATE bestarm_{change}").rowcount == 1
        file.commit()
    with pytest.raises(ba.InvalidInput, match=r"^storage = .* is damaged .*; restore it from a copy$"):
        study.ask(1)
    study.storage.close()


def test_files_are_as_durable_as_can_be(tmp_path: Path) -> None:
    path = str(tmp_path / "studies.db")
    storage = SQLStorage(path, create=True)
    with storage._database.connect() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 60_000}
    # A file that came back from a backup without its write-ahead log is set right when it is opened.
    storage.close()
    file = sqlite3.connect(path)
    file.execute("PRAGMA journal_mode = DELETE")
    file.close()
    SQLStorage(path).close()
    file = sqlite3.connect(path)
    assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    file.close()
