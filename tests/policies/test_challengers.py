"""Without constraints, each arm is compared with its challengers: no union over which arm is the better one."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from tests.tools.asked_twice import assert_same_when_asked_twice

import bestarm as ba
from bestarm.kernel.state import ABSENT
from bestarm.noises.base import NoiseModel
from bestarm.policies.certify import Certify
from bestarm.problem import Plan, Problem

SIGMA = ba.Gaussian(1.0)


def problem_of(means: list[float], noise: NoiseModel = SIGMA, **options: Any) -> Problem:
    arms = [ba.Arm(f"arm {k}", means={"yield": mean}) for k, mean in enumerate(means)]
    return Problem(arms=arms, objective=ba.maximize("yield", noise=noise, **options))


def truth_of(plan: Plan) -> dict[str, float]:
    return dict(zip(plan.arm_names, plan.true_means()[:, 0].tolist(), strict=True))


def uses_challengers(problem: Problem) -> bool:
    return bool(Certify.new_setting(problem, 0.1, "paper").pooled != ABSENT)


def test_where_arms_have_challengers() -> None:
    three = problem_of([1.0, 0.5, 0.0])
    assert uses_challengers(three)
    assert uses_challengers(problem_of([0.5, 0.4, 0.3], ba.Bernoulli()))
    assert uses_challengers(problem_of([0.5, 0.4, 0.3], ba.Bounded(0.0, 1.0)))
    # With two arms there is one pair.
    assert not uses_challengers(problem_of([1.0, 0.5]))
    assert not uses_challengers(problem_of([1.0, 0.5, 0.0], tolerance=0.1))
    assert not uses_challengers(problem_of([1.0, 0.5, 0.0], ba.Symmetric()))
    assert not uses_challengers(dataclasses.replace(Plan.of(three), rules=1))
    assert not uses_challengers(dataclasses.replace(Plan.of(three), reserve=0.2))
    assert not uses_challengers(dataclasses.replace(three, top=2))
    constraint = ba.at_most("cost", 1.0, noise=SIGMA)
    assert not uses_challengers(dataclasses.replace(three, constraints=(constraint,)))


@pytest.mark.parametrize(
    ("means", "noise"),
    [
        ([0.3, 0.0, 0.0, 0.0], SIGMA),
        ([0.5, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2], SIGMA),
        ([0.6, 0.5, 0.5], ba.Bernoulli()),
        ([0.15, 0.05, 0.05, 0.05], ba.Bernoulli()),
        ([0.7, 0.5, 0.5, 0.5], ba.Bounded(0.0, 1.0)),
    ],
)
@pytest.mark.parametrize("delta", [0.2, 0.5])
def test_errors(means: list[float], noise: NoiseModel, delta: float) -> None:
    """If errors had a probability of delta, this would fail with a probability below 1e-6: the mean of 2,000 runs has a
    standard deviation of at most 0.0112, and 5 of those are left."""
    runs = 2000
    found = ba.simulate(problem_of(means, noise), policy="certify", delta=delta, runs=runs, seed=30)
    assert found.error_rate <= delta + 5.0 * math.sqrt(delta * (1.0 - delta) / runs)
    assert found.answer_counts["arm 0"] > runs * (1.0 - delta)


def test_fewer_tests_than_by_pairs() -> None:
    """The means of 500 runs differ by more than 10 standard errors."""
    problem = problem_of([0.5, *[0.0] * 15])
    by_pairs = dataclasses.replace(Plan.of(problem, delta=0.1), rules=1)
    few = ba.simulate(problem, policy="certify", delta=0.1, runs=500, seed=3).mean_tests
    many = ba.simulate(by_pairs, policy="certify", delta=0.1, runs=500, seed=3).mean_tests
    assert few < 0.75 * many


def test_what_is_shown_on_the_way() -> None:
    plan = Plan.of(problem_of([1.0, 0.5, 0.45, -3.0]), name="trial", delta=0.1)
    study, random = ba.Study.create(plan, seed=1, storage=":memory:"), np.random.default_rng(5)
    truth = truth_of(plan)
    seen: set[str] = set()
    while study.status().answer is None:
        for test in study.ask():
            study.tell(test, truth[test.arm] + random.standard_normal())
        status = study.status()
        out = [arm for arm in status.arms if arm.verdict == "worse"]
        for arm in out:
            assert arm.name != status.leader
            seen.add(arm.reason.split(",")[0])
        if status.answer is None:
            assert status.confidence <= 0.9
            assert len(out) < 3
        if status.answer is None and status.tests >= 4:
            # What is open are the arms that are neither out nor leading.
            open_arms = {question.arm for question in status.open}
            assert open_arms == {arm.name for arm in status.arms} - {arm.name for arm in out} - {status.leader}
    assert status.answer == "arm 0"
    assert "another arm is as good or better" in seen
    assert {arm.reason for arm in out} == {"not better than arm 0"}


def test_results_from_before_count() -> None:
    """Results that were added at once have no challengers, but decide if they are clear."""
    plan = Plan.of(problem_of([2.0, 0.0, 0.0]), name="trial", delta=0.1)
    study, random = ba.Study.create(plan, seed=1, storage=":memory:"), np.random.default_rng(5)
    study.add([(a, "yield", mean + random.standard_normal()) for a, mean in truth_of(plan).items() for _ in range(40)])
    assert study.status().answer is not None


def test_asked_twice_it_proposes_the_same() -> None:
    """Arm 2 has bad luck at first. It is rejected, tested again after a while, and leads in the end."""
    problem = problem_of([0.0, 0.0, 0.5])
    policy = Certify(Certify.new_setting(problem, 0.1, "paper"), 3, 1, seed=1)
    for _ in range(12):
        for arm in range(3):
            policy.tell(arm, 0, -3.0 if arm == 2 else 0.0)
        policy.decide()
    assert policy.findings().excluded.tolist() == [False, False, True]
    assert_same_when_asked_twice(policy, problem.true_means(), 4000)
    assert policy.streams.counts[2, 0] > 13
