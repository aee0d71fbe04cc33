"""Whether anything at all has been written to a database: one small question that spares many."""

from __future__ import annotations

import contextlib
import threading

import sqlalchemy as sa

from bestarm.storage.base import Storage
from bestarm.storage.database import Database
from bestarm.storage.sql import SQLStorage

_QUESTIONS = {
    # Changes with every commit of another connection, in whatever process.
    "sqlite": "PRAGMA data_version",
    # Which transactions are visible: as long as these are the same, so is all that can be read.
    "postgresql": "SELECT CAST(pg_current_snapshot() AS text)",
}


class Pulse:
    """Beats of a database. As long as two are equal, nothing was written in between."""

    def __init__(self, storage: Storage, url: str) -> None:
        self._database: Database | None = None
        if isinstance(storage, SQLStorage):
            database = Database(url, create=True)
            self._database = None if database.in_memory else database
        self._connection: sa.Connection | None = None
        self._connections = 0
        self._lock = threading.Lock()

    def read(self) -> object | None:
        """The present beat; None if it cannot be told, which is different from any other."""
        if self._database is None:
            return None
        with self._lock:
            try:
                if self._connection is None:
                    # Of its own, for SQLite tells each connection what the others did.
                    self._connection = self._database.engine.connect()
                    self._connections += 1
                question = _QUESTIONS[self._connection.dialect.name]
                return self._connections, self._connection.exec_driver_sql(question).scalar()
            except sa.exc.SQLAlchemyError:
                self._drop()
                return None

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                self._connection.close()
            self._connection = None

    def close(self) -> None:
        with self._lock:
            self._drop()
            if self._database is not None:
                self._database.close()
                self._database = None
