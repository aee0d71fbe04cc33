"""Results in columns, with one value or several and on items; and several values as the database keeps them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from bestarm.storage.columns import Columns, Given
from bestarm.storage.sql.bulk import digest_of
from bestarm.storage.sql.schema import decode_all_more, decode_more, encode_more
from bestarm.storage.sql.storage import SQLStorage
from bestarm.validation import InvalidInput

PLAIN: list[Given] = [(0, 1, 0.5), (2, 0, -1.25)]


def test_plain_results_are_as_they_were() -> None:
    for columns in (Columns(PLAIN), Columns((*row[:3], (), None) for row in PLAIN)):
        assert list(columns) == columns[:] == [columns[0], columns[-1]] == PLAIN
        # As it was before there was anything else: it is in people's databases.
        assert digest_of(columns, [0]) == "052a1a142412aa06b0eac587c7a5d12b48b4742cfaeefbf7e0cc53344774686e"
        assert (len(columns.bounds), len(columns.items)) == (0, 0)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_full_results(place: int) -> None:
    rows: list[Given] = [(k, 0, float(k), (), None) for k in range(4)]
    rows[place] = (place, 0, 1.0, (1.5, 2.5), None)
    rows[place + 1] = (place + 1, 0, 1.0, (), 0)
    columns = Columns(rows)
    assert len(columns) == 4
    assert list(columns) == columns[:] == [columns[k - 4] for k in range(4)] == rows
    assert columns[1:3] == rows[1:3]
    assert list(Columns(columns)) == rows
    with pytest.raises(IndexError):
        columns[4]


def test_digests_differ() -> None:
    different: list[list[Given]] = [
        [(0, 0, 1.0)],
        [(0, 0, 1.0, (1.0,))],
        [(0, 0, 1.0, (1.0, 2.0))],
        [(0, 0, 1.0, (2.0, 1.0))],
        [(0, 0, 1.0, (), 0)],
        [(0, 0, 1.0, (), 1)],
        [(0, 0, 1.0, (1.0,), 1)],
        [(0, 0, 1.0, (1.0,)), (0, 0, 1.0)],
        [(0, 0, 1.0), (0, 0, 1.0, (1.0,))],
        [(0, 0, 1.0, (), 0), (0, 0, 1.0)],
        [(0, 0, 1.0), (0, 0, 1.0, (), 0)],
    ]
    assert len({digest_of(Columns(rows), ()) for rows in different}) == len(different)


def test_several_values() -> None:
    assert encode_more(()) is None
    assert decode_more(None) == ()
    assert len(decode_all_more([])) == len(decode_all_more([None, None])) == 0
    assert decode_all_more([encode_more((1, 0.1)), None]).tolist() == [(1.0, 0.1), ()]


DAMAGED = ["", "[", "1.0", "null", "[1]", '["1.0"]', "[null]", "[[1.0]]", "{}", "[1.0],[2.0]", "[true]"]


@pytest.mark.parametrize("text", DAMAGED)
def test_several_values_that_make_no_sense(text: str, tmp_path: Path) -> None:
    path = str(tmp_path / "studies.db")
    storage = SQLStorage(path, create=True)
    key = storage.create_study("x", "{}", 0).key
    storage.give(key, [(0, 0, 1.0, (1.5,)), (1, 0, 2.0)], "ann", "")
    storage.close()
    file = sqlite3.connect(path)
    file.execute("UPDATE bestarm_outcomes SET more = ? WHERE test = 1", [text])
    file.commit()
    file.close()
    for look in (
        lambda: list(storage.entries(key, 0)),
        lambda: list(storage.history(key)),
        lambda: storage.log(key),
        lambda: storage.test(key, 1),
        lambda: storage.tell(key, 1, 1.0, "ann"),
        lambda: storage.correct(key, 1, 1.0, "ann", ""),
    ):
        with pytest.raises(InvalidInput, match="damaged"):
            look()
    assert storage.issued(key) == 2
    storage.close()
