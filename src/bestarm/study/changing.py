"""Changing a study in SQL: one at a time, never an archived one, and once however often the connection is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from bestarm.study.database import Database
from bestarm.study.issuing import text
from bestarm.study.requests import Done, find_done, new_key, note_done
from bestarm.study.schema import studies
from bestarm.study.storage import ConnectionLost, OutcomeUnknown, StorageError, StudyArchived
from bestarm.validation import InvalidInput

T = TypeVar("T")

_LOOK = sa.select(studies.c.name, studies.c.by_arrival, studies.c.archived).where(
    studies.c.study == sa.bindparam("key")
)
_LOCK = _LOOK.with_for_update(key_share=True)
_LOCK_OUT = _LOOK.with_for_update()


class Locked(NamedTuple):
    """A study whose entry is locked: what time it is, and what its entry says."""

    now: float
    by_arrival: bool
    name: str
    is_archived: bool

    def check_open(self) -> None:
        if self.is_archived:
            raise StudyArchived(self.name)


def safely(act: Callable[[], T]) -> T:
    """Do it, and once more if the connection was lost: `act` knows itself again if it was done after all."""
    try:
        return act()
    except ConnectionLost as lost:
        try:
            return act()
        except StorageError as error:
            # What happened first says most, unless only of the second time nobody knows what came of it.
            if isinstance(error, OutcomeUnknown) and not isinstance(lost, OutcomeUnknown):
                raise
            raise lost from None


class Changes:
    """Changes studies of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def lock(self, connection: sa.Connection, key: int, *, against_tellers: bool = False) -> Locked:
        """Keep everybody else from changing a study; from telling results only `against_tellers`."""
        row = connection.execute(_LOCK_OUT if against_tellers else _LOCK, {"key": key}).first()
        if row is None:
            raise InvalidInput(f"study = {key}: no such study in {self._database.url!r}")
        return Locked(self._database.time(connection), bool(row.by_arrival), row.name, row.archived is not None)

    def lock_open(self, connection: sa.Connection, key: int) -> Locked:
        """As `lock`, for what an archived study does not allow."""
        locked = self.lock(connection, key)
        locked.check_open()
        return locked

    def once(self, key: int, request: str, what: str, tests: Sequence[int], act: Callable[..., None]) -> None:
        """Change an open study, once for each `request`; `act` takes the connection and the time."""
        request, named = text(request or new_key()), ",".join(map(str, tests[:100]))

        def change() -> None:
            with self._database.transaction() as connection:
                locked = self.lock(connection, key)
                if find_done(connection, key, request, what, named) is not None:
                    return
                locked.check_open()
                act(connection, locked.now)
                done = Done(what, tests[0] if tests else 0, len(tests), named)
                note_done(connection, key, request, done, locked.now)

        safely(change)

    def archive(self, key: int, undo: bool, note: Callable[[Any, float], None]) -> None:
        """Put a study away, or bring it back, with a note if that changes anything."""
        before: Any = studies.c.archived.is_not(None) if undo else studies.c.archived.is_(None)

        def change() -> None:
            with self._database.transaction() as connection:
                now = self.lock(connection, key, against_tellers=True).now
                update = sa.update(studies).where(studies.c.study == key, before)
                if connection.execute(update.values(archived=None if undo else now)).rowcount:
                    note(connection, now)

        safely(change)
