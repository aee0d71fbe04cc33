"""A database of studies: its address, connections, transactions, and the version of its tables.

Connections commit each statement on their own. What takes several statements is wrapped in a transaction.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, StaticPool

from bestarm.storage.address import read_address, secrets_of, shown_address
from bestarm.storage.errors import BUSY_SECONDS, NoStudiesYet, busy, complaint, reporting_damage, unknown_outcome
from bestarm.storage.sql import schema
from bestarm.storage.sql.read_only import Copy, StandingFile, how_to_read
from bestarm.storage.sql.upgrading import Upgrade, Upgraded, check_version, keep_copy
from bestarm.validation import InvalidInput

_MAKING_TABLES = 0x62417266
"""The advisory lock held while the tables of a PostgreSQL database are made or upgraded."""

SERVER_TIME = sa.func.extract("epoch", sa.func.clock_timestamp()).cast(sa.Double)
"""The time of a PostgreSQL server, one for all machines."""

_NOW = sa.select(SERVER_TIME)

_log = logging.getLogger("bestarm.storage")


class Database:
    """An SQLite file (by path, `sqlite:///path` or ":memory:") or a PostgreSQL database (by URL).

    Threads may share one. So may a process and the children it forks, except for a database in memory.
    """

    def __init__(self, url: str, *, create: bool = False, upgrade: Upgrade = "own files") -> None:
        address = read_address(url)
        self._secrets = frozenset(secrets_of(address))
        self.url = shown_address(url)
        self.is_sqlite = address.get_backend_name() == "sqlite"
        self.in_memory = self.is_sqlite and address.database == ":memory:"
        self._standing: StandingFile | None = None
        self._unchanged: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        self._copy: Copy | None = None
        self.upgraded: Upgraded | None = None
        if self.is_sqlite and not self.in_memory:
            _check_path(str(address.database), create=create)
            address = self._readable(address)
        self.clock = time.time
        """The time, for SQLite."""
        self._address = address
        self.engine = self.new_engine()
        self._process = os.getpid()
        self._here = threading.local()
        # A database in memory has a single connection, which threads take turns to use.
        self._one_at_a_time: Any = threading.Lock() if self.in_memory else contextlib.nullcontext()
        self._make_turns()
        _databases.add(self)
        try:
            self._prepare(create, upgrade)
            if self._copy is not None:
                # Anything written into a copy would be lost.
                self.engine.dispose()
                sa.event.listen(self.engine, "connect", lambda made, _: made.execute("PRAGMA query_only = ON"))
        except BaseException:
            self.close()
            raise

    def _readable(self, address: sa.URL) -> sa.URL:
        """Where to read the file from. In a folder that cannot be written it may have to be a copy."""
        path = str(address.database)
        reading = how_to_read(path) if os.path.exists(path) else "as usual"
        if reading == "as it stands":
            self._standing = StandingFile(path, self.url)
            self._unchanged = self._standing.unchanged
        elif reading == "from a copy":
            try:
                self._copy = Copy(path)
            except OSError as error:
                raise InvalidInput(
                    "storage", self.url, f"cannot be read where it is, nor copied: {error.strerror}"
                ) from None
            return address.set(database=self._copy.path)
        return address

    def new_engine(self) -> sa.Engine:
        """A pool of connections of its own."""
        options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"}
        if not self.is_sqlite:
            return self._new_server_engine(options)
        options["connect_args"] = {"timeout": BUSY_SECONDS}
        if self.in_memory:
            options |= {"poolclass": StaticPool}
            options["connect_args"]["check_same_thread"] = False
        elif self._standing is None:
            options["max_overflow"] = 15
        else:
            # Nothing is cached between reads.
            arguments, standing = options.pop("connect_args"), self._standing
            options |= {"poolclass": NullPool, "creator": lambda: standing.connect(**arguments)}
        engine = sa.create_engine(self._address, **options)
        sa.event.listen(engine, "connect", _prepare_sqlite)
        return engine

    def _new_server_engine(self, options: dict[str, Any]) -> sa.Engine:
        try:
            import psycopg  # noqa: F401 (what follows needs it)

            from bestarm.storage.sql.postgres import connect_arguments, take_answer_limit, watch_connections
        except ImportError as error:
            raise InvalidInput(
                "storage", self.url, f"needs the package {error.name or 'psycopg'!r}; pip install 'bestarm[postgres]'"
            ) from None
        plain, answer_seconds = take_answer_limit(self._address)
        # A type that we do not use. Looking for it would take three queries on each new connection.
        options |= {"use_native_hstore": False, "connect_args": connect_arguments(plain)}
        engine = sa.create_engine(plain, **options)
        watch_connections(engine, answer_seconds)
        return engine

    @contextlib.contextmanager
    def connect(self) -> Iterator[sa.Connection]:
        """A connection. Inside a transaction of this thread, it is that one's."""
        self._notice_fork()
        if self._is_inside:
            yield self._here.connection
            return
        try:
            with self._one_at_a_time, self._unchanged(), self.engine.connect() as connection:
                yield connection
        except sa.exc.IntegrityError:
            raise
        except UnicodeDecodeError:
            # SQLite's error messages quote damaged names, which its driver cannot decode.
            raise InvalidInput(
                "storage", self.url, "is damaged (texts in it are not UTF-8); restore it from a copy"
            ) from None
        except (sa.exc.DBAPIError, sa.exc.TimeoutError, sqlite3.DatabaseError) as error:
            raise complaint(self.url, error, self._secrets, is_lost=_is_lost(error)) from error

    def read(self, query: sa.Executable, **names: object) -> Sequence[Any]:
        """The rows that a query finds."""
        with self.connect() as connection:
            return connection.execute(query, names).all()

    def fetch(self, query: sa.Executable, **names: object) -> Sequence[Any]:
        """The driver's own rows: a million of SQLAlchemy's would take twice as long."""
        with self.connect() as connection:
            return connection.execute(query, names).cursor.fetchall()

    def scalar(self, query: sa.Executable, **names: object) -> Any:
        """The first value of the first row, if there is one."""
        with self.connect() as connection:
            return connection.execute(query, names).scalar()

    def _make_turns(self) -> None:
        # A writer that finds SQLite locked sleeps and tries again. A queue loses no time.
        self._turn = threading.Lock() if self.is_sqlite and not self.in_memory else None

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A connection for a statement that writes, when it is this thread's turn."""
        with self._in_turn(), self.connect() as connection:
            if not self.is_sqlite:
                # If this fails, it is certain that nothing was written.
                connection.exec_driver_sql("SELECT 1")
            with self._unknown_if_lost():
                yield connection

    @contextlib.contextmanager
    def _unknown_if_lost(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            if _is_lost(error):
                raise unknown_outcome(self.url, error) from error
            raise

    @contextlib.contextmanager
    def _in_turn(self) -> Iterator[None]:
        self._notice_fork()
        turn = None if self._is_inside else self._turn
        # The first in line may wait for another process. No writer waits longer than it would alone.
        if turn is not None and not turn.acquire(timeout=BUSY_SECONDS):
            raise busy(self.url)
        try:
            yield
        finally:
            if turn is not None:
                turn.release()

    @property
    def _is_inside(self) -> bool:
        """Whether this thread is inside a transaction, or a snapshot."""
        return getattr(self._here, "connection", None) is not None

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything that this thread reads inside is from one moment. Nothing may be written."""
        if self._is_inside:
            yield
            return
        with self.connect() as connection:
            begin = "BEGIN" if self.is_sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
            connection.exec_driver_sql(begin)
            self._here.connection = connection
            try:
                yield
            finally:
                self._here.connection = None
                # There is nothing to lose. A broken connection shows at its next use.
                with contextlib.suppress(sa.exc.SQLAlchemyError):
                    connection.exec_driver_sql("ROLLBACK")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """All or nothing. On SQLite it takes the write lock up front, so that no reader becomes a writer halfway."""
        with self._in_turn(), self.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN")
            self._here.connection = connection
            try:
                yield connection
                with self._unknown_if_lost():
                    connection.exec_driver_sql("COMMIT")
            except BaseException:
                # Whatever failed may have broken the connection too. The database then rolls back on its own.
                with contextlib.suppress(sa.exc.SQLAlchemyError):
                    connection.exec_driver_sql("ROLLBACK")
                raise
            finally:
                self._here.connection = None

    def time(self, connection: sa.Connection) -> float:
        return self.clock() if self.is_sqlite else float(connection.execute(_NOW).scalar_one())

    def close(self) -> None:
        """Let go of connections; the next use opens new ones."""
        self.engine.dispose()

    def _notice_fork(self) -> None:
        """A child process must not use, nor close, its parent's connections."""
        if self._process == os.getpid():
            return
        if self.in_memory:
            raise InvalidInput(
                "storage", ":memory:", "belongs to the process that made it; share a file with other processes"
            )
        self._process = os.getpid()
        self._here = threading.local()
        # A thread that was writing in the parent does not exist here, and cannot finish.
        self._make_turns()
        self.engine.dispose(close=False)

    # ------------------------------------------------------------------------------------------------ tables

    def check_tables(self) -> None:
        """Raise `OldTables` if they are older than this program's, `InvalidInput` if they are newer."""
        with self.connect() as connection:
            found = self._version(connection)
            if found is not None:
                check_version(self.url, found, "never")

    def _prepare(self, create: bool, upgrade: Upgrade) -> None:
        """Check that the database is ours and not newer than we are; make or upgrade its tables."""
        file = str(self._address.database) if self.is_sqlite else None
        with self.connect() as connection:
            found = self._version(connection)
            if found is None:
                self._check_free(connection, create)
            else:
                check_version(self.url, found, upgrade, file)
            if self.is_sqlite:
                # Readers do not wait for writers. The file keeps this setting, so set it only once we know the file is
                # ours. A file that cannot be written can still be read as it is.
                with contextlib.suppress(sa.exc.OperationalError):
                    connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            if found == schema.VERSION:
                return
        with self.transaction() as connection:
            if not self.is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKING_TABLES)))
            # Another process may have been faster.
            found = self._version(connection)
            if found is None:
                if self.is_sqlite:
                    connection.exec_driver_sql(f"PRAGMA application_id = {schema.APPLICATION_ID}")
                schema.metadata.create_all(connection)
                connection.execute(sa.insert(schema.schema).values(version=schema.VERSION))
                return
            if found == schema.VERSION:
                return
            check_version(self.url, found, upgrade, file)
            # What is read from a copy of ours needs no other.
            kept = None if file is None or self._copy is not None else keep_copy(file, found, self.url)
            schema.upgrade(connection, found, schema.STEPS, schema.VERSION)
        self.upgraded = Upgraded(found, kept)
        if upgrade == "own files" and self._copy is None:
            # The caller did not ask for it.
            there = "" if kept is None else f"; {kept!r} has it as it was"
            _log.warning("%r: upgraded from version %d to %d%s", self.url, found, schema.VERSION, there)

    def _version(self, connection: sa.Connection) -> int | None:
        if not sa.inspect(connection).has_table(schema.schema.name):
            return None
        version = connection.execute(sa.select(schema.schema.c.version)).scalar()
        with reporting_damage(self.url):
            return None if version is None else int(version)

    def _check_free(self, connection: sa.Connection, create: bool) -> None:
        """Whether we may make our tables here. PostgreSQL databases are shared with other programs, files are not."""
        tables = sa.inspect(connection).get_table_names() if self.is_sqlite else []
        # Look again, since another process may have made ours in the meantime.
        if tables and schema.schema.name not in tables:
            raise InvalidInput(
                "storage", self.url, "is a database of another program; give a path of its own to bestarm"
            )
        if not create:
            raise NoStudiesYet("storage", self.url, "holds no studies yet; make one with `bestarm new`")


_databases: weakref.WeakSet[Database] = weakref.WeakSet()


def _before_fork() -> None:
    """Close idle connections, so that no child inherits one: two processes must not close one SQLite connection."""
    for database in list(_databases):
        if not database.in_memory:
            with contextlib.suppress(Exception):
                database.engine.dispose()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)


def _is_lost(error: Exception) -> bool:
    """Whether the connection broke. Then what was under way may or may not have been done."""
    return isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated


def _check_path(path: str, *, create: bool) -> None:
    file = Path(path)
    try:
        if file.is_dir():
            raise InvalidInput("storage", path, "is a folder; give the path of a file")
        if file.exists():
            if not file.is_file():
                raise InvalidInput("storage", path, "is not a file")
        elif not create:
            raise InvalidInput("storage", path, "no such file; make a study with `bestarm new`, or give --db")
        elif not file.parent.is_dir():
            raise InvalidInput("storage", path, f"the folder {str(file.parent)!r} does not exist")
    except OSError as error:
        raise InvalidInput("storage", path, str(error.strerror)) from None


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Durable to the last commit."""
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
