"""The commands of live studies, as a user runs them: through `main`, and a few as processes."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.live import DASH, DOSE, Program, everything, works
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.cli.app.command_line import options_first
from bestarm.study.record import seeds


def test_new_says_how_to_repeat_a_study(bestarm: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "fresh_seed", iter(range(11, 20)).__next__)
    Path("items.toml").write_text(DASH.replace("[objective]", "items = 50\n[objective]", 1), encoding="utf-8")
    assert "To repeat its random choices: --seed 11\n" in works(bestarm, "new", "dose.toml")
    assert "To repeat its random choices: --seed 13 --items-seed 12\n" in works(bestarm, "new", "items.toml")
    said = json.loads(works(bestarm, "new", "items.toml", "--name", "a", "--seed", "3", "--json"))
    assert (said["seed"], said["items_seed"]) == (3, 14)
    said = json.loads(works(bestarm, "new", "items.toml", "--name", "b", "--items-seed", "4", "--json"))
    assert (said["seed"], said["items_seed"]) == (15, 4)
    assert "items_seed" not in json.loads(works(bestarm, "new", "dose.toml", "--name", "c", "--json"))
    assert "\nseeds: seed 15, items_seed 4\n" in works(bestarm, "status", "b")
    status = json.loads(works(bestarm, "status", "b", "--json"))
    assert (status["seed"], status["items_seed"]) == (15, 4)
    works(bestarm, "export", "b", "--all", "-o", "b.backup")
    works(bestarm, "import", "b.backup", "--as", "copy")
    assert "\nseeds: seed 15, items_seed 4\n" in works(bestarm, "status", "copy")
    ended = bestarm("new", "dose.toml", "--name", "d", "--items-seed", "4")
    assert (ended.code, ended.err) == (
        2,
        "error: items_seed = 4: this study has no items, so there is no order of them\n",
    )


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
    assert ended.err.startswith("Nothing left to test. 150 mg: feasible and best, with 95% confidence, after")
    assert works(bestarm, "ask", "dose").startswith("Nothing left to test. 150 mg: feasible and best")
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
        *("tolerance", "slack", "candidates", "feasible", "regret_at_most", "known", "open"),
        *("tests_left", "progress", "answered", "claim", "decided"),
        *("awaited", "health", "seed", "items_seed", "basis", "void_because", "guarantee", "conclusion"),
    ]
    assert list(status["health"]) == ["checks", "notes"]
    assert (status["tolerance"], status["slack"], len(status["candidates"]), status["feasible"]) == (0.0, {}, 2, [])
    assert (status["study"], status["state"], status["answer"]) == ("second", "running", None)
    assert (status["tests"], status["cost"], status["pending"], status["waiting"]) == (2, 2.0, 2, 1)
    assert [list(arm) for arm in status["arms"]] == [["name", "verdict", "reason", "metrics"]] * 2
    [efficacy, harm, purity] = status["arms"][0]["metrics"]
    keys = ["metric", "tests", "mean", "low", "high", "threshold", "verdict", "statistic", "share", "trials"]
    assert list(efficacy) == keys
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
        "statistic": "mean",
        "share": None,
        "trials": None,
    }
    assert (purity["low"], purity["high"], purity["threshold"]) == (0, 100, 20)
    table = works(bestarm, "status", "second")
    assert "waiting: 1 result recorded but not counted yet, for test 2 (harm of 25 mg), which" in table
    assert "at most 0.5" in table
    assert "at least 20" in table
    assert "No forecast yet" in works(bestarm, "status", "second", "--forecast")
    assert json.loads(works(bestarm, "status", "second", "--forecast", "--json"))["forecast"] is None


def test_status_says_what_is_certain_before_there_is_an_answer(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml", "--name", "certain")
    rows = ["25 mg,efficacy,0.3", "25 mg,purity,50", *["25 mg,harm,1"] * 30, "150 mg,efficacy,0.2", "150 mg,harm,0"]
    results = "\n".join(["arm,metric,value", *rows, "150 mg,purity,60"]).encode()
    assert "known:" not in works(bestarm, "status", "certain")
    works(bestarm, "tell", "certain", "--csv", "-", stdin=results)
    said = works(bestarm, "status", "certain")
    assert "\nknown: With 95% confidence, if any arm is feasible, the best is 150 mg\n" in said
    assert re.search(r"\nopen: \S.* of 150 mg: about [\d,]+ tests?; ", said)
    assert re.search(r"\nevidence: █*░+ \d+% of the evidence needed\n", said)
    status = json.loads(works(bestarm, "status", "certain", "--json"))
    assert (status["candidates"], status["feasible"]) == (["150 mg"], [])


def test_forecast_of_what_remains(bestarm: Program) -> None:
    works(bestarm, "new", "dash.toml")
    results = b"-low,-m,1\n--json,-m,-1\n"
    works(bestarm, "tell", "-x", "--csv", "-", stdin=b"arm,metric,value\n" + results)
    early = json.loads(works(bestarm, "status", "-x", "--forecast", "--json"))["forecast"]
    assert (early["state"], early["runs"], early["median_tests"], early["answers"]) == ("too early", 0, None, {})
    said = works(bestarm, "status", "-x", "--forecast")
    assert "\nforecast: too early to say" in said
    assert "likely" not in said
    works(bestarm, "tell", "-x", "--csv", "-", stdin=b"arm,metric,value\n" + 5 * results)
    forecast = json.loads(works(bestarm, "status", "-x", "--forecast", "--json"))["forecast"]
    assert (forecast["runs"], forecast["state"], forecast["after"]) == (100, "simulated", 12)
    assert 0 < forecast["median_tests"] <= (forecast["p90_tests"] or float("inf"))
    said = works(bestarm, "status", "-x", "--forecast")
    assert re.search(r"\nforecast: (about [\d,]+ tests to go|no end in sight)", said)
    assert re.search(r"\nlikely: \d+ of 100 simulated continuations ends? with", said)


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
    works(bestarm, "abandon", "-x", "5", "--reason", "spilled")
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
    # Its former holder cannot take it from bob; others can say that he will not come back.
    assert "Test 1 is with bob by now, and stays there" in works(bestarm, "fail", "dose", "1", "--reason", "no power")
    assert works(bestarm, "release", "dose", "1", "--worker", "carl") == (
        "Test 1, which bob held, will be handed out again.\n"
    )
    assert "given up" in works(bestarm, "abandon", "dose", "2", "--reason", "spilled")
    assert "was abandoned: spilled" in bestarm("tell", "dose", str(second["id"]), "1").err
    works(bestarm, "tell", "dose", "1", "1", "--worker", "dora")
    assert "has its result already" in works(bestarm, "fail", "dose", "1", "--reason", "no power")
    assert bestarm("abandon", "dose", "1", "--reason", "spilled").code == 2
    assert "--reason: must be stated" in bestarm("abandon", "dose", "1").err
    assert "--reason: must be stated" in bestarm("tell", "dose", "1", "4", "--correct").err


@pytest.mark.torture
def test_tests_stay_with_their_holder(bestarm: Program) -> None:
    works(bestarm, "new", "dash.toml")
    [test] = json.loads(works(bestarm, "ask", "-x", "--days", "0.00001", "--worker", "ann", "--json"))
    [other] = json.loads(works(bestarm, "ask", "-x", "--json"))
    assert other["id"] != test["id"]
    works(bestarm, "tell", "-x", str(other["id"]), "0")
    said = works(bestarm, "status", "-x")
    assert "waiting: 1 result recorded but not counted yet, for test 1 (" in said
    while "and wanted to tell" not in (said := works(bestarm, "status", "-x")):
        time.sleep(0.1)
    assert "ann has held" in said
    assert "if its result will not come: bestarm abandon -x 1 --reason WHY (later results count at once), or" in said
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
    assert works(bestarm, "release", "dose", "1") == "Test 1, which was free, will be handed out again.\n"
    assert works(bestarm, "release", "dose", "--held-by", "bob").endswith("So will 10 more.\n")
    for words, complaint in (
        (("dose",), "give the numbers of tests, or --held-by NAME"),
        (("dose", "3", "--held-by", "ann"), "give the numbers of tests, or --held-by NAME"),
        (("dose", "--held-by", "bob"), "--held-by = 'bob': holds no test of 'dose'; tests are held by ann"),
        (("dose", "999"), "test = 999: is not pending in study 'dose'"),
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
        "project",
        "state",
        "answer",
        "leader",
        "guarantee",
        "void_because",
        "progress",
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
    for words in (
        ("ask", "old"),
        ("tell", "old", "1", "1"),
        ("fail", "old", "1", "--reason", "x"),
        ("abandon", "old", "1", "--reason", "x"),
    ):
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


@pytest.mark.torture
def test_as_processes(tmp_path: Path) -> None:
    (tmp_path / "dash.toml").write_text(DASH, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "BESTARM_DB"}
    environment["PYTHONIOENCODING"] = "ascii"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bestarm", *words]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=PATIENCE, check=False
        )

    assert run("new", "dash.toml").returncode == 0
    study = ba.Study.open("-x", storage=tmp_path / "bestarm.db")
    assert [test.id for test in study.ask(2)] == [1, 2]
    bad = run("tell", "-x", "2", "NaN")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "error: value of '-m' = nan: must be a finite number\n"
    # A terminal that knows no box drawing gets escapes, not a crash.
    status = run("status", "-x")
    assert (status.returncode, status.stderr) == (0, "")
    assert "-x: running" in status.stdout
