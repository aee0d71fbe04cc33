"""Studies in SQLite or PostgreSQL, through SQLAlchemy Core.

Connections commit each statement by themselves; what takes several is wrapped in an explicit transaction. Telling a
result, the commonest thing by far, is one statement: an insert that does nothing if the test has an outcome.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.pool import StaticPool

from bestarm.study import schema
from bestarm.study.schema import events, metadata, outcomes, queue, rounds, sources, studies, tests
from bestarm.study.storage import (
    Entries,
    Event,
    History,
    Issued,
    Outcome,
    Pending,
    PlanRounds,
    Rounds,
    Storage,
    StorageError,
    StudyRecord,
    Told,
)
from bestarm.validation import InvalidInput

BUSY_SECONDS = 60.0
CHUNK = 50_000
PAGE = 5_000

_LOCK = 0x62417266
"""Whoever makes or upgrades the tables of a PostgreSQL database holds this advisory lock."""

_of_test = sa.and_(tests.c.study == sa.bindparam("study"), tests.c.test == sa.bindparam("test"))
_has_outcome = sa.exists().where(outcomes.c.study == queue.c.study, outcomes.c.test == queue.c.test)


_Planned = tuple[int, int, int]
"""Arm, metric, and 1 if the test ends a round."""


class SQLStorage(Storage):
    """An SQLite file (by path, `sqlite:///path` or ":memory:") or a PostgreSQL database (by URL)."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        address = _address(url)
        self.url = address.render_as_string(hide_password=True) if "://" in url else url
        self._is_sqlite = address.get_backend_name() == "sqlite"
        if self._is_sqlite and address.database != ":memory:":
            _check_path(str(address.database), create=create)
        self._engine = self._new_engine(address)
        self._process = os.getpid()
        self._here = threading.local()
        # A database in memory has one connection, which threads take in turns.
        in_memory = self._is_sqlite and address.database == ":memory:"
        self._one_at_a_time: Any = threading.Lock() if in_memory else contextlib.nullcontext()
        self._now: Any = sa.literal(0.0)
        if not self._is_sqlite:
            # One clock for all machines: the server's.
            self._now = sa.func.extract("epoch", sa.func.clock_timestamp()).cast(sa.Double)
        insert: Any = sqlite.insert if self._is_sqlite else postgresql.insert
        # Compiled once and for all: it is half of what telling a result would else cost.
        self._tell = insert(outcomes).on_conflict_do_nothing().compile(dialect=self._engine.dialect)
        self._upsert_round = insert(rounds).on_conflict_do_update(
            index_elements=["study"],
            set_={name: getattr(insert(rounds).excluded, name) for name in ("round", "first", "tests")},
        )
        self._prepare(create)

    # ------------------------------------------------------------------------------------------- connections

    def _new_engine(self, address: sa.URL) -> sa.Engine:
        options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"}
        if not self._is_sqlite:
            options |= {"pool_pre_ping": True, "connect_args": {"connect_timeout": 10}}
        else:
            options["connect_args"] = {"timeout": BUSY_SECONDS}
            if address.database == ":memory:":
                options |= {"poolclass": StaticPool}
                options["connect_args"]["check_same_thread"] = False
        try:
            engine = sa.create_engine(address, **options)
        except ModuleNotFoundError as error:
            raise InvalidInput(
                f"storage = {self.url!r}: needs the package {error.name!r}; pip install 'bestarm[postgres]'"
            ) from None
        if self._is_sqlite:
            sa.event.listen(engine, "connect", _prepare_sqlite)
        return engine

    @contextlib.contextmanager
    def _connect(self) -> Iterator[sa.Connection]:
        """A connection; inside a transaction of this thread, its own."""
        current = getattr(self._here, "connection", None)
        if current is not None:
            yield current
            return
        self._look_for_fork()
        with self._one_at_a_time, self._reporting(), self._engine.connect() as connection:
            yield connection

    def _look_for_fork(self) -> None:
        """A child process must not use its parent's connections."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._engine.dispose(close=False)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """All or nothing. On SQLite it takes the one write lock at once, so that no reader becomes a writer halfway."""
        with self._connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if self._is_sqlite else "BEGIN")
            self._here.connection = connection
            try:
                yield connection
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                with contextlib.suppress(sa.exc.DBAPIError):
                    connection.exec_driver_sql("ROLLBACK")
                raise
            finally:
                self._here.connection = None

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        """The database's complaints in the user's words."""
        try:
            yield
        except sa.exc.IntegrityError:
            raise
        except (sa.exc.DBAPIError, sa.exc.TimeoutError, sqlite3.DatabaseError) as error:
            raise self._complaint(error) from error

    def _complaint(self, error: Exception) -> Exception:
        said = str(getattr(error, "orig", error)).strip()
        words = said.lower()
        where = f"storage = {self.url!r}"
        for phrase, reason in _MISTAKES.items():
            if re.search(phrase, words):
                return InvalidInput(f"{where}: {reason}")
        for phrase, reason in _TROUBLES.items():
            if re.search(phrase, words):
                return StorageError(f"{where}: {reason}")
        return StorageError(f"{where}: the database says: {said.splitlines()[0] if said else type(error).__name__}")

    def _time(self, connection: sa.Connection) -> float:
        return time.time() if self._is_sqlite else float(connection.execute(sa.select(self._now)).scalar_one())

    def close(self) -> None:
        self._engine.dispose()

    # ------------------------------------------------------------------------------------------------ tables

    def _prepare(self, create: bool) -> None:
        """Check that the database is ours and not newer than we are; make or upgrade its tables."""
        with self._connect() as connection:
            if self._version(connection) == schema.VERSION:
                return
        with self._transaction() as connection:
            if not self._is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            found = self._version(connection)
            if found is None:
                self._make_tables(connection, create)
            elif found > schema.VERSION:
                raise InvalidInput(
                    f"storage = {self.url!r}: was made by a newer bestarm (its schema is version {found}, "
                    f"this program knows up to {schema.VERSION}); upgrade bestarm to open it"
                )
            else:
                schema.upgrade(connection, found, schema.STEPS, schema.VERSION)

    def _version(self, connection: sa.Connection) -> int | None:
        if not sa.inspect(connection).has_table(schema.schema.name):
            return None
        version = connection.execute(sa.select(schema.schema.c.version)).scalar()
        return None if version is None else int(version)

    def _make_tables(self, connection: sa.Connection, create: bool) -> None:
        if self._is_sqlite and sa.inspect(connection).get_table_names():
            raise InvalidInput(
                f"storage = {self.url!r}: is a database of another program; give a path of its own to bestarm"
            )
        if not create:
            raise InvalidInput(f"storage = {self.url!r}: holds no studies yet; make one with `bestarm new`")
        if self._is_sqlite:
            connection.exec_driver_sql(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        metadata.create_all(connection)
        connection.execute(sa.insert(schema.schema).values(version=schema.VERSION))

    # ----------------------------------------------------------------------------------------------- studies

    def create_study(self, name: str, plan: str, seed: int) -> StudyRecord:
        try:
            with self._transaction() as connection:
                now = self._time(connection)
                values = {"name": name, "plan": plan, "seed": seed, "created": now, "revision": 0}
                key = connection.execute(sa.insert(studies).values(values)).inserted_primary_key
                assert key is not None
                self._note(connection, key[0], "created", "", "", now)
        except sa.exc.IntegrityError:
            raise InvalidInput(f"name = {name!r}: a study of this name exists already in {self.url!r}") from None
        return StudyRecord(key[0], name, plan, seed, now, None, 0)

    def find_study(self, name: str) -> StudyRecord | None:
        with self._connect() as connection:
            row = connection.execute(sa.select(studies).where(studies.c.name == name)).first()
        return None if row is None else StudyRecord(*row)

    def studies(self) -> list[StudyRecord]:
        with self._connect() as connection:
            return [StudyRecord(*row) for row in connection.execute(sa.select(studies).order_by(studies.c.study))]

    def archive(self, key: int, holder: str, *, undo: bool = False) -> None:
        with self._transaction() as connection:
            now = self._time(connection)
            changed = connection.execute(
                sa.update(studies)
                .where(
                    studies.c.study == key, studies.c.archived.is_not(None) if undo else studies.c.archived.is_(None)
                )
                .values(archived=None if undo else now)
            )
            if changed.rowcount:
                self._note(connection, key, "restored" if undo else "archived", holder, "", now)

    def _note(
        self,
        connection: sa.Connection,
        key: int,
        kind: str,
        holder: str,
        detail: str,
        now: float,
        test: int | None = None,
    ) -> None:
        row = {"study": key, "kind": kind, "holder": holder, "detail": detail, "test": test, "time": now}
        connection.execute(sa.insert(events).values(row))

    def _lock(self, connection: sa.Connection, key: int) -> float:
        """Keep everybody else from issuing tests of this study; returns the time."""
        connection.execute(sa.select(studies.c.study).where(studies.c.study == key).with_for_update())
        return self._time(connection)

    # ------------------------------------------------------------------------------------------------- tests

    def hand_out(
        self, key: int, count: int, holder: str, lease: float, settled: int, plan_rounds: PlanRounds
    ) -> list[Issued]:
        with self._transaction() as connection:
            now = self._lock(connection, key)
            if settled:
                connection.execute(sa.delete(queue).where(queue.c.study == key, queue.c.test <= settled))
            handed = self._hand_out_again(connection, key, count, holder, now, lease)
            last, number, left = self._planned(connection, key)
            while len(handed) < count:
                if not left:
                    left = _flat(plan_rounds(count - len(handed)))
                    if not left:
                        break
                    number += 1
                    row = {"study": key, "round": number, "first": last + 1, "tests": json.dumps(left)}
                    connection.execute(self._upsert_round, row)
                due, left = left[: count - len(handed)], left[count - len(handed) :]
                handed += self._issue(connection, key, last + 1, number, due, now)
                last += len(due)
                leases = [
                    {"study": key, "test": test.id, "holder": holder, "expires": now + lease, "attempts": 1}
                    for test in handed[-len(due) :]
                ]
                connection.execute(sa.insert(queue), leases)
        return handed

    def _issue(
        self,
        connection: sa.Connection,
        key: int,
        first: int,
        number: int,
        due: Sequence[_Planned],
        now: float,
        *,
        given: bool = False,
    ) -> list[Issued]:
        """Put tests at the end of the record."""
        rows = [
            {
                "study": key,
                "test": first + k,
                "round": number,
                "ends": ends,
                "arm": arm,
                "metric": metric,
                "given": int(given),
                "issued": now,
            }
            for k, (arm, metric, ends) in enumerate(due)
        ]
        connection.execute(sa.insert(tests), rows)
        return [Issued(first + k, arm, metric) for k, (arm, metric, _) in enumerate(due)]

    def _hand_out_again(
        self, connection: sa.Connection, key: int, count: int, holder: str, now: float, lease: float
    ) -> list[Issued]:
        """Tests that nobody holds any more."""
        free = (
            sa.select(queue.c.test, tests.c.arm, tests.c.metric)
            .join(tests, sa.and_(tests.c.study == queue.c.study, tests.c.test == queue.c.test))
            .where(queue.c.study == key, queue.c.expires <= now, ~_has_outcome)
            .order_by(queue.c.test)
            .limit(count)
        )
        again = [Issued(*row) for row in connection.execute(free)]
        if again:
            update = (
                sa.update(queue)
                .where(queue.c.study == key, queue.c.test == sa.bindparam("id"))
                .values(holder=holder, expires=now + lease, attempts=queue.c.attempts + 1)
            )
            connection.execute(update, [{"id": test.id} for test in again])
        return again

    def _planned(self, connection: sa.Connection, key: int) -> tuple[int, int, list[_Planned]]:
        """The last test's id, the number of its plan, and what that plan still has to hand out."""
        newest = (
            sa.select(tests.c.test, tests.c.round).where(tests.c.study == key).order_by(tests.c.test.desc()).limit(1)
        )
        row = connection.execute(newest).first()
        if row is None:
            return 0, 0, []
        last, number = row
        present = connection.execute(sa.select(rounds).where(rounds.c.study == key)).first()
        # Results measured without asking have a number of their own, which withdraws the rest of the plan before.
        if present is None or present.round != number:
            return last, number, []
        left = json.loads(present.tests)[last + 1 - present.first :]
        return last, number, [(arm, metric, ends) for arm, metric, ends in left]

    def give(
        self,
        key: int,
        results: Sequence[tuple[int, int, float]],
        holder: str,
        source: str,
        ends: Collection[int] = (),
    ) -> list[int]:
        if not results:
            return []
        try:
            with self._transaction() as connection:
                now = self._lock(connection, key)
                if source:
                    connection.execute(sa.insert(sources).values(study=key, source=source))
                last, number, _ = self._planned(connection, key)
                marked = {*ends, len(results) - 1}
                due = [(arm, metric, int(k in marked)) for k, (arm, metric, _) in enumerate(results)]
                new = self._issue(connection, key, last + 1, number + 1, due, now, given=True)
                rows = [_outcome(key, test.id, row[2], holder, now) for test, row in zip(new, results, strict=True)]
                connection.execute(sa.insert(outcomes), rows)
        except sa.exc.IntegrityError:
            raise InvalidInput(f"{source}: has been recorded in this study already") from None
        return [test.id for test in new]

    def tell(self, key: int, test: int, value: float, holder: str) -> Outcome | None:
        try:
            with self._connect() as connection:
                if self._settle(connection, _outcome(key, test, value, holder, time.time())):
                    return None
                return self._outcomes(connection, key, [test])[test]
        except sa.exc.IntegrityError:
            raise _no_test(test) from None

    def _settle(self, connection: sa.Connection, row: dict[str, Any]) -> bool:
        """Record an outcome, unless the test has one."""
        positions = self._tell.positiontup
        values: Any = row if positions is None else tuple(row[name] for name in positions)
        return connection.exec_driver_sql(self._tell.string, values).rowcount > 0

    def tell_many(self, key: int, results: Sequence[tuple[int, float]], holder: str) -> dict[int, Outcome]:
        with self._transaction() as connection:
            now = self._lock(connection, key)
            known = self._outcomes(connection, key, [test for test, _ in results])
            new = [(test, value) for test, value in results if test not in known]
            refused = {test: known[test] for test, value in results if test in known and known[test].value != value}
            if refused or not new:
                return refused
            for test, value in new:
                try:
                    connection.execute(sa.insert(outcomes), _outcome(key, test, value, holder, now))
                except sa.exc.IntegrityError:
                    raise _no_test(test) from None
        return {}

    def _outcomes(self, connection: sa.Connection, key: int, ids: Sequence[int]) -> dict[int, Outcome]:
        """The present outcomes of those of the tests that have one."""
        found: dict[int, Outcome] = {}
        for start in range(0, len(ids), 500):
            rows = connection.execute(
                sa.select(outcomes.c.test, outcomes.c.value, outcomes.c.reason, outcomes.c.holder)
                .where(outcomes.c.study == key, outcomes.c.test.in_(ids[start : start + 500]))
                .order_by(outcomes.c.test, outcomes.c.correction)
            )
            found |= {row.test: Outcome(row.value, row.reason, row.holder) for row in rows}
        return found

    def correct(self, key: int, test: int, value: float, holder: str, reason: str) -> Outcome:
        with self._transaction() as connection:
            now = self._lock(connection, key)
            old = self._outcomes(connection, key, [test]).get(test)
            if old is None:
                if self._issued_test(connection, key, test) is None:
                    raise _no_test(test)
                raise InvalidInput(f"test = {test}: has no result yet; there is nothing to correct")
            if old.value == value:
                return old
            following = sa.select(sa.func.max(outcomes.c.correction) + 1).where(
                outcomes.c.study == key, outcomes.c.test == test
            )
            row = _outcome(key, test, value, holder, now) | {
                "correction": connection.execute(following).scalar_one(),
                "reason": reason,
            }
            connection.execute(sa.insert(outcomes), row)
            connection.execute(sa.update(studies).where(studies.c.study == key).values(revision=studies.c.revision + 1))
        return old

    def drop(self, key: int, test: int, holder: str, reason: str) -> Outcome | None:
        try:
            with self._connect() as connection:
                row = _outcome(key, test, None, holder, time.time()) | {"reason": reason}
                if self._settle(connection, row):
                    return None
                return self._outcomes(connection, key, [test])[test]
        except sa.exc.IntegrityError:
            raise _no_test(test) from None

    def fail(self, key: int, test: int, holder: str, reason: str) -> None:
        with self._transaction() as connection:
            now = self._lock(connection, key)
            if self._issued_test(connection, key, test) is None:
                raise _no_test(test)
            self._note(connection, key, "failed", holder, reason, now, test)
            connection.execute(self._held([test], key, holder).values(expires=0.0))

    def release(self, key: int, tests: Sequence[int], holder: str) -> None:
        with self._transaction() as connection:
            for start in range(0, len(tests), 500):
                connection.execute(self._held(tests[start : start + 500], key, holder).values(expires=0.0))

    def renew(self, key: int, tests: Sequence[int], holder: str, lease: float) -> None:
        with self._transaction() as connection:
            now = self._time(connection)
            for start in range(0, len(tests), 500):
                held = self._held(tests[start : start + 500], key, holder).where(queue.c.expires > now)
                connection.execute(held.values(expires=now + lease))

    def _held(self, ids: Sequence[int], key: int, holder: str) -> sa.Update:
        return sa.update(queue).where(queue.c.study == key, queue.c.test.in_(ids), queue.c.holder == holder)

    # ----------------------------------------------------------------------------------------------- reading

    def _issued_test(self, connection: sa.Connection, key: int, test: int) -> Issued | None:
        query = sa.select(tests.c.test, tests.c.arm, tests.c.metric).where(_of_test)
        row = connection.execute(query, {"study": key, "test": test}).first()
        return None if row is None else Issued(*row)

    def test(self, key: int, test: int) -> tuple[Issued, Outcome | None] | None:
        with self._connect() as connection:
            issued = self._issued_test(connection, key, test)
            if issued is None:
                return None
            return issued, self._outcomes(connection, key, [test]).get(test)

    def entries(self, key: int, after: int, *, gaps: bool = False) -> Iterator[Entries]:
        query = (
            sa.select(tests.c.test, tests.c.arm, tests.c.metric, outcomes.c.value, tests.c.ends)
            .join(outcomes, sa.and_(outcomes.c.study == tests.c.study, outcomes.c.test == tests.c.test))
            .where(tests.c.study == key, tests.c.test > sa.bindparam("after"))
            .order_by(tests.c.test, outcomes.c.correction)
            .limit(sa.bindparam("limit"))
        )
        # Often there are just a few, or many that wait for the first.
        limit = 256
        while True:
            with self._connect() as connection:
                rows = connection.execute(query, {"after": after, "limit": limit}).all()
            more = len(rows) == limit
            limit = CHUNK
            if more:
                # The last test may have a correction beyond the limit.
                rows = [row for row in rows if row.test != rows[-1].test] or rows
            if not rows:
                return
            chunk = _columns(rows)
            if not gaps:
                ahead = chunk.ids == after + 1 + np.arange(len(chunk.ids))
                if not ahead.all():
                    cut = int(np.argmin(ahead))
                    if cut:
                        yield chunk.before(cut)
                    return
            yield chunk
            if not more:
                return
            after = int(chunk.ids[-1])

    def pending(self, key: int) -> list[Pending]:
        query = (
            sa.select(queue.c.test, tests.c.arm, tests.c.metric, queue.c.holder, queue.c.expires, queue.c.attempts)
            .join(tests, sa.and_(tests.c.study == queue.c.study, tests.c.test == queue.c.test))
            .where(queue.c.study == key, ~_has_outcome)
            .order_by(queue.c.test)
        )
        with self._connect() as connection:
            return [Pending(*row) for row in connection.execute(query)]

    def issued(self, key: int) -> int:
        query = sa.select(sa.func.max(tests.c.test)).where(tests.c.study == key)
        with self._connect() as connection:
            return connection.execute(query).scalar() or 0

    def log(self, key: int, last: int | None = None) -> list[Event]:
        asked = sa.select(tests.c.issued, tests.c.given, tests.c.test, tests.c.arm, tests.c.metric).where(
            tests.c.study == key, tests.c.given == 0
        )
        told = (
            sa.select(outcomes, tests.c.arm, tests.c.metric, tests.c.given)
            .join(tests, sa.and_(tests.c.study == outcomes.c.study, tests.c.test == outcomes.c.test))
            .where(outcomes.c.study == key)
        )
        noted = sa.select(events).where(events.c.study == key)
        queries = [
            asked.order_by(tests.c.test.desc()),
            told.order_by(outcomes.c.told.desc(), outcomes.c.test.desc()),
            noted.order_by(events.c.event.desc()),
        ]
        with self._connect() as connection:
            rows = [connection.execute(query if last is None else query.limit(last)).all() for query in queries]
        found = [Event(row.issued, "asked", row.test, "", "", row.arm, row.metric) for row in rows[0]]
        found += [_told_event(row) for row in rows[1]]
        found += [Event(row.time, row.kind, row.test, row.holder, row.detail) for row in rows[2]]
        # Of what bears the same time, the first step comes first.
        found.sort(key=lambda event: (event.time, event.test or 0, _ORDER.get(event.kind, 9)))
        return found if last is None else found[-last:] if last else []

    def history(self, key: int) -> Iterator[History]:
        query = (
            sa.select(
                *(tests.c.test, tests.c.arm, tests.c.metric, tests.c.ends, tests.c.given, tests.c.issued),
                *(outcomes.c.value, outcomes.c.reason, outcomes.c.holder, outcomes.c.told),
            )
            .join(outcomes, sa.and_(outcomes.c.study == tests.c.study, outcomes.c.test == tests.c.test), isouter=True)
            .where(tests.c.study == key, tests.c.test > sa.bindparam("after"), tests.c.test <= sa.bindparam("to"))
            .order_by(tests.c.test, outcomes.c.correction)
        )
        for after in itertools.count(0, PAGE):
            with self._connect() as connection:
                rows = connection.execute(query, {"after": after, "to": after + PAGE}).all()
            if not rows:
                return
            for (test, arm, metric, ends, given, issued), told in itertools.groupby(rows, lambda row: row[:6]):
                recorded = tuple(
                    Told(row.value, row.reason, row.holder, row.told) for row in told if row.told is not None
                )
                yield History(test, arm, metric, bool(ends), bool(given), issued, recorded)


_ORDER = {"created": 0, "asked": 1, "given": 2, "failed": 3, "told": 4, "dropped": 4, "corrected": 5}

_MISTAKES = {
    "readonly database": "is read-only; nothing was changed",
    "unable to open database file": "cannot be opened; check the folder and the permissions",
    "file is not a database": "is not a bestarm database",
    "malformed": "is damaged (its pages are malformed); restore it from a copy",
    "password authentication failed": "the server refused the user or the password",
    '(database|role) ".*" does not exist': "the server knows no such database or user",
    "no password supplied": "the server wants a password",
}

_TROUBLES = {
    "database or disk is full": "the disk is full; nothing acknowledged is lost, free some space and go on",
    "disk i/o error": "the disk could not be written or read; nothing acknowledged is lost",
    "no space left": "the server's disk is full; nothing acknowledged is lost",
    "database is locked": f"another process has held the database for over {BUSY_SECONDS:g} s; try again",
    "connection refused": "the database server cannot be reached; start it and try again",
    "connection failed": "the database server cannot be reached; start it and try again",
    "connection timeout": "the database server does not answer; try again",
    "could not connect": "the database server cannot be reached; start it and try again",
    "terminating connection": "the database server stopped; nothing acknowledged is lost, try again when it is back",
    "server closed the connection": "the database server stopped; nothing acknowledged is lost, try again",
    "connection is lost": "the database server stopped; nothing acknowledged is lost, try again when it is back",
    "the connection is closed": "the database server stopped; nothing acknowledged is lost, try again when it is back",
    "shutting down": "the database server is stopping; nothing acknowledged is lost, try again when it is back",
    "starting up": "the database server is starting; try again in a moment",
}


def _address(url: str) -> sa.URL:
    if "://" not in url:
        return sa.URL.create("sqlite", database=url)
    try:
        address = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidInput("storage: must be a path or a URL such as postgresql://user@host/database") from None
    backend = address.get_backend_name()
    if backend == "postgres":
        backend = "postgresql"
    if backend not in ("sqlite", "postgresql"):
        raise InvalidInput(f"storage = {url.split('://')[0]}://…: must be a path, sqlite:///PATH or postgresql://…")
    if backend == "sqlite":
        return sa.URL.create("sqlite", database=address.database or ":memory:")
    return address.set(drivername="postgresql+psycopg")


def _check_path(path: str, *, create: bool) -> None:
    file = Path(path)
    if file.is_dir():
        raise InvalidInput(f"storage = {path!r}: is a folder; give the path of a file")
    if not file.exists():
        if not create:
            raise InvalidInput(f"storage = {path!r}: no such file; make a study with `bestarm new`, or give --db")
        if not file.parent.is_dir():
            raise InvalidInput(f"storage = {path!r}: the folder {str(file.parent)!r} does not exist")


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Durable to the last commit, and readers do not wait for writers."""
    cursor = connection.cursor()
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        cursor.execute(f"PRAGMA {pragma}")
    # A file that cannot be written can still be read as it is.
    with contextlib.suppress(sqlite3.OperationalError):
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.close()


def _outcome(key: int, test: int, value: float | None, holder: str, now: float) -> dict[str, Any]:
    return {
        "study": key,
        "test": test,
        "correction": 0,
        "value": value,
        "reason": None,
        "holder": holder,
        "told": now,
    }


def _flat(rounds: Rounds) -> list[_Planned]:
    return [
        (int(arm), int(metric), int(k == len(tests) - 1)) for tests in rounds for k, (arm, metric) in enumerate(tests)
    ]


def _no_test(test: int) -> InvalidInput:
    return InvalidInput(f"test = {test}: no such test in this study; `bestarm status` lists the pending ones")


def _columns(rows: Sequence[Any]) -> Entries:
    """Rows as arrays; of a corrected test the last row counts."""
    ids, arms, metrics, values, ends = zip(*rows, strict=True)
    number = np.array(ids, np.int64)
    keep = np.append(number[1:] != number[:-1], True)
    return Entries(
        number[keep],
        np.array(arms, np.int64)[keep],
        np.array(metrics, np.int64)[keep],
        np.array(values, np.float64)[keep],
        np.array(ends, np.int8)[keep],
    )


def _told_event(row: Any) -> Event:
    kind: Any = (
        "corrected" if row.correction else "given" if row.given else "told" if row.value is not None else "dropped"
    )
    return Event(row.told, kind, row.test, row.holder, row.reason or "", row.arm, row.metric, row.value)
