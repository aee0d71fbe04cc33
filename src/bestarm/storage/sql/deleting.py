"""Deleting a study for good, and what remains: an act that says what was there, and its number, which no other gets."""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from bestarm.storage.base import Act, Storage
from bestarm.storage.errors import StudyNotArchived
from bestarm.storage.projects import DEFAULT_PROJECT
from bestarm.storage.sql import schema
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.locked import lock_study, retried
from bestarm.storage.sql.schema import acts, outcomes, storable, studies, tests

_DELETED = "study deleted"
_ACTS = sa.select(*(acts.c[name] for name in Act._fields)).order_by(acts.c.act)

# A table comes before the tables that it refers to.
_TABLES = [table for table in reversed(schema.metadata.sorted_tables) if table is not acts and "study" in table.c]


class SQLDeletion(Storage):
    """The part of `SQLStorage` that deletes studies."""

    _database: Database

    @retried
    def delete(self, key: int, holder: str, *, within: str | None = None) -> None:
        with self._database.transaction() as connection:
            if self._database.is_sqlite:
                # Otherwise the file keeps what was deleted until the room is used again.
                connection.exec_driver_sql("PRAGMA secure_delete = ON")
            if connection.execute(sa.select(acts.c.act).where(acts.c.study == key, acts.c.kind == _DELETED)).first():
                return
            study = lock_study(self._database, connection, key, blocks_telling=True)
            project = study.project(within)
            if not study.is_archived:
                raise StudyNotArchived(study.name)
            entry = sa.select(studies.c.created, studies.c.archived).where(studies.c.study == key)
            made, archived = study.execute(entry).one()
            issued, told = (
                study.execute(sa.select(sa.func.count(sa.distinct(table.c.test))).where(table.c.study == key)).scalar()
                for table in (tests, outcomes)
            )
            for table in _TABLES:
                study.execute(sa.delete(table).where(table.c.study == key))
            detail = (
                f"{issued} tests, {told} with an outcome; made {written_time(made)}, archived {written_time(archived)}"
            )
            detail += "" if project == DEFAULT_PROJECT else f"; in the project {project}"
            act = Act(study.now, _DELETED, storable(holder), study.name, detail, key)
            study.execute(sa.insert(acts).values(act._asdict()))

    def acts(self) -> list[Act]:
        return [*map(Act._make, self._database.read(_ACTS))]


def written_time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def unused_number(connection: sa.Connection) -> dict[str, int]:
    """The number of a new study, as a value to insert. Servers never give a number twice; SQLite would give that of the
    newest study again once it is deleted."""
    if connection.dialect.name != "sqlite":
        return {}
    used = (connection.execute(sa.select(sa.func.max(table.c.study))).scalar() or 0 for table in (studies, acts))
    return {"study": max(used) + 1}
