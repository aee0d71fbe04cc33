"""`bestarm gate --suite`: exit statuses, what is printed and written, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.program import Ended, bestarm

PRINTS = "import json, sys; print(json.dumps({'sort': float(sys.argv[1]), 'sum': 0.002}))"


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A command that prints the times of two benchmarks: the first is what is written after it."""
    file = tmp_path / "program.py"
    file.write_text(PRINTS, encoding="utf-8")
    return f"{sys.executable} -I -S {file}"


def gate(program: str, old: str, new: str, *words: str) -> Ended:
    return bestarm("gate", "--suite", "json", f"{program} {new}", "--baseline", f"{program} {old}", *words)


def test_exit_statuses_and_exports(program: str, tmp_path: Path) -> None:
    files = {kind: tmp_path / kind for kind in ("json", "csv", "markdown", "bencher", "github", "benchstat", "junit")}
    exports = [word for kind, file in files.items() for word in (f"--export-{kind}", str(file))]
    failed = gate(program, "0.5", "0.7", "--seed", "3", *exports)
    assert failed.code == 3, failed.err
    assert "REFUTED: 1 benchmark of 2 exceeds the limit: sort" in failed.out
    assert "The order of runs was drawn by --seed 3." in failed.out
    assert all(file.stat().st_size > 100 for file in files.values())
    assert json.loads(files["json"].read_text(encoding="utf-8"))["bestarm"]["seed"] == 3
    passed = gate(program, "0.5", "0.5")
    assert passed.code == 0, passed.err
    assert "CERTIFIED: each of 2 benchmarks is within its limit" in passed.out
    open_one = gate(program, "0.5", "0.5", "--at-most", "1.00x", "-M", "2")
    assert open_one.code == 4
    assert "UNDECIDED: the budget is spent after 2 pairs of runs" in open_one.out
    assert open_one.err.startswith("2 pairs of runs are too few for a certain verdict, which takes 10 or more")
    assert gate(program, "0.5", "0.7", "--at-most", "1.1x", "--at-most", "sort=1.5x").code == 0


def test_programs_of_pytest_are_told_where_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest-benchmark finds it in PYTEST_ADDOPTS, after what the user has there. A stand-in writes such a file."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-q")
    file = tmp_path / "program.py"
    row = {"fullname": "test_a.py::test_sort", "stats": {"median": 0.25}}
    file.write_text(
        "import os, pathlib\n"
        "first, option = os.environ['PYTEST_ADDOPTS'].split()\n"
        "assert first == '-q' and option.startswith('--benchmark-json=')\n"
        f"pathlib.Path(option.partition('=')[2]).write_text({json.dumps({'benchmarks': [row]})!r})\n",
        encoding="utf-8",
    )
    command = f"{sys.executable} -I -S {file}"
    ended = bestarm("gate", "--suite", "pytest", command, "--baseline", command)
    assert ended.code == 0, ended.err
    assert "test_a.py::test_sort" in ended.out


def test_output_in_a_command_is_the_file_that_it_writes(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("import sys; open(sys.argv[1], 'w').write('{\"a\": 0.5}')", encoding="utf-8")
    command = f"{sys.executable} -I -S {file} {{output}}"
    ended = bestarm("gate", "--suite", "json", command, "--baseline", command)
    assert ended.code == 0, ended.err


def test_programs_that_fail(program: str) -> None:
    ended = gate(program, "0.5", "x")
    assert ended.code == 1
    assert "ended with status 1" in ended.err
    assert "could not convert string to float" in ended.err
    nothing = bestarm("gate", "--suite", "pytest", f"{program} 1", "--baseline", f"{program} 1")
    assert nothing.code == 1
    assert "wrote no results of the suite pytest where PYTEST_ADDOPTS says" in nothing.err
    assert (
        "'echo no': output: is not valid JSON"
        in bestarm("gate", "--suite", "json", "echo no", "--baseline", "echo no").err
    )
    late = bestarm("gate", "--suite", "json", "sleep 5", "--baseline", "sleep 5", "--timeout", "10ms")
    assert late.code == 1
    assert "'sleep 5' took longer than 0.01 s and was stopped" in late.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["a", "--suite", "pytest"], "state the command that runs the benchmarks of the old program"),
        (["a", "--suite", "jmh", "--baseline", "b"], "must be one of pytest, criterion, google-benchmark, go, json"),
        (["a", "--suite", "go", "--baseline", "b", "--at-most", "f=1,1x"], "'f=1,1x': numbers have a decimal point"),
        (["a", "--suite", "go", "--baseline", "b", "--at-most", "1.1"], "must be a multiple of the baseline"),
        (["a", "--suite", "go", "--baseline", "b", "--at-most", "2x", "--at-most", "3x"], "states a limit twice"),
        (["a", "--suite", "go", "--baseline", "b", "--db", "x.db"], "--db: is for single commands"),
        (["a", "--suite", "go", "--baseline", "b", "--eval", "c"], "--eval: is for logs"),
        (["a", "--baseline", "b", "--at-most", "time=2x", "--export-junit", "x"], "--suite says of which kind"),
        (["a", "--suite", "go", "--baseline", "b", "--export-junit", "no/x"], "there is no such folder"),
        (["a", "--suite", "go", "--baseline", " "], "must not be empty"),
        (["a", "--suite", "go", "--baseline", "b", "-M", "0"], "must be a whole number from 1 to"),
    ],
)
def test_what_is_refused(words: list[str], reason: str) -> None:
    ended = bestarm("gate", *words)
    assert ended.code == 2, ended.err
    assert reason in ended.err
