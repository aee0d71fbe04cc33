"""Goals with a baseline, and on items: how often answers are wrong, that engines agree, and what is refused and why."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from scipy.stats import binom
from tests.lengths import cases, lengths

import bestarm as ba
from bestarm.kernel.state import UNFINISHED
from bestarm.policies import policy_for
from bestarm.policies.certify import Certify
from bestarm.simulation.answers import wrong_answers
from bestarm.simulation.engine import Job
from bestarm.testing.policies import assert_engines_agree

SHORT_LIST: dict[str, Any] = {"top": 2}
TOP: dict[str, Any] = {"goal": "top", "top": 2}
ANY: dict[str, Any] = {"goal": "any feasible"}
EVERY: dict[str, Any] = {"goal": "every feasible"}
REPEATS: dict[str, Any] = {"items": 5, "repeats": True}
SET: dict[str, Any] = {"items": 60}
COMBINATIONS = {
    "short list, baseline": (SHORT_LIST, True),
    "top, baseline": (TOP, True),
    "any feasible, baseline": (ANY, True),
    "top, items": (TOP | REPEATS, False),
    "top, set": (TOP | SET, False),
    "top, set, baseline": (TOP | SET, True),
    "short list, items, baseline": (SHORT_LIST | REPEATS, True),
    "any feasible, items, baseline": (ANY | REPEATS, True),
    "every feasible, baseline": (EVERY, True),
    "every feasible, set": (EVERY | SET, False),
    "every feasible, set, baseline": (EVERY | SET, True),
    "every feasible, items, baseline": (EVERY | REPEATS, True),
}


CLEAR = {
    "old": (0.0, 1.0, 2.0),
    "a": (2.0, 1.8, 0.2),
    "b": (1.6, 0.9, 0.2),
    "c": (1.5, 1.0, 0.2),
    "d": (1.0, 0.9, 0.2),
    "e": (0.8, 1.9, 0.3),
}
HARD = {
    "old": (0.0, 1.0, 1.01),
    "a": (2.0, 1.51, 0.2),
    "b": (1.6, 1.4, 0.2),
    "c": (1.5, 1.51, 1.01),
    "d": (1.4, 1.52, 0.2),
}


def plan_of(name: str, rows: dict[str, tuple[float, float, float]] = CLEAR) -> ba.Plan:
    """Prices lie on both sides of the limit, which is 1.5, and the baseline weighs too much."""
    fields, is_relative = COMBINATIONS[name]
    arms = [ba.Arm(name, dict(zip(("gain", "price", "weight"), row, strict=True))) for name, row in rows.items()]
    noise = ba.Gaussian(1.0)
    limit: dict[str, Any] = {"relative_to_baseline": 1.5} if is_relative else {"threshold": 1.5}
    return ba.Plan(
        arms=arms if is_relative else arms[1:],
        objective=ba.maximize("gain", noise=noise),
        constraints=[ba.at_most("price", noise=noise, **limit), ba.at_most("weight", 1.0, noise=noise)],
        baseline="old" if is_relative else None,
        delta=0.2,
        **fields,
    )


@cases(6)
@pytest.mark.parametrize("runs", lengths(60, 5_000))
@pytest.mark.parametrize("name", COMBINATIONS)
def test_clear_cases_end_and_are_right(name: str, runs: int) -> None:
    """Each case fails by chance with probability below 1e-6 if the guarantee holds with equality."""
    plan = plan_of(name)
    chunk = Job.of(plan, Certify, seed=7, max_tests=2_000).simulate(0, runs)
    answers = chunk.outcomes.answers
    assert wrong_answers(plan, answers, chunk.sets) <= binom.isf(1e-6, runs, 0.2)
    assert (answers != UNFINISHED).mean() > 0.5


@cases(6)
@pytest.mark.parametrize("runs", lengths(200, 20_000))
@pytest.mark.parametrize("name", COMBINATIONS)
def test_where_means_barely_miss_their_limits_it_errs_with_probability_delta_at_most(name: str, runs: int) -> None:
    """Each case fails by chance with probability below 1e-6 if the guarantee holds with equality. Most runs do not end:
    an arm can be certified only by luck."""
    plan = plan_of(name, HARD)
    chunk = Job.of(plan, Certify, seed=7, max_tests=300).simulate(0, runs)
    assert wrong_answers(plan, chunk.outcomes.answers, chunk.sets) <= binom.isf(1e-6, runs, 0.2)


@cases(6)  # The same six, which share what is compiled.
@pytest.mark.parametrize("name", COMBINATIONS)
def test_interpreted_and_compiled_agree(name: str) -> None:
    assert_engines_agree(Job.of(plan_of(name), Certify, seed=5, max_tests=150), 3)


def test_on_a_set_all_is_known_in_the_end() -> None:
    """Close arms are measured on every item, and then there is an answer: no arm is left that waits for another."""
    plan = plan_of("top, set")
    arms = [ba.Arm(arm.name, dict(arm.means or {}) | {"gain": 1.0 + 0.001 * k}) for k, arm in enumerate(plan.arms)]
    close = dataclasses.replace(plan, arms=tuple(arms))
    chunk = Job.of(close, Certify, seed=1, max_tests=2_000).simulate(0, 5)
    assert (chunk.outcomes.answers >= 0).all()
    assert (chunk.outcomes.tests <= 60 * len(arms) * 3).all()


@pytest.mark.parametrize("goal", [SHORT_LIST, TOP, ANY, EVERY], ids=str)
def test_a_reserve_is_for_the_best_arm(goal: dict[str, Any]) -> None:
    plan = plan_of("top, items")
    fields = {field: getattr(plan, field) for field in ("arms", "objective", "constraints")}
    with pytest.raises(ba.InvalidInput, match="cannot be stated with a reserve"):
        ba.Plan(**fields, reserve=0.3, **goal)
    assert policy_for(ba.Plan(**fields, reserve=0.3), "certify") is Certify
