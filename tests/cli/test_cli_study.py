"""The commands of live studies, as a user runs them: through `main`, and a few as processes."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.cells import cell_len

import bestarm as ba
from bestarm.cli.app import main
from bestarm.cli.app.command_line import options_first
from bestarm.cli.shared.show import age, percent, shown
from bestarm.testing.patience import PATIENCE

DOSE = """
name = "dose"
[objective]
metric = "efficacy"
goal = "maximize"
noise = { gaussian = 0.1 }
[[constraints]]
metric = "harm"
at_most = 0.5
noise = "bernoulli"
cost = 3
[[constraints]]
metric = "purity"
at_least = 20
noise = { bounded = [0, 100] }
[[arms]]
name = "25 mg"
[[arms]]
name = "150 mg"
"""

DASH = """
name = "-x"
[objective]
metric = "-m"
goal = "minimize"
noise = { gaussian = 1 }
[[arms]]
name = "-low"
[[arms]]
name = "--json"
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Program = Callable[..., Ended]


@pytest.fixture
def bestarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """Runs the program in a folder of its own, with the studies in its `s.db`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BESTARM_DB", "s.db")
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "dose.toml").write_text(DOSE, encoding="utf-8")
    (tmp_path / "dash.toml").write_text(DASH, encoding="utf-8")

    def run(*words: str, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "argv", ["bestarm", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        return Ended(code, *capsys.readouterr())

    return run


def works(bestarm: Program, *words: str, stdin: bytes = b"") -> str:
    ended = bestarm(*words, stdin=stdin)
    assert ended.code == 0, ended
    assert ended.err == ""
    return ended.out


def everything(path: str = "s.db") -> list[str]:
    """All that a database holds."""
    with sqlite3.connect(path) as connection:
        return list(connection.iterdump())


def test_a_study_from_beginning_to_end(bestarm: Program) -> None:
    said = works(bestarm, "new", "dose.toml")
    assert "dose: 2 arms, 3 metrics, policy certify, delta 0.05; kept in s.db" in said
    assert "bestarm ask dose -n 4" in said
    values: dict[str, dict[str, float]] = {
        "efficacy": {"25 mg": -1.0, "150 mg": 1.0},
        "harm": {"25 mg": 0, "150 mg": 0},
        "purity": dict.fromkeys(("25 mg", "150 mg"), 90),
    }
    for _ in range(100):
        asked = json.loads(bestarm("ask", "dose", "-n", "20", "--json").out)
        if not asked:
            break
        for test in asked:
            assert list(test) == ["id", "arm", "metric"]
            works(bestarm, "tell", "dose", str(test["id"]), str(values[test["metric"]][test["arm"]]))
    ended = bestarm("ask", "dose", "--json")
    assert (ended.code, ended.out) == (0, "[]\n")
    assert ended.err.startswith("Nothing to test any more. 150 mg: feasible and best, with 95 % confidence, after")
    assert works(bestarm, "ask", "dose").startswith("Nothing to test any more. 150 mg: feasible and best")
    status = json.loads(works(bestarm, "status", "dose", "--json"))
    assert (status["state"], status["answer"], status["leader"]) == ("certified", "150 mg", "150 mg")
    assert "dose: certified. 150 mg: feasible and best" in works(bestarm, "status", "dose")
    assert "Nothing remains to be done." in works(bestarm, "status", "dose", "--forecast")
    assert "certified" in works(bestarm, "list")


def test_status_json_has_the_keys_that_were_promised(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml", "--name", "second")
    works(bestarm, "ask", "second", "-n", "4")
    works(bestarm, "tell", "second", "1", "0.25")
    works(bestarm, "tell", "second", "4", "1")
    status = json.loads(works(bestarm, "status", "second", "--json"))
    assert list(status) == [
        *("study", "state", "answer", "leader", "confidence", "tests", "cost", "pending", "waiting", "arms"),
        *("tolerance", "slack", "candidates", "feasible"),
        "awaited",
    ]
    assert (status["tolerance"], status["slack"], len(status["candidates"]), status["feasible"]) == (0.0, {}, 2, [])
    assert (status["study"], status["state"], status["answer"]) == ("second", "running", None)
    assert (status["tests"], status["cost"], status["pending"], status["waiting"]) == (2, 2.0, 2, 1)
    assert [list(arm) for arm in status["arms"]] == [["name", "verdict", "reason", "metrics"]] * 2
    [efficacy, harm, purity] = status["arms"][0]["metrics"]
    assert list(efficacy) == ["metric", "tests", "mean", "low", "high", "threshold", "verdict"]
    assert (efficacy["metric"], efficacy["tests"], efficacy["mean"], efficacy["threshold"]) == (
        "efficacy",
        1,
        0.25,
        None,
    )
    assert efficacy["low"] < 0.25 < efficacy["high"]
    assert harm == {
        "metric": "harm",
        "tests": 0,
        "mean": None,
        "low": 0,
        "high": 1,
        "threshold": 0.5,
        "verdict": "open",
    }
    assert (purity["low"], purity["high"], purity["threshold"]) == (0, 100, 20)
    table = works(bestarm, "status", "second")
    assert "1 result recorded but not counted yet: waiting for test 2 (harm of 25 mg), which" in table
    assert "at most 0.5" in table
    assert "at least 20" in table
    assert "No forecast yet" in works(bestarm, "status", "second", "--forecast")
    assert json.loads(works(bestarm, "status", "second", "--forecast", "--json"))["forecast"] is None


def test_status_says_what_is_certain_before_there_is_an_answer(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml", "--name", "certain")
    rows = ["25 mg,efficacy,0.3", "25 mg,purity,50", *["25 mg,harm,1"] * 30, "150 mg,efficacy,0.2", "150 mg,harm,0"]
    results = "\n".join(["arm,metric,value", *rows, "150 mg,purity,60"]).encode()
    assert "certain so far" not in works(bestarm, "status", "certain")
    works(bestarm, "tell", "certain", "--csv", "-", stdin=results)
    said = works(bestarm, "status", "certain")
    assert "certain so far (95 %): 1 of 2 arms is excluded (left: 150 mg)" in said
    status = json.loads(works(bestarm, "status", "certain", "--json"))
    assert (status["candidates"], status["feasible"]) == (["150 mg"], [])


def test_forecast_of_what_remains(bestarm: Program) -> None:
    works(bestarm, "new", "dash.toml")
    works(bestarm, "tell", "-x", "--csv", "-", stdin=b"arm,metric,value\n-low,-m,1\n--json,-m,-1\n")
    forecast = json.loads(works(bestarm, "status", "-x", "--forecast", "--json"))["forecast"]
    assert forecast["runs"] == 100
    assert 0 < forecast["median_tests"] <= (forecast["p90_tests"] or float("inf"))
    assert "Of 100 simulated continuations half within" in works(bestarm, "status", "-x", "--forecast")


def test_names_and_values_that_begin_with_a_dash(bestarm: Program) -> None:
    works(bestarm, "new", "dash.toml")
    assert [t["id"] for t in json.loads(works(bestarm, "ask", "-x", "-n", "2", "--json"))] == [1, 2]
    works(bestarm, "tell", "-x", "1", "-3.5")
    works(bestarm, "tell", "-x", "--db", "s.db", "2", "-1e-3")
    works(bestarm, "tell", "-x", "--arm", "-low", "--metric", "-m", "-2")
    works(bestarm, "tell", "-x", "-2.5", "--metric=-m", "--arm", "--json")
    works(bestarm, "tell", "--", "-x", "1", "-3.5")
    works(bestarm, "tell", "-x", "1", "-4", "--correct", "--reason", "-1 was meant")
    status = json.loads(works(bestarm, "status", "-x", "--json"))
    assert [[m["mean"] for m in arm["metrics"]] for arm in status["arms"]] == [[-3.0], [pytest.approx(-1.2505)]]
    assert len(json.loads(works(bestarm, "ask", "-n2", "-x", "--json"))) == 2
    works(bestarm, "fail", "-x", "5", "--reason", "--help")
    works(bestarm, "abandon", "-x", "5")
    for command in ("status", "log", "export", "archive"):
        works(bestarm, command, "-x")
    works(bestarm, "archive", "--undo", "-x")
    Path("-f.csv").write_text("arm,metric,value\n--json,-m,-1\n", encoding="utf-8")
    works(bestarm, "import", "-x", "-f.csv")


def test_options_stand_anywhere_and_the_rest_is_arguments() -> None:
    takes = {"--json": False, "-n": True, "--arm": True, "--help": False}
    assert options_first(["-x", "3", "-1e-3"], takes) == ["--", "-x", "3", "-1e-3"]
    assert options_first(["--arm", "-low", "-x", "-n", "-2"], takes) == ["--arm", "-low", "-n", "-2", "--", "-x"]
    assert options_first(["--arm=-a=b", "--other=1"], takes) == ["--arm=-a=b", "--", "--other=1"]
    assert options_first(["-north", "-n12", "-n"], takes) == ["-n12", "-n", "--", "-north"]
    assert options_first(["--json", "--", "--json", "--", "-n"], takes) == ["--json", "--", "--json", "--", "-n"]
    assert options_first([], takes) == ["--"]


def test_corrections_and_the_log(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    works(bestarm, "ask", "dose", "-n", "2", "--worker", "ann")
    works(bestarm, "tell", "dose", "1", "3", "--worker", "ann")
    assert works(bestarm, "tell", "dose", "1", "3.0") == "Recorded: test 1 = 3.\n"
    assert "has the result 3 already" in bestarm("tell", "dose", "1", "4").err
    assert works(bestarm, "tell", "dose", "1", "4", "--correct", "--reason", "typo") == "Corrected: test 1 = 4.\n"
    events = json.loads(works(bestarm, "log", "dose", "--json"))
    assert list(events[0]) == ["time", "event", "test", "arm", "metric", "value", "who", "detail"]
    assert [e["event"] for e in events] == ["created", "asked", "asked", "told", "corrected"]
    assert (events[3]["value"], events[3]["who"], events[3]["arm"]) == (3.0, "ann", "25 mg")
    assert (events[4]["value"], events[4]["detail"]) == (4.0, "typo")
    assert [e["event"] for e in json.loads(works(bestarm, "log", "dose", "--last", "1", "--json"))] == ["corrected"]
    table = works(bestarm, "log", "dose")
    assert "corrected" in table
    assert "typo" in table


def test_failed_tests_come_back_and_abandoned_ones_do_not(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    [first, second] = json.loads(works(bestarm, "ask", "dose", "-n", "2", "--json"))
    assert works(bestarm, "fail", "dose", "1", "--reason", "no power") == "Noted. Test 1 will be handed out again.\n"
    assert json.loads(works(bestarm, "ask", "dose", "--worker", "bob", "--json")) == [first]
    # Who lost it cannot take it from bob; anybody else can say that he will not come back.
    assert "Test 1 is with bob by now, and stays there" in works(bestarm, "fail", "dose", "1")
    assert works(bestarm, "release", "dose", "1", "--worker", "carl") == (
        "Test 1, which bob held, will be handed out again.\n"
    )
    assert "given up" in works(bestarm, "abandon", "dose", "2", "--reason", "spilled")
    assert "was abandoned: spilled" in bestarm("tell", "dose", str(second["id"]), "1").err
    works(bestarm, "tell", "dose", "1", "1", "--worker", "dora")
    assert "has its result already" in works(bestarm, "fail", "dose", "1")
    assert bestarm("abandon", "dose", "1").code == 2


def test_tests_stay_with_who_asked_for_them(bestarm: Program) -> None:
    works(bestarm, "new", "dash.toml")
    [test] = json.loads(works(bestarm, "ask", "-x", "--days", "0.00001", "--worker", "ann", "--json"))
    [other] = json.loads(works(bestarm, "ask", "-x", "--json"))
    assert other["id"] != test["id"]
    works(bestarm, "tell", "-x", str(other["id"]), "0")
    said = works(bestarm, "status", "-x")
    assert "1 result recorded but not counted yet: waiting for test 1 (" in said
    while "and wanted to tell" not in (said := works(bestarm, "status", "-x")):
        time.sleep(0.1)
    assert "ann has held" in said
    assert "if its result will not come: bestarm release -x 1" in said
    # Also one that keeps nothing from counting yet.
    works(bestarm, "ask", "-x", "-n", "8", "--days", "0.00001", "--worker", "bob")
    works(bestarm, "tell", "-x", "1", "0", "--worker", "ann")
    while "So are 2 more that are overdue or set aside." not in (said := works(bestarm, "status", "-x")):
        time.sleep(0.1)
    assert said.count("Also out: test ") == 5
    assert "bestarm release -x 5" in said
    for days in ("0", "-1", "nan", "1e9"):
        ended = bestarm("ask", "-x", "--days", days)
        assert ended.code == 2
        assert "must be a positive number of days" in ended.err


def test_tests_are_freed_by_number_or_by_holder(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    works(bestarm, "ask", "dose", "-n", "3", "--worker", "ann")
    works(bestarm, "ask", "dose", "-n", "30", "--worker", "bob")
    assert works(bestarm, "release", "dose", "1", "2") == "".join(
        f"Test {k}, which ann held, will be handed out again.\n" for k in (1, 2)
    )
    assert works(bestarm, "release", "dose", "1") == "Test 1, which nobody held, will be handed out again.\n"
    assert works(bestarm, "release", "dose", "--held-by", "bob").endswith("So will 10 more.\n")
    for words, complaint in (
        (("dose",), "give the numbers of tests, or --held-by NAME"),
        (("dose", "3", "--held-by", "ann"), "give the numbers of tests, or --held-by NAME"),
        (("dose", "--held-by", "bob"), "--held-by = 'bob': holds no test of 'dose'; tests are held by ann"),
        (("dose", "999"), "test = 999: is not waited for in study 'dose'"),
        (("dose", "x"), "test = 'x': must be the number of a test"),
    ):
        ended = bestarm("release", *words)
        assert ended.code == 2
        assert complaint in ended.err


def test_waiting_is_not_being_done(bestarm: Program) -> None:
    Path("race.toml").write_text(DOSE.replace('"dose"', '"dose"\npolicy = "racing"'), encoding="utf-8")
    works(bestarm, "new", "race.toml")
    assert works(bestarm, "ask", "dose", "-n", "9").endswith("6 of the 9: what comes next depends on their results.\n")
    waiting = "Nothing to test now: the study waits for 6 results. First of all it waits for test 1 ("
    assert works(bestarm, "ask", "dose").startswith(waiting)
    ended = bestarm("ask", "dose", "--json")
    assert (ended.code, ended.out) == (0, "[]\n")
    assert ended.err.startswith(waiting)


def test_archived_studies_are_read_only_and_out_of_the_way(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    works(bestarm, "new", "dose.toml", "--name", "old")
    works(bestarm, "ask", "old")
    assert "old is archived" in works(bestarm, "archive", "old")
    assert [s["study"] for s in json.loads(works(bestarm, "list", "--json"))] == ["dose"]
    both = json.loads(works(bestarm, "list", "--all", "--json"))
    assert list(both[0]) == [
        "study",
        "state",
        "answer",
        "leader",
        "confidence",
        "tests",
        "created",
        "archived",
        "error",
    ]
    assert [(s["study"], s["archived"] is None) for s in both] == [("dose", True), ("old", False)]
    assert "running, archived" in works(bestarm, "list", "--all")
    works(bestarm, "status", "old")
    before = everything()
    for words in (("ask", "old"), ("tell", "old", "1", "1"), ("fail", "old", "1"), ("abandon", "old", "1")):
        ended = bestarm(*words)
        assert ended.code == 2
        assert ended.err.startswith("error: study = 'old': is archived; bring it back with")
    assert everything() == before
    works(bestarm, "archive", "old", "--undo")
    works(bestarm, "tell", "old", "1", "1")


def test_a_study_that_cannot_be_read_does_not_hide_the_others(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    works(bestarm, "new", "dose.toml", "--name", "plugin")
    with sqlite3.connect("s.db") as connection:
        connection.execute("UPDATE bestarm_studies SET plan = replace(plan, 'certify', 'magic') WHERE name = 'plugin'")
    listed = works(bestarm, "list")
    assert "cannot be read" in listed
    assert "policy = 'magic': no such policy" in listed
    assert [s["state"] for s in json.loads(works(bestarm, "list", "--json"))] == ["running", None]
    assert bestarm("status", "plugin").code == 2


# ------------------------------------------------------------------------------------------------------ files


def test_export_and_import(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    Path("past.csv").write_text("arm,metric,value\n25 mg,efficacy,1\n150 mg,purity,30.5\n", encoding="utf-8")
    assert works(bestarm, "import", "dose", "past.csv") == "Recorded 2 results as tests 1 to 2 of dose.\n"
    again = bestarm("import", "dose", "past.csv")
    assert again.code == 2
    assert again.err.startswith("error: past.csv: is in this study already; `bestarm import --again`")
    assert bestarm("tell", "dose", "--csv", "past.csv").code == 2
    recorded = json.loads(works(bestarm, "import", "dose", "past.csv", "--again", "--json"))
    assert recorded == {"results": 2, "first": 3, "last": 4, "skipped": 0}
    works(bestarm, "ask", "dose")
    out = works(bestarm, "export", "dose")
    assert works(bestarm, "export", "dose", "-o", "out.csv") == "5 tests of dose written to out.csv.\n"
    assert Path("out.csv").read_text(encoding="utf-8") == out
    assert [row["value"] for row in csv.DictReader(io.StringIO(out))] == ["1.0", "30.5", "1.0", "30.5", ""]
    works(bestarm, "export", "dose", "-o", "out.json")
    data = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert (data["study"], len(data["tests"])) == ("dose", 5)
    assert json.loads(works(bestarm, "export", "dose", "--format", "json")) == data
    works(bestarm, "new", "dose.toml", "--name", "copy")
    said = works(bestarm, "import", "copy", "out.csv")
    assert said == "Recorded 4 results as tests 1 to 4 of copy; 1 test without a result left out.\n"
    statuses = [json.loads(works(bestarm, "status", name, "--json")) for name in ("dose", "copy")]
    assert statuses[0]["arms"] == statuses[1]["arms"]
    assert sorted(path.name for path in Path().iterdir() if path.suffix != ".toml") == [
        *("out.csv", "out.json", "past.csv", "s.db"),
        *(["s.db-shm", "s.db-wal"] if Path("s.db-wal").exists() else []),
    ]


def test_tell_takes_many_results_from_a_file_or_a_pipe(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    works(bestarm, "ask", "dose", "-n", "3")
    Path("sheet.csv").write_text("test,value\n1,-0.5\n2,1\n3,99\n", encoding="utf-8")
    assert works(bestarm, "tell", "dose", "--csv", "sheet.csv") == "Recorded 3 results of dose.\n"
    assert works(bestarm, "tell", "dose", "--csv", "sheet.csv") == "Recorded 3 results of dose.\n"
    piped = b"arm,metric,value\n25 mg,harm,0\n"
    for number in (4, 5):
        said = works(bestarm, "tell", "dose", "--csv", "-", stdin=piped)
        assert said == f"Recorded 1 result as test {number} of dose.\n"
    assert works(bestarm, "tell", "dose", "--arm", "25 mg", "--metric", "harm", "1") == (
        "Recorded as test 6: harm of 25 mg = 1.\n"
    )


def test_nothing_is_half_written(bestarm: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    works(bestarm, "new", "dose.toml")
    Path("out.csv").write_text("precious", encoding="utf-8")
    Path("folder").mkdir()
    for out in ("folder", "no/such/out.csv"):
        ended = bestarm("export", "dose", "-o", out)
        assert ended.code == 2
        assert ended.err.startswith(f"error: out = '{out}': cannot be written: ")

    def power_cut(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", power_cut)
    ended = bestarm("export", "dose", "-o", "out.csv")
    assert (ended.code, ended.err) == (2, "error: out = 'out.csv': cannot be written: No space left on device\n")
    assert Path("out.csv").read_text(encoding="utf-8") == "precious"
    assert not list(Path().glob(".*"))
    # Devices are written to, never replaced; links keep pointing.
    works(bestarm, "export", "dose", "-o", os.devnull)
    assert not Path(os.devnull).is_file()


def test_a_bad_file_is_refused_line_by_line(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml")
    Path("bad.csv").write_text("arm,metric,value\n25 mg,efficacy,1\nx,harm,1\n25 mg,harm,2\n", encoding="utf-8")
    before = everything()
    for words in (("import", "dose", "bad.csv"), ("tell", "dose", "--csv", "bad.csv")):
        ended = bestarm(*words)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.splitlines() == [
            "error: bad.csv: 2 lines cannot be accepted; nothing was recorded",
            "  line 3: arm = 'x': no such arm; there are '25 mg', '150 mg'",
            "  line 4: value of 'harm' = 2.0: must be 0 or 1",
        ]
    assert everything() == before


# --------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("tell", "dose", "1", "nan"), "value of 'efficacy' = nan: must be a finite number"),
        (("tell", "dose", "1", "inf"), "value of 'efficacy' = inf: must be a finite number"),
        (("tell", "dose", "1", "-inf"), "value of 'efficacy' = -inf: must be a finite number"),
        (("tell", "dose", "1", "1e999"), "value of 'efficacy' = inf: must be a finite number"),
        (("tell", "dose", "1", "much"), "value = 'much': must be a number"),
        (("tell", "dose", "1", ""), "value: is missing"),
        (("tell", "dose", "1", "3,5"), "value = '3,5': must be written with a decimal point"),
        (("tell", "dose", "2", "0.5"), "value of 'harm' = 0.5: must be 0 or 1"),
        (("tell", "dose", "2", "-1"), "value of 'harm' = -1.0: must be 0 or 1"),
        (("tell", "dose", "3", "100.1"), "value of 'purity' = 100.1: must lie between 0 and 100"),
        (("tell", "dose", "3", "-0.1"), "value of 'purity' = -0.1: must lie between 0 and 100"),
        (("tell", "dose", "1", "5", "--correct"), "test = 1: has no result yet; there is nothing to correct"),
        (("tell", "dose", "4", "5", "--correct"), "test = 4: no such test"),
        (("tell", "dose", "4", "1"), "test = 4: no such test in study 'dose'"),
        (("tell", "dose", "0", "1"), "test = '0': must be the number of a test"),
        (("tell", "dose", "-1", "1"), "test = '-1': must be the number of a test"),
        (("tell", "dose", "1.0", "1"), "test = '1.0': must be the number of a test"),
        (("tell", "dose", "9" * 400, "1"), "test = '9999"),
        (("tell", "dose", "9" * 20, "1"), "test = '9999"),
        (("tell", "dose", "\u0661", "1"), "must be the number of a test"),
        (("tell", "dose", "1"), "tell: give TEST VALUE, or --arm ARM --metric METRIC VALUE, or --csv FILE"),
        (("tell", "dose", "1", "2", "3"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose", "--arm", "25 mg", "1"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose", "--metric", "harm", "1"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose", "--csv", "f.csv", "1"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose", "--csv", "f.csv", "--arm", "a", "--metric", "m"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose", "--csv", "f.csv", "--correct"), "--correct: goes with TEST VALUE"),
        (("tell", "dose", "1", "2", "--reason", "so"), "--reason: goes with --correct"),
        (("tell", "dose", "--csv", "no.csv"), "no.csv: cannot be read: No such file or directory"),
        (("tell", "dose", "--csv", "."), ".: cannot be read: Is a directory"),
        (("tell", "dose", "--arm", "x", "--metric", "harm", "1"), "arm = 'x': no such arm; there are '25 mg'"),
        (("tell", "dose", "--arm", "25 mg", "--metric", "x", "1"), "metric = 'x': no such metric; there are 'eff"),
        (("tell", "dose", "--arm", "25 mg", "--metric", "harm", "2"), "value of 'harm' = 2.0: must be 0 or 1"),
        (("tell", "nose", "1", "1"), "study = 'nose': no such study in 's.db'; there are 'dose'"),
        (("ask", "dose", "-n", "0"), "n = 0: must be a whole number from 1"),
        (("ask", "dose", "-n", "-4"), "n = -4: must be a whole number from 1"),
        (("ask", "\udcff"), "study = '\\udcff': must be text in UTF-8"),
        (("tell", "dose", "1", "1", "--correct", "--reason", "\udcff"), "reason = '\\udcff': must be text in UTF-8"),
        (("log", "dose", "--last", "0"), "last = 0: must be a whole number from 1"),
        (("fail", "dose", "9"), "test = 9: no such test"),
        (("abandon", "dose", "9"), "test = 9: no such test"),
        (("export", "dose", "--format", "xml"), "format = 'xml': must be csv or json"),
        (("import", "dose", "no.csv"), "no.csv: cannot be read: No such file or directory"),
        (("new", "dose.toml"), "name = 'dose': a study of this name exists already in 's.db'"),
        (("new", "dose.toml", "--name", "a\nb"), "must not contain control characters"),
        (("new", "dose.toml", "--name", ""), "must not be empty"),
        (("new", "no.toml"), "'no.toml' is neither a file nor a built-in instance"),
        (("new", "dose.toml", "--name", "b", "--seed", "-1"), "seed = -1: must be a whole number"),
        (("status", "dose", "--db", "no.db"), "storage = 'no.db': no such file; make a study with `bestarm new`"),
        (("status", "dose", "--db", "."), "storage = '.': is a folder"),
        (("status", "dose", "--db", "dose.toml"), "storage = 'dose.toml': is not a bestarm database"),
        (("new", "dose.toml", "--db", "dose.toml"), "storage = 'dose.toml': is not a bestarm database"),
        (("status", "dose", "--db", "other.db"), "storage = 'other.db': is a database of another program"),
        (("new", "dose.toml", "--db", "other.db"), "storage = 'other.db': is a database of another program"),
        (("status", "dose", "--db", "newer.db"), "storage = 'newer.db': was made by a newer bestarm"),
        (("new", "dose.toml", "--db", "newer.db"), "storage = 'newer.db': was made by a newer bestarm"),
        (("list", "--db", "mysql://me:secret@there/x"), "must be a path, sqlite:///PATH or postgresql://"),
    ],
)
def test_a_mistake_is_one_clear_line_and_changes_nothing(
    bestarm: Program, words: tuple[str, ...], complaint: str
) -> None:
    works(bestarm, "new", "dose.toml")
    works(bestarm, "ask", "dose", "-n", "3")
    works(bestarm, "new", "dose.toml", "--db", "newer.db")
    with sqlite3.connect("newer.db") as connection:
        connection.execute("UPDATE bestarm_schema SET version = 99")
    with sqlite3.connect("other.db") as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    before = [everything(name) for name in ("s.db", "newer.db", "other.db")]
    ended = bestarm(*words)
    assert ended.code == 2, ended
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert complaint in ended.err
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 300
    assert "secret" not in ended.err
    assert [everything(name) for name in ("s.db", "newer.db", "other.db")] == before
    assert Path("dose.toml").read_text(encoding="utf-8") == DOSE
    assert not Path("no.db").exists()


@pytest.mark.parametrize(
    "words",
    [("status",), ("status", "dose", "--jsn"), ("ask", "dose", "-n", "many"), ("ask", "dose", "-n"), ("fail", "dose")],
)
def test_a_misspelt_command_line_is_refused(bestarm: Program, words: tuple[str, ...]) -> None:
    works(bestarm, "new", "dose.toml")
    before = everything()
    ended = bestarm(*words)
    assert (ended.code, ended.out) == (2, "")
    assert "Traceback" not in ended.err
    assert everything() == before


@pytest.mark.parametrize("command", ["ask", "status", "log", "export"])
def test_a_damaged_file_is_named(bestarm: Program, command: str) -> None:
    works(bestarm, "new", "dose.toml")
    works(bestarm, "ask", "dose", "-n", "3")
    with sqlite3.connect("s.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [page] = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    data = Path("s.db").read_bytes()
    Path("s.db").write_bytes(data[:page] + b"\x5a" * (len(data) - page))
    ended = bestarm(command, "dose")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: storage = 's.db': is damaged (its pages are malformed); restore it from a copy\n"


def test_a_database_that_fails_is_not_the_users_mistake(bestarm: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise ba.StorageError("storage = 's.db': the disk is full; nothing acknowledged is lost")

    works(bestarm, "new", "dose.toml")
    monkeypatch.setattr(ba.Study, "ask", full)
    ended = bestarm("ask", "dose")
    assert ended == (1, "", "error: storage = 's.db': the disk is full; nothing acknowledged is lost\n")


# ------------------------------------------------------------------------------------------------------ names

HOSTILE = [
    "[bold]b[/]",
    "[/]",
    "\\[red]",
    ":smile:",
    "漢字テスト",
    "עברית",
    "a\u202eb",
    "e\u0301🧪",
    "100%",
    "{x}",
    "'\"",
    "x" * 200,
]


def test_hostile_names_are_shown_as_they_are(bestarm: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ba.Plan(arms=HOSTILE, objective=ba.maximize("[m]", noise=ba.Gaussian(1)), name="[s]")
    Path("s.json").write_text(plan.to_json(), encoding="utf-8")
    works(bestarm, "new", "s.json")
    for width in ("300", "60"):
        monkeypatch.setenv("COLUMNS", width)
        asked = json.loads(works(bestarm, "ask", "[s]", "-n", "12", "--json"))
        assert [test["arm"] for test in asked] == HOSTILE
        for words in (("ask", "[s]", "-n", "12"), ("status", "[s]"), ("log", "[s]"), ("list",)):
            out = works(bestarm, *words)
            assert "\u202e" not in out
            for line in out.splitlines():
                assert cell_len(line) <= max(int(width), 180)
            if words[0] in ("ask", "status") and width == "300":
                for name in HOSTILE:
                    assert name.replace("\u202e", "\\u202e") in out
    works(bestarm, "tell", "[s]", "--arm", "[/]", "--metric", "[m]", "1")
    works(bestarm, "fail", "[s]", "1", "--reason", "[/red]\x1b[31m\n")
    monkeypatch.setenv("COLUMNS", "300")
    assert r"[/red]\x1b[31m\n" in works(bestarm, "log", "[s]")
    works(bestarm, "export", "[s]", "-o", "[b].csv")
    works(bestarm, "new", "s.json", "--name", "copy")
    works(bestarm, "import", "copy", "[b].csv")
    assert "[/]" in works(bestarm, "list")


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "\x00", "\ud800", " a", "", "x" * 201])
def test_names_that_are_refused(bestarm: Program, name: str) -> None:
    data = {"arms": ["a", name], "objective": {"metric": "m", "goal": "maximize", "noise": "bernoulli"}}
    Path("s.json").write_text(json.dumps(data), encoding="utf-8")
    ended = bestarm("new", "s.json")
    assert ended.code == 2
    assert ended.err.startswith("error: s.json: arms[1].name = ")
    assert not Path("s.db").exists()


def test_words_for_numbers() -> None:
    assert [percent(x) for x in (0, 0.5, 0.987, 0.9994, 0.99999, 1)] == [
        *("0 %", "50 %", "98.7 %", "99.9 %", "over 99.9 %", "100 %"),
    ]
    assert [age(x) for x in (-1, 59, 60, 3601, 7200, 86_400, 10**6)] == [
        *("now", "now", "1 minute", "1 hour", "2 hours", "1 day", "11 days"),
    ]
    assert shown("a\tb\u2028\u200d") == "a\\tb\\u2028\u200d"


def test_many_arms_are_cut_and_contenders_come_first(bestarm: Program) -> None:
    plan = ba.Plan(arms=[f"arm {k}" for k in range(80)], objective=ba.maximize("m", noise=ba.Gaussian(1)), name="wide")
    Path("w.json").write_text(plan.to_json(), encoding="utf-8")
    works(bestarm, "new", "w.json")
    out = works(bestarm, "status", "wide")
    assert "50 of 80 arms, contenders first; --all shows every one." in out
    assert "arm 79" not in out
    assert "arm 79" in works(bestarm, "status", "wide", "--all")
    assert len(json.loads(works(bestarm, "status", "wide", "--json"))["arms"]) == 80


# --------------------------------------------------------------------------------------------------- processes


def test_as_processes(tmp_path: Path) -> None:
    (tmp_path / "dash.toml").write_text(DASH, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "BESTARM_DB"}
    environment["PYTHONIOENCODING"] = "ascii"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bestarm", *words]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=PATIENCE, check=False
        )

    assert run("list").returncode == 2
    assert run("new", "dash.toml").returncode == 0
    assert (tmp_path / "bestarm.db").exists()
    assert [test["id"] for test in json.loads(run("ask", "-x", "-n", "2", "--json").stdout)] == [1, 2]
    assert run("tell", "-x", "1", "-1e-3").stdout == "Recorded: test 1 = -0.001.\n"
    bad = run("tell", "-x", "2", "NaN")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "error: value of '-m' = nan: must be a finite number\n"
    # A terminal that knows no box drawing gets escapes, not a crash.
    status = run("status", "-x")
    assert (status.returncode, status.stderr) == (0, "")
    assert "-x: running" in status.stdout
