"""Who leads after fixed numbers of tests: the same on every engine, and what follows from it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.program import bestarm

import bestarm as ba
from bestarm.kernel.state import NONE, UNFINISHED
from bestarm.policies import find_policy
from bestarm.simulation.checkpoints import curves_of
from bestarm.simulation.engine import Job

PLAN = ba.instance("exp1-a")
AT = (1, 15, 40, 100, 101, 400, 10_000)


def job(policy: str, plan: ba.Plan = PLAN, **fields: Any) -> Job:
    return Job.of(plan, find_policy(policy), **{"seed": 3, "max_tests": 10**6, "checkpoints": AT, **fields})


@pytest.mark.parametrize("policy", ["certify", "feasible-lucb", "feasibility-first"])
def test_engines_agree_and_a_run_depends_on_seed_and_number_alone(policy: str) -> None:
    plan = ba.Plan.of(PLAN, delta=0.8, bound="mixture")
    one = job(policy, plan)
    compiled = one.simulate(0, 6).outcomes
    assert (one.interpret(0, 3).outcomes.leaders == compiled.leaders[:3]).all()
    assert (one.simulate(4, 1).outcomes.leaders == compiled.leaders[4:5]).all()
    without = job(policy, plan, checkpoints=()).simulate(0, 6).outcomes
    assert (without.tests == compiled.tests).all()
    assert compiled.leaders.max() < len(PLAN.arms)
    assert compiled.leaders.min() >= NONE


def test_what_is_recorded_is_who_leads_then() -> None:
    one = job("racing")
    outcomes = one.simulate(2, 1).outcomes
    _, trace = one.trace(2)
    for place, tests in enumerate(AT):
        policy = one.new_policy(2)
        for (arm, metric), value in zip(trace.streams[:tests].tolist(), trace.values[:tests].tolist(), strict=True):
            policy.tell(arm, metric, value)
        leader = policy.recommend()
        assert outcomes.leaders[0, place] == (NONE if leader is None else leader)


def test_a_run_that_has_stopped_recommends_its_answer() -> None:
    result = ba.simulate(PLAN, runs=40, seed=1, checkpoints=[1200, 1400, 10**6])
    assert result.leaders is not None
    for place, tests in enumerate(result.checkpoints):
        ended = result.tests <= tests
        assert (result.leaders[ended, place] == result.answers[ended]).all()
    assert (result.leaders[:, -1] == result.answers).all()
    assert 0 < (result.tests <= 1400).sum() < 40


def test_a_run_whose_budget_is_spent_recommends_its_leader() -> None:
    plan = ba.Plan.of(PLAN, budget=ba.Budget(cost=60.0))
    result = ba.simulate(plan, policy="racing", runs=5, checkpoints=[50, 100])
    assert result.leaders is not None
    assert (result.answers == UNFINISHED).all()
    interpreted = job("racing", plan, seed=0, checkpoints=(50, 100)).interpret(0, 5).outcomes
    assert (interpreted.leaders == result.leaders).all()
    assert result.leaders.max() < len(PLAN.arms)


def test_curves() -> None:
    problem = ba.Problem(
        arms=[
            ba.Arm("good", {"m": 3.0, "c": -1.0}),
            ba.Arm("fair", {"m": 2.5, "c": -1.0}),
            ba.Arm("bad", {"m": 5.0, "c": 1.0}),
        ],
        objective=ba.maximize("m", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most("c", 0.0, noise=ba.Gaussian(1.0))],
    )
    curves = curves_of(problem, (10, 20), np.array([[0, 0], [1, 0], [2, 1], [NONE, 0]]))
    assert curves.error.tolist() == [0.75, 0.25]
    assert curves.infeasible.tolist() == [0.25, 0.0]
    # An infeasible arm, or a wrong "none", loses the difference between the best and the worst of all arms.
    assert curves.regret.tolist() == [(0.0 + 0.5 + 2.5 + 2.5) / 4, 0.5 / 4]
    assert [row["tests"] for row in curves.rows()] == [10, 20]
    assert curves.error_se[1] == pytest.approx(np.sqrt(0.25 * 0.75 / 4))
    hopeless = problem.with_means({"good": {"c": 1.0}, "fair": {"c": 1.0}})
    assert curves_of(hopeless, (5,), np.array([[NONE], [0]])).regret.tolist() == [1.25]
    assert curves_of(hopeless, (5,), np.array([[NONE], [0]])).error.tolist() == [0.5]


@pytest.mark.parametrize(
    ("checkpoints", "said"),
    [
        (200, "must be a list of numbers of tests"),
        ("200", "must be a list of numbers of tests"),
        ([], "must be a list of numbers of tests"),
        ([1.5], "must be whole numbers"),
        ([True], "must be whole numbers"),
        ([0, 5], "must be positive and rise"),
        ([5, 5], "must be positive and rise"),
        ([400, 200], "must be positive and rise"),
        ([10**10], "a run ends after 1,000,000,000 tests"),
        (range(1, 2000), "must be at most 1,000, not 1,999"),
    ],
)
def test_what_is_refused(checkpoints: Any, said: str) -> None:
    with pytest.raises(ba.InvalidInput, match=said) as caught:
        ba.simulate(PLAN, runs=1, checkpoints=checkpoints)
    assert caught.value.field == "checkpoints"


def test_goals_that_ask_for_several_arms_are_refused() -> None:
    problem = ba.Problem(arms=["a", "b", "c"], objective=ba.maximize("m", noise=ba.Gaussian(1.0)), goal="top", top=2)
    with pytest.raises(ba.InvalidInput, match="the goal must be the best arm"):
        ba.simulate(problem.with_means({arm: {"m": 1.0} for arm in "abc"}), runs=1, checkpoints=[5])


def test_there_are_no_curves_without_checkpoints() -> None:
    with pytest.raises(ba.InvalidInput, match="curves need checkpoints"):
        _ = ba.simulate(PLAN, runs=2).curves


def test_the_command_line() -> None:
    command = ("simulate", "exp1-a", "--policy", "racing", "--runs", "20")
    found = json.loads(bestarm(*command, "--checkpoints", "200,400", "--json").out)["checkpoints"]
    assert [row["tests"] for row in found] == [200, 400]
    assert found == ba.simulate(PLAN, policy="racing", runs=20, checkpoints=[200, 400]).summary()["checkpoints"]
    assert "after 200 tests" in bestarm(*command, "--checkpoints", "200").out
    assert "must be a whole number, or several" in bestarm(*command, "--checkpoints", "200;400").err
