"""Locking a study: while one process changes it, the others wait."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from bestarm.storage.errors import StudyArchived
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.schema import studies
from bestarm.validation import InvalidInput

_LOOK = sa.select(studies.c.name, studies.c.by_arrival, studies.c.archived, studies.c.revision).where(
    studies.c.study == sa.bindparam("key")
)
LOCK = _LOOK.with_for_update(key_share=True)
# Also blocks telling results.
LOCK_OUT = _LOOK.with_for_update()


class Locked(NamedTuple):
    """A study whose entry is locked: what time it is, and what its entry says."""

    now: float
    by_arrival: bool
    name: str
    is_archived: bool
    revision: int

    def check_open(self) -> None:
        if self.is_archived:
            raise StudyArchived(self.name)


def lock_study(database: Database, connection: sa.Connection, key: int, how: sa.Select[Any] = LOCK) -> Locked:
    """Keep others from changing this study, though not from telling results."""
    row = connection.execute(how, {"key": key}).first()
    if row is None:
        raise InvalidInput("study", key, f"no such study in {database.url!r}")
    return Locked(database.time(connection), bool(row.by_arrival), row.name, row.archived is not None, row.revision)
