"""Reading a study's record from its tables."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from bestarm.storage.audit import AuditLine, audit_of, decode_tests
from bestarm.storage.base import Entries, Event, EventKind, History, Told
from bestarm.storage.columns import NO_ITEM
from bestarm.storage.errors import reporting_damage
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.schema import decode_all_more, decode_more, events, outcomes, tests

FIRST_CHUNK = 256
CHUNK = 50_000
"""Rows read at a time. The first chunk is small: often there are only a few rows, or many that wait for one."""

PAGE = 5_000
"""Tests of which the whole history is read at a time."""

_END_OF_CALENDARS = 253_402_300_800.0
"""The year 10,000."""

_STEPS: tuple[tuple[EventKind, ...], ...] = (
    *(("created",), ("asked",), ("given",), ("failed", "set aside"), ("released", "handed on"), ("told", "dropped")),
    ("amended", "corrected"),
)
_ORDER = {kind: place for place, kinds in enumerate(_STEPS) for kind in kinds}
"""The order of events with the same time. Others come last."""


def read_entries(database: Database, key: int, after: int, *, gaps: bool) -> Iterator[Entries]:
    """As `Storage.entries` says; no connection is held between the parts."""
    # Ids are consecutive, so a page is a range of them. With a limit the database would sort everything that follows.
    last, size = 0, FIRST_CHUNK
    while True:
        rows = database.fetch(_ENTRIES, key=key, after=after, to=after + size)
        if gaps and not last:
            last = database.scalar(_LAST, key=key) or 0
        if rows:
            with reporting_damage(database.url):
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
        # A page ends between two numbers, so that a correction stays with what it corrects.
        last = database.scalar(_LAST_OF_PAGE, key=key, after=after, size=CHUNK)
        if last is None:
            return
        with reporting_damage(database.url):
            chunk = _columns(database.fetch(_ARRIVALS, key=key, after=after, to=last))
        yield chunk
        after = last


# From the outcomes, in the order of their key: then there is nothing to sort.
_OUTCOMES = (
    sa.select(
        *(outcomes.c.test, tests.c.arm, tests.c.metric, outcomes.c.value, tests.c.ends, outcomes.c.told),
        *(sa.func.coalesce(outcomes.c.arrival, 0), outcomes.c.holder),
        *(outcomes.c.more, sa.func.coalesce(tests.c.item, NO_ITEM), tests.c.issued, tests.c.given),
    )
    .join(tests)
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
    table = table[np.append(table["ids"][1:] != table["ids"][:-1], True)]
    columns: dict[str, Any] = {name: np.ascontiguousarray(table[name]) for name in Entries._fields}
    check_times(columns["told"])
    check_times(columns["issued"])
    columns["more"] = decode_all_more(columns["more"].tolist())
    if not (columns["items"] != NO_ITEM).any():
        columns["items"] = columns["items"][:0]
    return Entries(**columns)


_KINDS = ("i8", "i8", "i8", "f8", "i1", "f8", "i8", "O", "O", "i8", "f8", "i1")
_ROW = np.dtype([*zip(Entries._fields, _KINDS, strict=True)])


def read_history(database: Database, key: int, *, by_arrival: bool) -> Iterator[History]:
    """As `Storage.history` says."""
    if by_arrival:
        for entries in read_arrivals(database, key, 0):
            first, last = int(entries.arrivals[0]), int(entries.arrivals[-1])
            yield from _histories(database, database.fetch(_ARRIVED, key=key, first=first, last=last))
        yield from _histories(database, database.fetch(_NOT_ARRIVED, key=key))
        return
    for after in itertools.count(0, PAGE):
        page = list(_histories(database, database.fetch(_IN_ORDER, key=key, after=after, to=after + PAGE)))
        if not page:
            return
        yield from page


def _histories(database: Database, rows: Sequence[Any]) -> Iterator[History]:
    for _, rows_of_test in itertools.groupby(rows, operator.itemgetter(0)):
        with reporting_damage(database.url):
            history = _history([*rows_of_test])
        yield history


def _history(recorded: Sequence[Any]) -> History:
    test, arm, metric, ends, given, issued, item = recorded[0][:7]
    # Without an outcome there is one row, without a time.
    told = tuple(Told._make((*row[7:11], decode_more(row[11]))) for row in recorded if row[10] is not None)
    for outcome in told:
        # A damaged database can hold anything in place of a number or a text.
        if not isinstance(outcome.value, float | None) or not isinstance(outcome.holder, str):
            raise TypeError(f"the result of test {test} is {outcome.value!r:.80}")
        check_times(outcome.time)
    check_whole(arm, metric, item or 0)
    check_times(issued)
    return History(test, arm, metric, bool(ends), bool(given), issued, told, item)


def check_whole(*numbers: object) -> None:
    """Raise `ValueError` unless these are numbers of an arm, a metric or an item. A damaged database can hold anything
    in place of them."""
    for number in numbers:
        if not isinstance(number, int) or number < 0:
            raise ValueError(f"{number!r:.80} is not the number of an arm, a metric or an item")


def check_times(times: Any) -> None:
    """Raise an error unless these are times that a calendar has."""
    if not np.all((np.asarray(times) >= 0.0) & (np.asarray(times) < _END_OF_CALENDARS)):
        raise ValueError(f"{times!r:.80} is not a time")


_HISTORY = (
    sa.select(
        *(tests.c.test, tests.c.arm, tests.c.metric, tests.c.ends, tests.c.given, tests.c.issued, tests.c.item),
        *(outcomes.c.value, outcomes.c.reason, outcomes.c.holder, outcomes.c.told, outcomes.c.more),
    )
    .join(outcomes, isouter=True)
    .where(tests.c.study == sa.bindparam("key"))
)
_IN_ORDER = _HISTORY.where(tests.c.test > sa.bindparam("after"), tests.c.test <= sa.bindparam("to")).order_by(
    tests.c.test, outcomes.c.correction
)
_ARRIVED = _HISTORY.where(
    outcomes.c.arrival >= sa.bindparam("first"), outcomes.c.arrival <= sa.bindparam("last")
).order_by(outcomes.c.arrival, outcomes.c.correction)
_NOT_ARRIVED = _HISTORY.where(outcomes.c.told.is_(None)).order_by(tests.c.test)


def read_log(database: Database, key: int, last: int | None) -> list[Event]:
    asked = sa.select(tests.c.issued, tests.c.test, tests.c.arm, tests.c.metric, tests.c.item).where(
        tests.c.study == key, tests.c.given == 0
    )
    told = (
        sa.select(outcomes, tests.c.arm, tests.c.metric, tests.c.item, tests.c.given)
        .join(tests)
        .where(outcomes.c.study == key)
    )
    noted = sa.select(events).where(events.c.study == key, events.c.kind != "handed out")
    queries = [
        asked.order_by(tests.c.test.desc()),
        told.order_by(outcomes.c.told.desc(), outcomes.c.test.desc(), outcomes.c.correction.desc()),
        noted.order_by(events.c.event.desc()),
    ]
    rows = [database.read(query if last is None else query.limit(last)) for query in queries]
    since = min((row.issued for row in rows[0]), default=0.0)
    who = {(time, test): holder for time, holder, tests in read_handed(database, key, since) for test in tests}
    found = [
        Event(
            row.issued, "asked", row.test, who.get((row.issued, row.test), ""), "", row.arm, row.metric, item=row.item
        )
        for row in rows[0]
    ]
    # Sorting keeps the order of events with the same time and kind.
    found += [_told_event(row) for row in reversed(rows[1])]
    found += [Event(row.time, row.kind, row.test, row.holder, row.detail) for row in reversed(rows[2])]
    # Among events with the same time, the earlier step comes first.
    found.sort(key=lambda event: (event.time, event.test or 0, _ORDER.get(event.kind, 9)))
    return found if last is None else found[-last:] if last else []


def read_handed(database: Database, key: int, since: float = 0.0) -> list[tuple[float, str, list[int]]]:
    """When who was handed which tests, the oldest first."""
    query = sa.select(events.c.time, events.c.holder, events.c.detail).where(
        events.c.study == key, events.c.kind == "handed out", events.c.time >= since
    )
    with reporting_damage(database.url):
        return [
            (row.time, row.holder, decode_tests(row.detail)) for row in database.read(query.order_by(events.c.event))
        ]


def read_audit(database: Database, key: int) -> list[AuditLine]:
    """As `Storage.audit` says. A test that is handed out again is not asked for anew, as far as the log says."""
    found = read_log(database, key, None)
    asked = {(event.time, event.test) for event in found if event.kind == "asked"}
    for time, holder, tests_ in read_handed(database, key):
        found += [Event(time, "asked", test, holder, "") for test in tests_ if (time, test) not in asked]
    return audit_of(found)


def _told_event(row: Any) -> Event:
    kind: Any = (
        "corrected" if row.correction else "given" if row.given else "told" if row.value is not None else "dropped"
    )
    values = row.value, decode_more(row.more)
    return Event(row.told, kind, row.test, row.holder, row.reason or "", row.arm, row.metric, *values, row.item)
