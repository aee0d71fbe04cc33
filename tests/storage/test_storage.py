"""Every storage keeps the whole contract, on files, in memory and on a PostgreSQL server."""

from __future__ import annotations

import importlib
import pkgutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from bestarm.storage.base import Storage
from bestarm.storage.sql import SQLStorage
from bestarm.testing import storages
from bestarm.testing.storages import STORAGE_CHECKS, MakeStorage

Check = Callable[[MakeStorage], None]


def test_every_check_is_in_the_list() -> None:
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.iter_modules(storages.__path__, "bestarm.testing.storages.")
    ]
    written = {name for module in modules for name in vars(module) if name.startswith("check_")}
    assert {check.__name__ for check in STORAGE_CHECKS} == written


@pytest.mark.parametrize("check", STORAGE_CHECKS)
def test_sql_storage(check: Check, database_url: str) -> None:
    check(lambda: SQLStorage(database_url, create=True))


class _Kept(SQLStorage):
    """A database in memory ends when it is closed; this one does not close."""

    def close(self) -> None:
        return


@pytest.mark.parametrize("check", STORAGE_CHECKS)
def test_storage_in_memory(check: Check) -> None:
    """One object stands for all: a second would be another database."""
    storage: Storage = _Kept(":memory:", create=True)
    check(lambda: storage)


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
