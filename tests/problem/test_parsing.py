"""Files, requests and options from outside: a valid thing, or one line that says what is wrong. Never a traceback."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.lengths import examples
from typer.main import get_command
from typer.testing import CliRunner

import bestarm as ba
from bestarm.cli.app import app
from bestarm.cli.arguments import number_kind
from bestarm.parsing import read_decimal, read_json, read_whole
from bestarm.simulation.campaign import Campaign
from bestarm.study.exchange import import_results, tell_results, write_csv
from bestarm.testing.patience import PATIENCE
from bestarm.texts import cell, from_cell, quoted, shown

PLAN = ba.Plan(
    arms=(ba.Arm("a", {"p": 0.0, "c": -1.0}), ba.Arm("b", {"p": 1.0, "c": -1.0})),
    objective=ba.maximize("p", noise=ba.Gaussian(1.0)),
    constraints=(ba.at_most("c", 0.0, noise=ba.Gaussian(1.0)),),
    name="s",
)

DEEP = 100_000
HUGE = "9" * 5000


def one_line(error: object) -> None:
    text = str(error)
    assert text
    assert "\n" not in text
    assert len(text) < 12_000


@pytest.mark.parametrize(
    "text",
    [
        "[" * DEEP,
        "[" * DEEP + "]" * DEEP,
        '{"a":' * DEEP,
        f'{{"delta": {HUGE}}}',
        f'{{"delta": -{HUGE}}}',
        '{"delta": 0.1, "delta": 0.2}',
        '{"arms": [{"name": "a", "name": "b"}]}',
        '{"\\u001b[31m": 1, "\\u001b[31m": 2}',
        "",
        "\x00",
        "nul",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_json_that_cannot_be_read(text: str) -> None:
    for read in (read_json, ba.Plan.from_json):
        with pytest.raises(ba.InvalidInput) as refused:
            read(text)
        one_line(refused.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ba.InvalidInput, match="not valid JSON: is not UTF-8"):
        read_json(b'{"a": "\xff\xfe"}')


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * DEEP,
        "a = " + "[" * DEEP + "]" * DEEP,
        "a = " + "{b = " * DEEP,
        f"delta = {HUGE}",
        f"delta = 0x{'f' * 50_000}",
        f"arms = [0x{'f' * 50_000}]",
        "delta = 1e999",
        "delta = 0.1\ndelta = 0.2",
        "\x00",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_toml_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ba.InvalidInput) as refused:
        ba.Plan.from_toml(text)
    one_line(refused.value)


def mutated(valid: str) -> st.SearchStrategy[str]:
    """A valid text with a few pieces cut out, doubled, or replaced by what is most likely to upset a reader."""
    pieces = st.sampled_from(
        ["", "[", "]", "{", "}", '"', ",", "=", "\n", "\x00", "\x1b[31m", "nan", "1e999", HUGE, "-1", "[[", "null", "’"]
    )
    places = st.integers(0, len(valid))

    def change(edits: list[tuple[int, int, str]]) -> str:
        text = valid
        for first, length, piece in edits:
            text = text[:first] + piece + text[first + length :]
        return text

    return st.lists(st.tuples(places, st.integers(0, 30), pieces), min_size=1, max_size=3).map(change)


def refused_in_one_line(read: Callable[[], object]) -> None:
    """Either what is read is a valid thing, or it is refused so; any other exception fails the test."""
    try:
        read()
    except ba.InvalidInput as error:
        one_line(error)


@examples(40, 300)
@given(mutated(PLAN.to_toml()))
def test_any_toml_is_a_plan_or_refused(text: str) -> None:
    refused_in_one_line(lambda: ba.Plan.from_toml(text))


@examples(40, 300)
@given(mutated(PLAN.to_json()))
def test_any_json_is_a_plan_or_refused(text: str) -> None:
    refused_in_one_line(lambda: ba.Plan.from_json(text))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**4000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def changed(draw: Any, data: Any) -> Any:
    """Plain data with one entry, at any depth, replaced by anything."""
    if isinstance(data, dict) and data and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(data)))
        return data | {key: draw(changed(data[key]))}
    if isinstance(data, list) and data and draw(st.booleans()):
        k = draw(st.integers(0, len(data) - 1))
        return [*data[:k], draw(changed(data[k])), *data[k + 1 :]]
    return draw(ANYTHING)


@examples(40, 300)
@given(changed(PLAN.to_data()))
def test_any_data_is_a_plan_or_refused(data: Any) -> None:
    refused_in_one_line(lambda: ba.Plan.from_data(data))


CSV = "test,arm,metric,value\n1,a,p,0.5\n2,b,c,-1e3\n"


@example(CSV.replace("0.5", "1_000"))
@example(CSV.replace("0.5", "１"))
@examples(15, 100)
@given(mutated(CSV))
def test_any_csv_is_recorded_whole_or_refused(text: str) -> None:
    study = ba.Study.create(PLAN, storage=":memory:")
    study.ask(4)
    before = study.status().tests
    for take in (import_results, tell_results):
        data = text.encode("utf-8", "surrogatepass")
        try:
            recorded = take(study, data, "file.csv", once=False)
        except ba.InvalidInput as error:
            for line in str(error).split("\n  "):
                one_line(line)
            assert study.status().tests == before
        else:
            before += recorded.results
            assert "_" not in text.partition("value")[2] or recorded.skipped


@pytest.mark.parametrize("text", ["1_000", "１", "1e1_0", "0x10", "1 2", "", "--1", "1e", "٣"])
def test_python_alone_reads_these_as_numbers(text: str) -> None:
    study = ba.Study.create(PLAN, storage=":memory:")
    for name in ("import", "tell"):
        data = f"arm,metric,value\na,p,{text}\n".encode()
        with pytest.raises(ba.InvalidInput, match="value"):
            {"import": import_results, "tell": tell_results}[name](study, data, "f")
    with pytest.raises(ValueError, match="must be a number"):
        read_decimal(text)
    with pytest.raises(ValueError, match="must be a whole number"):
        read_whole(text)


def test_numbers_as_people_write_them() -> None:
    texts = ("1", " -1.5\n", "+.5", "5.", "1e-3", "1E+3")
    assert [read_decimal(text) for text in texts] == [1, -1.5, 0.5, 5, 1e-3, 1e3]
    assert [read_whole(text) for text in ("0", "-7", str(2**63 - 1))] == [0, -7, 2**63 - 1]
    for text in (str(2**63), "9" * 10_000, str(-(2**63) - 1)):
        with pytest.raises(ValueError, match="must be a whole number from -9223372036854775808 to 9223372036854775807"):
            read_whole(text)


def test_numbers_too_long_to_be_written() -> None:
    for make in (
        lambda: ba.Gaussian(10**5000),
        lambda: ba.simulate(PLAN, runs=10**5000),
        lambda: ba.Study.create(PLAN, storage=":memory:", seed=-(10**5000)),
        lambda: ba.Study.create(PLAN, storage=":memory:").ask(10**5000),
        lambda: ba.Study.create(PLAN, storage=":memory:").add([("a", "p", 10**5000)]),
        lambda: ba.Study.create(PLAN, storage=":memory:").tell(10**5000, 1.0),
        lambda: ba.Study.create(PLAN, storage=":memory:").log(10**5000),
    ):
        with pytest.raises(ba.InvalidInput) as refused:
            make()
        one_line(refused.value)
    assert quoted([10**5000]) == "[a whole number of 16,610 bits]"


# ------------------------------------------------------------------------------------------- campaigns' files


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> tuple[Campaign, Path]:
    grid = Campaign.grid([PLAN], policies=["racing"], runs=20)
    folder = tmp_path_factory.mktemp("campaign")
    grid.run(folder)
    return grid, folder


def damaged_lines(line: str) -> Iterator[str]:
    """The line of a chunk with one field of the wrong kind, and a checksum that is right all the same."""
    chunk = json.loads(line.partition(" ")[2])
    lists = ("answers", "tests", "cost")
    for name in chunk:
        wrong: list[Any] = [None, "x", {}, [], [None], -1, 10**30, float("nan"), True, [[1]], ["1"] * 20, [10**30] * 20]
        wrong += [[float("inf")] * 20, [1.5] * 20] if name in lists else [1.5]
        for value in wrong:
            if (name, value) in (("cost", [1.5] * 20), ("seconds", 1.5), ("seconds", 10**30), ("seconds", True)):
                continue
            data = json.dumps(chunk | {name: value})
            yield f"{zlib.crc32(data.encode()):08x} {data}\n"
        data = json.dumps({key: value for key, value in chunk.items() if key != name})
        yield f"{zlib.crc32(data.encode()):08x} {data}\n"
    for data in ("[]", "null", "[" * DEEP, f'{{"first": {HUGE}}}', '{"cell": "a", "cell": "b"}'):
        yield f"{zlib.crc32(data.encode()):08x} {data}\n"


def test_a_chunk_of_the_wrong_kind_is_named(campaign: tuple[Campaign, Path]) -> None:
    grid, folder = campaign
    path = folder / "chunks.jsonl"
    whole = path.read_bytes()
    try:
        for line in damaged_lines(whole.splitlines()[0].decode()):
            path.write_text(line)
            with pytest.raises(ba.InvalidInput, match=r"chunks.jsonl, line 1, is damaged; delete that line") as refused:
                grid.run(folder)
            one_line(refused.value)
            assert path.read_text() == line
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b"[" * DEEP, b'{"seed": ' + HUGE.encode() + b"}", b'{"a": 1, "a": 2}'],
    ids=lambda content: repr(content[:10]),
)
def test_a_description_that_is_damaged_is_named(campaign: tuple[Campaign, Path], content: bytes) -> None:
    grid, folder = campaign
    path = folder / "campaign.json"
    whole = path.read_bytes()
    path.write_bytes(content)
    try:
        with pytest.raises(ba.InvalidInput, match=r"campaign.json is damaged: ") as refused:
            grid.run(folder)
        one_line(refused.value)
    finally:
        path.write_bytes(whole)


# ------------------------------------------------------------------------------------------------ the command line


def _numbers() -> list[tuple[str, str]]:
    group: Any = get_command(app)
    return [
        (command, max(option.opts, key=len))
        for command, found in group.commands.items()
        for option in found.params
        if option.param_type_name == "option" and number_kind(option)
    ]


def _needed(command: str) -> list[str]:
    """Arguments that the command cannot be called without."""
    group: Any = get_command(app)
    required = [param for param in group.commands[command].params if param.required]
    names = [[] if param.param_type_name == "argument" else param.opts[:1] for param in required]
    return [word for name in names for word in [*name, "x"]]


@pytest.mark.parametrize(("command", "option"), _numbers())
def test_a_number_that_python_alone_would_take_is_refused(command: str, option: str) -> None:
    for value in ("1_000", "１", "0x10", "ten"):
        ended = CliRunner().invoke(app, [command, *_needed(command), option, value])
        assert ended.exit_code == 2, ended.output
        assert "must be a" in re.sub(r"[\s│]+", " ", ended.output)


@pytest.mark.parametrize(("command", "option"), _numbers())
def test_a_number_of_any_size_gives_no_traceback(command: str, option: str, tmp_path: Path) -> None:
    for value in ("-1", str(10**20), str(-(10**20)), "9" * 10_000):
        if (command, option) == ("serve", "--rate") and value[0] != "-":
            # So many requests may well be allowed; the service would start.
            continue
        words = [command, *_needed(command), option, value]
        ended = CliRunner().invoke(app, words, env={"BESTARM_DB": str(tmp_path / "none.db")})
        assert ended.exception is None or isinstance(ended.exception, SystemExit | ba.InvalidInput | ba.StorageError)
        assert ended.exit_code != 0


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose tables are longer than what a pipe holds."""
    path = tmp_path_factory.mktemp("database") / "s.db"
    study = ba.Study.create(PLAN, storage=str(path))
    study.add([("a", "p", float(k)) for k in range(3000)])
    return path


def bestarm(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "bestarm", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=PATIENCE, check=False, **options)


WRITING = [
    ["export", "s"],
    ["status", "s"],
    ["log", "s", "--last", "3000", "--json"],
    ["--help"],
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_output_that_cannot_be_written_is_one_line(words: list[str], database: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = bestarm(*words, stdout=full, env=os.environ | {"BESTARM_DB": str(database)})
    assert ended.returncode == 1
    assert ended.stderr.decode() == "error: output: No space left on device\n"


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_who_stops_reading_hears_no_more(words: list[str], database: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = bestarm(*words, stdout=writing, env=os.environ | {"BESTARM_DB": str(database)})
    finally:
        os.close(writing)
    assert ended.stderr == b""
    assert ended.returncode == 1


def test_closed_output_is_nobodys_mistake(database: Path) -> None:
    words = f"{sys.executable} -m bestarm status s --db {database} >&- 2>&-"
    assert subprocess.run(words, shell=True, check=False, timeout=PATIENCE).returncode == 0


@pytest.mark.parametrize("name", ["deep.toml", "deep.json", "huge.toml", "huge.json", "zero.toml", "folder.toml"])
@pytest.mark.parametrize("command", ["new", "simulate", "theory", "forecast"])
def test_a_study_file_that_cannot_be_read_is_one_line(command: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    contents = {"deep.toml": "a = " + "[" * DEEP, "deep.json": "[" * DEEP, "huge.toml": f"delta = {HUGE}"}
    contents |= {"huge.json": f'{{"delta": {HUGE}}}', "zero.toml": "\x00"}
    if name == "folder.toml":
        path.mkdir()
    else:
        path.write_text(contents[name])
    ended = CliRunner().invoke(app, [command, str(path)], env={"BESTARM_DB": str(tmp_path / "x.db")})
    assert isinstance(ended.exception, ba.InvalidInput)
    one_line(ended.exception)
    assert str(path) in str(ended.exception)


# ------------------------------------------------------------------------------------------------- the service


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    from bestarm.web.app import create_app

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient

        with TestClient(create_app(":memory:"), base_url="http://localhost", raise_server_exceptions=False) as client:
            made = client.post("/api/studies", json={"plan": PLAN.to_data()})
            assert made.status_code == 201, made.text
            yield client


ROUTES = ["ask", "tell", "add", "correct", "fail", "abandon", "set-aside", "release", "renew", "archive"]


@pytest.mark.parametrize("route", ["/api/studies", *(f"/api/studies/1/{name}" for name in ROUTES)])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[" * DEEP, "the body is not valid JSON: is nested too deeply"),
        (b'{"n": ' + HUGE.encode() + b"}", "the body is not valid JSON: a number in it has too many digits"),
        (b'{"n": 1, "n": 2}', "n is given twice"),
        (b'{"plan": {"arms": [{"name": "a", "name": "b"}]}}', "name is given twice"),
        (b"{", "the body is not valid JSON: Expecting property name"),
        (b"\xff", "the body is not valid JSON: is not UTF-8"),
    ],
    ids=["deep", "huge", "twice", "twice inside", "broken", "bytes"],
)
def test_a_body_that_cannot_be_read(client: Any, route: str, body: bytes, reason: str) -> None:
    answer = client.post(route, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 404)
    assert answer.status_code == 400 or route.endswith(("set-aside", "correct"))
    if answer.status_code == 400:
        assert answer.json()["error"]["reason"].startswith(reason)


@pytest.mark.parametrize("number", [2**63, 10**30, -(2**63) - 1, 10**4000, 1.5, "1", True, None])
@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("ask", {"n": 0}),
        ("ask", {"n": 1, "lease": 0}),
        ("ask", {"n": 1, "days": 0}),
        ("tell", {"results": [{"test": 0, "value": 1.0}]}),
        ("add", {"results": [{"arm": "a", "metric": "p", "value": 1.0}], "ends": [0]}),
        ("fail", {"test": 0}),
        ("abandon", {"test": 0}),
        ("release", {"tests": [0], "holder": "h"}),
        ("renew", {"tests": [0], "holder": "h", "lease": 5}),
    ],
    ids=str,
)
def test_whole_numbers_of_any_size_in_a_body(client: Any, route: str, body: dict[str, Any], number: Any) -> None:
    """In the place of each 0: refused by name, or, where anything like it may be meant, accepted."""

    def put(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: put(item) for key, item in data.items()}
        return [put(item) for item in data] if isinstance(data, list) else number if data == 0 else data

    answer = client.post(f"/api/studies/1/{route}", json=put(body))
    assert answer.status_code < 500, answer.text
    may_be = route == "ask" and (number is None or ("n" in body and body["n"] == 1 and number == 1.5))
    assert answer.status_code in ((200, 422) if may_be else (422,)), answer.text


@pytest.mark.parametrize("number", ["9223372036854775808", "1" * 5000, "-1", "1_0", "１", "1.5", "", "nan"])
@pytest.mark.parametrize("path", ["log?last=", "history?points=", "forecast?runs=", "forecast?seed=", ""])
def test_whole_numbers_of_any_size_in_an_address(client: Any, path: str, number: str) -> None:
    answer = client.get(f"/api/studies/1/{path}{number}" if path else f"/api/studies/{number}")
    assert answer.status_code in (422, *((200, 404, 307) if not path and not number else ())), answer.text


# -------------------------------------------------------------------------------------------------- spreadsheets


NAMES = st.sampled_from(["=1+1", "'=1+1", "''=1+1", "+a", "-2", "@x", "'a", "''a", "'", "＝a", '"=a', "a", "b;c", "-"])
TEXTS = st.one_of(NAMES, st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=10))


@given(TEXTS)
def test_a_cell_is_no_formula_and_can_be_read_back(text: str) -> None:
    assert from_cell(cell(text)) == text
    assert cell(text)[:1] not in {*"=+-@\t\r＝＋－＠"}
    assert len(cell(text)) - len(text) in (0, 1)


@examples(10, 50)
@given(st.lists(NAMES, min_size=2, max_size=6, unique=True), st.lists(TEXTS, min_size=1, max_size=3), st.data())
def test_an_export_with_names_like_formulas_reads_back_the_same(names: list[str], texts: list[str], data: Any) -> None:
    plan = dataclasses.replace(PLAN, arms=tuple(map(ba.Arm, names)))
    plan = dataclasses.replace(plan, objective=ba.maximize("=p", noise=ba.Gaussian(1.0)))
    study = ba.Study.create(plan, storage=":memory:", holder=texts[0] or "me")
    results = [(data.draw(st.sampled_from(names)), "=p", -float(k)) for k in range(5)]
    study.add(results)
    study.correct(1, -7.5, texts[-1])
    out = io.StringIO()
    write_csv(study, out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue(), newline="")))
    for row in rows:
        assert all(value[:1] not in {*"=+-@\t\r"} for key, value in row.items() if key != "value")
        assert float(row["value"]) <= 0.0
    again = ba.Study.create(plan, storage=":memory:")
    import_results(again, out.getvalue().encode(), "export.csv")
    told = [(again.plan.arm_names[test.arm], test.outcomes[-1].value) for test in again.storage.history(1)]
    assert told == [(arm, -7.5 if k == 0 else value) for k, (arm, _, value) in enumerate(results)]
    assert from_cell(rows[0]["reason"]) == texts[-1]
    # And with the test's number, as results of tests that were asked for.
    assert tell_results(study, out.getvalue().encode(), "export.csv").results == 5


# ---------------------------------------------------------------------------------------------------- terminals


def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert shown("a\x1b[31mb\nc\u202ed\x9be\u2028") == r"a\x1b[31mb\nc\u202ed\x9be\u2028"
    assert shown("150 mg – größer 日本") == "150 mg – größer 日本"


@given(st.text())
def test_what_is_shown_is_safe_and_stays_so(text: str) -> None:
    safe = shown(text)
    assert not set(safe) & {*map(chr, range(32)), *map(chr, range(127, 160)), "\u202e", "\u2066", "\u2028"}
    assert shown(safe) == safe


HOSTILE = "a\x1b]0;owned\x07\x1b[31m\n\u202e[/red]"


def test_names_of_somebody_elses_database_do_not_steer_the_terminal(tmp_path: Path) -> None:
    """Such names are refused when a study is made. A database that somebody else filled may hold them all the same."""
    url = tmp_path / "s.db"
    study = ba.Study.create(
        dataclasses.replace(PLAN, arms=(ba.Arm("HOSTILE"), ba.Arm("b"))), storage=str(url), holder="HOSTILE"
    )
    study.add([("HOSTILE", "p", 1.0), ("HOSTILE", "c", -1.0)])
    study.ask(2)
    ba.Study.create(PLAN, storage=str(url), name="other")
    with contextlib.closing(sqlite3.connect(url)) as connection:
        for table, column in (("bestarm_events", "holder"), ("bestarm_events", "detail"), ("bestarm_queue", "holder")):
            connection.execute(f"UPDATE {table} SET {column} = ?", (HOSTILE,))
        connection.execute("UPDATE bestarm_outcomes SET holder = ?, reason = ?", (HOSTILE, HOSTILE))
        connection.execute("UPDATE bestarm_studies SET name = ?, plan = '{' WHERE name = 'other'", (HOSTILE,))
        connection.commit()
    for words in (
        ["list"],
        ["status", "s"],
        ["log", "s"],
        ["ask", "s"],
        ["release", "s", "--held-by", "x"],
        ["status", HOSTILE],
    ):
        ended = bestarm(*words, stdout=subprocess.PIPE, env=os.environ | {"BESTARM_DB": str(url)})
        for said in (ended.stdout.decode(), ended.stderr.decode()):
            assert "Traceback" not in said
            assert not set(said) & {"\x1b", "\x07", "\u202e", "\r"}, words
    export = bestarm("export", "s", "--db", str(url), "--format", "json", stdout=subprocess.PIPE)
    assert json.loads(export.stdout)["tests"][0]["outcomes"][0]["who"] == HOSTILE


def test_markup_in_names_is_no_markup(tmp_path: Path) -> None:
    plan = dataclasses.replace(
        PLAN, name="[/red]", arms=tuple(dataclasses.replace(arm, name=f"[/{arm.name}]") for arm in PLAN.arms)
    )
    path = tmp_path / "plan.toml"
    path.write_text(plan.to_toml())
    for words in (
        ["theory", str(path)],
        ["simulate", str(path), "--runs", "2"],
        ["forecast", str(path), "--runs", "2"],
    ):
        ended = CliRunner().invoke(app, words)
        assert ended.exit_code == 0, ended.exception
        assert "[/b]" in ended.output
