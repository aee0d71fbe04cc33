"""Reading studies in SQLite or PostgreSQL. `storage.py` adds what changes them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from bestarm.storage.audit import AuditLine
from bestarm.storage.base import Archived, Entries, Event, History, Issued, Outcome, Pending, Storage, StudyRecord
from bestarm.storage.errors import reporting_damage
from bestarm.storage.sql.changes import ChangeWatch
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.queries import check_whole, read_arrivals, read_audit, read_entries, read_history, read_log
from bestarm.storage.sql.schema import decode_more, events, has_outcome, outcomes, queue, storable, studies, tests
from bestarm.storage.sql.upgrading import Upgrade

_KEY: Any = sa.bindparam("key")

# Leaves out the plan. For a large study it is megabytes of text, and every ask and tell looks here first.
# Leaves out the seed of items, which never changes, and the project, which changes with the revision: files of earlier
# versions have them behind the plan.
_PRESENT = sa.select(
    *(studies.c[name] for name in ("study", "seed", "created", "archived", "revision", "by_arrival"))
).where(studies.c.name == sa.bindparam("name"))
_COUNTED = sa.select(sa.func.count(), sa.func.count(studies.c.archived))
_PROJECT = sa.select(studies.c.project).where(studies.c.study == _KEY)
_PROJECTS = sa.select(studies.c.project, *_COUNTED.selected_columns).group_by(studies.c.project)
_BY_ARRIVAL = sa.select(studies.c.by_arrival).where(studies.c.study == _KEY)
_FOUND = (
    sa.select(
        *(tests.c.test, tests.c.arm, tests.c.metric, tests.c.item),
        *(outcomes.c.value, outcomes.c.reason, outcomes.c.holder, outcomes.c.more),
    )
    .join(outcomes, isouter=True)
    .where(tests.c.study == _KEY, tests.c.test.in_(sa.bindparam("ids", expanding=True)))
    .order_by(tests.c.test, outcomes.c.correction)
)
_PENDING = (
    sa.select(
        *(queue.c.test, tests.c.arm, tests.c.metric, queue.c.holder, queue.c.expires, queue.c.attempts),
        *(queue.c.since, queue.c.due, queue.c.aside, sa.func.coalesce(queue.c.reason, ""), tests.c.item),
    )
    .join(tests, sa.and_(tests.c.study == queue.c.study, tests.c.test == queue.c.test))
    .where(queue.c.study == _KEY, queue.c.test > sa.bindparam("after"), ~has_outcome)
    .order_by(queue.c.test)
)
_COUNT_PENDING = sa.select(sa.func.count()).select_from(queue).where(queue.c.study == _KEY, ~has_outcome)
HELD = _COUNT_PENDING.where(queue.c.holder == sa.bindparam("holder"), queue.c.expires > 0.0, queue.c.aside.is_(None))
"""How many tests a holder holds."""
_TOLD = sa.select(sa.func.count()).where(
    outcomes.c.study == _KEY, outcomes.c.test > sa.bindparam("after"), outcomes.c.correction == 0
)
_LAST_EVENT = sa.select(sa.func.max(events.c.event)).where(events.c.study == _KEY)
_LAST_TEST = sa.select(sa.func.max(tests.c.test)).where(tests.c.study == _KEY)
_REMARKS = sa.select(events.c.detail).where(events.c.study == _KEY, events.c.kind == "remarked")
_LAST_REMARK = _REMARKS.order_by(events.c.event.desc()).limit(1)


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

    def __init__(self, url: str, *, create: bool = False, upgrade: Upgrade = "own files") -> None:
        self._database = Database(url, create=create, upgrade=upgrade)
        self._changes = ChangeWatch(self._database)
        self.url = self._database.url
        self.is_private = self._database.in_memory
        self._studies = _all_studies(is_sqlite=self._database.is_sqlite)
        self._by_name = self._studies.where(studies.c.name == sa.bindparam("name"))

    def change_mark(self) -> object | None:
        return self._changes.mark()

    def check_tables(self) -> None:
        self._database.check_tables()

    def close(self) -> None:
        self._changes.close()
        self._database.close()

    # ----------------------------------------------------------------------------------------------- studies

    def find_study(self, name: str) -> StudyRecord | None:
        if name != storable(name):
            return None
        return next(map(_record, self._database.read(self._by_name, name=name)), None)

    def look(self, record: StudyRecord) -> StudyRecord | None:
        for row in self._database.read(_PRESENT, name=record.name):
            if row.study == record.key and row.revision == record.revision:
                return _record((row[0], record.name, record.plan, *row[1:], record.items_seed, record.project))
            return super().look(record)
        return None

    def studies(self) -> list[StudyRecord]:
        return [_record(row) for row in self._database.read(self._studies.order_by(studies.c.study))]

    def study(self, key: int) -> StudyRecord | None:
        return next(map(_record, self._database.read(self._studies.where(studies.c.study == _KEY), key=key)), None)

    def project_of(self, key: int) -> str | None:
        found: str | None = self._database.scalar(_PROJECT, key=key)
        return found

    def projects(self) -> dict[str, tuple[int, int]]:
        rows = self._database.read(_PROJECTS)
        return {project: (count - archived, archived) for project, count, archived in rows}

    def count_studies(self) -> tuple[int, int]:
        [(count, archived)] = self._database.read(_COUNTED)
        return count - archived, archived

    def newest(
        self,
        limit: int,
        *,
        before: int | None = None,
        archived: Archived = "true",
        contains: str = "",
        projects: Collection[str] | None = None,
    ) -> list[StudyRecord]:
        query = self._studies.order_by(studies.c.study.desc()).limit(limit)
        if before is not None:
            query = query.where(studies.c.study < before)
        if archived != "true":
            query = query.where(
                studies.c.archived.is_(None) if archived == "false" else studies.c.archived.is_not(None)
            )
        if contains:
            query = query.where(sa.func.lower(studies.c.name).contains(storable(contains).lower(), autoescape=True))
        if projects is not None:
            query = query.where(studies.c.project.in_(projects))
        return [_record(row) for row in self._database.read(query)]

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        return self._database.snapshot()

    # ------------------------------------------------------------------------------------------------- tests

    def test(self, key: int, test: int) -> tuple[Issued, Outcome | None] | None:
        return self.find_tests(key, [test]).get(test)

    def find_tests(self, key: int, tests: Sequence[int]) -> dict[int, tuple[Issued, Outcome | None]]:
        found: dict[int, tuple[Issued, Outcome | None]] = {}
        for start in range(0, len(tests), 500):
            # The last row of a corrected test counts.
            for *issued, value, reason, holder, more in self._database.fetch(
                _FOUND, key=key, ids=tests[start : start + 500]
            ):
                with reporting_damage(self.url):
                    outcome = None if holder is None else Outcome(value, reason, holder, decode_more(more))
                found[issued[0]] = Issued(*issued), outcome
        return found

    def entries(self, key: int, after: int, *, gaps: bool = False) -> Iterator[Entries]:
        return read_entries(self._database, key, after, gaps=gaps)

    def arrivals(self, key: int, after: int) -> Iterator[Entries]:
        return read_arrivals(self._database, key, after)

    def pending(self, key: int, *, after: int = 0, limit: int | None = None) -> list[Pending]:
        query = _PENDING if limit is None else _PENDING.limit(limit)
        with reporting_damage(self.url):
            found = [*map(Pending._make, self._database.fetch(query, key=key, after=after))]
            for row in found:
                check_whole(row.arm, row.metric, row.item or 0)
        return found

    def count_pending(self, key: int, holder: str | None = None) -> int:
        if holder is None:
            return int(self._database.scalar(_COUNT_PENDING, key=key))
        return int(self._database.scalar(HELD, key=key, holder=storable(holder)))

    def last_event(self, key: int) -> int:
        return self._database.scalar(_LAST_EVENT, key=key) or 0

    def last_remark(self, key: int) -> str:
        return self._database.scalar(_LAST_REMARK, key=key) or ""

    def issued(self, key: int) -> int:
        return self._database.scalar(_LAST_TEST, key=key) or 0

    def told(self, key: int, after: int) -> int:
        return int(self._database.scalar(_TOLD, key=key, after=after))

    def log(self, key: int, last: int | None = None) -> list[Event]:
        with reporting_damage(self.url):
            return read_log(self._database, key, last)

    def audit(self, key: int) -> list[AuditLine]:
        with reporting_damage(self.url):
            return read_audit(self._database, key)

    def history(self, key: int) -> Iterator[History]:
        return read_history(self._database, key, by_arrival=bool(self._database.scalar(_BY_ARRIVAL, key=key)))
