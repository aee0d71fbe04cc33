"""Long files of results: read once and piece by piece, kept small, and recorded whole or not at all."""

from __future__ import annotations

import hashlib
import io
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import examples
from tests.tools.postgres import PostgresServer

import bestarm as ba
from bestarm.storage.base import Storage
from bestarm.storage.columns import Columns
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage
from bestarm.storage.sql import bulk
from bestarm.study.files.exchange import import_results, tell_results
from bestarm.study.intake import results_file
from bestarm.study.intake.csv_file import CsvFile
from bestarm.study.intake.new_results import NewResults
from bestarm.study.intake.tables import Table, read_file

PROBLEM = ba.Problem(
    arms=["low", "hïgh"],
    objective=ba.maximize("yield", noise=ba.Gaussian(1.0)),
    constraints=[ba.at_most("crash", 0.5, noise=ba.Bernoulli()), ba.at_least("heat", 3, noise=ba.Bounded(0, 10))],
)


@pytest.fixture
def study() -> ba.Study:
    return ba.Study.create(PROBLEM, storage=":memory:")


class Drops(io.RawIOBase):
    """A pipe from which a few bytes come at a time, whatever is asked for."""

    def __init__(self, data: bytes, size: int) -> None:
        self._rest = io.BytesIO(data)
        self._size = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        return self._rest.read(self._size)


GOOD = 'arm;metric;value\r\nlow;yield;1.5\r\n"hïgh";crash;1\r\n\r\nlow;"heat";\t3\r\n'
"""Characters, ends of lines and quotations that fall on the border of two pieces for some size of them."""


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_the_size_of_the_pieces_does_not_matter(study: ba.Study, size: int) -> None:
    for data in (GOOD.encode(), b"\xef\xbb\xbf" + GOOD.encode(), GOOD.replace("\r\n", "\r").encode()):
        recorded = import_results(study, Drops(data, size), "pipe", once=False)  # type: ignore[arg-type]
        assert recorded.results == 3
    told = [(t.arm, t.metric, t.outcomes[0].value) for t in study.storage.history(study.record.key)]
    assert told == 3 * [(0, 0, 1.5), (1, 1, 1.0), (0, 2, 3.0)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (GOOD.encode("utf-16"), "f: is UTF-16; save it as CSV in UTF-8"),
        (GOOD.encode("latin-1"), "f: line 3: is not UTF-8; save the file as CSV in UTF-8"),
        (GOOD.encode() + b"low;yield;1\nlow;yield;2\n\xff", "f: line 8: is not UTF-8; save the file as CSV in UTF-8"),
        (GOOD.encode() + "low;ï".encode()[:-1], "f: line 6: is not UTF-8; save the file as CSV in UTF-8"),
        (
            GOOD.encode() + b'low;"yield;1\n\n',
            "f: line 6: cannot be read (unexpected end of data); nothing was recorded",
        ),
    ],
)
def test_complaints_do_not_depend_on_the_pieces(study: ba.Study, size: int, data: bytes, complaint: str) -> None:
    with pytest.raises(ba.InvalidInput) as caught:
        import_results(study, Drops(data, size), "f")  # type: ignore[arg-type]
    assert str(caught.value) == complaint
    assert study.storage.issued(study.record.key) == 0


def test_a_file_and_its_content_are_one_source(study: ba.Study, tmp_path: Path) -> None:
    # Longer than a piece, and with more after the last result.
    data = b"arm,metric,value\n" + b"low,yield,1\n" * 20_000 + b"\n" * 100_000
    file = tmp_path / "past.csv"
    file.write_bytes(data)
    with file.open("rb") as opened:
        assert import_results(study, opened, "past.csv").results == 20_000
    with pytest.raises(ba.InvalidInput, match="is in this study already"):
        tell_results(study, data, "the file")
    with pytest.raises(ba.InvalidInput, match=f"^sha256:{hashlib.sha256(data).hexdigest()}: has been recorded"):
        study.add([("low", "yield", 1.0)], source=f"sha256:{hashlib.sha256(data).hexdigest()}")


def test_a_file_that_breaks_off(study: ba.Study) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            found = super().read(20)
            if not found:
                raise OSError(5, "Input/output error")
            return found

    with pytest.raises(ba.InvalidInput, match=r"^f\.csv: cannot be read: Input/output error$"):
        import_results(study, Broken(GOOD.encode()), "f.csv")
    assert study.storage.issued(study.record.key) == 0


# ------------------------------------------------------------------------- the quick way and the careful way

NAMES = ["low", "hïgh", " low", "low ", '"low"', '" low "', "LOW", "", " ", "x" * 300, "yield\t", "heat", "hit"]
NUMBERS = ["0", "1", "-0", "0.5", "1.", ".5", "1e0", " 7", "7 ", "10", "10.0000001", "1e308", "-1e308", "1e309", "nan"]
NUMBERS += ["-inf", "1_0", "0x1", "1,5", '"1,5"', "1;5", "٣", "1" + "0" * 99, "0." + "0" * 98, "0." + "0" * 99, ""]
NUMBERS += ["0" * 50 + " " * 60]
_odd = st.lists(st.sampled_from(NAMES + NUMBERS), max_size=5)
_usual = st.tuples(*map(st.sampled_from, (PROBLEM.arm_names, PROBLEM.metrics, NUMBERS))).map(list)
_somewhat_odd = st.tuples(*map(st.sampled_from, (NAMES, [*PROBLEM.metrics, *NAMES], NUMBERS))).map(list)
READER = ba.Study.create(PROBLEM, storage=":memory:")


@given(
    lines=st.lists(_usual | _somewhat_odd | _odd, max_size=8),
    delimiter=st.sampled_from(",;\t"),
    is_export=st.booleans(),
)
@examples(100, 1000)
def test_the_quick_way_reads_what_the_careful_way_reads(
    lines: list[list[str]], delimiter: str, is_export: bool
) -> None:
    more = [["test", "told"], *([["1", "2"]] * len(lines))] if is_export else [[]] * (1 + len(lines))
    rows = [a + b for a, b in zip([["arm", "metric", "value"], *lines], more, strict=True)]
    text = "\n".join(map(delimiter.join, rows))
    found: list[NewResults | str] = []
    for read in (read_file, lambda plan, file: Table(plan, file).read()):
        try:
            found.append(read(READER.plan, CsvFile(text.encode(), "f")))
        except ba.InvalidInput as error:
            found.append(str(error))
    new, expected = found
    if isinstance(expected, str) or isinstance(new, str):
        assert new == expected
    else:
        assert [repr(result) for result in new.columns] == [repr(result) for result in expected.columns]
        assert ([*new.ends], new.skipped.total()) == (expected.ends, expected.skipped.total())


def test_bad_lines_are_named_in_the_order_of_the_file(study: ba.Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is found wrong first: here, tests that do not exist after lines that are too short."""
    monkeypatch.setattr("bestarm.study.files.sheets._LOOKED_UP", 4)
    monkeypatch.setattr(results_file, "MOST_LISTED", 5)
    study.ask(2)
    lines = ["test,value", "9,1", "8", "x,1", "7,1", "6", "5", "4,1", "1,1"]
    with pytest.raises(ba.InvalidInput) as caught:
        tell_results(study, "\n".join(lines).encode(), "f.csv")
    assert str(caught.value).split("\n  ") == [
        "f.csv: 7 lines cannot be accepted; nothing was recorded",
        "line 2: test = 9: no such test in study 'study'",
        "line 3: has 1 fields; the header has 2",
        "line 4: test = 'x': must be the number of a test, as `bestarm ask` gives it",
        "line 5: test = 7: no such test in study 'study'",
        "line 6: has 1 fields; the header has 2",
        "and 2 more",
    ]


# -------------------------------------------------------------------------------------------------- how much


def test_a_long_file_takes_little_memory(study: ba.Study, tmp_path: Path) -> None:
    lines = 20_000
    file = tmp_path / "past.csv"
    with file.open("w") as out:
        out.write("arm,metric,value,round\n")
        out.writelines(f"low,yield,{k / 7},{k // 3}\n" for k in range(lines))
    with file.open("rb") as opened:
        import_results(study, opened, "f", once=False)
    tracemalloc.start()
    try:
        with file.open("rb") as opened:
            import_results(study, opened, "f", once=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Arm, metric, value and end of round are 20 bytes, and arrays that grow have some room to spare.
    assert peak < 1_000_000 + 40 * lines


def test_results_by_column() -> None:
    rows = [(0, 1, 0.5), (7, 0, -1e300), (100_000, 2, 3.0)]
    columns = Columns(rows)
    assert len(columns) == 3
    assert list(columns) == rows
    assert (columns[1], columns[-1], columns[1:]) == (rows[1], rows[-1], rows[1:])


@pytest.mark.parametrize("count", [1, bulk.AT_ONCE - 1, bulk.AT_ONCE, bulk.AT_ONCE + 1, 2 * bulk.AT_ONCE])
def test_any_number_of_results_is_recorded_as_it_is(database_url: str, count: int) -> None:
    study = ba.Study.create(PROBLEM, storage=database_url)
    results = [(("low", "hïgh")[k % 2], "yield", k / 7) for k in range(count)]
    assert study.add(results, ends=[0, 7, 10**6, -1]) == list(range(1, count + 1))
    history = list(study.storage.history(study.record.key))
    assert [
        (study.plan.arm_names[t.arm], study.plan.metrics[t.metric], t.outcomes[0].value) for t in history
    ] == results
    assert [t.id for t in history if t.ends] == sorted({1, 8, count} & set(range(count + 1)))
    assert {t.given for t in history} == {True}
    assert {t.outcomes[0].holder for t in history} == {study.holder}
    study.storage.close()


# ------------------------------------------------------------------------------------------------ all or none

KILLED = """
import os, signal, sys
from bestarm.cli import main
from bestarm.storage.sql import bulk

insert_rows = bulk.insert_rows

def killed(values):
    for k, value in enumerate(values):
        if k == 2500:
            os.kill(os.getpid(), signal.SIGKILL)
        yield value

def insert(connection, table, same, columns):
    if "value" in columns:
        columns = columns | {"value": killed(columns["value"])}
    insert_rows(connection, table, same, columns)

bulk.insert_rows = insert
sys.argv = ["bestarm", "import", "study", sys.argv[1], "--db", sys.argv[2]]
main()
"""


def test_killed_in_the_middle_nothing_is_recorded(database_url: str, tmp_path: Path) -> None:
    study = ba.Study.create(PROBLEM, storage=database_url)
    study.ask(2)
    file = tmp_path / "past.csv"
    file.write_text("arm,metric,value\n" + "low,yield,1\n" * 3000)
    child = subprocess.run([sys.executable, "-c", KILLED, str(file), database_url], capture_output=True, text=True)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert study.storage.issued(study.record.key) == 2
    assert study.status().tests == 0
    # The file does not count as recorded either.
    with file.open("rb") as opened:
        assert import_results(study, opened, "past.csv").first == 3
    assert study.storage.issued(study.record.key) == 3002
    study.storage.close()


class _Trouble(Exception):
    pass


def test_what_fails_in_the_middle_is_undone(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study = ba.Study.create(PROBLEM, storage=database_url)
    whole = bulk.insert_rows

    def breaking(values: Any) -> Iterator[float]:
        yield from list(values)[:250]
        raise _Trouble

    def insert(connection: Any, table: Any, same: Any, columns: dict[str, Any]) -> None:
        whole(connection, table, same, columns | ({"value": breaking(columns["value"])} if "value" in columns else {}))

    monkeypatch.setattr(bulk, "insert_rows", insert)
    with pytest.raises(_Trouble):
        study.add([("low", "yield", 1.0)] * 300, source="file")
    monkeypatch.undo()
    assert study.storage.issued(study.record.key) == 0
    assert len(study.add([("low", "yield", 1.0)] * 300, source="file")) == 300
    study.storage.close()


@pytest.mark.parts("postgresql")
def test_a_server_that_stops_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.tools.postgres import find_postgres

    programs = find_postgres()
    assert programs is not None
    server = PostgresServer(programs)
    try:
        study = ba.Study.create(PROBLEM, storage=server.new_database())
        whole = bulk.insert_rows

        def stopping(values: Any) -> Iterator[float]:
            server.stop("immediate")
            yield from values

        def insert(connection: Any, table: Any, same: Any, columns: dict[str, Any]) -> None:
            changed = {"value": stopping(columns["value"])} if "value" in columns else {}
            whole(connection, table, same, columns | changed)

        monkeypatch.setattr(bulk, "insert_rows", insert)
        with pytest.raises(StorageError, match="nothing acknowledged is lost"):
            study.add([("low", "yield", 1.0)] * 10_000, source="file")
        monkeypatch.undo()
        server.start()
        assert study.storage.issued(study.record.key) == 0
        assert len(study.add([("low", "yield", 1.0)] * 3, source="file")) == 3
        study.storage.close()
    finally:
        server.close()


# ------------------------------------------------------------------------------------------- what storages may do


def test_what_a_storage_need_not_write_itself(database_url: str) -> None:
    storage = open_storage(database_url, create=True)
    study = ba.Study.create(PROBLEM, storage=storage)
    study.ask(4)
    study.tell(1, 1.0)
    study.tell(3, 5.0)
    key = study.record.key
    study.archive()
    assert Storage.look(storage, study.record) == storage.look(study.record)
    assert Storage.told(storage, key, 1) == storage.told(key, 1) == 1
    assert Storage.find_tests(storage, key, [1, 2, 9]) == storage.find_tests(key, [1, 2, 9])
    storage.close()


def test_results_of_tests_that_somebody_else_asked_for(database_url: str) -> None:
    study = ba.Study.create(PROBLEM, storage=database_url)
    study.ask(1000)
    other = ba.Study.open("study", storage=database_url)
    lines = [f"{test.id},1" for test, _ in other.pending()]
    assert tell_results(other, "\n".join(["test,value", *lines]).encode(), "f").results == 1000
    assert study.status().tests == 1000
    with pytest.raises(ba.InvalidInput, match=r"^test = 1001: no such test"):
        other.tell_many([(1, 1.0), (1001, 1.0)])
    study.storage.close()
    other.storage.close()
