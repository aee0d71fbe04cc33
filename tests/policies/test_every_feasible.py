"""Every feasible arm, with limits of all kinds: how often a verdict is wrong, that engines agree, and what it takes.

Seeds are fixed; probabilities of failing by chance are those under a random seed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.lengths import cases, lengths
from tests.tools.every import least_tests
from tests.tools.shown import ENGINES, moments_of

import bestarm as ba
from bestarm.policies.certify import Certify
from bestarm.simulation.engine import Job
from bestarm.testing.policies import assert_engines_agree

NOISES: dict[str, tuple[ba.Noise, float, float]] = {
    # The mean of the baseline, and what is a large distance.
    "gaussian": (ba.Gaussian(1.0), 10.0, 2.0),
    "symmetric": (ba.Symmetric(), 10.0, 2.0),
    "bounded": (ba.Bounded(0.0, 20.0), 10.0, 5.0),
    "bernoulli": (ba.Bernoulli(), 0.5, 0.3),
    "exact": (ba.Exact(), 10.0, 2.0),
}
ITEMS: dict[str, dict[str, Any]] = {"no items": {}, "set": {"items": 100}, "again": {"items": 5, "repeats": True}}


def compared(kind: str, side: str, distances: list[float], *, margin: float = 0.5, **fields: Any) -> ba.Plan:
    """Arms whose means are these distances on the right side of their limit, the baseline's mean less a margin, in
    units of what is a large distance."""
    noise, base, unit = NOISES[kind]
    sign, limit = (1.0, ba.at_least) if side == "at_least" else (-1.0, ba.at_most)
    means = [base, *(base + sign * unit * (distance - margin) for distance in distances)]
    spreads = {"yield": 1.0} if kind == "symmetric" else None
    return ba.Plan(
        arms=[
            ba.Arm("old" if k == 0 else f"new {k}", {"yield": mean}, spreads=spreads) for k, mean in enumerate(means)
        ],
        constraints=[limit("yield", relative_to_baseline=True, margin=unit * margin, noise=noise)],
        baseline="old",
        goal="every feasible",
        **fields,
    )


@cases(11)
@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize("side", ["at_least", "at_most"])
@pytest.mark.parametrize("kind", NOISES)
def test_margins_on_either_side(kind: str, side: str, items: str) -> None:
    """Arms are certain to be decided, and rightly: 12 verdicts, each wrong with probability far below 0.05."""
    if kind == "exact" and items != "no items":
        pytest.skip("what never varies needs no items")
    plan = compared(kind, side, [0.5, -0.45, 1.0], **ITEMS[items])
    chunk = Job.of(plan, Certify, seed=5, max_tests=6_000).simulate(0, 4)
    assert chunk.sets is not None
    assert chunk.sets.tolist() == [[0, 1, -1, 1]] * 4


@cases(6)
@pytest.mark.parametrize("runs", lengths(200, 20_000))
@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize("kind", ["gaussian", "symmetric", "bounded", "bernoulli"])
def test_arms_a_hair_beside_their_limits_are_rarely_decided_wrongly(kind: str, items: str, runs: int) -> None:
    """Each case fails by chance with probability below 1e-6 if the guarantee holds with equality. What unfinished runs
    have decided counts."""
    distances = [0.001, -0.001, 0.0, 0.002] if items != "set" else [0.05, -0.05, 0.0, 0.05]
    plan = compared(kind, "at_least", distances, **ITEMS[items])
    result = ba.simulate(plan, delta=0.2, runs=runs, max_tests=300, seed=3, keep_streams=False)
    assert result.wrong <= binom.isf(1e-6, runs, 0.2)


def mixed(**fields: Any) -> ba.Plan:
    """A quantile, a ratio, a mean of its own and one beside the baseline's, some of them measured together."""
    rows = {
        "old": (10.0, 0.02, 5.0, 100.0, 0.3),
        "a": (9.0, 0.02, 5.0, 100.0, 0.3),
        "b": (9.5, 0.4, 5.0, 100.0, 0.3),
        "c": (12.0, 0.01, 20.0, 100.0, 0.3),
        "d": (12.0, 0.01, 5.0, 100.0, 0.9),
        "e": (5.0, 0.01, 5.0, 100.0, 0.3),
    }
    names = ("yield", "latency", "errors", "requests", "impurity")
    return ba.Plan(
        arms=[ba.Arm(name, dict(zip(names, row, strict=True))) for name, row in rows.items()],
        constraints=[
            ba.at_least("yield", relative_to_baseline=True, margin=2.5, noise=ba.Gaussian(1.0)),
            ba.at_most("latency", 200, noise=ba.Quantile(0.9)),
            ba.at_most("errors", 0.1, per="requests", noise=ba.Gaussian(5.0)),
            ba.at_most("impurity", 0.5, noise=ba.Bernoulli(), slack=0.05, cost=1.0),
        ],
        measurements=[ba.measurement("yield", "impurity")],
        baseline="old",
        goal="every feasible",
        **fields,
    )


def test_limits_of_all_kinds_together() -> None:
    """Fails by chance with probability below 1e-6 if the guarantee holds with equality."""
    result = ba.simulate(mixed(), runs=40, seed=1, max_tests=20_000)
    assert result.wrong <= binom.isf(1e-6, 40, 0.05)
    assert result.answer_counts.get("a", 0) + result.wrong == 40


def test_engines_agree_on_limits_of_all_kinds() -> None:
    assert_engines_agree(Job.of(mixed(), Certify, seed=5, max_tests=300), 2)


def test_engines_show_the_same() -> None:
    """Intervals, findings, what is open and how sure we are, to the last digit, in the course of a study."""
    moments = [*moments_of(compared("gaussian", "at_least", [0.3, -0.3, 0.05]))]
    assert moments
    for moment in moments:
        assert moment.shown[ENGINES[0]] == moment.shown[ENGINES[1]]


@pytest.mark.parametrize(("instance", "most"), [("exp1-a", 3.0), ("exp2-k16", 3.3)])
def test_it_takes_a_few_times_what_no_procedure_can_do_without(instance: str, most: float) -> None:
    """The standard error of the ratio is 0.06 at most; both limits are more than five of them away."""
    plan = dataclasses.replace(ba.instance(instance), goal="every feasible")
    result = ba.simulate(plan, policy="certify", delta=0.05, runs=60, seed=1, keep_streams=False)
    assert 1.0 < result.mean_tests / least_tests(plan, 0.05) < most


def test_the_nearest_arms_are_decided_first() -> None:
    """After a fifth of the tests, arms far from their limit are decided in most runs, and the one close by in none."""
    plan = compared("gaussian", "at_least", [2.0, -2.0, 2.0, -2.0, 0.05], delta=0.05)
    result = ba.simulate(plan, runs=50, seed=1, max_tests=60, keep_streams=False)
    assert result.sets is not None
    decided = (result.sets != 0).mean(axis=0)
    assert decided[1:5].min() > 0.9
    assert decided[5] < 0.1


def test_any_feasible_arm_beside_a_baseline_needs_no_objective() -> None:
    plan = dataclasses.replace(compared("gaussian", "at_least", [-0.4, 0.5, -0.6]), goal="any feasible")
    result = ba.simulate(plan, runs=20, seed=1)
    assert result.answer_counts == {"new 2": 20}
    assert np.array_equal(result.answers, [2] * 20)
