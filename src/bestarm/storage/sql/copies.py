"""Copies of whole studies, from and to SQLite or PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from bestarm.storage.base import Act, Copies, Part
from bestarm.storage.errors import NameTaken
from bestarm.storage.sql import schema
from bestarm.storage.sql.bulk import insert_rows
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.deleting import unused_number, written_time
from bestarm.storage.sql.schema import acts, arrivals, outcomes, storable, studies
from bestarm.validation import InvalidInput

_PAGE = 5_000
"""Rows read, or written, at a time."""

# A table comes after the tables that it refers to.
_TABLES = {
    table.name.removeprefix("bestarm_"): table
    for table in (
        *(studies, schema.tests, outcomes, schema.events, schema.rounds, schema.sources, schema.requests),
        *(schema.queue, schema.former),
    )
}
_NUMBERED_HERE = {"study", "event"}
"""Columns that every database numbers on its own."""

_LATER = {"items_seed", "project"}
"""Columns that a storage of another package may not keep. They get their default."""

_SIZES: tuple[tuple[type[sa.Integer], int], ...] = ((sa.SmallInteger, 15), (sa.BigInteger, 63), (sa.Integer, 31))


def _columns(table: sa.Table) -> list[sa.Column[Any]]:
    return [column for column in table.columns if column.name not in _NUMBERED_HERE]


class SQLCopies(Copies):
    """The part of `SQLStorage` that reads and writes whole studies."""

    _database: Database

    def dump(self, key: int) -> Iterator[Part]:
        for name, table in _TABLES.items():
            for rows in self._pages(table, key):
                yield Part(name, tuple(column.name for column in _columns(table)), rows)

    def _pages(self, table: sa.Table, key: int) -> Iterator[list[tuple[Any, ...]]]:
        columns = _columns(table)
        order = [column for column in table.primary_key.columns if column.name != "study"] or [table.c.study]
        ordered = [self._by_code_point(column) for column in order]
        query = sa.select(*columns, *order).where(table.c.study == key).order_by(*ordered).limit(_PAGE)
        last: tuple[Any, ...] | None = None
        while True:
            page = query if last is None else query.where(sa.tuple_(*ordered) > sa.tuple_(*map(sa.literal, last)))
            found = self._database.read(page)
            if found:
                yield [tuple(map(_plain, columns, row)) for row in found]
            if len(found) < _PAGE:
                return
            last = tuple(found[-1][len(columns) :])

    def _by_code_point(self, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
        """As SQLite orders texts. A server may order them by the rules of a language."""
        is_text = isinstance(column.type, sa.Text) and not self._database.is_sqlite
        return sa.collate(column, "C") if is_text else column

    def restore(self, parts: Iterable[Part], *, by: str = "") -> list[int]:
        keys: list[int] = []
        with self._database.transaction() as connection:
            for part in parts:
                columns = _checked(part)
                if part.table == "studies":
                    if len(part.rows) != 1:
                        raise InvalidInput("a study has one entry of its own")
                    keys.append(self._insert_study(connection, {name: row for name, (row,) in columns.items()}, by))
                    continue
                if not keys:
                    raise InvalidInput("a copy has the study's own entry first")
                try:
                    insert_rows(connection, _TABLES[part.table], {"study": keys[-1]}, columns)
                except sa.exc.DBAPIError as error:
                    if not isinstance(error.orig, connection.dialect.loaded_dbapi.IntegrityError):
                        raise
                    reason = f"rows of {part.table!r} contradict each other, or refer to what is not there"
                    raise InvalidInput(reason) from None
            if not keys:
                raise InvalidInput("there is no study in this copy")
            for key in keys:
                connection.execute(_ARRIVALS, {"key": key})
        return keys

    def _insert_study(self, connection: sa.Connection, row: dict[str, Any], by: str) -> int:
        try:
            made = connection.execute(sa.insert(studies).values(row | unused_number(connection))).inserted_primary_key
        except sa.exc.IntegrityError:
            reason = f"a study of this name exists already in {self._database.url!r}"
            raise NameTaken("name", row["name"], reason) from None
        assert made is not None
        now, detail = self._database.time(connection), f"made {written_time(row['created'])}"
        act = Act(now, "study imported", storable(by), row["name"], detail, made[0])
        connection.execute(sa.insert(acts).values(act._asdict()))
        return int(made[0])


_LAST_ARRIVAL = sa.select(sa.func.coalesce(sa.func.max(outcomes.c.arrival), 0)).where(
    outcomes.c.study == sa.bindparam("key")
)
_ARRIVALS = sa.insert(arrivals).from_select(
    ["study", "last"],
    sa.select(studies.c.study, _LAST_ARRIVAL.scalar_subquery()).where(
        studies.c.study == sa.bindparam("key"), studies.c.by_arrival != 0
    ),
)
"""In a study by arrival, the next result comes after the last."""


def _plain(column: sa.Column[Any], value: Any) -> Any:
    """A value as every database gives it."""
    if value is None:
        return None
    if isinstance(column.type, sa.Double):
        # SQLite does not keep the sign of zero.
        return float(value) + 0.0
    return int(value) if isinstance(column.type, sa.Integer) else str(value)


def _checked(part: Part) -> dict[str, tuple[Any, ...]]:
    """The columns of rows that a table takes. While they are inserted others wait, so they are checked many at once."""
    table = _TABLES.get(part.table)
    if table is None or not part.rows:
        raise InvalidInput("table", part.table, "is not a part of a study")
    known, given = {column.name: column for column in _columns(table)}, set(part.columns)
    if len(given) < len(part.columns) or not known.keys() - _LATER <= given <= known.keys():
        raise InvalidInput("table", part.table, "has other columns than this program knows")
    columns = [known[name] for name in part.columns]
    if not _fit(columns, part.rows):
        row = next(row for row in part.rows if not _fit(columns, [row]))
        raise InvalidInput("row", row, f"does not fit into the table {part.table!r}", shown=repr(row)[:200])
    return dict(zip(part.columns, zip(*part.rows, strict=True), strict=True))


def _fit(columns: Sequence[sa.Column[Any]], rows: Sequence[tuple[Any, ...]]) -> bool:
    if {len(row) for row in rows} != {len(columns)}:
        return False
    return all(map(_are_of, columns, zip(*rows, strict=True)))


def _are_of(column: sa.Column[Any], values: Sequence[Any]) -> bool:
    """Whether a column can have these values."""
    there = [value for value in values if value is not None]
    kinds = set(map(type, there))
    if len(there) < len(values) and not column.nullable:
        return False
    if isinstance(column.type, sa.Double):
        return kinds <= {float} and not any(map(math.isnan, there))
    if isinstance(column.type, sa.Integer):
        bits = next(bits for kind, bits in _SIZES if isinstance(column.type, kind))
        return kinds <= {int} and (not there or (-(2**bits) <= min(there) and max(there) < 2**bits))
    return kinds <= {str} and all(value == storable(value) for value in there)
