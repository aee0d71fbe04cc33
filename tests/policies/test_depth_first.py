"""`certify` with many arms or constraints: the leader is searched in depth. Answers stay right, tests become fewer.

Seeds are fixed; probabilities of failing by chance are those under a random seed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.lengths import lengths

import bestarm as ba
from bestarm.noises import Noise
from bestarm.policies.certify import Certify, best_arm, depth_first, goal_in
from bestarm.policies.certify.setting import certify_setting
from bestarm.simulation.engine import Job

METRICS = [f"constraint {k}" for k in range(12)]
FINE = [-0.5] * 12
BARELY_INFEASIBLE = [[0.5, *FINE[:3], 0.01, *FINE[4:]], [0.0, *FINE], [-0.5, *FINE]]
HARD = {
    "barely infeasible": BARELY_INFEASIBLE,
    "barely feasible and best": [[0.5, *FINE[:3], -0.01, *FINE[4:]], [0.0, *FINE], [-0.5, *FINE]],
    "close race": [[0.0, *FINE], [0.01, *FINE], [0.02, *FINE]],
    "all barely infeasible": [[0.5, 0.01, *FINE[1:]], [0.3, *FINE[1:], 0.02], [0.0, 0.02, *FINE[1:]]],
}


def plan_of(rows: list[list[float]], noise: Noise | None = None, **changes: Any) -> ba.Plan:
    """Each row is an arm: its performance, then its constraints' means. Limits are 0."""
    noise = noise or ba.Gaussian(1.0)
    names = ("performance", *METRICS)
    return ba.Plan(
        arms=[ba.Arm(f"arm {k}", dict(zip(names, row, strict=True))) for k, row in enumerate(rows)],
        objective=ba.maximize("performance", noise=noise, tolerance=changes.pop("tolerance", 0.0)),
        constraints=[ba.at_most(name, 0.0, noise=noise, slack=changes.pop("slack", 0.0)) for name in METRICS],
        **changes,
    )


def test_where_it_is_used() -> None:
    plan = plan_of(BARELY_INFEASIBLE)
    assert goal_in(certify_setting(plan, 0.1, "paper")) is depth_first.GOAL
    before = dataclasses.replace(plan, rules=1)
    on_items = dataclasses.replace(plan, items=100)
    few = dataclasses.replace(plan, arms=plan.arms[:2])
    for other in (before, on_items, few):
        assert goal_in(certify_setting(other, 0.1, "paper")) is best_arm.GOAL


BUNDLE = [ba.Measurement(("performance", *METRICS[:3])), ba.Measurement(tuple(METRICS[3:]))]
FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tolerance and slack": {"tolerance": 0.1, "slack": 0.1},
    "several metrics in a test": {"measurements": BUNDLE},
    "a reserve": {"reserve": 0.2},
}


@pytest.mark.parametrize("most", lengths(600, 2_000))
@pytest.mark.parametrize("feature", FEATURES)
def test_compiled_and_interpreted_runs_are_the_same(feature: str, most: int) -> None:
    rows = [[0.6, *FINE[1:], 0.4], [0.4, *FINE], [0.3, 0.5, *FINE[1:]], [0.0, *FINE]]
    job = Job.of(plan_of(rows, **FEATURES[feature]), Certify, seed=3, max_tests=most)
    (compiled, trace), (interpreted, plain) = job.trace(1), job.interpreted_trace(1)
    assert compiled.outcomes.answers.tolist() == interpreted.outcomes.answers.tolist()
    assert np.array_equal(trace.streams, plain.streams)
    assert np.array_equal(trace.values, plain.values)


@pytest.mark.parametrize("runs", lengths(300, 5_000))
@pytest.mark.parametrize("name", HARD)
def test_errors_where_it_is_hard(name: str, runs: int) -> None:
    """A policy that just kept its guarantee would fail with probability 1e-6."""
    plan = plan_of(HARD[name])
    result = ba.simulate(plan, policy="certify", delta=0.2, runs=runs, seed=4, max_tests=2_000, keep_streams=False)
    assert result.wrong <= binom.isf(1e-6, runs, 0.2)


def test_it_takes_fewer_tests() -> None:
    """Measured 0.87 of those under the first rules, with a standard error of 0.013: a false failure is below 1e-5."""
    plan = ba.instance("exp2-n16")
    now, before = (
        ba.simulate(dataclasses.replace(plan, rules=rules), policy="certify", runs=200, seed=5, keep_streams=False)
        for rules in (2, 1)
    )
    assert now.mean_tests <= 0.93 * before.mean_tests
    assert now.wrong <= binom.isf(1e-6, 200, plan.delta)


def test_an_arm_that_does_not_look_feasible_may_lead() -> None:
    """One mean on the wrong side says little among twelve. It leads, and is searched first."""
    plan = plan_of([[1.0, *FINE], [0.0, *FINE], [-1.0, *FINE]])
    policy = Certify(certify_setting(plan, 0.1, "paper"), 3, 13)
    for metric in range(13):
        policy.tell(0, metric, 4.0 if metric == 0 else 0.5 if metric == 3 else -0.5)
        policy.tell(1, metric, -3.0 if metric == 0 else -0.5)
        policy.tell(2, metric, -9.0 if metric == 0 else -0.5)
    assert policy.leader == 0
    assert policy.propose() == [(0, 3)]
    for _ in range(30):
        policy.tell(0, 3, 0.7)
    assert policy.leader == 1
