"""What has been done under a caller's key, so that a repeat is recognized and counts once.

Everything here happens inside the transaction of a caller who has locked the study.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa

from bestarm.storage.base import Issued
from bestarm.storage.columns import Columns
from bestarm.storage.sql.schema import queue, requests, tests
from bestarm.validation import InvalidInput


class Done(NamedTuple):
    """What was done under a key: the kind of action, its tests, and a digest of its arguments."""

    what: str
    first: int
    number: int
    digest: str


def find_done(connection: sa.Connection, key: int, request: str, what: str, digest: str = "") -> Done | None:
    """What was done under `request` before; `InvalidInput` if that was something else."""
    query = sa.select(*(requests.c[name] for name in Done._fields)).where(
        requests.c.study == key, requests.c.request == request
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    if (row.what, row.digest) != (what, digest):
        raise InvalidInput(
            "key",
            request,
            f"was used in this study for something else ({row.what}); repeat the same under a key, and give "
            "everything new a key of its own",
        )
    return Done._make(row)


def note_done(connection: sa.Connection, key: int, request: str, done: Done, now: float) -> None:
    """Remember it."""
    connection.execute(sa.insert(requests).values(study=key, request=request, time=now, **done._asdict()))


# Made once, since putting a statement together takes longer than running it.
_HANDED = (
    sa.select(queue.c.test, tests.c.arm, tests.c.metric, tests.c.item)
    .join(tests, sa.and_(tests.c.study == queue.c.study, tests.c.test == queue.c.test))
    .where(
        queue.c.study == sa.bindparam("key"),
        queue.c.request == sa.bindparam("request"),
        queue.c.holder == sa.bindparam("holder"),
        queue.c.expires > 0.0,
    )
    .order_by(queue.c.test)
)


def handed_under(connection: sa.Connection, key: int, request: str, holder: str) -> list[Issued]:
    """The tests that `holder` was handed under a request, and still holds."""
    asked = {"key": key, "request": request, "holder": holder}
    return [Issued(*row) for row in connection.execute(_HANDED, asked)]


def digest_of(results: Columns, ends: Collection[int]) -> str:
    """A digest of results: equal only for equal results."""
    whole = hashlib.sha256()
    for column in (results.arms, results.metrics, results.values):
        whole.update(column)
    whole.update(",".join(map(str, sorted(ends))).encode())
    # Without either, the digest is the same as before there were any.
    for name, columns in (("more", (results.bounds, results.further)), ("items", (results.items,))):
        if columns[0]:
            whole.update(name.encode())
            for column in columns:
                whole.update(column)
    return whole.hexdigest()
