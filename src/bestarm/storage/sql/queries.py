"""Reading a study's record from its tables."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from bestarm.storage.base import Entries, Event, History, Issued, Outcome, Pending, Told
from bestarm.storage.columns import NO_ITEM
from bestarm.storage.errors import making_sense
from bestarm.storage.sql import further
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.schema import events, outcomes, queue, tests

FIRST_CHUNK = 256
CHUNK = 50_000
"""Rows read at a time. The first chunk is small: often there are only a few rows, or many that wait for one."""

PAGE = 5_000
"""Tests of which the whole history is read at a time."""

has_outcome = sa.exists().where(outcomes.c.study == queue.c.study, outcomes.c.test == queue.c.test)

_ORDER = {
    "created": 0,
    "asked": 1,
    "given": 2,
    "failed": 3,
    "set aside": 3,
    "released": 4,
    "handed on": 4,
    "told": 5,
    "dropped": 5,
    "amended": 6,
    "corrected": 6,
}


_ISSUED = sa.select(tests.c.test, tests.c.arm, tests.c.metric, tests.c.item)


def issued_test(connection: sa.Connection, key: int, test: int) -> Issued | None:
    row = connection.execute(_ISSUED.where(tests.c.study == key, tests.c.test == test)).first()
    return None if row is None else Issued(*row)


def issued_tests(connection: sa.Connection, key: int, ids: Sequence[int]) -> dict[int, Issued]:
    """Those of the tests that exist."""
    found: dict[int, Issued] = {}
    for start in range(0, len(ids), 500):
        query = _ISSUED.where(tests.c.study == key, tests.c.test.in_(ids[start : start + 500]))
        found |= {row.test: Issued(*row) for row in connection.execute(query)}
    return found


def present_outcomes(database: Database, connection: sa.Connection, key: int, ids: Sequence[int]) -> dict[int, Outcome]:
    """The outcomes, as last corrected, of those tests that have one."""
    found: dict[int, Outcome] = {}
    for start in range(0, len(ids), 500):
        rows = connection.execute(
            sa.select(*(outcomes.c[name] for name in ("test", "value", "reason", "holder", "more")))
            .where(outcomes.c.study == key, outcomes.c.test.in_(ids[start : start + 500]))
            .order_by(outcomes.c.test, outcomes.c.correction)
        )
        with making_sense(database.url):
            found |= {row.test: Outcome(row.value, row.reason, row.holder, further.read(row.more)) for row in rows}
    return found


def count_pending(connection: sa.Connection, key: int, holder: str | None = None) -> int:
    """How many tests have no outcome, or how many of those `holder` holds."""
    query, whose = (_COUNT, {}) if holder is None else (_HELD, {"holder": holder})
    return int(connection.execute(query, {"key": key, **whose}).scalar_one())


_COUNT = sa.select(sa.func.count()).select_from(queue).where(queue.c.study == sa.bindparam("key"), ~has_outcome)
_HELD = _COUNT.where(queue.c.holder == sa.bindparam("holder"), queue.c.expires > 0.0, queue.c.aside.is_(None))


def read_pending(connection: sa.Connection, key: int, after: int, limit: int | None) -> list[Pending]:
    query = _PENDING if limit is None else _PENDING.limit(limit)
    # The driver's own rows: in the first round of a large problem there are hundreds of thousands.
    return [*map(Pending._make, connection.execute(query, {"key": key, "after": after}).cursor.fetchall())]


_PENDING = (
    sa.select(
        *(queue.c.test, tests.c.arm, tests.c.metric, queue.c.holder, queue.c.expires, queue.c.attempts),
        *(queue.c.since, queue.c.due, queue.c.aside, sa.func.coalesce(queue.c.reason, ""), tests.c.item),
    )
    .join(tests, sa.and_(tests.c.study == queue.c.study, tests.c.test == queue.c.test))
    .where(queue.c.study == sa.bindparam("key"), queue.c.test > sa.bindparam("after"), ~has_outcome)
    .order_by(queue.c.test)
)


def read_entries(database: Database, key: int, after: int, *, gaps: bool) -> Iterator[Entries]:
    """As `Storage.entries` says; no connection is held between the parts."""
    # Ids are consecutive, so a page is a range of them. With a limit the database would sort everything that follows.
    last, size = 0, FIRST_CHUNK
    while True:
        with database.connect() as connection:
            # The driver's own rows: a million of SQLAlchemy's would take twice as long.
            rows = connection.execute(_ENTRIES, {"key": key, "after": after, "to": after + size}).cursor.fetchall()
            if gaps and not last:
                last = connection.execute(_LAST, {"key": key}).scalar() or 0
        if rows:
            with making_sense(database.url):
                chunk = _columns(rows)
            if not gaps and chunk.ids[-1] != after + len(chunk.ids):
                chunk = chunk.before(int(np.argmin(chunk.ids == after + 1 + np.arange(len(chunk.ids)))))
            if len(chunk.ids):
                yield chunk
        if (after + size >= last) if gaps else (not rows or chunk.ids.size < size):
            return
        after += size
        size = CHUNK


def read_arrivals(database: Database, key: int, after: int) -> Iterator[Entries]:
    """As `Storage.arrivals` says; no connection is held between the parts."""
    while True:
        with database.connect() as connection:
            # A page ends between two numbers, so that a correction stays with what it corrects.
            page = connection.execute(_LAST_OF_PAGE, {"key": key, "after": after, "size": CHUNK})
            last = page.scalar_one_or_none()
            if last is None:
                return
            rows = connection.execute(_ARRIVALS, {"key": key, "after": after, "to": last}).cursor.fetchall()
        with making_sense(database.url):
            chunk = _columns(rows)
        yield chunk
        after = last


# From the outcomes, in the order of their key: then there is nothing to sort.
_OUTCOMES = (
    sa.select(
        *(outcomes.c.test, tests.c.arm, tests.c.metric, outcomes.c.value, tests.c.ends, outcomes.c.told),
        *(sa.func.coalesce(outcomes.c.arrival, 0), outcomes.c.holder),
        *(outcomes.c.more, sa.func.coalesce(tests.c.item, NO_ITEM), tests.c.issued),
    )
    .join(tests, sa.and_(outcomes.c.study == tests.c.study, outcomes.c.test == tests.c.test))
    .where(outcomes.c.study == sa.bindparam("key"))
)
_ENTRIES = _OUTCOMES.where(outcomes.c.test > sa.bindparam("after"), outcomes.c.test <= sa.bindparam("to")).order_by(
    outcomes.c.test, outcomes.c.correction
)
_ARRIVALS = _OUTCOMES.where(
    outcomes.c.arrival > sa.bindparam("after"), outcomes.c.arrival <= sa.bindparam("to")
).order_by(outcomes.c.arrival, outcomes.c.correction)
_PAGE = (
    sa.select(outcomes.c.arrival)
    .where(outcomes.c.study == sa.bindparam("key"), outcomes.c.arrival > sa.bindparam("after"))
    .order_by(outcomes.c.arrival)
    .limit(sa.bindparam("size"))
    .subquery()
)
_LAST_OF_PAGE = sa.select(sa.func.max(_PAGE.c.arrival))
_LAST = sa.select(sa.func.max(tests.c.test)).where(tests.c.study == sa.bindparam("key"))


def _columns(rows: Sequence[Any]) -> Entries:
    """Rows as arrays. For a corrected test the last row counts."""
    table = np.fromiter(rows, _ROW, count=len(rows))
    table = table[np.append(table["test"][1:] != table["test"][:-1], True)]
    columns: dict[str, Any] = {name: np.ascontiguousarray(table[name]) for name in _COLUMNS}
    columns["more"] = further.read_all(columns["more"].tolist())
    if not (columns["item"] != NO_ITEM).any():
        columns["item"] = columns["item"][:0]
    return Entries(*columns.values())


_COLUMNS = {
    "test": "i8",
    "arm": "i8",
    "metric": "i8",
    "value": "f8",
    "ends": "i1",
    "told": "f8",
    "arrival": "i8",
    "holder": "O",
    "more": "O",
    "item": "i8",
    "issued": "f8",
}
_ROW = np.dtype(list(_COLUMNS.items()))


_FIRST = operator.itemgetter(0)


def read_history(database: Database, key: int, *, by_arrival: bool) -> Iterator[History]:
    """As `Storage.history` says."""
    if by_arrival:
        for entries in read_arrivals(database, key, 0):
            first, last = int(entries.arrivals[0]), int(entries.arrivals[-1])
            yield from _histories(database, _ARRIVED, {"key": key, "first": first, "last": last})
        yield from _histories(database, _NOT_ARRIVED, {"key": key})
        return
    for after in itertools.count(0, PAGE):
        page = list(_histories(database, _IN_ORDER, {"key": key, "after": after, "to": after + PAGE}))
        if not page:
            return
        yield from page


def _histories(database: Database, query: sa.Select[Any], names: dict[str, int]) -> Iterator[History]:
    with database.connect() as connection:
        rows = connection.execute(query, names).cursor.fetchall()
    for _, of_test in itertools.groupby(rows, _FIRST):
        with making_sense(database.url):
            history = _history([*of_test])
        yield history


def _told(value: float | None, reason: str | None, holder: str, time: float, more: str | None) -> Told:
    return Told(value, reason, holder, time, further.read(more))


def _history(recorded: Sequence[Any]) -> History:
    test, arm, metric, ends, given, issued, item = recorded[0][:7]
    # Without an outcome there is one row, without a time.
    told = tuple(_told(*row[7:]) for row in recorded if row[10] is not None)
    for outcome in told:
        # A damaged database can hold anything in place of a number or a text.
        if not isinstance(outcome.value, float | None) or not isinstance(outcome.holder, str):
            raise TypeError(f"the result of test {test} is {outcome.value!r:.80}")
        outcome.time + 0.0
    if arm < 0 or metric < 0:
        raise ValueError(f"test {test} is of arm number {arm} and metric number {metric}")
    if item is not None and item < 0:
        raise ValueError(f"test {test} is on item number {item}")
    return History(test, arm, metric, bool(ends), bool(given), issued + 0.0, told, item)


_HISTORY = (
    sa.select(
        *(tests.c.test, tests.c.arm, tests.c.metric, tests.c.ends, tests.c.given, tests.c.issued, tests.c.item),
        *(outcomes.c.value, outcomes.c.reason, outcomes.c.holder, outcomes.c.told, outcomes.c.more),
    )
    .join(outcomes, sa.and_(outcomes.c.study == tests.c.study, outcomes.c.test == tests.c.test), isouter=True)
    .where(tests.c.study == sa.bindparam("key"))
)
_IN_ORDER = _HISTORY.where(tests.c.test > sa.bindparam("after"), tests.c.test <= sa.bindparam("to")).order_by(
    tests.c.test, outcomes.c.correction
)
_ARRIVED = _HISTORY.where(
    outcomes.c.arrival >= sa.bindparam("first"), outcomes.c.arrival <= sa.bindparam("last")
).order_by(outcomes.c.arrival, outcomes.c.correction)
_NOT_ARRIVED = _HISTORY.where(outcomes.c.told.is_(None)).order_by(tests.c.test)


def read_log(connection: sa.Connection, key: int, last: int | None) -> list[Event]:
    asked = sa.select(tests.c.issued, tests.c.test, tests.c.arm, tests.c.metric, tests.c.item).where(
        tests.c.study == key, tests.c.given == 0
    )
    told = (
        sa.select(outcomes, tests.c.arm, tests.c.metric, tests.c.item, tests.c.given)
        .join(tests, sa.and_(tests.c.study == outcomes.c.study, tests.c.test == outcomes.c.test))
        .where(outcomes.c.study == key)
    )
    noted = sa.select(events).where(events.c.study == key)
    queries = [
        asked.order_by(tests.c.test.desc()),
        told.order_by(outcomes.c.told.desc(), outcomes.c.test.desc(), outcomes.c.correction.desc()),
        noted.order_by(events.c.event.desc()),
    ]
    rows = [connection.execute(query if last is None else query.limit(last)).all() for query in queries]
    found = [Event(row.issued, "asked", row.test, "", "", row.arm, row.metric, item=row.item) for row in rows[0]]
    # Sorting keeps the order of events with the same time and kind.
    found += [_told_event(row) for row in reversed(rows[1])]
    found += [Event(row.time, row.kind, row.test, row.holder, row.detail) for row in reversed(rows[2])]
    # Among events with the same time, the earlier step comes first.
    found.sort(key=lambda event: (event.time, event.test or 0, _ORDER.get(event.kind, 9)))
    return found if last is None else found[-last:] if last else []


_REMARKS = sa.select(events.c.detail).where(events.c.study == sa.bindparam("key"), events.c.kind == "remarked")
_LAST_REMARK = _REMARKS.order_by(events.c.event.desc()).limit(1)


def last_remark(connection: sa.Connection, key: int) -> str:
    return connection.execute(_LAST_REMARK, {"key": key}).scalar() or ""


def _told_event(row: Any) -> Event:
    kind: Any = (
        "corrected" if row.correction else "given" if row.given else "told" if row.value is not None else "dropped"
    )
    values = row.value, further.read(row.more)
    return Event(row.told, kind, row.test, row.holder, row.reason or "", row.arm, row.metric, *values, row.item)
