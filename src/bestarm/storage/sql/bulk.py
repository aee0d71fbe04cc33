"""Many results at once: their digest, and rows that bypass SQLAlchemy, which would take longer than the database."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from bestarm.storage.columns import Columns
from bestarm.storage.sql.locked import LockedStudy
from bestarm.storage.sql.schema import encode_more, outcomes, tests

AT_ONCE = 900
"""Values that one statement inserts into SQLite. Older ones take 999 parameters."""


def issue_given(
    study: LockedStudy,
    first: int,
    number: int,
    results: Columns,
    ends: Iterable[int],
    holder: str,
    arrival: int | None,
) -> range:
    """Put results that were measured without asking at the end of the record; returns their ids.

    In a study by arrival, `arrival` is the number of the first.
    """
    ids = range(first, first + len(results))
    marks = bytearray(len(ids))
    for place in ends:
        if 0 <= place < len(ids):
            marks[place] = 1
    marks[-1] = 1
    insert_rows(
        study.connection,
        tests,
        {"study": study.key, "round": number, "given": 1, "issued": study.now},
        {"test": ids, "ends": marks, "arm": results.arms, "metric": results.metrics}
        | ({"item": map(results.item, range(len(ids)))} if results.items else {}),
    )
    insert_rows(
        study.connection,
        outcomes,
        {"study": study.key, "correction": 0, "holder": holder, "told": study.now},
        {"test": ids, "value": results.values}
        | ({} if arrival is None else {"arrival": range(arrival, arrival + len(ids))})
        | ({"more": (encode_more(results.more(k)) for k in range(len(ids)))} if results.bounds else {}),
    )
    return ids


def digest_of(results: Columns, ends: Collection[int]) -> str:
    """A digest of results: equal only for equal results."""
    digest = hashlib.sha256()
    for column in (results.arms, results.metrics, results.values):
        digest.update(column)
    digest.update(",".join(map(str, sorted(ends))).encode())
    # Without either, the digest is the same as before there were any.
    for name, columns in (("more", (results.bounds, results.extra_values)), ("items", (results.items,))):
        if columns[0]:
            digest.update(name.encode())
            for column in columns:
                digest.update(column)
    return digest.hexdigest()


def insert_rows(
    connection: sa.Connection, table: sa.Table, same: Mapping[str, Any], columns: Mapping[str, Iterable[Any]]
) -> None:
    """Insert rows of `columns`, all of one length and read once. `same` is the same in every row."""
    quoted = map(connection.dialect.identifier_preparer.quote, (*same, *columns))
    into = f"{table.name} ({', '.join(quoted)})"
    rows, shared = zip(*columns.values(), strict=True), tuple(same.values())
    cursor: Any = connection.connection.cursor()
    try:
        if connection.dialect.name == "sqlite":
            row = f"({', '.join([f'?{k + 1}' for k in range(len(shared))] + ['?'] * len(columns))})"
            while block := list(itertools.islice(rows, AT_ONCE // len(columns))):
                values = (*shared, *itertools.chain.from_iterable(block))
                cursor.execute(f"INSERT INTO {into} VALUES {', '.join([row] * len(block))}", values)
            cursor.close()
        else:
            with cursor, cursor.copy(f"COPY {into} FROM STDIN") as copy:
                for each in rows:
                    copy.write_row(shared + each)
    except connection.dialect.loaded_dbapi.Error as error:
        # As SQLAlchemy does for what goes through it.
        is_lost = connection.dialect.is_disconnect(error, connection.connection.driver_connection, None)
        if is_lost:
            connection.invalidate(error)
        raise sa.exc.DBAPIError(f"INSERT INTO {table.name}", None, error, connection_invalidated=is_lost) from error
