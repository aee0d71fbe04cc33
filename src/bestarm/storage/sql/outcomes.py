"""Recording outcomes in SQL: one per test, from a holder who may tell it, numbered where the order of arrival counts.

Telling a result is by far the most common thing to do. It is one statement that commits on its own: an insert that
does nothing if the test has an outcome, has a new holder, or belongs to an archived study. On PostgreSQL it
locks the study's entry against archiving, and against nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bestarm.storage.base import Outcome, Telling
from bestarm.storage.errors import HandedOn, StudyArchived
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.further import written
from bestarm.storage.sql.leases import text
from bestarm.storage.sql.queries import present_outcomes
from bestarm.storage.sql.schema import arrivals, former, outcomes, queue, studies
from bestarm.validation import InvalidInput

_STUDY = sa.select(studies.c.name, studies.c.archived).where(studies.c.study == sa.bindparam("key"))
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
        columns["told"] = database.server_time
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

    def settle(
        self,
        connection: sa.Connection,
        key: int,
        test: int,
        value: float | None,
        holder: str,
        reason: str | None = None,
        more: Sequence[float] = (),
    ) -> Outcome | None:
        """Record an outcome. If the test has one, return that. `HandedOn` if the holder has lost the test."""
        row = outcome_row(key, test, value, holder, self._database.clock(), reason, more=more)
        positions = self._statement.positiontup
        values: Any = row if positions is None else tuple(row[name] for name in positions)
        try:
            if connection.exec_driver_sql(self._statement.string, values).rowcount:
                return None
        except sa.exc.IntegrityError:
            raise no_such_test(test) from None
        present = present_outcomes(self._database, connection, key, [test]).get(test)
        if present is None:
            raise why_refused(connection, key, test)
        return present

    def settle_all(self, connection: sa.Connection, key: int, results: Sequence[Telling], holder: str) -> int:
        """Record values of tests that have no outcome yet; returns how many."""
        if not results:
            return 0
        now, positions = self._database.clock(), self._statement.positiontup
        rows = (outcome_row(key, test, value, holder, now, more=more) for test, value, *more in results)
        values: Any = [row if positions is None else tuple(row[name] for name in positions) for row in rows]
        return int(connection.exec_driver_sql(self._statement.string, values).rowcount)

    def count_arrivals(self, connection: sa.Connection, key: int, count: int) -> int:
        """The first of `count` numbers for outcomes that arrive together."""
        if self._database.is_sqlite:
            last = sa.select(sa.func.max(outcomes.c.arrival)).where(outcomes.c.study == key)
            return 1 + (connection.execute(last).scalar() or 0)
        counted = sa.update(arrivals).where(arrivals.c.study == key).values(last=arrivals.c.last + count)
        return 1 + int(connection.execute(counted.returning(arrivals.c.last)).scalar_one()) - count


def why_refused(connection: sa.Connection, key: int, test: int) -> InvalidInput:
    """Why a test without an outcome could not be told."""
    study = connection.execute(_STUDY, {"key": key}).first()
    if study is None:
        return no_such_test(test)
    if study.archived is not None:
        return StudyArchived(study.name)
    holds = sa.select(queue.c.holder).where(queue.c.study == key, queue.c.test == test)
    return HandedOn(test, connection.execute(holds).scalar() or "another holder")


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
        "reason": None if reason is None else text(reason),
        "holder": text(holder),
        "told": now,
        "arrival": None,
        "more": written(more),
    }


def no_such_test(test: int) -> InvalidInput:
    return InvalidInput("test", test, "no such test in this study; `bestarm status` lists the pending ones")
