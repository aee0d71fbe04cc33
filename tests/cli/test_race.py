"""`bestarm race` and `bestarm gate` with real commands, which differ by far more than a busy machine disturbs."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lengths import cases
from tests.program import bestarm
from tests.tools.patience import wait_until

QUICK, SLOW = "true", "sleep 0.3"

HYPERFINE = {"command": str, "mean": float, "stddev": float, "median": float, "user": float, "system": float}
HYPERFINE |= {"min": float, "max": float, "times": list, "memory_usage_byte": list, "exit_codes": list}
HYPERFINE |= {"parameters": dict}
"""What scripts written for hyperfine find in each of its results."""


def test_from_commands_to_a_certified_answer(tmp_path: Path) -> None:
    exports = [f"--export-{kind}={kind}" for kind in ("json", "csv", "markdown")]
    ended = bestarm(
        *("race", "sleep {s}", "-L", "s", "0,0.3", "--at-most", "memory=500MB", *exports),
        cwd=tmp_path,
    )
    assert ended.code == 0, ended.err
    assert "CERTIFIED: sleep 0 has the lowest mean time of all that meet every limit" in ended.out
    assert "sleep 0 is better than sleep 0.3 by" in ended.out
    assert "Health of the data: no sign of trouble" in ended.out
    data = json.loads((tmp_path / "json").read_text())
    quick, slow = data["results"]
    for result in (quick, slow):
        assert {name: type(result[name]) for name in HYPERFINE} == HYPERFINE
        runs = len(result["times"])
        assert {len(result[name]) for name in ("times", "memory_usage_byte", "exit_codes", "output_byte")} == {runs}
        assert result["exit_codes"] == [0] * runs
        assert result["min"] <= result["median"] <= result["max"]
    assert (quick["verdict"], slow["verdict"]) == ("feasible", "worse")
    assert (quick["parameters"], data["bestarm"]["found"]) == ({"s": "0"}, "certified")
    rows = list(csv.DictReader((tmp_path / "csv").read_text().splitlines()))
    assert [row["parameter_s"] for row in rows] == ["0", "0.3"]
    assert float(rows[1]["mean"]) == slow["mean"]
    table = (tmp_path / "markdown").read_text().splitlines()
    assert table[2].startswith("| `sleep 0` | ")
    assert table[-1].startswith("CERTIFIED: sleep 0 ")


def test_to_standard_output_goes_the_export_alone() -> None:
    ended = bestarm("race", QUICK, "true ", "--name=a", "--name=b", "--runs=4", "--timeout=60s", "--export-json=-")
    assert ended.code == 4
    data = json.loads(ended.out)
    assert [result["name"] for result in data["results"]] == ["a", "b"]
    assert data["bestarm"]["state"] == "budget_spent"
    assert "UNDECIDED" in ended.err


@cases(3)
@pytest.mark.parametrize(
    ("new", "old", "at_most", "more", "code", "word"),
    [
        (QUICK, SLOW, "time=1.1x", (), 0, "CERTIFIED: true meets every limit"),
        ("exit 1", QUICK, "failures=20%", (), 3, "REFUTED: the candidate does not meet every limit"),
        (QUICK, QUICK, "time=1.1x", ("--runs=4",), 4, "UNDECIDED: the budget is spent after 4 runs"),
        (SLOW, QUICK, "time=1.1x", (), 3, "REFUTED: the candidate does not meet every limit"),
    ],
)
def test_the_exit_status_of_a_gate(
    new: str, old: str, at_most: str, more: tuple[str, ...], code: int, word: str
) -> None:
    ended = bestarm("gate", new, "--baseline", old, "--at-most", at_most, *more)
    assert (ended.code, word in ended.out) == (code, True), ended


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("race", "true", "exit 3"), 1, "error: 'exit 3' ended with status 3. Say how many runs may fail"),
        (("race", "true", "no-such-program"), 1, "error: 'no-such-program' ended with status 127"),
        (("race", "true", "no-such-program", "--shell=none"), 1, "'no-such-program' cannot be started"),
        (("race", "true", "true"), 2, "'true': is there twice; give each a name of its own with --name"),
        (("race", "true", ":", "--at-most=time=1.02x"), 2, "say which command that is with --baseline"),
        (("race", "true", ":", "--minimize=speed"), 2, "must be one of time, user, system, memory, output"),
        (("race", "true", ":", "--assume=hope"), 2, "must be one of symmetry, range"),
        (("race", "true", ":", "--timeout=1MB"), 2, "unknown unit 'MB'"),
        (("race", "true", ":", "--runs=0"), 2, "must be a whole number from 1 on"),
        (("race", "true", ":", "--minutes=0"), 2, "must be a positive number"),
        (("race", "true", ":", "--warmup=-1"), 2, "must be a whole number from 0 to 10,000"),
        (("race", "true", ":", "--seed=-1"), 2, "must be a whole number, 0 or more"),
        (("race", "true", ":", "--delta=2"), 2, "delta = 2.0: must lie strictly between 0 and 1"),
        (("race", "true", ":", "--at-most=memory=1MB"), 2, "cannot be seen"),
        (("race", "true", ":", "--export-csv=no-such-folder/x.csv"), 2, "there is no such folder"),
        (("gate", "true", "--baseline=:"), 2, "say what passes: --at-most time=1.02x"),
    ],
)
def test_mistakes(words: tuple[str, ...], code: int, complaint: str) -> None:
    ended = bestarm(*words)
    assert (ended.code, complaint in ended.err) == (code, True), ended


def test_a_race_that_was_killed_goes_on(tmp_path: Path) -> None:
    words = ["race", QUICK, SLOW, "--db", "races.db", "--study", "sleeps", "--timeout", "60s"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bestarm", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )

    def lines() -> int:
        return sum(file.read_text().count("\n") for file in tmp_path.glob("*.runs.jsonl"))

    wait_until(lambda: lines() > 3)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    before = lines() - 1
    ended = bestarm(*words, "--export-json", "out.json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["bestarm"]["answer"] == QUICK
    assert sum(len(result["times"]) for result in data["results"]) >= before
    status = json.loads(bestarm("status", "sleeps", "--db", "races.db", "--json", cwd=tmp_path).out)
    assert (status["state"], status["answer"]) == ("certified", QUICK)


@cases(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_race_shows_what_it_has_and_gives_its_tests_back(number: signal.Signals, tmp_path: Path) -> None:
    words = ["race", SLOW, "sleep 0.31", "--db", "races.db", "--study", "sleeps", "--timeout", "60s"]
    words += ["--export-json", "out.json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bestarm", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The first run has been told when there is a second.
    wait_until(lambda: any(file.read_text().count("\n") > 2 for file in tmp_path.glob("*.runs.jsonl")))
    process.send_signal(number)
    printed, errors = process.communicate()
    assert process.returncode == 130
    assert "UNDECIDED: stopped after" in printed
    about = json.loads((tmp_path / "out.json").read_text())["bestarm"]
    assert (about["found"], about["is_interrupted"], about["runs"] > 0) == ("undecided", True, True)
    assert "stopped; the run under way does not count; the same command goes on" in errors
    asked = bestarm("ask", "sleeps", "--db", "races.db", "--json", cwd=tmp_path)
    assert asked.code == 0
    assert len(json.loads(asked.out)) >= 1


def test_a_changed_program_is_measured_again(tmp_path: Path) -> None:
    """Yesterday's verdict is not today's program's."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    words = ["gate", "./program", "--baseline", "sleep 0.2", "--at-most=time=1.1x", "--db=races.db"]
    assert bestarm(*words, cwd=tmp_path).code == 0
    ended = bestarm(*words, cwd=tmp_path)
    assert (ended.code, "UTC; no run was made now." in ended.out) == (0, True)
    program.write_text("#!/bin/sh\nsleep 0.6\n")
    ended = bestarm(*words, cwd=tmp_path)
    assert (ended.code, "./program changed since this race began" in ended.err) == (3, True), ended
    assert "no run was made now" not in bestarm(*words, "--fresh", cwd=tmp_path).out
    assert len(json.loads(bestarm("list", "--db=races.db", "--json", cwd=tmp_path).out)) == 3
