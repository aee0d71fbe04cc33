"""The tables of a study database, their version, and the steps from one version to the next.

`bestarm_tests` and `bestarm_outcomes` are the record and only ever grow. `bestarm_queue` and `bestarm_rounds` say
who is measuring what and what comes next; no answer depends on them.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

VERSION = 1
"""Of the tables below. A database of an older version is brought up to date when it is opened."""

APPLICATION_ID = 0x6241726D
"""Marks our SQLite files, for tools such as `file`, and for us to know them again."""

metadata = sa.MetaData()


def _table(name: str, *columns: sa.Column[object] | sa.Constraint | sa.ForeignKeyConstraint) -> sa.Table:
    return sa.Table(f"bestarm_{name}", metadata, *columns, sqlite_with_rowid=False)


def _key() -> sa.Column[object]:
    return sa.Column("study", sa.Integer, sa.ForeignKey("bestarm_studies.study"), primary_key=True)


def _test() -> sa.Column[object]:
    return sa.Column("test", sa.BigInteger, primary_key=True, autoincrement=False)


schema = _table("schema", sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))

studies = sa.Table(
    "bestarm_studies",
    metadata,
    sa.Column("study", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("archived", sa.Double),
    sa.Column("revision", sa.Integer, nullable=False),
    # It can be megabytes, and SQLite reads a row up to the last column that is wanted. In older files it is the third.
    sa.Column("plan", sa.Text, nullable=False),
)

tests = _table(
    "tests",
    _key(),
    _test(),
    sa.Column("round", sa.BigInteger, nullable=False),
    sa.Column("ends", sa.SmallInteger, nullable=False),
    sa.Column("arm", sa.Integer, nullable=False),
    sa.Column("metric", sa.Integer, nullable=False),
    # 1 for a result measured without asking.
    sa.Column("given", sa.SmallInteger, nullable=False),
    sa.Column("issued", sa.Double, nullable=False),
)

outcomes = _table(
    "outcomes",
    # The test belongs to a study, so this needs no reference of its own: each is checked for every result.
    sa.Column("study", sa.Integer, primary_key=True, autoincrement=False),
    _test(),
    # A correction adds a row with the next number.
    sa.Column("correction", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("value", sa.Double),
    sa.Column("reason", sa.Text),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("told", sa.Double, nullable=False),
    sa.ForeignKeyConstraint(["study", "test"], ["bestarm_tests.study", "bestarm_tests.test"]),
)
# For the end of a long log.
sa.Index("bestarm_outcomes_by_time", outcomes.c.study, outcomes.c.told)

events = sa.Table(
    "bestarm_events",
    metadata,
    sa.Column("event", sa.Integer, primary_key=True),
    sa.Column("study", sa.Integer, sa.ForeignKey("bestarm_studies.study"), nullable=False, index=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("test", sa.BigInteger),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("time", sa.Double, nullable=False),
)

# The present round of each study: its number, the id of its first test, and all its tests.
# With row ids: without them SQLite would read the whole round, which can be long, to find its number.
rounds = sa.Table(
    "bestarm_rounds",
    metadata,
    _key(),
    sa.Column("round", sa.BigInteger, nullable=False),
    sa.Column("first", sa.BigInteger, nullable=False),
    sa.Column("tests", sa.Text, nullable=False),
)

sources = _table(
    "sources",
    _key(),
    sa.Column("source", sa.Text, primary_key=True),
)

queue = _table(
    "queue",
    _key(),
    _test(),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("expires", sa.Double, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
)
sa.Index("bestarm_queue_by_time", queue.c.study, queue.c.expires)

Step = Callable[[sa.Connection], None]

STEPS: dict[int, Step] = {}
"""STEPS[v] turns a database of version v into one of version v + 1, inside the transaction that opens it."""


def upgrade(connection: sa.Connection, found: int, steps: dict[int, Step], newest: int) -> None:
    """Bring a database of version `found` up to `newest`."""
    for version in range(found, newest):
        steps[version](connection)
    connection.execute(sa.update(schema).values(version=newest))
