"""Live studies of every goal, to every end, and opened again by another process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bestarm as ba

GOALS: dict[str, dict[str, Any]] = {
    "short": {"top": 2},
    "top": {"goal": "top", "top": 2},
    "any": {"goal": "any feasible"},
    "every": {"goal": "every feasible"},
}
GOOD = {"a": (3.0, 1.0), "b": (2.0, 1.0), "c": (0.0, 1.5), "d": (5.0, 4.8)}
BAD = dict.fromkeys("abcd", (1.0, 5.0))
ENDS: dict[str, tuple[dict[str, tuple[float, float]], int]] = {
    "certified": (GOOD, 2000),
    "no_feasible_arm": (BAD, 2000),
    "budget_spent": (GOOD, 11),
}
_READ = """
import json, sys
import bestarm as ba
studies = [ba.Study.open(name, storage=sys.argv[1]) for name in sys.argv[2:]]
print(json.dumps([[str(one.answer), one.answer.arms, one.answer.candidates, one.status().headline] for one in studies]))
"""


def study_of(name: str, folder: Path, rows: dict[str, tuple[float, float]], budget: int, **goal: Any) -> ba.Study:
    """A study that has come to its end."""
    plan = ba.Plan(
        arms=list(rows),
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most("price", 3, noise=ba.Gaussian(1.0))],
        name=name,
        budget=ba.Budget(tests=budget),
        **goal,
    )
    study, noise = ba.Study.create(plan, storage=str(folder / "studies.db"), seed=1), np.random.default_rng(2)
    while not study.done:
        for test in study.ask(4):
            study.tell(test, rows[test.arm][test.metric == "price"] + noise.normal())
    return study


def test_every_goal_to_every_end_and_opened_again(tmp_path: Path) -> None:
    studies = [
        study_of(f"{goal} {end}", tmp_path, *ENDS[end], **fields) for goal, fields in GOALS.items() for end in ENDS
    ]
    answers = {study.name: study.answer for study in studies}
    said = {name: str(answer).partition(", with")[0] for name, answer in answers.items()}
    assert said["short certified"] == "a and b: the best feasible arm is one of these"
    assert said["top certified"] == "a and b: the 2 best feasible arms"
    assert said["every certified"] == "a, b and c: feasible, and no other arm is"
    assert said["any certified"] in ("a: feasible", "b: feasible", "c: feasible")
    for name, answer in answers.items():
        assert answer is not None
        # A short list of arms none of which is feasible does not say that any is.
        assert name.endswith(answer.state) or name == "short no_feasible_arm"
        assert (len(answer.arms) > 0) == (answer.state == "certified")
        assert answer.arms == () or (answer.arm in answer.arms and answer.candidates == answer.arms)
        if "no_feasible_arm" in name:
            is_list = name.startswith("short")
            assert said[name].endswith(", if any is feasible, is one of these" if is_list else "no arm is feasible")
    storage = str(tmp_path / "studies.db")
    elsewhere = subprocess.run(
        [sys.executable, "-c", _READ, storage, *answers], capture_output=True, text=True, check=True, timeout=300
    )
    here = [
        [str(answer), list(answer.arms), list(answer.candidates), study.status().headline]
        for study in studies
        if (answer := study.answer) is not None
    ]
    assert json.loads(elsewhere.stdout) == here


def test_a_running_study_can_be_forecast(tmp_path: Path) -> None:
    study = study_of("short", tmp_path, GOOD, 12, top=2)
    assert study.answer is not None
    running = ba.Study.create(
        ba.Plan.from_data({key: data for key, data in study.plan.to_data().items() if key not in ("budget", "name")}),
        name="running",
        storage=str(tmp_path / "studies.db"),
    )
    # Six results of each metric of each arm are enough to say something; added at once, they all count.
    close = {arm: (0.25 * gain, 3.0 + 0.4 * (price - 3.0)) for arm, (gain, price) in GOOD.items()}
    running.add([(arm, metric, close[arm][metric == "price"]) for arm in close for metric in ("gain", "price")] * 6)
    outlook = running.forecast(runs=10)
    assert outlook is not None
    assert outlook.state == "simulated"
    assert outlook.answers["a, b"] == pytest.approx(1.0, abs=0.5)
    assert running.status().state == "running"
