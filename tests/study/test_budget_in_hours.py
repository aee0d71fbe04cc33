"""Budgets of time: hours by the clock since a study was created, in whichever process it goes on."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lengths import lengths
from tests.program import bestarm

import bestarm as ba
from bestarm.study import Test

HOUR = 3600.0


class Clock:
    """The clock of this process, moved on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real, self._ahead = time.time, 0.0
        monkeypatch.setattr(time, "time", lambda: self._real() + self._ahead)

    def pass_hours(self, hours: float) -> None:
        self._ahead += hours * HOUR


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def plan(**fields: Any) -> ba.Plan:
    stated: dict[str, Any] = {"name": "timed", "budget": ba.Budget(hours=2)}
    return ba.Plan(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)), **stated | fields)


def state(path: Path) -> tuple[str, bool]:
    """As another process sees it."""
    study = ba.Study.open("timed", storage=path)
    return study.status().state, study.done


@pytest.mark.parametrize("items", [None, 50])
def test_no_test_begins_when_the_time_is_up_and_what_is_out_still_counts(
    tmp_path: Path, clock: Clock, items: int | None
) -> None:
    path = tmp_path / "s.db"
    study = ba.Study.create(plan(items=items), storage=path, seed=1, holder="first")
    tests = study.ask(2, days=9)
    clock.pass_hours(1.9)
    tests += study.ask(2, days=9)
    assert len(tests) == 4
    assert f"{study.status()}".count("no test begins after") == 1
    clock.pass_hours(0.2)
    # Neither new ones nor those that were planned before, in any process.
    assert study.ask(5) == []
    other = ba.Study.open("timed", storage=path, holder="other")
    assert other.ask(5) == []
    assert state(path) == ("running", False)
    assert "what is out still counts: 4 tests" in str(other.status())
    for test in tests[:3]:
        study.tell(test, 1.0)
    # One that is freed is made again: to leave it out may leave out what made it late.
    study.release(tests[3])
    [again] = other.ask(5)
    assert again.id == tests[3].id
    assert state(path) == ("running", False)
    other.tell(again, 0.5)
    assert state(path) == ("budget_spent", True)
    answer = ba.Study.open("timed", storage=path).answer
    assert answer is not None
    assert (answer.state, answer.guarantee, answer.tests) == ("budget_spent", "none", 4)


def test_nothing_out_ends_it_at_once_and_more_hours_count_from_now(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "s.db"
    study = ba.Study.create(plan(), storage=path)
    clock.pass_hours(30)
    assert state(path) == ("budget_spent", True)
    printed = json.loads(bestarm("status", "timed", "--db", str(path), "--json").out)
    assert printed["state"] == "budget_spent"
    assert printed["ends"] == pytest.approx(study.record.created + 2 * HOUR)
    ended = bestarm("extend", "timed", "--hours", "1.5", "--db", str(path))
    assert ended.code == 0, ended.err
    hours = study.plan.budget
    assert study.ask(1)
    assert study.plan.budget != hours
    assert study.plan.budget is not None
    assert study.plan.budget.hours == pytest.approx(31.5, abs=0.1)
    clock.pass_hours(1.6)
    assert study.ask(1) == []
    # Before its time is up, hours are added to those that it has.
    fresh = ba.Study.create(plan(name="fresh"), storage=path)
    assert fresh.extend(hours=1) == ba.Budget(hours=3)
    with pytest.raises(ba.InvalidInput, match="the study's budget is one of hours; extend that"):
        fresh.extend(5)


@pytest.mark.parametrize(
    ("hours", "complaint"),
    [(0, "hours = 0: must be a positive number"), (True, "must be a number"), ("2", "must be a number")],
)
def test_what_is_refused(hours: Any, complaint: str) -> None:
    with pytest.raises(ba.InvalidInput, match=re.escape(complaint)):
        ba.Budget(hours=hours)


def test_study_files_say_it() -> None:
    made = plan(budget=ba.Budget(tests=100, hours=0.5))
    assert made.budget is not None
    assert made.budget.words() == "100 tests or 30 minutes"
    assert ba.Plan.from_toml(made.to_toml()) == made


def test_a_function_is_called_no_more_when_the_time_is_up(clock: Clock) -> None:
    rng = np.random.default_rng(1)

    def slow(arm: str, metric: str) -> float:
        clock.pass_hours(0.1)
        return float(rng.normal())

    answer = ba.identify(plan(), slow, storage=":memory:")
    assert answer.state == "budget_spent"
    # The 20th call ends when two hours are over, or a moment before.
    assert 20 <= answer.tests <= 21


@pytest.mark.parametrize(("studies", "most"), lengths((10, 7), (40, 17)))
def test_errors_stay_below_delta_where_bad_results_are_slow(clock: Clock, studies: int, most: int) -> None:
    """Two arms are equally good, so whatever is certified is wrong. Results below 0 take ten times as long, with four
    workers, and the time is up early or late. If studies erred with probability delta = 0.2, more than 17 of 40 would
    with probability 0.0003, and more than 7 of 10 with probability 0.00008."""
    wrong = 0
    for run in range(studies):
        rng = np.random.default_rng([5, run])
        hours = ba.Budget(hours=float(rng.uniform(0.5, 8.0)))
        study = ba.Study.create(plan(delta=0.2, budget=hours), storage=":memory:", seed=run)
        running: list[tuple[float, Test, float]] = []
        now = 0.0
        while True:
            while len(running) < 4 and (tests := study.ask(1)):
                value = float(rng.normal())
                running.append((now + (1.0 if value < 0.0 else 0.1), tests[0], value))
            if not running:
                break
            running.sort(key=lambda one: one[0])
            end, test, value = running.pop(0)
            clock.pass_hours(end - now)
            now = end
            study.tell(test, value)
        assert study.done
        wrong += study.status().state == "certified"
    assert wrong <= most
