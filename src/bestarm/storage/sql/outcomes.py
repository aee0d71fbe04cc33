"""Recording outcomes in SQL: one per test, from a holder who may tell it, numbered where the order of arrival counts.

Telling a result is by far the most common thing to do. It is one statement that commits on its own: an insert that
does nothing if the test has an outcome, has a new holder, or belongs to an archived study. On PostgreSQL it
locks the study's entry against archiving, and against nothing else.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bestarm.storage.base import Amendment
from bestarm.storage.sql.database import SERVER_TIME, Database
from bestarm.storage.sql.locked import LockedStudy
from bestarm.storage.sql.schema import (
    arrivals,
    encode_more,
    former,
    has_outcome,
    outcomes,
    queue,
    rounds,
    storable,
    studies,
    tests,
)

_FORMER = sa.exists().where(
    former.c.study == sa.bindparam("study"),
    former.c.test == sa.bindparam("test"),
    former.c.holder == sa.bindparam("holder"),
)


def _settling(database: Database) -> Any:
    """The statement that records an outcome, unless the test has one, its teller has lost it or the study is archived.

    Compiled once, since putting it together would cost as much as running it.
    """
    columns: dict[str, Any] = {
        column.name: sa.cast(sa.bindparam(column.name, type_=column.type), column.type) for column in outcomes.c
    }
    key: Any = sa.bindparam("study")
    one: Any = sa.literal_column("1")
    insert: Any
    if database.is_sqlite:
        insert = sqlite.insert(outcomes)
        # Only one connection writes at a time, so the number is unique.
        last = sa.select(sa.func.max(outcomes.c.arrival)).where(outcomes.c.study == key).scalar_subquery()
        number = one + sa.func.coalesce(last, sa.literal_column("0"))
        columns["arrival"] = sa.case((studies.c.by_arrival == one, number))
    else:
        insert = postgresql.insert(outcomes)
        # One clock for all machines, the server's. Counting up makes other writers wait until the outcome is there.
        counted = sa.update(arrivals).where(arrivals.c.study == key).values(last=arrivals.c.last + one)
        counting = counted.returning(arrivals.c.last).cte("counted")
        columns["arrival"] = sa.select(counting.c.last).scalar_subquery()
        columns["told"] = SERVER_TIME
    row = (
        sa.select(*(column.label(name) for name, column in columns.items()))
        .select_from(studies)
        .where(studies.c.study == key, studies.c.archived.is_(None), ~_FORMER)
        .with_for_update(read=True, key_share=True)
    )
    statement = insert.from_select(list(columns), row).on_conflict_do_nothing()
    return statement.compile(dialect=database.engine.dialect)


class Outcomes:
    """Records outcomes, inside the connection or transaction of a caller."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._statement = _settling(database)

    def settle(self, connection: sa.Connection, rows: dict[str, Any] | list[dict[str, Any]]) -> int:
        """Record the outcome of a test, or outcomes of several, unless they have one; returns how many."""
        names = self._statement.positiontup
        values: Any = rows
        if names is not None:
            in_order = operator.itemgetter(*names)
            values = in_order(rows) if isinstance(rows, dict) else [in_order(row) for row in rows]
        return int(connection.exec_driver_sql(self._statement.string, values).rowcount)

    def count_arrivals(self, study: LockedStudy, count: int) -> int | None:
        """The first of `count` numbers for outcomes that arrive together; None where the order of issue counts."""
        if not study.by_arrival:
            return None
        if self._database.is_sqlite:
            last = sa.select(sa.func.max(outcomes.c.arrival)).where(outcomes.c.study == study.key)
            return 1 + (study.execute(last).scalar() or 0)
        counted = sa.update(arrivals).where(arrivals.c.study == study.key).values(last=arrivals.c.last + count)
        return 1 + int(study.execute(counted.returning(arrivals.c.last)).scalar_one()) - count

    def amend(self, study: LockedStudy, amendment: Amendment, holder: str) -> int:
        """Change the plan of a study: the plan itself, the log, what is planned, and the tests that are no longer
        needed. Returns how many tests are given up."""
        key = study.key
        changed = {"plan": storable(amendment.plan), "revision": study.revision + 1}
        study.execute(sa.update(studies).where(studies.c.study == key).values(changed))
        study.log("amended", holder, amendment.detail)
        if amendment.withdraws:
            study.execute(sa.delete(rounds).where(rounds.c.study == key))
            # The round ends here: otherwise nothing would be decided on its results.
            last = sa.select(sa.func.max(tests.c.test)).where(tests.c.study == key).scalar_subquery()
            study.execute(sa.update(tests).where(tests.c.study == key, tests.c.test == last).values(ends=1))
        if not amendment.retired:
            return 0
        without_outcome = (
            sa.select(queue.c.test)
            .join(tests, sa.and_(tests.c.study == queue.c.study, tests.c.test == queue.c.test))
            .where(queue.c.study == key, tests.c.arm.in_(amendment.retired), ~has_outcome)
            .order_by(queue.c.test)
        )
        given_up = study.execute(without_outcome).scalars().all()
        if given_up:
            first = self.count_arrivals(study, len(given_up))
            rows = [outcome_row(key, test, None, holder, study.now, amendment.reason) for test in given_up]
            for place, row in enumerate(rows):
                row["arrival"] = None if first is None else first + place
            study.execute(sa.insert(outcomes), rows)
        return len(given_up)


def outcome_row(
    key: int,
    test: int,
    value: float | None,
    holder: str,
    now: float,
    reason: str | None = None,
    correction: int = 0,
    more: Sequence[float] = (),
) -> dict[str, Any]:
    return {
        "study": key,
        "test": test,
        "correction": correction,
        "value": value,
        "reason": None if reason is None else storable(reason),
        "holder": storable(holder),
        "told": now,
        "arrival": None,
        "more": encode_more(more),
    }
