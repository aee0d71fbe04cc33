"""Issuing tests in SQL: what is planned, what goes to whom, and what is free again.

Everything here happens inside the transaction of a caller who has locked the study.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bestarm.storage.base import EventKind, Issued, Rounds
from bestarm.storage.columns import Columns
from bestarm.storage.sql.bulk import insert_rows
from bestarm.storage.sql.further import written
from bestarm.storage.sql.queries import has_outcome
from bestarm.storage.sql.schema import events, former, outcomes, queue, rounds, tests

Planned = tuple[int, int, int] | tuple[int, int, int, int]
"""Arm, metric, 1 if the test ends a round, and its item if it has one."""


# Made once, since putting a statement together takes longer than running it.
_OF_STUDY = queue.c.study == sa.bindparam("key")
OVERDUE = queue.c.expires <= sa.bindparam("now")
_NOTICE_SILENCE = (
    sa.update(queue)
    .where(_OF_STUDY, OVERDUE, queue.c.expires > 0.0, queue.c.silent.is_(None))
    .values(silent=sa.bindparam("now"))
)
# Leaves time for a heartbeat from a holder that was asleep, or cut off from the database, and is back.
_IS_GONE = queue.c.silent + 0.5 * sa.func.coalesce(queue.c.lease, 0.0) <= sa.bindparam("now")
_FREE = (
    sa.select(queue.c.test, tests.c.arm, tests.c.metric, tests.c.item, queue.c.holder, queue.c.expires)
    .join(tests, sa.and_(tests.c.study == queue.c.study, tests.c.test == queue.c.test))
    .where(_OF_STUDY, OVERDUE, sa.or_(queue.c.expires == 0.0, _IS_GONE), ~has_outcome)
    # The sum keeps SQLite from reading the whole queue in order, instead of the few that are overdue.
    .order_by(queue.c.test + 0)
    .limit(sa.bindparam("count"))
)
# Two statements, so that each finds its rows by an index.
_FORGET_SETTLED = sa.delete(queue).where(_OF_STUDY, queue.c.test <= sa.bindparam("settled"))
_FORGET_TOLD = sa.delete(queue).where(_OF_STUDY, has_outcome)
_NEWEST = (
    sa.select(tests.c.test, tests.c.round)
    .where(tests.c.study == sa.bindparam("key"))
    .order_by(tests.c.test.desc())
    .limit(1)
)
_PRESENT = sa.select(rounds.c.round, rounds.c.first).where(rounds.c.study == sa.bindparam("key"))
_ISSUE, _LEASE = sa.insert(tests), sa.insert(queue)


def flat(rounds: Rounds) -> list[Planned]:
    return [_planned(*test, ends=k == len(tests) - 1) for tests in rounds for k, test in enumerate(tests)]


def _planned(arm: int, metric: int, item: int | None = None, *, ends: bool) -> Planned:
    return (int(arm), int(metric), int(ends)) if item is None else (int(arm), int(metric), int(ends), int(item))


def issue(
    connection: sa.Connection,
    key: int,
    first: int,
    number: int,
    due: Sequence[Planned],
    now: float,
) -> list[Issued]:
    """Put tests at the end of the record."""
    new = [Issued(first + k, arm, metric, item[0] if item else None) for k, (arm, metric, _, *item) in enumerate(due)]
    rows = [
        {
            "study": key,
            "test": test.id,
            "round": number,
            "ends": planned[2],
            "arm": test.arm,
            "metric": test.metric,
            "given": 0,
            "issued": now,
            "item": test.item,
        }
        for test, planned in zip(new, due, strict=True)
    ]
    connection.execute(_ISSUE, rows)
    return new


def issue_given(
    connection: sa.Connection,
    key: int,
    first: int,
    number: int,
    results: Columns,
    ends: Iterable[int],
    holder: str,
    now: float,
    arrival: int | None,
) -> range:
    """Put results that were measured without asking at the end of the record; returns their ids.

    In a study by arrival, `arrival` is the number of the first.
    """
    ids = range(first, first + len(results))
    marks = bytearray(len(ids))
    for place in ends:
        if 0 <= place < len(ids):
            marks[place] = 1
    marks[-1] = 1
    insert_rows(
        connection,
        tests,
        {"study": key, "round": number, "given": 1, "issued": now},
        {"test": ids, "ends": marks, "arm": results.arms, "metric": results.metrics}
        | ({"item": map(results.item, range(len(ids)))} if results.items else {}),
    )
    insert_rows(
        connection,
        outcomes,
        {"study": key, "correction": 0, "holder": holder, "told": now},
        {"test": ids, "value": results.values}
        | ({} if arrival is None else {"arrival": range(arrival, arrival + len(ids))})
        | ({"more": (written(results.more(k)) for k in range(len(ids)))} if results.bounds else {}),
    )
    return ids


class Terms(NamedTuple):
    """Who is handed tests now, how long they may stay silent (forever, if None), and when the tests are due."""

    holder: str
    now: float
    lease: float | None
    due: float | None
    request: str | None = None
    """The key under which they asked."""

    def columns(self) -> dict[str, Any]:
        """The columns of the queue."""
        return {
            "holder": self.holder,
            "since": self.now,
            "lease": self.lease,
            "expires": math.inf if self.lease is None else self.now + self.lease,
            "due": None if self.due is None else self.now + self.due,
            "silent": None,
            "request": self.request,
        }


def note(
    connection: sa.Connection,
    key: int,
    kind: EventKind,
    holder: str,
    detail: str,
    now: float,
    test: int | None = None,
) -> None:
    """Add a line to the log."""
    row = {"study": key, "kind": kind, "holder": text(holder), "detail": text(detail), "test": test, "time": now}
    connection.execute(sa.insert(events).values(row))


def text(words: str) -> str:
    """The text as databases can keep it: a command's error output may hold anything."""
    if words.isascii() and "\0" not in words:
        return words
    return words.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def hand_new(connection: sa.Connection, key: int, new: Sequence[Issued], terms: Terms) -> None:
    columns = terms.columns()
    connection.execute(_LEASE, [{"study": key, "test": test.id, "attempts": 1, **columns} for test in new])


def hand_again(connection: sa.Connection, key: int, count: int, terms: Terms) -> list[Issued]:
    """Hand up to `count` free tests to a new holder. Former holders can no longer tell them."""
    connection.execute(_NOTICE_SILENCE, {"key": key, "now": terms.now})
    free = connection.execute(_FREE, {"key": key, "now": terms.now, "count": count}).all()
    if not free:
        return []
    columns = terms.columns() | {"aside": None, "reason": None, "attempts": queue.c.attempts + 1}
    update = sa.update(queue).where(queue.c.study == key, queue.c.test == sa.bindparam("id")).values(columns)
    connection.execute(update, [{"id": row.test} for row in free])
    mine = sa.delete(former).where(
        former.c.study == key, former.c.test == sa.bindparam("id"), former.c.holder == terms.holder
    )
    connection.execute(mine, [{"id": row.test} for row in free])
    for row in free:
        if row.holder != terms.holder:
            # They may have held it before, lost it and gotten it back.
            known = sa.select(former).where(
                former.c.study == key, former.c.test == row.test, former.c.holder == row.holder
            )
            if connection.execute(known).first() is None:
                connection.execute(sa.insert(former).values(study=key, test=row.test, holder=row.holder))
        if row.expires > 0.0:
            detail = f"{row.holder} has been silent; the test goes to {terms.holder}"
            note(connection, key, "handed on", row.holder, detail, terms.now, row.test)
    return [Issued(row.test, row.arm, row.metric, row.item) for row in free]


def forget_told(connection: sa.Connection, key: int, settled: int, *, by_arrival: bool) -> None:
    """Remove tests from the queue that are known to have an outcome."""
    if by_arrival:
        connection.execute(_FORGET_TOLD, {"key": key})
    elif settled:
        connection.execute(_FORGET_SETTLED, {"key": key, "settled": settled})


class Plans:
    """The tests that studies have planned and not yet handed out."""

    def __init__(self, *, is_sqlite: bool) -> None:
        insert: Any = sqlite.insert if is_sqlite else postgresql.insert
        excluded = insert(rounds).excluded
        self._upsert = insert(rounds).on_conflict_do_update(
            index_elements=["study"], set_={name: excluded[name] for name in ("round", "first", "tests")}
        )
        self._read: dict[int, tuple[int, int, list[Planned]]] = {}

    def put(self, connection: sa.Connection, key: int, number: int, first: int, plan: Sequence[Planned]) -> None:
        row = {"study": key, "round": number, "first": first, "tests": json.dumps(plan)}
        connection.execute(self._upsert, row)

    def rest(self, connection: sa.Connection, key: int, count: int) -> tuple[int, int, list[Planned]]:
        """The last test's id, the number of its plan, and what that plan still has to hand out, up to `count`."""
        row = connection.execute(_NEWEST, {"key": key}).first()
        if row is None:
            return 0, 0, []
        last, number = row
        present = connection.execute(_PRESENT, {"key": key}).first()
        # Results measured without asking get a number of their own, which withdraws the rest of the previous plan.
        if not count or present is None or present.round != number:
            return last, number, []
        done = last + 1 - present.first
        return last, number, self._plan(connection, key, number, present.first)[done : done + count]

    def _plan(self, connection: sa.Connection, key: int, number: int, first: int) -> list[Planned]:
        # A committed plan never changes, and parsing a long one for every test would take milliseconds.
        known = self._read.get(key)
        if known is None or known[:2] != (number, first):
            text = connection.execute(sa.select(rounds.c.tests).where(rounds.c.study == key)).scalar_one()
            known = number, first, [tuple(row) for row in json.loads(text)]
            self._read[key] = known
        return known[2]


FREED: dict[str, Any] = dict.fromkeys(("silent", "due", "aside", "reason", "request")) | {"expires": 0.0}
"""The queue's columns for a free test."""


def _is_of(key: int, ids: Sequence[int]) -> tuple[Any, Any]:
    return queue.c.study == key, queue.c.test.in_(ids)


def of_tests(key: int, ids: Sequence[int]) -> sa.Update:
    return sa.update(queue).where(*_is_of(key, ids))


def not_lost(key: int, ids: Sequence[int], holder: str) -> sa.Update:
    """Those of the tests that `holder` has not lost to another holder."""
    lost = sa.exists().where(
        former.c.study == queue.c.study, former.c.test == queue.c.test, former.c.holder == text(holder)
    )
    return of_tests(key, ids).where(~lost)


def free_tests(connection: sa.Connection, key: int, ids: Sequence[int], holder: str, now: float) -> None:
    """Free these tests. The log says who held them."""
    for start in range(0, len(ids), 500):
        part = ids[start : start + 500]
        others = sa.select(queue.c.test, queue.c.holder).where(
            *_is_of(key, part), queue.c.holder != text(holder), queue.c.expires > 0.0, ~has_outcome
        )
        for test, other in connection.execute(others).all():
            note(connection, key, "released", holder, f"held by {other}", now, test)
        connection.execute(not_lost(key, part, holder).values(FREED))
