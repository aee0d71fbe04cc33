"""Reading studies in SQLite or PostgreSQL. `sql.py` adds what changes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from bestarm.storage.base import (
    Archived,
    Entries,
    Event,
    History,
    Issued,
    Outcome,
    Pending,
    Storage,
    StudyRecord,
)
from bestarm.storage.errors import making_sense
from bestarm.storage.sql.changes import ChangeWatch
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.leases import text
from bestarm.storage.sql.queries import (
    count_pending,
    issued_test,
    issued_tests,
    last_remark,
    present_outcomes,
    read_arrivals,
    read_entries,
    read_history,
    read_log,
    read_pending,
)
from bestarm.storage.sql.schema import events, outcomes, studies, tests

# Leaves out the plan. For a large study it is megabytes of text, and every ask and tell looks here first.
# Leaves out the seed of items: it never changes, and files of earlier versions have it behind the plan.
_PRESENT = sa.select(
    *(studies.c[name] for name in ("study", "seed", "created", "archived", "revision", "by_arrival"))
).where(studies.c.name == sa.bindparam("name"))
_TOLD = sa.select(sa.func.count()).where(
    outcomes.c.study == sa.bindparam("key"), outcomes.c.test > sa.bindparam("after"), outcomes.c.correction == 0
)
_BY_ARRIVAL = sa.select(studies.c.by_arrival).where(studies.c.study == sa.bindparam("key"))

_COUNTED = sa.select(sa.func.count(), sa.func.count(studies.c.archived))


def _all_studies(*, is_sqlite: bool) -> sa.Select[Any]:
    columns: list[Any] = [studies.c["study" if name == "key" else name] for name in StudyRecord._fields]
    if is_sqlite:
        # As bytes: if a damaged file holds something that is not text, SQLite would refuse to read any study.
        columns = [sa.cast(each, sa.LargeBinary) if each.name in ("name", "plan") else each for each in columns]
    return sa.select(*columns)


def _record(row: Any) -> StudyRecord:
    record = StudyRecord._make(each.decode(errors="replace") if isinstance(each, bytes) else each for each in row)
    return record._replace(by_arrival=bool(record.by_arrival))


class SQLReader(Storage):
    """The reading half of `SQLStorage`."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        self._database = Database(url, create=create)
        self._changes = ChangeWatch(self._database)
        self.url = self._database.url
        self.is_private = self._database.in_memory
        self._studies = _all_studies(is_sqlite=self._database.is_sqlite)
        self._by_name = self._studies.where(studies.c.name == sa.bindparam("name"))

    def change_mark(self) -> object | None:
        return self._changes.mark()

    def close(self) -> None:
        self._changes.close()
        self._database.close()

    # ----------------------------------------------------------------------------------------------- studies

    def find_study(self, name: str) -> StudyRecord | None:
        if name != text(name):
            return None
        with self._database.connect() as connection:
            row = connection.execute(self._by_name, {"name": name}).first()
        return None if row is None else _record(row)

    def look(self, record: StudyRecord) -> StudyRecord | None:
        with self._database.connect() as connection:
            row = connection.execute(_PRESENT, {"name": record.name}).first()
        if row is not None and row.revision != record.revision:
            return self.find_study(record.name)
        return None if row is None else _record((row[0], record.name, record.plan, *row[1:], record.items_seed))

    def studies(self) -> list[StudyRecord]:
        with self._database.connect() as connection:
            return [_record(row) for row in connection.execute(self._studies.order_by(studies.c.study))]

    def study(self, key: int) -> StudyRecord | None:
        with self._database.connect() as connection:
            row = connection.execute(self._studies.where(studies.c.study == key)).first()
        return None if row is None else _record(row)

    def read_study(self, connection: sa.Connection, key: int) -> StudyRecord:
        """The study with that key, which is there, as a transaction sees it."""
        return _record(connection.execute(self._studies.where(studies.c.study == key)).one())

    def count_studies(self) -> tuple[int, int]:
        with self._database.connect() as connection:
            there, archived = connection.execute(_COUNTED).one()
        return there - archived, archived

    def newest(
        self, limit: int, *, before: int | None = None, archived: Archived = "true", contains: str = ""
    ) -> list[StudyRecord]:
        query = self._studies.order_by(studies.c.study.desc()).limit(limit)
        if before is not None:
            query = query.where(studies.c.study < before)
        if archived != "true":
            query = query.where(
                studies.c.archived.is_(None) if archived == "false" else studies.c.archived.is_not(None)
            )
        if contains:
            query = query.where(sa.func.lower(studies.c.name).contains(text(contains).lower(), autoescape=True))
        with self._database.connect() as connection:
            return [_record(row) for row in connection.execute(query)]

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        return self._database.snapshot()

    # ------------------------------------------------------------------------------------------------- tests

    def test(self, key: int, test: int) -> tuple[Issued, Outcome | None] | None:
        with self._database.connect() as connection:
            issued = issued_test(connection, key, test)
            if issued is None:
                return None
            return issued, present_outcomes(self._database, connection, key, [test]).get(test)

    def find_tests(self, key: int, tests: Sequence[int]) -> dict[int, tuple[Issued, Outcome | None]]:
        with self._database.connect() as connection:
            told = present_outcomes(self._database, connection, key, tests)
            return {test: (issued, told.get(test)) for test, issued in issued_tests(connection, key, tests).items()}

    def entries(self, key: int, after: int, *, gaps: bool = False) -> Iterator[Entries]:
        return read_entries(self._database, key, after, gaps=gaps)

    def arrivals(self, key: int, after: int) -> Iterator[Entries]:
        return read_arrivals(self._database, key, after)

    def pending(self, key: int, *, after: int = 0, limit: int | None = None) -> list[Pending]:
        with self._database.connect() as connection, making_sense(self.url):
            return read_pending(connection, key, after, limit)

    def count_pending(self, key: int, holder: str | None = None) -> int:
        with self._database.connect() as connection:
            return count_pending(connection, key, None if holder is None else text(holder))

    def last_event(self, key: int) -> int:
        query = sa.select(sa.func.max(events.c.event)).where(events.c.study == key)
        with self._database.connect() as connection:
            return connection.execute(query).scalar() or 0

    def last_remark(self, key: int) -> str:
        with self._database.connect() as connection:
            return last_remark(connection, key)

    def issued(self, key: int) -> int:
        query = sa.select(sa.func.max(tests.c.test)).where(tests.c.study == key)
        with self._database.connect() as connection:
            return connection.execute(query).scalar() or 0

    def told(self, key: int, after: int) -> int:
        with self._database.connect() as connection:
            return int(connection.execute(_TOLD, {"key": key, "after": after}).scalar_one())

    def log(self, key: int, last: int | None = None) -> list[Event]:
        with self._database.connect() as connection, making_sense(self.url):
            return read_log(connection, key, last)

    def history(self, key: int) -> Iterator[History]:
        with self._database.connect() as connection:
            by_arrival = bool(connection.execute(_BY_ARRIVAL, {"key": key}).scalar())
        return read_history(self._database, key, by_arrival=by_arrival)
