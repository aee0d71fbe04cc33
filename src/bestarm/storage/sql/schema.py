"""The tables of a study database, their version, and the steps from one version to the next.

`bestarm_tests` and `bestarm_outcomes` are the record and only ever grow. `bestarm_queue` and `bestarm_rounds` say
who is measuring what and what comes next; no answer depends on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from bestarm.storage.projects import DEFAULT_PROJECT

VERSION = 8
"""The version of the tables below. An older database is upgraded before it is used (`Database`)."""

APPLICATION_ID = 0x6241726D
"""Marks our SQLite files, for tools such as `file`."""

metadata = sa.MetaData()


def _table(name: str, *columns: sa.Column[object] | sa.Constraint | sa.ForeignKeyConstraint) -> sa.Table:
    return sa.Table(f"bestarm_{name}", metadata, *columns, sqlite_with_rowid=False)


def _key() -> sa.Column[object]:
    return sa.Column("study", sa.Integer, sa.ForeignKey("bestarm_studies.study"), primary_key=True)


def _test() -> sa.Column[object]:
    return sa.Column("test", sa.BigInteger, primary_key=True, autoincrement=False)


def _index_where_stated(name: str, column: sa.Column[Any]) -> sa.Index:
    stated = column.is_not(None)
    return sa.Index(name, column.table.c.study, column, sqlite_where=stated, postgresql_where=stated)


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
    # 1 if results count in the order in which they arrive, 0 if in the order in which their tests were issued.
    sa.Column("by_arrival", sa.SmallInteger, nullable=False, server_default="0"),
    # The seed of the order of items. None without items, and in older files, whose order follows `seed`.
    sa.Column("items_seed", sa.BigInteger),
    sa.Column("project", sa.Text, nullable=False, server_default=sa.text(f"'{DEFAULT_PROJECT}'")),
    # It can be megabytes, and SQLite reads a row up to the last column it needs. In older files it is the third.
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
    # The place of its item in the study's order of items.
    sa.Column("item", sa.BigInteger),
)

outcomes = _table(
    "outcomes",
    # No reference: the test has one to the study already, and each is checked for every result.
    sa.Column("study", sa.Integer, primary_key=True, autoincrement=False),
    _test(),
    # A correction adds a row with the next number.
    sa.Column("correction", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("value", sa.Double),
    sa.Column("reason", sa.Text),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("told", sa.Double, nullable=False),
    # In studies by arrival: grows from one outcome to the next, not always by 1. A correction keeps the number.
    sa.Column("arrival", sa.BigInteger),
    # The values after the first, as a JSON list, if the test yields several.
    sa.Column("more", sa.Text),
    sa.ForeignKeyConstraint(["study", "test"], ["bestarm_tests.study", "bestarm_tests.test"]),
)
# For the end of a long log.
sa.Index("bestarm_outcomes_by_time", outcomes.c.study, outcomes.c.told)
by_arrival = _index_where_stated("bestarm_outcomes_by_arrival", outcomes.c.arrival)

# The number of the last arrival, for studies by arrival on a server. Counting it up makes other writers wait.
arrivals = _table("arrivals", _key(), sa.Column("last", sa.BigInteger, nullable=False))

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

# The current round of each study: its number, the id of its first test, and all its tests.
# With row ids. Without them SQLite would read the whole round, which can be long, to find its number.
rounds = sa.Table(
    "bestarm_rounds",
    metadata,
    _key(),
    sa.Column("round", sa.BigInteger, nullable=False),
    sa.Column("first", sa.BigInteger, nullable=False),
    sa.Column("tests", sa.Text, nullable=False),
)

sources = _table("sources", _key(), sa.Column("source", sa.Text, primary_key=True))

# What was done under a caller's key, so that a repeat counts once: what kind of thing, on which tests.
requests = _table(
    "requests",
    _key(),
    sa.Column("request", sa.Text, primary_key=True),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("first", sa.BigInteger, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("time", sa.Double, nullable=False),
)

queue = _table(
    "queue",
    _key(),
    _test(),
    sa.Column("holder", sa.Text, nullable=False),
    # When a heartbeat is overdue; 0 if the test is free, infinite if its holder keeps it until they tell.
    sa.Column("expires", sa.Double, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    # When it was handed to its holder.
    sa.Column("since", sa.Double, nullable=False, server_default="0"),
    # Seconds of silence that a heartbeat allows.
    sa.Column("lease", sa.Double),
    # When the silence of its holder was first noticed.
    sa.Column("silent", sa.Double),
    # When its holder wanted to tell it by.
    sa.Column("due", sa.Double),
    # How an attempt ended, until it is known what it counts as, and what was said about it.
    sa.Column("aside", sa.Text),
    sa.Column("reason", sa.Text),
    # The key under which it was asked for.
    sa.Column("request", sa.Text),
)
sa.Index("bestarm_queue_by_time", queue.c.study, queue.c.expires)
by_request = _index_where_stated("bestarm_queue_by_request", queue.c.request)

has_outcome = sa.exists().where(outcomes.c.study == queue.c.study, outcomes.c.test == queue.c.test)

# Who held a test before it was handed to another holder.
former = _table("former_holders", _key(), _test(), sa.Column("holder", sa.Text, primary_key=True))

# Who may use the service: digests of their tokens. A token that is revoked keeps its line, and its name.
tokens = _table(
    "tokens",
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False, unique=True),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("expires", sa.Double),
    sa.Column("revoked", sa.Double),
)

# Browsers that presented a token: a digest of the cookie, and the token. See `bestarm.storage.tokens.Session`.
sessions = _table(
    "sessions",
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("token", sa.Text, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("expires", sa.Double, nullable=False),
)

# What was done and is in no study's log: tokens made and revoked, studies deleted. It only ever grows.
acts = sa.Table(
    "bestarm_acts",
    metadata,
    sa.Column("act", sa.Integer, primary_key=True),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    # What it was done to: the name of a token or of a study.
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    # The number of a study that was deleted or imported.
    sa.Column("study", sa.Integer),
)


def storable(text: str) -> str:
    """The text as databases can keep it: a command's error output may hold anything."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


# The values of a test after its first, in the column `more`: a JSON list of numbers, exact to the last bit.


def encode_more(values: Sequence[float]) -> str | None:
    return json.dumps([float(value) for value in values]) if values else None


def decode_more(text: str | None) -> tuple[float, ...]:
    return () if text is None else decode_all_more([text])[0]


def decode_all_more(texts: Sequence[str | None]) -> npt.NDArray[np.object_]:
    """The tuples of many tests; an empty array if all of them are empty."""
    found = np.empty(0 if texts.count(None) == len(texts) else len(texts), object)
    if len(found):
        # As one list: reading each on its own takes several times as long.
        rows = json.loads(f"[{','.join('[]' if text is None else text for text in texts)}]")
        # A damaged database can hold anything in place of numbers.
        if len(rows) != len(texts) or not all(isinstance(row, list) and {*map(type, row)} <= {float} for row in rows):
            raise ValueError("the values of a test after its first are not a list of numbers")
        found[:] = [tuple(row) for row in rows]
    return found


Step = Callable[[sa.Connection], None]


def _adding(*added: sa.Column[Any] | sa.Table | sa.Index) -> Step:
    def add(connection: sa.Connection) -> None:
        for each in added:
            if not isinstance(each, sa.Column):
                each.create(connection)
                continue
            default: sa.DefaultClause | None = each.server_default  # type: ignore[assignment]
            rest = "" if default is None else f" NOT NULL DEFAULT {default.arg}"
            kind = each.type.compile(connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {each.table.name} ADD COLUMN {each.name} {kind}{rest}")

    return add


def _from_1(connection: sa.Connection) -> None:
    """Heartbeats and deadlines instead of leases of an hour, former holders, studies by arrival, keys of requests."""
    in_queue = [queue.c[name] for name in ("since", "lease", "silent", "due", "aside", "reason", "request")]
    new = arrivals, former, requests, by_arrival, by_request
    _adding(studies.c.by_arrival, outcomes.c.arrival, *in_queue, *new)(connection)
    issued = sa.select(tests.c.issued).where(tests.c.study == queue.c.study, tests.c.test == queue.c.test)
    connection.execute(sa.update(queue).values(since=issued.scalar_subquery()))


STEPS: dict[int, Step] = {
    1: _from_1,
    # Several values of one test, and items.
    2: _adding(outcomes.c.more, tests.c.item),
    3: _adding(tokens),
    4: _adding(studies.c.items_seed),
    # A value may stand for several trials (`bestarm.kernel.packing`). Earlier programs would read it as one result.
    5: _adding(),
    # Sessions of browsers, who made tokens, and what remains of studies that were deleted.
    6: _adding(sessions, acts),
    # Earlier programs would show every study to everybody.
    7: _adding(studies.c.project),
}
"""STEPS[v] turns a database of version v into one of version v + 1, in one transaction with the steps after it."""


def upgrade(connection: sa.Connection, found: int, steps: dict[int, Step], newest: int) -> None:
    """Bring a database of version `found` up to `newest`."""
    for version in range(found, newest):
        steps[version](connection)
    connection.execute(sa.update(schema).values(version=newest))
