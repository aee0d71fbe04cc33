"""The table of a race: its columns are about the question, and nothing is cut off in a pipe."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import random
import subprocess
import sys

import pytest
from rich.console import Console
from tests.race.simulated import a_run, race

from bestarm.cli.shared.racing import print_result
from bestarm.race.exports import as_csv, as_markdown, as_orgmode
from bestarm.race.result import RaceResult
from bestarm.race.runs import Run


def outcome(*at_most: str, runs: int = 30) -> RaceResult:
    """The quicker command needs more processor time."""

    def draw(command: str, rng: random.Random) -> Run:
        time, user = {"a": (1.0, 0.5), "b": (2.0, 0.25)}[command]
        found = a_run(time + rng.gauss(0.0, 0.01), memory=5e7)
        return dataclasses.replace(found, user=user + rng.gauss(0.0, 0.001), output=7_000)

    return race(draw, ["a", "b"], at_most, runs=runs)


def table(found: RaceResult, width: int = 80, *, is_terminal: bool = True) -> list[list[str]]:
    """The cells of the printed table."""
    out = io.StringIO()
    print_result(found, Console(file=out, width=width, force_terminal=is_terminal, color_system=None))
    lines = out.getvalue().split("\n\n")[0].splitlines()
    return [[cell for cell in line.split("  ") if cell.strip()] for line in lines if "──" not in line]


def headings(found: RaceResult, width: int = 80) -> list[str]:
    return [cell.strip() for cell in table(found, width)[0]]


def test_an_answer_within_a_tolerance_is_not_called_the_fastest() -> None:
    def draw(command: str, rng: random.Random) -> Run:
        return a_run(1.0 + rng.gauss(0.0, 0.01))

    found = race(draw, ["a", "b"], tolerance=0.2)
    assert found.found == "certified"
    verdicts = {row[0].strip(): row[-1].strip() for row in table(found)}
    assert verdicts[str(found.status.answer)] == "answer"
    _, a, b = table(outcome())
    assert (a[-1].strip(), b[-1].strip()) == ("fastest", "slower")


def test_exports_have_the_words_of_the_table() -> None:
    for found, words in (
        (outcome(), ["fastest", "slower"]),
        (outcome("p50(user)=0.4s", runs=60), ["over a limit", "fastest"]),
        (outcome(runs=4), ["open", "open"]),
    ):
        assert [row[-1].strip() for row in table(found)[1:]] == words
        assert [row["verdict"] for row in csv.DictReader(io.StringIO(as_csv(found)))] == words
        for text, mark in ((as_markdown(found), "| `"), (as_orgmode(found), "| =")):
            rows = [line for line in text.splitlines() if line.startswith(mark)]
            assert [row.split("|")[-2].strip() for row in rows] == words


def about(found: RaceResult, objective: str) -> RaceResult:
    return dataclasses.replace(found, question=dataclasses.replace(found.question, objective=objective))


def test_the_table_shows_what_the_question_is_about() -> None:
    found = outcome()
    assert headings(found) == ["command", "runs", "mean", "± sd", "memory", "verdict"]
    by_user = about(found, "user")
    assert headings(by_user) == ["command", "runs", "user", "± sd", "mean time", "memory", "verdict"]
    _, a, b = table(by_user)
    # The mean times are far from these.
    assert 495 < float(a[2].strip().removesuffix(" ms")) < 505
    assert 245 < float(b[2].strip().removesuffix(" ms")) < 255
    assert headings(about(found, "output"))[2:5] == ["output", "± sd", "mean time"]
    assert headings(about(found, "memory"))[2:6] == ["memory", "± sd", "mean time", "verdict"]
    limited = outcome("output=10kB", "user=3s")
    assert headings(limited) == ["command", "runs", "mean", "± sd", "user", "output", "memory", "verdict"]
    wide = ["command", "runs", "mean", "± sd", "min", "max", "user", "system", "memory", "verdict"]
    assert headings(found, 120) == wide


def test_exported_tables_have_the_column_too() -> None:
    found = about(outcome("output=10kB"), "user")
    head, _, a, *_ = as_markdown(found).splitlines()
    columns = [cell.strip() for cell in head.split("|")]
    cells = dict(zip(columns, (cell.strip() for cell in a.split("|")), strict=True))
    assert columns[2:6] == ["Mean [ms]", "Min [ms]", "Max [ms]", "Relative"]
    assert 495 < float(cells["User"].removesuffix(" ms")) < 505
    assert cells["Output"] == "7 kB"
    assert "User" not in as_orgmode(outcome())
    rows = [*csv.DictReader(io.StringIO(as_csv(found)))]
    assert [float(row["output"]) for row in rows] == [7000.0, 7000.0]
    assert "output" not in as_csv(outcome())


@pytest.mark.parametrize("width", [50, 60, 80])
def test_no_figure_is_cut_off_where_there_is_no_room(width: int) -> None:
    found = about(outcome("output=10kB"), "user")
    out = io.StringIO()
    print_result(found, Console(file=out, width=width, force_terminal=True, color_system=None))
    shown = out.getvalue().split("\n\n")[0]
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    # Folded or not, all letters of all columns are there.
    letters = "".join(sorted("".join(line.strip() for line in shown.splitlines() if "──" not in line).replace(" ", "")))
    whole = io.StringIO()
    print_result(found, Console(file=whole, width=110, force_terminal=True, color_system=None))
    lines = [line for line in whole.getvalue().split("\n\n")[0].splitlines() if "──" not in line]
    assert letters == "".join(sorted("".join(lines).replace(" ", "")))


@pytest.mark.parametrize("where", ["stdout", "stderr"])
def test_nothing_is_cut_off_in_a_pipe(where: str) -> None:
    """Tables and sentences are whole lines, however long names are, on standard output and, if that is for an export,
    on standard error."""
    names = [f"{'very ' * 38}long {which}" for which in ("one", "two")]
    words = ["race", "true", ":", "-n", names[0], "-n", names[1], "--total-runs", "6", "--timeout", "60s"]
    if where == "stderr":
        words += ["--export-json", "-"]
    ended = subprocess.run(
        [sys.executable, "-m", "bestarm", *words],
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 4, ended.stderr
    said = getattr(ended, where).splitlines()
    rows = [line for line in said if line.startswith(tuple(names)) and line.rstrip().endswith("open")]
    assert len(rows) == 2
    assert any(line.startswith("UNDECIDED: the budget is spent after 6 runs") for line in said)
    assert any(line.endswith("takes more runs to tell") and all(name in line for name in names) for line in said)
    assert "…" not in "".join(said)
