"""Who holds a test, in SQL: letting go of it, setting it aside, holding on to it.

Everything here happens inside the transaction of a caller who has locked the study.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from bestarm.study.issuing import note, text
from bestarm.study.reading import has_outcome, issued_test
from bestarm.study.schema import former, queue
from bestarm.study.settling import no_such_test
from bestarm.study.storage import Aside

_AT_ONCE = 500

_FREED: dict[str, Any] = dict.fromkeys(("silent", "due", "aside", "reason", "request")) | {"expires": 0.0}
"""What the queue says of a test that nobody holds."""


def note_failure(connection: sa.Connection, key: int, test: int, holder: str, reason: str, now: float) -> None:
    """As `Storage.fail` says."""
    if issued_test(connection, key, test) is None:
        raise no_such_test(test)
    note(connection, key, "failed", holder, reason, now, test)
    connection.execute(_not_lost(key, [test], holder).values(_FREED))


def put_aside(
    connection: sa.Connection, key: int, test: int, holder: str, kind: Aside, reason: str, now: float
) -> None:
    """As `Storage.set_aside` says."""
    if issued_test(connection, key, test) is None:
        raise no_such_test(test)
    note(connection, key, "set aside", holder, f"{kind}: {reason}" if reason else kind, now, test)
    held = _of_tests(key, [test]).where(queue.c.holder == text(holder), queue.c.expires > 0.0)
    connection.execute(held.values(expires=math.inf, silent=None, aside=kind, reason=text(reason)))


def let_go(connection: sa.Connection, key: int, tests: Sequence[int], holder: str, now: float) -> None:
    """As `Storage.release` says."""
    for start in range(0, len(tests), _AT_ONCE):
        part = tests[start : start + _AT_ONCE]
        others = sa.select(queue.c.test, queue.c.holder).where(
            *_is_of(key, part), queue.c.holder != text(holder), queue.c.expires > 0.0, ~has_outcome
        )
        for test, other in connection.execute(others).all():
            note(connection, key, "released", holder, f"held by {other}", now, test)
        connection.execute(_not_lost(key, part, holder).values(_FREED))


def hold_on(connection: sa.Connection, key: int, tests: Sequence[int], holder: str, lease: float, now: float) -> None:
    """As `Storage.renew` says."""
    for start in range(0, len(tests), _AT_ONCE):
        held = _of_tests(key, tests[start : start + _AT_ONCE]).where(
            queue.c.holder == text(holder), queue.c.expires > 0.0, queue.c.aside.is_(None)
        )
        connection.execute(held.values(expires=now + lease, lease=lease, silent=None))


def _is_of(key: int, ids: Sequence[int]) -> tuple[Any, Any]:
    return queue.c.study == key, queue.c.test.in_(ids)


def _of_tests(key: int, ids: Sequence[int]) -> sa.Update:
    return sa.update(queue).where(*_is_of(key, ids))


def _not_lost(key: int, ids: Sequence[int], holder: str) -> sa.Update:
    """Those of the tests that `holder` has not lost to somebody else."""
    lost = sa.exists().where(
        former.c.study == queue.c.study, former.c.test == queue.c.test, former.c.holder == text(holder)
    )
    return _of_tests(key, ids).where(~lost)
