"""Many rows into a table at once, inside the transaction of a caller.

This bypasses SQLAlchemy, which would take longer than the database itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

AT_ONCE = 100
"""Rows that one statement inserts into SQLite. Older ones take 999 parameters, of which a row has up to five."""


def insert_rows(
    connection: sa.Connection, table: sa.Table, same: Mapping[str, Any], columns: Mapping[str, Iterable[Any]]
) -> None:
    """Insert rows of `columns`, all of one length and read once. `same` is the same in every row."""
    try:
        if connection.dialect.name == "sqlite":
            _insert(connection, table, same, columns)
        else:
            _copy(connection, table, same, columns)
    except connection.dialect.loaded_dbapi.Error as error:
        # As SQLAlchemy does for what goes through it.
        is_lost = connection.dialect.is_disconnect(error, connection.connection.driver_connection, None)
        if is_lost:
            connection.invalidate(error)
        raise sa.exc.DBAPIError(f"INSERT INTO {table.name}", None, error, connection_invalidated=is_lost) from error


def _insert(
    connection: sa.Connection, table: sa.Table, same: Mapping[str, Any], columns: Mapping[str, Iterable[Any]]
) -> None:
    first, shared = f"INSERT INTO {table.name} ({_names(connection, same, columns)}) VALUES ", tuple(same.values())
    row = f"({', '.join([f'?{k + 1}' for k in range(len(shared))] + ['?'] * len(columns))})"
    full = first + ", ".join([row] * AT_ONCE)
    rows = zip(*columns.values(), strict=True)
    cursor = connection.connection.cursor()
    while block := list(itertools.islice(rows, AT_ONCE)):
        statement = full if len(block) == AT_ONCE else first + ", ".join([row] * len(block))
        cursor.execute(statement, (*shared, *itertools.chain.from_iterable(block)))
    cursor.close()


def _copy(
    connection: sa.Connection, table: sa.Table, same: Mapping[str, Any], columns: Mapping[str, Iterable[Any]]
) -> None:
    # A constant column is as long as the others.
    rows = zip(*columns.values(), *map(itertools.repeat, same.values()), strict=False)
    cursor: Any = connection.connection.cursor()
    with cursor, cursor.copy(f"COPY {table.name} ({_names(connection, columns, same)}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _names(connection: sa.Connection, *columns: Iterable[str]) -> str:
    return ", ".join(map(connection.dialect.identifier_preparer.quote, itertools.chain(*columns)))
