"""Studies in SQLite or PostgreSQL, through SQLAlchemy Core.

Telling a result, the commonest thing by far, is one statement that commits by itself: an insert that does nothing if
the test has an outcome.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bestarm.study.columns import Columns
from bestarm.study.database import Database
from bestarm.study.issuing import Plans, flat, forget_leases, issue, issue_given, lease_again, lease_new
from bestarm.study.reading import (
    issued_test,
    issued_tests,
    present_outcomes,
    read_entries,
    read_history,
    read_log,
    read_pending,
)
from bestarm.study.schema import events, outcomes, queue, sources, studies, tests
from bestarm.study.storage import (
    Entries,
    Event,
    History,
    Issued,
    Outcome,
    Pending,
    PlanRounds,
    Storage,
    StudyRecord,
)
from bestarm.validation import InvalidInput


class _Refused(Exception):
    """Undoes a transaction in which some tests turned out to have another outcome."""

    def __init__(self, outcomes: dict[int, Outcome]) -> None:
        super().__init__()
        self.outcomes = outcomes


_STUDIES = sa.select(*(studies.c["study" if name == "key" else name] for name in StudyRecord._fields))
_BY_NAME = _STUDIES.where(studies.c.name == sa.bindparam("name"))
# The plan of a large study is megabytes of text, and whoever asks or tells looks first.
_PRESENT = sa.select(studies.c.study, studies.c.seed, studies.c.created, studies.c.archived, studies.c.revision).where(
    studies.c.name == sa.bindparam("name")
)
_TOLD = sa.select(sa.func.count()).where(
    outcomes.c.study == sa.bindparam("key"), outcomes.c.test > sa.bindparam("after"), outcomes.c.correction == 0
)
_LOCK = sa.select(studies.c.study).where(studies.c.study == sa.bindparam("key")).with_for_update(key_share=True)


class SQLStorage(Storage):
    """An SQLite file (by path, `sqlite:///path` or ":memory:") or a PostgreSQL database (by URL)."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        self._database = Database(url, create=create)
        self.url = self._database.url
        insert: Any = sqlite.insert if self._database.is_sqlite else postgresql.insert
        # One clock for all machines, the server's, where there is a server.
        told = sa.bindparam("told") if self._database.is_sqlite else self._database.server_time
        row = {column.name: sa.bindparam(column.name, type_=column.type) for column in outcomes.c} | {"told": told}
        # Compiled once and for all: it is half of what telling a result would else cost.
        self._settle_row = (
            insert(outcomes).values(row).on_conflict_do_nothing().compile(dialect=self._database.engine.dialect)
        )
        self._plans = Plans(is_sqlite=self._database.is_sqlite)

    def close(self) -> None:
        self._database.close()

    # ----------------------------------------------------------------------------------------------- studies

    def create_study(self, name: str, plan: str, seed: int) -> StudyRecord:
        try:
            with self._database.transaction() as connection:
                now = self._database.time(connection)
                values = {"name": name, "plan": plan, "seed": seed, "created": now, "revision": 0}
                key = connection.execute(sa.insert(studies).values(values)).inserted_primary_key
                assert key is not None
                self._note(connection, key[0], "created", "", "", now)
        except sa.exc.IntegrityError:
            raise InvalidInput(f"name = {name!r}: a study of this name exists already in {self.url!r}") from None
        return StudyRecord(key[0], name, plan, seed, now, None, 0)

    def find_study(self, name: str) -> StudyRecord | None:
        if name != _text(name):
            return None
        with self._database.connect() as connection:
            row = connection.execute(_BY_NAME, {"name": name}).first()
        return None if row is None else StudyRecord(*row)

    def look(self, record: StudyRecord) -> StudyRecord | None:
        with self._database.connect() as connection:
            row = connection.execute(_PRESENT, {"name": record.name}).first()
        return None if row is None else StudyRecord(row.study, record.name, record.plan, *row[1:])

    def studies(self) -> list[StudyRecord]:
        with self._database.connect() as connection:
            return [StudyRecord(*row) for row in connection.execute(_STUDIES.order_by(studies.c.study))]

    def archive(self, key: int, holder: str, *, undo: bool = False) -> None:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
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
        row = {"study": key, "kind": kind, "holder": _text(holder), "detail": _text(detail), "test": test, "time": now}
        connection.execute(sa.insert(events).values(row))

    def _lock(self, connection: sa.Connection, key: int) -> float:
        """Keep everybody else from issuing tests of this study, though not from telling results; returns the time."""
        if connection.execute(_LOCK, {"key": key}).first() is None:
            raise InvalidInput(f"study = {key}: no such study in {self.url!r}")
        return self._database.time(connection)

    # ------------------------------------------------------------------------------------------------- tests

    def hand_out(
        self, key: int, count: int, holder: str, lease: float, settled: int, plan_rounds: PlanRounds
    ) -> list[Issued]:
        holder = _text(holder)
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            forget_leases(connection, key, settled, now)
            handed = lease_again(connection, key, count, holder, now, now + lease)
            last, number, left = self._plans.rest(connection, key, count)
            while len(handed) < count:
                if not left:
                    left = flat(plan_rounds(count - len(handed)))
                    if not left:
                        break
                    number += 1
                    self._plans.put(connection, key, number, last + 1, left)
                due, left = left[: count - len(handed)], left[count - len(handed) :]
                new = issue(connection, key, last + 1, number, due, now)
                lease_new(connection, key, new, holder, now + lease)
                handed += new
                last += len(new)
        return handed

    def give(
        self,
        key: int,
        results: Sequence[tuple[int, int, float]],
        holder: str,
        source: str,
        ends: Collection[int] = (),
    ) -> Sequence[int]:
        if not results:
            return []
        columns = results if isinstance(results, Columns) else Columns(results)
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            if source:
                try:
                    connection.execute(sa.insert(sources).values(study=key, source=_text(source)))
                except sa.exc.IntegrityError:
                    raise InvalidInput(f"{source}: has been recorded in this study already") from None
            last, number, _ = self._plans.rest(connection, key, 0)
            return issue_given(connection, key, last + 1, number + 1, columns, ends, _text(holder), now)

    def tell(self, key: int, test: int, value: float, holder: str) -> Outcome | None:
        with self._database.connect() as connection:
            return self._settle(connection, key, test, value, holder)

    def drop(self, key: int, test: int, holder: str, reason: str) -> Outcome | None:
        with self._database.connect() as connection:
            return self._settle(connection, key, test, None, holder, reason)

    def _settle(
        self,
        connection: sa.Connection,
        key: int,
        test: int,
        value: float | None,
        holder: str,
        reason: str | None = None,
    ) -> Outcome | None:
        """Record an outcome, unless the test has one: then return that."""
        row = _outcome(key, test, value, holder, self._database.clock(), reason)
        positions = self._settle_row.positiontup
        values: Any = row if positions is None else tuple(row[name] for name in positions)
        try:
            if connection.exec_driver_sql(self._settle_row.string, values).rowcount:
                return None
        except sa.exc.IntegrityError:
            raise _no_test(test) from None
        return present_outcomes(connection, key, [test])[test]

    def tell_many(self, key: int, results: Sequence[tuple[int, float]], holder: str) -> dict[int, Outcome]:
        try:
            with self._database.transaction() as connection:
                self._lock(connection, key)
                if self._settle_all(connection, key, results, holder) < len(results):
                    found = present_outcomes(connection, key, [test for test, _ in results])
                    refused = {test: found[test] for test, value in results if found[test].value != value}
                    if refused:
                        raise _Refused(refused)
        except _Refused as refusal:
            return refusal.outcomes
        except sa.exc.IntegrityError:
            there = self.find_tests(key, [test for test, _ in results])
            missing = [test for test, _ in results if test not in there]
            raise _no_test(missing[0]) from None
        return {}

    def _settle_all(
        self, connection: sa.Connection, key: int, results: Sequence[tuple[int, float]], holder: str
    ) -> int:
        """Record values of tests that have no outcome yet; returns how many."""
        if not results:
            return 0
        now, positions = self._database.clock(), self._settle_row.positiontup
        rows = (_outcome(key, test, value, holder, now) for test, value in results)
        values: Any = [row if positions is None else tuple(row[name] for name in positions) for row in rows]
        return int(connection.exec_driver_sql(self._settle_row.string, values).rowcount)

    def correct(self, key: int, test: int, value: float, holder: str, reason: str) -> Outcome:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            old = present_outcomes(connection, key, [test]).get(test)
            if old is None:
                if issued_test(connection, key, test) is None:
                    raise _no_test(test)
                raise InvalidInput(f"test = {test}: has no result yet; there is nothing to correct")
            if old.value == value:
                return old
            number = sa.select(sa.func.max(outcomes.c.correction) + 1).where(
                outcomes.c.study == key, outcomes.c.test == test
            )
            row = _outcome(key, test, value, holder, now, reason, connection.execute(number).scalar_one())
            connection.execute(sa.insert(outcomes), row)
            connection.execute(sa.update(studies).where(studies.c.study == key).values(revision=studies.c.revision + 1))
        return old

    def fail(self, key: int, test: int, holder: str, reason: str) -> None:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            if issued_test(connection, key, test) is None:
                raise _no_test(test)
            self._note(connection, key, "failed", holder, reason, now, test)
            connection.execute(_held(key, [test], holder).values(expires=0.0))

    def release(self, key: int, tests: Sequence[int], holder: str) -> None:
        with self._database.transaction() as connection:
            self._lock(connection, key)
            for start in range(0, len(tests), 500):
                connection.execute(_held(key, tests[start : start + 500], holder).values(expires=0.0))

    def renew(self, key: int, tests: Sequence[int], holder: str, lease: float) -> None:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            for start in range(0, len(tests), 500):
                held = _held(key, tests[start : start + 500], holder).where(queue.c.expires > now)
                connection.execute(held.values(expires=now + lease))

    # ----------------------------------------------------------------------------------------------- reading

    def test(self, key: int, test: int) -> tuple[Issued, Outcome | None] | None:
        with self._database.connect() as connection:
            issued = issued_test(connection, key, test)
            if issued is None:
                return None
            return issued, present_outcomes(connection, key, [test]).get(test)

    def find_tests(self, key: int, tests: Sequence[int]) -> dict[int, tuple[Issued, Outcome | None]]:
        with self._database.connect() as connection:
            told = present_outcomes(connection, key, tests)
            return {test: (issued, told.get(test)) for test, issued in issued_tests(connection, key, tests).items()}

    def entries(self, key: int, after: int, *, gaps: bool = False) -> Iterator[Entries]:
        return read_entries(self._database, key, after, gaps=gaps)

    def pending(self, key: int) -> list[Pending]:
        with self._database.connect() as connection:
            return read_pending(connection, key)

    def issued(self, key: int) -> int:
        query = sa.select(sa.func.max(tests.c.test)).where(tests.c.study == key)
        with self._database.connect() as connection:
            return connection.execute(query).scalar() or 0

    def told(self, key: int, after: int) -> int:
        with self._database.connect() as connection:
            return int(connection.execute(_TOLD, {"key": key, "after": after}).scalar_one())

    def log(self, key: int, last: int | None = None) -> list[Event]:
        with self._database.connect() as connection:
            return read_log(connection, key, last)

    def history(self, key: int) -> Iterator[History]:
        return read_history(self._database, key)


def _outcome(
    key: int,
    test: int,
    value: float | None,
    holder: str,
    now: float,
    reason: str | None = None,
    correction: int = 0,
) -> dict[str, Any]:
    return {
        "study": key,
        "test": test,
        "correction": correction,
        "value": value,
        "reason": None if reason is None else _text(reason),
        "holder": _text(holder),
        "told": now,
    }


def _held(key: int, ids: Sequence[int], holder: str) -> sa.Update:
    return sa.update(queue).where(queue.c.study == key, queue.c.test.in_(ids), queue.c.holder == _text(holder))


def _text(text: str) -> str:
    """As the databases can keep it: a command's complaint may hold anything."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _no_test(test: int) -> InvalidInput:
    return InvalidInput(f"test = {test}: no such test in this study; `bestarm status` lists the pending ones")
