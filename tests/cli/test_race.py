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
    assert " as fast as sleep 0.3 (" in ended.out
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
    ended = bestarm(
        "race", QUICK, "true ", "--name=a", "--name=b", "--total-runs=4", "--timeout=60s", "--export-json=-"
    )
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
        (QUICK, QUICK, "time=1.1x", ("--total-runs=4",), 4, "UNDECIDED: the budget is spent after 4 runs"),
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
        (
            ("race", "true", "exit 3"),
            1,
            "error: warm-up run 1 of 'exit 3' ended with status 3. This was its first run: mend the",
        ),
        (("race", "true", "sleep {x}"), 1, " --help' for more information. This was its first run: mend the command"),
        (("race", "true", "sleep {x}"), 1, "{x} stands as it is: -L x A,B fills in values"),
        (("race", "true", "no-such-program"), 1, "error: 'no-such-program' ended with status 127"),
        (("race", "true", "no-such-program", "--shell=none"), 1, "'no-such-program' cannot be started"),
        (("race", "true", "true"), 2, "'true': is there twice; give each a name of its own with --command-name"),
        (("race", "true", ":", "--at-most=time=1.02x"), 2, "say which command that is with --baseline"),
        (("race", "true", ":", "--minimize=speed"), 2, "must be one of time, user, system, memory, output"),
        (("race", "true", ":", "--assume=hope"), 2, "must be one of symmetry, range"),
        (("race", "true", ":", "--timeout=1MB"), 2, "unknown unit 'MB'"),
        (("race", "true", ":", "--total-runs=0"), 2, "must be a whole number from 1 on"),
        (("race", "true", ":", "--runs=0"), 2, "must be a whole number from 1 to 1,000,000"),
        (("race", "true", ":", "-m5", "-M4"), 2, "must not be more than --max-runs 4"),
        (("race", "true", ":", "-r5", "-M9"), 2, "says how many; leave out --max-runs"),
        (("race", "true", ":", "-r5", "--on=a", "--on=b"), 2, "is for one machine; on several, --total-runs"),
        (("race", "true", ":", "--timeout=2"), 2, "needs a unit: 2s, 2ms or 2min"),
        (("race", "true", ":", "--at-most=memory=500"), 2, "needs a unit: 500MB, 500MiB or 500B"),
        (("race", "true", ":", "--tolerance=5"), 2, "needs a unit: 5s, 5ms or 5min"),
        (("race", "true", ":", "-N", "-Sbash"), 2, "and -N, which is --shell none, cannot both be"),
        (("race", "true", ":", "--input=no-such"), 2, "there is no such file"),
        (("race", "true", ":", "--output=null", "--minimize=output"), 2, "only if it goes through a pipe"),
        (("race", "true", ":", "--style=loud"), 2, "must be one of auto, basic, full, nocolor, color, none"),
        (("race", "true", ":", "--sort=up"), 2, "must be one of auto, command, mean-time"),
        (("race", "true", ":", "-u", "hour"), 2, "must be one of microsecond, millisecond, second"),
        (("race", "true", ":", "-ptrue", "-ptrue", "-ptrue"), 2, "--prepare = 3: state it once, or once for each of"),
        (("race", "true", ":", "-D2"), 2, "goes with --parameter-scan"),
        (("race", "a {n}", "-P", "n", "0.5", "2"), 2, "needs --parameter-step-size"),
        (("race", "a {n}", "-P", "n", "3", "2"), 2, "the first number must not be larger than the last"),
        (("race", "a {n}", "-P", "n", "1", "1e9"), 2, "there can be at most 1,000 commands"),
        (("race", "a {n}", "-P", "n", "x", "2"), 2, "must be a name and two numbers"),
        (("race", "true", ":", "--export-csv=."), 2, "is a folder; name a file"),
        (("race", "gzip", "-6", "-c", "f"), 2, "put each command in quotes if this belongs to one, as in 'gzip -6 …'"),
        (("race", "ls", "--color", "f"), 2, "No such option: --color. Instead: put each command in quotes"),
        (
            ("race", "--atmost", "time=5ms", "true"),
            2,
            "No such option: --atmost. Did you mean --at-most? If it belongs to",
        ),
        (("race", "true", ":", "--minimise=time"), 2, "Did you mean --minimize?"),
        (("race", "true", "--debug-mode"), 2, "Instead: --show-output shows what commands print"),
        (
            ("race", "true", "no-such-file.txt"),
            1,
            "Commands of several words are put in quotes: 'true no-such-file.txt'",
        ),
        (("gate", "true", "--baseline=:", "--nice"), 2, "No such option: --nice. Instead: put each command in quotes"),
        (("race", "true", ":", "--minutes=0"), 2, "must be a positive number"),
        (("race", "true", ":", "--warmup=-1"), 2, "must be a whole number from 0 to 10,000"),
        (("race", "true", ":", "--seed=-1"), 2, "must be a whole number, 0 or more"),
        (("race", "true", ":", "--delta=5%"), 2, "'5%': must be a number without a percent sign; 5% of 1 is 0.05"),
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
    # A run is told after it is logged. Both runs of the first round have been told when there is one of the second.
    wait_until(lambda: any(file.read_text().count("\n") > 3 for file in tmp_path.glob("*.runs.jsonl")))
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
    assert "no run was made now" not in bestarm(*words, "--fresh", "--total-runs=4", cwd=tmp_path).out
    assert len(json.loads(bestarm("list", "--db=races.db", "--json", cwd=tmp_path).out)) == 3


DYING = """
import subprocess, sys
ended = subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE)
for number, line in enumerate(ended.stdout):
    if number == int(sys.argv[1]):
        ended.kill()
        ended.wait()
        sys.exit("Connection closed")
    sys.stdout.buffer.write(line)
    sys.stdout.flush()
"""
"""A way to a machine, which breaks after so many answers."""


def test_on_several_machines_of_which_one_is_lost(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(DYING)
    dying = f"{sys.executable} dying.py 12"
    ended = bestarm(
        *("race", QUICK, "sleep 0.1", "--on", "sh -c", "--on", dying, "--timeout=60s", "--export-json=json"),
        cwd=tmp_path,
    )
    assert ended.code == 0, ended.err
    assert f"CERTIFIED: {QUICK} has the lowest mean time" in ended.out
    assert f"Left out: {dying}: Connection closed" in ended.out
    results = json.loads((tmp_path / "json").read_text())["results"]
    # The first answer says that it is there, the next is the least memory, and four are first runs.
    assert [result["machines"].count(dying) for result in results] == [3, 3]
    assert all("sh -c" in result["machines"] for result in results)


def test_a_gate_on_one_other_machine(tmp_path: Path) -> None:
    question = ("sleep 0.1", "--baseline", QUICK, "--at-most", "time=2x", "--timeout=60s")
    ended = bestarm("gate", *question, "--on", "env THERE=1", cwd=tmp_path)
    assert ended.code == 3, ended.err
    assert "On env THERE=1: " in ended.out
    lost = bestarm("gate", *question, "--on", "sh -c 'exit 255' -", cwd=tmp_path)
    assert (lost.code, lost.err.splitlines()[-1]) == (1, "error: sh -c 'exit 255' -: ended with status 255")
    few = bestarm("gate", *question, "--on", "env A=1", "--runs-per-machine=10", cwd=tmp_path)
    assert few.code == 2
    assert "takes 5 machines (--on) or more with --delta 0.05, and there are 1" in few.err


def test_gates_have_a_history(tmp_path: Path) -> None:
    words = ("gate", SLOW, "--baseline", QUICK, "--at-most", "time=1.5x", "--history", "gates.jsonl", "--study", "nap")
    assert bestarm(*words, cwd=tmp_path).code == 3
    assert bestarm(*words, "--total-runs=2", cwd=tmp_path).code == 4
    listed = bestarm("history", "gates.jsonl", "--otava=o.csv", "--bencher=b.json", cwd=tmp_path)
    assert listed.code == 0, listed.err
    assert "nap: time at most 1.5x the baseline" in listed.out
    assert "refuted" in listed.out
    assert "undecided" in listed.out
    assert "2 gates. " in listed.out
    assert "Nothing is claimed about how lines differ" in listed.out
    assert len((tmp_path / "o.csv").read_text().splitlines()) == 3
    assert list(json.loads((tmp_path / "b.json").read_text())) == ["nap"]
    [line] = json.loads(bestarm("history", "gates.jsonl", "--last=1", "--json", cwd=tmp_path).out)
    assert (line["found"], line["runs"]) == ("undecided", 2)


def test_a_command_beside_itself_has_a_history_of_its_own(tmp_path: Path) -> None:
    for command in ("true", "true 1"):
        words = ("gate", command, "--baseline", command, "--at-most", "time=9x", "--total-runs=2", "--history", "h")
        assert bestarm(*words, cwd=tmp_path).code == 4
    lines = [json.loads(line) for line in (tmp_path / "h").read_text().splitlines()]
    assert [line["study"] for line in lines] == ["true vs true", "true 1 vs true 1"]


def test_mistakes_about_histories(tmp_path: Path) -> None:
    gate = ("gate", QUICK, "--baseline", SLOW, "--at-most", "time=1.5x")
    ended = bestarm(*gate, "--history", "none/gates.jsonl", cwd=tmp_path)
    assert (ended.code, "cannot be written: No such file or directory" in ended.err) == (2, True), ended
    (tmp_path / "gates.jsonl").write_text('{"time": "", "study": "nap", "found": "void", "limits_found": []}\n')
    for words, said in (
        (("--study", "nip"), "no gate in this file has this name"),
        (("--last", "0"), "must be a whole number from 1 on"),
        (("--plot", "gates.txt"), "must end in .png, .svg, .pdf"),
        (("--plot", "gates.png"), "there is no gate with figures to draw"),
    ):
        ended = bestarm("history", "gates.jsonl", *words, cwd=tmp_path)
        assert (ended.code, said in ended.err) == (2, True), ended
    assert bestarm("gate", "--eval", "a", "b", "--history", "h", cwd=tmp_path).code == 2


@pytest.mark.parametrize(("metric", "code"), [("rps=regex:rps ([0-9]+)", 0), ("rps=json:.rps", 1)])
def test_a_metric_of_ones_own(metric: str, code: int, tmp_path: Path) -> None:
    commands = ("echo rps 100", "sleep 0.01; echo rps 200")
    ended = bestarm("race", *commands, "--metric", metric, "--maximize=rps", "--export-json=json", cwd=tmp_path)
    assert ended.code == code
    if code:
        assert "warm-up run 1 of 'echo rps 100': 'rps' cannot be read with json:.rps: neither the output" in ended.err
        assert "the output ends with 'rps 100'" in ended.err
        return
    assert "CERTIFIED: sleep 0.01; echo rps 200 has the highest mean rps" in ended.out
    data = json.loads((tmp_path / "json").read_text())
    assert set(data["results"][1]["metrics"]["rps"]) == {200.0}


def test_a_gate_on_a_metric_of_ones_own() -> None:
    asked = ("--baseline=echo 100", "--metric=rps=last-line", "--at-least=rps=0.98x")
    assert bestarm("gate", "echo 101", *asked).code == 0
    assert bestarm("gate", "echo 90", *asked).code == 3
    both = bestarm("race", "true", "false", "--minimize=time", "--maximize=user")
    assert (both.code, "state one of --minimize and --maximize" in both.err) == (2, True)


def test_a_run_that_fails_ends_a_race_and_loses_no_other(tmp_path: Path) -> None:
    """The fifth run fails; two of each command come first."""
    fails = "echo >> made; test $(wc -l < made) -lt 5"
    words = ("race", fails, QUICK, "--db", "kept.db", "--export-json", "json", "-r", "9", "--timeout", "60s")
    for number in range(2):
        ended = bestarm(*words, cwd=tmp_path)
        assert ended.code == 1
        assert "UNDECIDED: stopped after " in ended.out
        assert f"of {fails!r} ended with status 1. Say how many runs may fail" in ended.err
        assert ("error: no run was made now (--fresh starts over): run " in ended.err) == bool(number)
        data = json.loads((tmp_path / "json").read_text())
        assert data["bestarm"]["is_interrupted"]
        assert data["results"][0]["exit_codes"] == [0, 0, 1]
        assert len((tmp_path / "made").read_text()) == 5


def test_a_run_that_fails_is_shown_for_one_command_too(tmp_path: Path) -> None:
    """The third run fails, after one that warms up."""
    fails = "echo >> made; test $(wc -l < made) -lt 4"
    ended = bestarm(
        "race", fails, "-r", "9", "--timeout", "60s", "--warmup", "1", "--export-json", "json", cwd=tmp_path
    )
    assert ended.code == 1
    assert f"run 3 of {fails!r} ended with status 1" in ended.err
    assert json.loads((tmp_path / "json").read_text())["results"][0]["exit_codes"] == [0, 0, 1]


def test_a_race_that_makes_no_run_announces_none(tmp_path: Path) -> None:
    words = ("race", QUICK, "true ", "-n", "a", "-n", "b", "--db", "kept.db", "-r")
    for number, starts in (("2", True), ("2", False), ("1", False)):
        ended = bestarm(*words, number, "--timeout", "60s", cwd=tmp_path)
        assert (ended.code, "starting: " in ended.err, "no run was made now" in ended.out) == (4, starts, not starts)
