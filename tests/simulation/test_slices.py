"""Simulated studies with slices: the same from compiled and interpreted code; errors counted where they are likely."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import bestarm as ba
from bestarm.policies.certify import Certify
from bestarm.simulation.engine import Job

SIZES = {"law": 12, "history": 28, "other": 40}
TOPICS = [topic for topic, size in SIZES.items() for _ in range(size)]


def plan(law: float, *, noise: Any, delta: float = 0.1, goal: Any = "every feasible", top: int = 1) -> ba.Plan:
    """Two arms and a baseline. One of them is different in law."""
    worse = {"score": 0.7, "score where topic = law": law}
    spreads = {"score": 0.2} if isinstance(noise, ba.Bounded) else None
    return ba.Plan(
        arms=[ba.Arm("old", {"score": 0.6}, spreads=spreads), ba.Arm("new", worse, spreads=spreads)],
        objective=ba.maximize("score", noise=noise),
        constraints=[
            ba.at_least("score", noise=noise, relative_to_baseline=True, margin=0.1),
            ba.at_least("score", noise=noise, relative_to_baseline=True, margin=0.1, for_each="topic"),
            ba.at_least("score", 0.2, noise=noise, where={"topic": "law"}),
        ],
        items=len(TOPICS),
        attributes={"topic": TOPICS},
        baseline="old",
        goal=goal,
        top=top,
        delta=delta,
    )


@pytest.mark.parametrize("noise", [ba.Bernoulli(), ba.Bounded(0, 1)], ids=str)
@pytest.mark.parametrize("goal", ["best", "every feasible", "any feasible"])
def test_compiled_and_interpreted_runs_are_the_same(noise: Any, goal: Any) -> None:
    job = Job.of(plan(0.5, noise=noise, goal=goal), Certify, max_tests=10**4, seed=3, keep_counts=True)
    for run in range(2):
        (one, compiled), (other, interpreted) = job.trace(run), job.interpreted_trace(run)
        assert np.array_equal(compiled.values, interpreted.values)
        assert np.array_equal(compiled.streams, interpreted.streams)
        for ours, theirs in zip(one.outcomes, other.outcomes, strict=True):
            assert np.array_equal(ours, theirs)


def test_worlds_have_the_means_that_are_stated() -> None:
    for noise in (ba.Bernoulli(), ba.Bounded(0, 1)):
        job = Job.of(plan(0.5, noise=noise), Certify, max_tests=100, seed=1)
        for run in range(3):
            world, slices = job.world(run, 10**6), job.slices(run)
            found = np.array([world[:, k][:, slices.ranks[k] >= 0].mean(axis=1) for k in range(world.shape[1])]).T
            signs = job.problem.normal_form().sign
            assert np.allclose(signs * (found + job.setting.reference), job.problem.true_means(), atol=1e-6)


@pytest.mark.parametrize("law", [0.5, 5 / 12])
def test_answers_about_slices_are_rarely_wrong(law: float) -> None:
    """In law the old arm is right on 7 of 12, so that 6 are just enough and 5 are not. With delta = 0.2, more than 106
    wrong answers in 400 are found with a probability below 0.001, even if each errs as often as it may."""
    runs, delta = 400, 0.2
    most = int(binom.ppf(0.999, runs, delta))
    assert most <= 106
    result = ba.simulate(plan(law, noise=ba.Bernoulli(), delta=delta), runs=runs, seed=11)
    assert result.wrong <= most
    # No arm is measured on an item twice.
    assert result.tests.max() <= 2 * len(TOPICS)


def test_a_slice_that_fails_is_found_with_few_tests() -> None:
    """It takes fewer tests than to measure both arms on the whole set, and less than in the order of all items."""
    result = ba.simulate(plan(0.0, noise=ba.Bernoulli(), delta=0.05), runs=100, seed=2)
    assert result.answer_counts == {"none": 100}
    assert result.mean_tests < 0.5 * 2 * len(TOPICS)


def test_a_forecast_takes_ranges_of_slices() -> None:
    arms = [ba.Arm("old", {"score": 0.6}), ba.Arm("new", {"score": 0.7, "score where topic = law": (0.0, 0.3)})]
    made = plan(0.5, noise=ba.Bernoulli())
    fields = {name: getattr(made, name) for name in ("objective", "constraints", "items", "attributes", "baseline")}
    result = ba.forecast(ba.Problem(arms=arms, goal="every feasible", **fields), runs=20)
    assert result.answers == {"none": 1.0}
