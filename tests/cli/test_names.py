"""Names, numbers and tables as they are shown."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.cli.live import Program, works

import bestarm as ba
from bestarm.cli.shared.show import age, percent
from bestarm.texts import shown

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


def test_hostile_names_are_shown_as_they_are(bestarm: Program) -> None:
    plan = ba.Plan(arms=HOSTILE, objective=ba.maximize("[m]", noise=ba.Gaussian(1)), name="[s]")
    Path("s.json").write_text(plan.to_json(), encoding="utf-8")
    works(bestarm, "new", "s.json")
    for width in ("300", "60"):
        sized = functools.partial(bestarm, COLUMNS=width)
        asked = json.loads(works(sized, "ask", "[s]", "-n", "12", "--json"))
        assert [test["arm"] for test in asked] == HOSTILE
        for words in (("ask", "[s]", "-n", "12"), ("status", "[s]"), ("log", "[s]"), ("list",)):
            out = works(sized, *words)
            assert "\u202e" not in out
            for line in out.splitlines():
                assert cell_len(line) <= max(int(width), 180)
            if words[0] in ("ask", "status") and width == "300":
                for name in HOSTILE:
                    assert name.replace("\u202e", "\\u202e") in out
    works(bestarm, "tell", "[s]", "--arm", "[/]", "--metric", "[m]", "1")
    works(bestarm, "fail", "[s]", "1", "--reason", "[/red]\x1b[31m\n")
    assert r"[/red]\x1b[31m\n" in works(functools.partial(bestarm, COLUMNS="300"), "log", "[s]")
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
        *("0%", "50%", "98.7%", "99.9%", "over 99.9%", "100%"),
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
