"""Duels against a baseline through every door: verdicts in words or numbers decide the same, and are shown as wins."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lengths import cases
from tests.program import bestarm

import bestarm as ba
from bestarm.analysis.status.words import question
from bestarm.client import Client
from bestarm.kernel.state import NONE, Floats
from bestarm.policies import find_policy
from bestarm.policies.setting import to_normal
from bestarm.simulation.engine import Job
from bestarm.study.files.exchange import import_results
from bestarm.study.intake.values import RefusedValue
from bestarm.study.reports.report import study_report
from bestarm.web.server import running

ARMS = ("terse", "friendly", "rude")
WINS = {"terse": 0.45, "friendly": 0.75, "rude": 0.2}
WORDS = ("win", "tie", "loss")
VALUES = {"win": 1.0, "tie": 0.5, "loss": 0.0}


def plan(**more: Any) -> ba.Plan:
    stated = {"arms": ARMS, "objective": ba.duel("preference"), "baseline": "plain", "items": 60, "name": "prompts"}
    return ba.Plan(**{**stated, **more})


def verdict(arm: str, item: str | None) -> str:
    luck = random.Random(f"{arm} {item}")
    return "tie" if luck.random() < 0.1 else "win" if luck.random() < WINS[arm] else "loss"


def new(plan: ba.Plan, storage: Any = ":memory:") -> ba.Study:
    return ba.Study.create(plan, storage=storage, seed=3, items_seed=None if plan.items is None else 5)


def decide(study: Any, say: Callable[[str], Any]) -> ba.Answer:
    while not study.done:
        for test in study.ask(3):
            study.tell(test, say(verdict(test.arm, test.item)))
    answer: ba.Answer = study.answer
    return answer


def test_words_and_numbers_decide_the_same(tmp_path: Path) -> None:
    """Here, on a server, in a file, from a command, and in a study that is opened again."""
    here = decide(new(plan()), VALUES.__getitem__)
    assert here.arm == "friendly"
    assert decide(new(plan()), str) == here
    storage = str(tmp_path / "studies.db")
    with running(storage) as url, Client(url) as client:
        remote = client.create(plan(), seed=3, items_seed=5)
        assert decide(remote, str) == here
        with pytest.raises(RefusedValue):
            remote.tell(1, "won")
    with pytest.raises(RefusedValue, match="'won': must be win, tie or loss, or a number from 0 to 1"):
        new(plan()).add([("terse", "preference", "won", "1")])
    again = ba.Study.open("prompts", storage=storage)
    assert again.answer == here
    rows = "".join(f"{arm},{k},{verdict(arm, str(k)).upper()}\n" for arm in ARMS for k in range(1, 61))
    imported, framed = new(plan()), new(plan())
    import_results(imported, f"arm,item,preference\n{rows}".encode(), "verdicts.csv")
    cells = [(arm, str(k)) for arm in ARMS for k in range(1, 61)]
    columns = {
        "arm": [arm for arm, _ in cells],
        "item": [k for _, k in cells],
        "preference": [verdict(*c) for c in cells],
    }
    framed.add_frame(columns)
    assert imported.answer is not None
    assert imported.answer == framed.answer
    assert imported.answer.arm == "friendly"


def test_on_the_command_line(tmp_path: Path) -> None:
    file, db = tmp_path / "prompts.toml", str(tmp_path / "studies.db")
    file.write_text(plan().to_toml(), encoding="utf-8")
    assert bestarm("new", str(file), "--db", db, "--seed", "3", "--items-seed", "5").code == 0
    assert (
        "Recorded as test 1: preference of terse = win."
        in bestarm(
            *("tell", "prompts", "--db", db, "--arm", "terse", "--metric", "preference", "win", "--item", "7")
        ).out
    )
    refused = bestarm("tell", "prompts", "--db", db, "--arm", "terse", "--metric", "preference", "won", "--item", "8")
    assert refused.code == 2
    judge = tmp_path / "judge.py"
    judge.write_text("import sys; print({'terse': 'loss', 'friendly': 'win', 'rude': 0.25}[sys.argv[1]])\n")
    done = bestarm("run", "prompts", "--db", db, "--command", f"{sys.executable} {judge} {{arm}}", cwd=tmp_path)
    assert done.code == 0, done.err
    shown = bestarm("status", "prompts", "--db", db).out
    assert "win rate 100% against plain" in " ".join(shown.split())


def test_a_function_may_return_the_words() -> None:
    def measure(arm: str, metric: str, item: str) -> str:
        return verdict(arm, item)

    answer = ba.identify(plan(), measure, seed=3, items_seed=5)
    assert answer == ba.identify(plan(), lambda *test: VALUES[measure(*test)], seed=3, items_seed=5)


def test_a_sheet_offers_the_words(tmp_path: Path) -> None:
    new(plan(), str(tmp_path / "studies.db"))
    done = bestarm("ask", "prompts", "-n", "4", "-o", "duels.xlsx", "--db", str(tmp_path / "studies.db"), cwd=tmp_path)
    assert done.code == 0, done.err
    import openpyxl

    sheet = openpyxl.load_workbook(tmp_path / "duels.xlsx").worksheets[0]
    [rule] = sheet.data_validations.dataValidation
    assert rule.formula1 == '"win,loss,tie"'
    assert "win, loss or tie, or a number from 0 to 1" in rule.error


def test_what_is_shown() -> None:
    study = new(plan())
    answer = decide(study, str)
    assert "win rate 7" in answer.reasons["friendly"]
    status = study.status()
    assert question(study.plan).startswith("Which of 3 arms has the largest win rate of preference against plain")
    html = study_report(study)
    assert len(re.findall(r"win rate \d", html)) == 3
    assert "largest win rate of preference against plain" in html
    [terse] = [arm for arm in status.arms if arm.name == "terse"]
    assert {metric.statistic for metric in terse.metrics} == {"win rate"}
    assert status.health.notes == ()


def test_a_judge_of_position_alone_finds_nobody_better() -> None:
    """It names what is shown first, whatever it says: asked in both orders, every comparison is a tie."""
    seen: list[tuple[str, ...]] = []

    def compare(*shown: str) -> str:
        seen.append(shown)
        return "first"

    answer = ba.identify(
        plan(items=20, objective=ba.duel("preference", tolerance=0.1)), ba.both_orders(compare, "plain")
    )
    assert all("win rate 50% against plain" in reason for reason in answer.reasons.values())
    assert len(seen) == 2 * answer.tests


def test_a_function_says_verdicts_in_words() -> None:
    """Alone, with other metrics, from several threads, from a judge, and as a coroutine; other words are a mistake."""
    stated = plan(items=60, objective=ba.duel("preference", judge="model"))
    here: dict[str, Any] = {"seed": 3, "items_seed": 5}
    numbers = ba.identify(stated, lambda arm, _, item: VALUES[verdict(arm, item)], **here)
    assert ba.identify(stated, lambda arm, _, item: verdict(arm, item), **here) == numbers
    assert numbers.arm == "friendly"

    priced = plan(
        constraints=[ba.at_most("price", 5, noise=ba.Bounded(0, 9))],
        measurements=[ba.measurement("preference", "price")],
    )

    async def measure(arm: str, metric: str, item: str) -> dict[str, Any]:
        return {"preference": verdict(arm, item).upper(), "price": 2.0}

    assert asyncio.run(ba.identify_async(priced, measure, concurrency=4)).arm == "friendly"
    with pytest.raises(ba.MeasurementFailed, match='must return "win", "tie", "loss" or a number'):
        ba.identify(plan(), lambda arm, metric, item: "draw")
    with pytest.raises(ba.MeasurementFailed, match="'win' is no result; the function must return a number"):
        ba.identify(ba.Problem(arms=ARMS, objective=ba.maximize("x", noise=ba.Bernoulli())), lambda arm, metric: "win")


@cases(6)
@pytest.mark.parametrize(
    "more",
    [
        {"items": None},
        {"repeats": True},
        {"goal": "every feasible"},
        {"goal": "any feasible"},
        {"goal": "top", "top": 2},
        {"top": 2},
        {"goal": "every feasible", "constraints": "relative", "arms": (*ARMS, "plain")},
        {"objective": ba.duel("preference", judge="model")},
        {"blocks": ba.Blocks("rater", size=6), "items": None},
        {"items": None, "reserve": 0.2},
    ],
    ids=lambda more: " ".join(map(str, more)),
)
def test_it_goes_with_everything(more: dict[str, Any], tmp_path: Path) -> None:
    """Right answers, and the same in a study that is opened again."""
    if more.get("constraints") == "relative":
        price = ba.at_most("price", relative_to_baseline=1.5, noise=ba.Bounded(0, 9))
        more = more | {"constraints": [price], "measurements": [ba.measurement("preference", "price")]}
    stated = plan(**({"delta": 0.2} | more))
    study, luck = new(stated, str(tmp_path / "studies.db")), random.Random(4)
    for judge in stated.judged:
        study.add([(arm, judge, VALUES[verdict(arm, str(k))], k) for arm in ARMS for k in range(1, 61)])
    while not study.done:
        for test in study.ask_block() if stated.blocks else study.ask(2):
            item = test.item if stated.items == 60 and not stated.repeats else str(luck.random())
            said: Any = verdict(test.arm, item) if test.arm in WINS else "tie"
            study.tell(
                test,
                {"preference": said, "price": 3.0 if test.arm == "rude" else 2.0} if len(test.metrics) > 1 else said,
            )
    assert study.answer is not None
    assert "friendly" in study.answer.arms
    assert "rude" not in study.answer.arms
    assert ba.Study.open("prompts", storage=str(tmp_path / "studies.db")).answer == study.answer


@dataclasses.dataclass(frozen=True)
class Verdicts(Job):
    """Items on which every arm loses once more than it wins, in a random order."""

    def world(self, run: int, room: int) -> Floats:
        luck = np.random.default_rng((self.seed, run))
        count = self.problem.items
        assert isinstance(count, int)
        row = np.array([1.0, 0.5, 0.0] * (count // 3) + [0.0])
        values = np.array([luck.permutation(row) for _ in self.problem.arms])
        parts = range(len(self.problem.parts))
        return np.stack([to_normal(self.problem, self.setting, part, values) for part in parts], axis=1)


@pytest.mark.parametrize("goal", ["best", "any feasible"])
def test_errors_are_counted(goal: Any) -> None:
    """Of three arms, each loses on one item of 100 more than it wins. So every answer but "none" is wrong.

    With probability 0.2 at most, each of 300 studies errs. More than 90 do by chance in one of 70,000 tests.
    """
    problem = ba.Problem(
        arms=[ba.Arm(name, means={"preference": 0.495}) for name in ARMS],
        objective=ba.duel("preference"),
        baseline="plain",
        items=100,
        goal=goal,
    )
    fields: dict[str, Any] = {"delta": 0.2, "bound": "paper", "seed": 7, "max_tests": 10**9}
    answers = Verdicts(problem, find_policy("certify"), **fields).simulate(0, 300).outcomes.answers
    assert (answers != NONE).sum() <= 90
