"""`bestarm extend` and `bestarm arms`, and what other commands say of a study whose plan has changed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.live import DOSE, Program, works


def test_a_budget_is_extended(bestarm: Program) -> None:
    Path("small.toml").write_text("budget = { tests = 6, cost = 100 }\n" + DOSE)
    works(bestarm, "new", "small.toml")
    for test in json.loads(bestarm("ask", "dose", "-n", "6", "--json").out):
        works(bestarm, "tell", "dose", str(test["id"]), "0")
    assert json.loads(works(bestarm, "status", "dose", "--json"))["state"] == "budget_spent"
    said = works(bestarm, "extend", "dose", "--tests", "3000", "--cost", "0.5")
    assert said == "dose may now use 3,006 tests or a cost of 100.5 in all.\n"
    assert len(json.loads(bestarm("ask", "dose", "-n", "2", "--json").out)) == 2
    log = works(bestarm, "log", "dose", "--json")
    [amended] = [event for event in json.loads(log) if event["event"] == "amended"]
    assert amended["detail"] == "budget: 3,006 tests instead of 6; budget: 100.5 cost instead of 100"
    for words, said in (((), "say by how much"), (("--tests", "0"), "must be a positive number")):
        ended = bestarm("extend", "dose", *words)
        assert ended.code == 2
        assert said in ended.err


def test_arms_come_and_go(bestarm: Program) -> None:
    Path("open.toml").write_text("reserve = 0.2\n" + DOSE)
    works(bestarm, "new", "open.toml")
    said = works(bestarm, "arms", "add", "dose", "75 mg", "--json", "--worker", "ann")
    assert said == "75 mg, --json take part in dose.\n"
    assert works(bestarm, "arms", "retire", "dose", "25 mg", "--reason", "sold out") == "25 mg is retired in dose.\n"
    status = json.loads(works(bestarm, "status", "dose", "--json"))
    assert [arm["verdict"] for arm in status["arms"]] == ["retired", "open", "open", "open"]
    assert "no longer measured" in works(bestarm, "status", "dose")
    asked = json.loads(bestarm("ask", "dose", "-n", "20", "--json").out)
    assert {test["arm"] for test in asked} == {"150 mg", "75 mg", "--json"}
    assert "arm retired: 25 mg (sold out)" in works(bestarm, "log", "dose")
    ended = bestarm("arms", "remove", "dose", "75 mg")
    assert (ended.code, "must be add or retire" in ended.err) == (2, True)
    works(bestarm, "new", "dose.toml", "--name", "closed")
    ended = bestarm("arms", "add", "closed", "75 mg")
    assert (ended.code, "reserve = 0.2" in ended.err) == (2, True)


def test_a_spent_budget_says_what_is_lacking(bestarm: Program) -> None:
    Path("small.toml").write_text("budget = { tests = 36 }\n" + DOSE)
    works(bestarm, "new", "small.toml")
    while asked := json.loads(bestarm("ask", "dose", "-n", "36", "--json").out):
        rows = [f"{test['id']},{'0.4' if test['metric'] == 'efficacy' else '1'}" for test in asked]
        works(bestarm, "tell", "dose", "--csv", "-", stdin="\n".join(["test,value", *rows]).encode())
    said = works(bestarm, "status", "dose", "--forecast")
    assert "\nlacking: with a larger budget: about " in said
    assert "simulated continuations end with" in said


def test_the_reserve_changes_before_the_first_test(bestarm: Program) -> None:
    Path("trial.toml").write_text(DOSE)
    works(bestarm, "new", "trial.toml", "--name", "trial")
    assert works(bestarm, "reserve", "trial", "0.1").startswith("trial keeps 10% of delta")
    works(bestarm, "ask", "trial")
    assert "can only be changed before the first test" in bestarm("reserve", "trial", "0.2").err
