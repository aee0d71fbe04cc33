"""Whether anything at all has been written to a database: one small question that saves many larger ones."""

from __future__ import annotations

import contextlib
import os
import threading

import sqlalchemy as sa

from bestarm.storage.sql.database import Database

_QUESTIONS = {
    # Changes with every commit of another connection, in any process.
    "sqlite": "PRAGMA data_version",
    # Which transactions are visible. While these are the same, everything that can be read is the same.
    "postgresql": "SELECT CAST(pg_current_snapshot() AS text)",
}


class ChangeWatch:
    """Looks for changes through a connection of its own, since SQLite tells each connection what the others did."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: sa.Connection | None = None
        self._connections = 0
        self._process = os.getpid()
        self._lock = threading.Lock()

    def mark(self) -> object | None:
        """As `Storage.change_mark`. A database in memory cannot tell."""
        if self._database.in_memory or self._process != os.getpid():
            return None
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._database.new_engine().connect()
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
            self._connection.engine.dispose()
            self._connection = None

    def close(self) -> None:
        """Let go of the connection; the next mark opens another."""
        if self._process == os.getpid():
            with self._lock:
                self._drop()
