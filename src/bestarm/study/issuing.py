"""Issuing tests in SQL: what is planned, what goes to whom, and what nobody holds any more.

Everything here happens inside the transaction of a caller who has locked the study.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bestarm.study.bulk import insert_rows
from bestarm.study.columns import Columns
from bestarm.study.reading import has_outcome
from bestarm.study.schema import outcomes, queue, rounds, tests
from bestarm.study.storage import Issued, Rounds

Planned = tuple[int, int, int]
"""Arm, metric, and 1 if the test ends a round."""


# Made once: to put a statement together takes longer than to run it.
_OF_STUDY = queue.c.study == sa.bindparam("key")
_FREE = (
    sa.select(queue.c.test, tests.c.arm, tests.c.metric)
    .join(tests, sa.and_(tests.c.study == queue.c.study, tests.c.test == queue.c.test))
    .where(_OF_STUDY, queue.c.expires <= sa.bindparam("now"), ~has_outcome)
    # The sum keeps SQLite from reading the whole queue in order instead of the few whose time is over.
    .order_by(queue.c.test + 0)
    .limit(sa.bindparam("count"))
)
# Two statements, so that each finds its rows by an index.
_FORGET_SETTLED = sa.delete(queue).where(_OF_STUDY, queue.c.test <= sa.bindparam("settled"))
_FORGET_TOLD = sa.delete(queue).where(_OF_STUDY, queue.c.expires <= sa.bindparam("now"), has_outcome)
_NEWEST = (
    sa.select(tests.c.test, tests.c.round)
    .where(tests.c.study == sa.bindparam("key"))
    .order_by(tests.c.test.desc())
    .limit(1)
)
_PRESENT = sa.select(rounds.c.round, rounds.c.first).where(rounds.c.study == sa.bindparam("key"))
_ISSUE, _LEASE = sa.insert(tests), sa.insert(queue)


def flat(rounds: Rounds) -> list[Planned]:
    return [
        (int(arm), int(metric), int(k == len(tests) - 1)) for tests in rounds for k, (arm, metric) in enumerate(tests)
    ]


def issue(
    connection: sa.Connection,
    key: int,
    first: int,
    number: int,
    due: Sequence[Planned],
    now: float,
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
            "given": 0,
            "issued": now,
        }
        for k, (arm, metric, ends) in enumerate(due)
    ]
    connection.execute(_ISSUE, rows)
    return [Issued(first + k, arm, metric) for k, (arm, metric, _) in enumerate(due)]


def issue_given(
    connection: sa.Connection,
    key: int,
    first: int,
    number: int,
    results: Columns,
    ends: Iterable[int],
    holder: str,
    now: float,
) -> range:
    """Put results that were measured without asking at the end of the record; returns their ids."""
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
        {"test": ids, "ends": marks, "arm": results.arms, "metric": results.metrics},
    )
    insert_rows(
        connection,
        outcomes,
        {"study": key, "correction": 0, "holder": holder, "told": now},
        {"test": ids, "value": results.values},
    )
    return ids


def lease_new(connection: sa.Connection, key: int, new: Sequence[Issued], holder: str, expires: float) -> None:
    rows = [{"study": key, "test": test.id, "holder": holder, "expires": expires, "attempts": 1} for test in new]
    connection.execute(_LEASE, rows)


def lease_again(
    connection: sa.Connection, key: int, count: int, holder: str, now: float, expires: float
) -> list[Issued]:
    """Up to `count` tests that nobody holds any more go to `holder`."""
    again = [Issued(*row) for row in connection.execute(_FREE, {"key": key, "now": now, "count": count})]
    if again:
        update = (
            sa.update(queue)
            .where(queue.c.study == key, queue.c.test == sa.bindparam("id"))
            .values(holder=holder, expires=expires, attempts=queue.c.attempts + 1)
        )
        connection.execute(update, [{"id": test.id} for test in again])
    return again


def forget_leases(connection: sa.Connection, key: int, settled: int, now: float) -> None:
    """Clear the queue of tests that have an outcome, as far as that is known or could matter."""
    if settled:
        connection.execute(_FORGET_SETTLED, {"key": key, "settled": settled})
    connection.execute(_FORGET_TOLD, {"key": key, "now": now})


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
        # Results measured without asking have a number of their own, which withdraws the rest of the plan before.
        if not count or present is None or present.round != number:
            return last, number, []
        done = last + 1 - present.first
        return last, number, self._plan(connection, key, number, present.first)[done : done + count]

    def _plan(self, connection: sa.Connection, key: int, number: int, first: int) -> list[Planned]:
        # A plan once committed never changes, and parsing a long one at every test would take milliseconds.
        known = self._read.get(key)
        if known is None or known[:2] != (number, first):
            text = connection.execute(sa.select(rounds.c.tests).where(rounds.c.study == key)).scalar_one()
            known = number, first, [(arm, metric, ends) for arm, metric, ends in json.loads(text)]
            self._read[key] = known
        return known[2]
