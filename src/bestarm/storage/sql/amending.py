"""Changing the plan of a study: the plan itself, the log, what is planned, and the tests that are no longer needed.

Everything here happens inside the transaction of a caller who has locked the study.
"""

from __future__ import annotations

import sqlalchemy as sa

from bestarm.storage.base import Amendment
from bestarm.storage.sql.leases import note, text
from bestarm.storage.sql.locking import Locked
from bestarm.storage.sql.outcomes import Outcomes, outcome_row
from bestarm.storage.sql.queries import has_outcome
from bestarm.storage.sql.schema import outcomes, queue, rounds, studies, tests


def amend(
    connection: sa.Connection, recorded: Outcomes, key: int, amendment: Amendment, holder: str, locked: Locked
) -> int:
    """As `Storage.amend` says. Returns how many tests are given up."""
    changed = {"plan": text(amendment.plan), "revision": locked.revision + 1}
    connection.execute(sa.update(studies).where(studies.c.study == key).values(changed))
    note(connection, key, "amended", holder, amendment.detail, locked.now)
    if amendment.withdraws:
        _withdraw(connection, key)
    given_up = _without_outcome(connection, key, amendment.retired)
    if given_up:
        first = recorded.count_arrivals(connection, key, len(given_up)) if locked.by_arrival else None
        rows = [outcome_row(key, test, None, holder, locked.now, amendment.reason) for test in given_up]
        for place, row in enumerate(rows):
            row["arrival"] = None if first is None else first + place
        connection.execute(sa.insert(outcomes), rows)
    return len(given_up)


def _withdraw(connection: sa.Connection, key: int) -> None:
    """Forget what is planned. The round ends here: otherwise nothing would be decided on its results."""
    connection.execute(sa.delete(rounds).where(rounds.c.study == key))
    last = sa.select(sa.func.max(tests.c.test)).where(tests.c.study == key).scalar_subquery()
    connection.execute(sa.update(tests).where(tests.c.study == key, tests.c.test == last).values(ends=1))


def _without_outcome(connection: sa.Connection, key: int, arms: tuple[int, ...]) -> list[int]:
    """The tests of these arms whose results are out."""
    if not arms:
        return []
    found = (
        sa.select(queue.c.test)
        .join(tests, sa.and_(tests.c.study == queue.c.study, tests.c.test == queue.c.test))
        .where(queue.c.study == key, tests.c.arm.in_(arms), ~has_outcome)
        .order_by(queue.c.test)
    )
    return list(connection.execute(found).scalars())
