"""Copies of whole studies, from and to SQLite or PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa

from bestarm.storage.base import Copies, Part
from bestarm.storage.errors import NameTaken
from bestarm.storage.sql import schema
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.deleting import unused_number
from bestarm.storage.sql.schema import arrivals, storable, studies
from bestarm.validation import InvalidInput

_PAGE = 5_000
"""Rows read, or written, at a time."""

# A table comes after the tables that it refers to.
_TABLES = {
    table.name.removeprefix("bestarm_"): table
    for table in (
        *(studies, schema.tests, schema.outcomes, schema.events, schema.rounds, schema.sources, schema.requests),
        *(schema.queue, schema.former),
    )
}
_NUMBERED_HERE = {"study", "event"}
"""Columns that every database numbers on its own."""

_LATER = {"items_seed", "project"}
"""Columns that files written by earlier versions lack. They get their default."""

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

    def restore(self, parts: Iterable[Part]) -> int:
        key: int | None = None
        last_arrival, by_arrival = 0, False
        with self._database.transaction() as connection:
            for part in parts:
                rows = _checked(part)
                if part.table == "studies":
                    if key is not None or len(rows) != 1:
                        raise InvalidInput("a copy has one study, with its own entry first")
                    key, by_arrival = self._insert_study(connection, rows[0]), bool(rows[0]["by_arrival"])
                    continue
                if key is None:
                    raise InvalidInput("a copy has the study's own entry first")
                if part.table == "outcomes":
                    last_arrival = max(last_arrival, *(row["arrival"] or 0 for row in rows))
                try:
                    connection.execute(sa.insert(_TABLES[part.table]), [{"study": key, **row} for row in rows])
                except sa.exc.IntegrityError:
                    reason = f"rows of {part.table!r} contradict each other, or refer to what is not there"
                    raise InvalidInput(reason) from None
            if key is None:
                raise InvalidInput("there is no study in this copy")
            if by_arrival:
                connection.execute(sa.insert(arrivals).values(study=key, last=last_arrival))
        return key

    def _insert_study(self, connection: sa.Connection, row: dict[str, Any]) -> int:
        if self._database.read(sa.select(studies.c.study).where(studies.c.name == row["name"])):
            reason = f"a study of this name exists already in {self._database.url!r}"
            raise NameTaken("name", row["name"], reason)
        made = connection.execute(sa.insert(studies).values(row | unused_number(connection))).inserted_primary_key
        assert made is not None
        return int(made[0])


def _plain(column: sa.Column[Any], value: Any) -> Any:
    """A value as every database gives it."""
    if value is None:
        return None
    if isinstance(column.type, sa.Double):
        # SQLite does not keep the sign of zero.
        return float(value) + 0.0
    return int(value) if isinstance(column.type, sa.Integer) else str(value)


def _checked(part: Part) -> list[dict[str, Any]]:
    """Rows as a table takes them."""
    table = _TABLES.get(part.table)
    if table is None or not part.rows:
        raise InvalidInput("table", part.table, "is not a part of a study")
    known, given = {column.name: column for column in _columns(table)}, set(part.columns)
    if len(given) < len(part.columns) or not known.keys() - _LATER <= given <= known.keys():
        raise InvalidInput("table", part.table, "has other columns than this program knows")
    columns = [known[name] for name in part.columns]
    for row in part.rows:
        if len(row) != len(columns) or not all(map(_fits, columns, row)):
            raise InvalidInput("row", row, f"does not fit into the table {part.table!r}", shown=repr(row)[:200])
    return [dict(zip(part.columns, row, strict=True)) for row in part.rows]


def _fits(column: sa.Column[Any], value: Any) -> bool:
    if value is None:
        return bool(column.nullable)
    if isinstance(column.type, sa.Double):
        return isinstance(value, float) and not math.isnan(value)
    if isinstance(column.type, sa.Integer):
        bits = next(bits for kind, bits in _SIZES if isinstance(column.type, kind))
        return type(value) is int and -(2**bits) <= value < 2**bits
    return isinstance(value, str) and value == storable(value)
