"""Constraints relative to a baseline: evidence, what is tested, what is refused, and how often answers are wrong."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.lengths import cases, lengths

import bestarm as ba
from bestarm.evidence.pairs import scaled_pair_evidence
from bestarm.noises.base import NoiseModel
from bestarm.noises.dispatch import evidence
from bestarm.noises.streams import ABOVE
from bestarm.policies import policy_for
from bestarm.policies.setting import references
from bestarm.problem import Plan
from bestarm.simulation.engine import Job
from bestarm.testing.noise_streams import stream_of_values
from bestarm.testing.policies import assert_engines_agree

FACTOR = 1.25
NOISES: dict[str, tuple[ba.Noise, float]] = {
    "gaussian": (ba.Gaussian(1.0), 1.0),
    "symmetric": (ba.Symmetric(), 1.0),
    "bounded": (ba.Bounded(0.0, 20.0), 1.0),
    "bernoulli": (ba.Bernoulli(), 0.05),
    "exact": (ba.Exact(), 1.0),
}


def plan_of(kind: str, **more: object) -> Plan:
    """The best arm exceeds its limit, the second best keeps it."""
    noise, unit = NOISES[kind]
    spreads = {"latency": 1.0} if kind == "symmetric" else None
    rows = {"old": (1.0, 8.0), "fast": (4.0, 14.0), "good": (3.0, 6.0)}
    arms = [ba.Arm(name, {"speed": s, "latency": unit * t}, spreads=spreads) for name, (s, t) in rows.items()]
    constraints = [ba.at_most("latency", noise=noise, relative_to_baseline=FACTOR)]
    fields = {"objective": ba.maximize("speed", noise=ba.Gaussian(1.0)), "constraints": constraints, **more}
    return Plan(arms=arms, baseline="old", **fields)  # type: ignore[arg-type]


def job_of(plan: Plan, max_tests: int = 4_000) -> Job:
    return Job.of(plan, policy_for(plan, "certify"), seed=5, max_tests=max_tests, keep_counts=True)


@pytest.mark.parametrize("items", [None, 200])
@pytest.mark.parametrize("kind", NOISES)
def test_the_answer_is_right_and_the_baseline_is_tested_as_often_as_any_arm(kind: str, items: int | None) -> None:
    plan = plan_of(kind, items=items)
    assert plan.right_answers() == (2,)
    outcomes = job_of(plan).interpret(0, 1).outcomes
    assert outcomes.answers.tolist() == [2]
    latency = outcomes.counts[0, :, 1]
    assert latency[0] >= latency.max()


@pytest.mark.torture
@pytest.mark.parametrize("items", [None, 200])
def test_interpreted_and_compiled_agree(items: int | None) -> None:
    # All noises in one test: they share a program that takes a minute to compile.
    for kind, run in itertools.product(NOISES, range(2)):
        assert_engines_agree(job_of(plan_of(kind, items=items)), run)


def crossings(noise: NoiseModel, draw: object, mean: float, paths: int) -> tuple[int, int, int]:
    """Of `paths`, with a mean at exactly so many times the baseline's: how many ever show 1 : 10 for lying above, how
    many for lying below, and how many would show it if the baseline's measured mean were taken for the true one."""
    rng, level = np.random.default_rng(11), math.log(10.0)
    found = np.zeros(3, np.int64)
    for _ in range(paths):
        own, base = (rng.permuted(draw(rng, m, 150)) for m in (FACTOR * mean, mean))  # type: ignore[operator]
        seen = np.zeros(3, np.bool_)
        for n in (3, 6, 10, 15, 25, 40, 60, 90, 120, 150):
            one, other = stream_of_values(noise, own[:n]), stream_of_values(noise, base[: n // 2 + 1])
            seen[0] |= scaled_pair_evidence(one, other, 0.0, FACTOR) >= level
            seen[1] |= scaled_pair_evidence(other, one, 0.0, 1.0 / FACTOR) >= level
            seen[2] |= evidence(one, ABOVE, FACTOR * other.total / other.n) >= level
        found += seen
    return found[0], found[1], found[2]


def normal(rng: np.random.Generator, mean: float, size: int) -> np.ndarray:
    return rng.normal(mean, 1.0, size)


def rate(rng: np.random.Generator, mean: float, size: int) -> np.ndarray:
    return (rng.random(size) < mean).astype(float)


@cases(1)
@pytest.mark.parametrize(
    ("noise", "draw", "mean", "paths"),
    [
        *lengths((ba.Gaussian(1.0), normal, 4.0, 150), (ba.Gaussian(1.0), normal, 4.0, 600)),
        *lengths((ba.Bernoulli(), rate, 0.4, 40), (ba.Bernoulli(), rate, 0.4, 300)),
        *lengths((ba.Symmetric(), normal, 4.0, 20), (ba.Symmetric(), normal, 4.0, 150)),
    ],
)
def test_evidence_at_the_limit_rarely_crosses(noise: NoiseModel, draw: object, mean: float, paths: int) -> None:
    above, below, careless = crossings(noise, draw, mean, paths)
    # At most a tenth of all paths cross. More than four standard deviations beyond happens to less than 1 in 10,000.
    most = 0.1 * paths + 4.0 * math.sqrt(0.09 * paths)
    assert above <= most
    assert below <= most
    # Taking the baseline's measured mean for the true one would be noticed.
    if isinstance(noise, ba.Gaussian):
        assert careless > most


def hard(noise: ba.Noise, means: tuple[float, float], slack: float = 0.0) -> Plan:
    """The faster arm is exactly at its limit, which counts as beyond it. Nothing else takes any time."""
    spreads = {"latency": 1.0} if isinstance(noise, ba.Symmetric) else None
    arms = [
        ba.Arm("old", {"speed": 1.0, "latency": means[0]}, spreads=spreads),
        ba.Arm("fast", {"speed": 2.0, "latency": means[1]}, spreads=spreads),
    ]
    constraints = [ba.at_most("latency", noise=noise, relative_to_baseline=FACTOR, slack=slack)]
    objective = ba.maximize("speed", noise=ba.Exact())
    return Plan(arms=arms, objective=objective, constraints=constraints, baseline="old", delta=0.2)


HARD = [
    (ba.Gaussian(1.0), (4.0, 5.0)),
    (ba.Symmetric(), (4.0, 5.0)),
    (ba.Bernoulli(), (0.4, 0.5)),
    (ba.Bounded(0.0, 10.0), (4.0, 5.0)),
]


@pytest.mark.torture
@pytest.mark.parametrize(("noise", "means"), HARD, ids=repr)
def test_wrong_answers_are_rare(noise: ba.Noise, means: tuple[float, float]) -> None:
    runs = 4_000
    outcomes = job_of(hard(noise, means), max_tests=500).simulate(0, runs).outcomes
    wrong = int((outcomes.answers == 1).sum())
    # At most a fifth; more than five standard deviations beyond happens to less than 1 in a million.
    assert wrong <= 0.2 * runs + 5.0 * math.sqrt(0.16 * runs)


def test_with_slack_a_tie_ends() -> None:
    plan = hard(ba.Gaussian(1.0), (4.0, 5.0), slack=1.0)
    assert plan.right_answers() == (0, 1)
    answers = job_of(plan).interpret(0, 3).outcomes.answers
    assert set(answers.tolist()) <= {0, 1}


def test_the_baseline_meets_its_limit_by_definition() -> None:
    """Even one that it does not keep in numbers: nothing is as good, so the old one stays."""
    arms = [ba.Arm("old", {"speed": 1.0, "latency": 8.0}), ba.Arm("new", {"speed": 2.0, "latency": 8.0})]
    limit = ba.at_most("latency", noise=ba.Gaussian(1.0), relative_to_baseline=0.5)
    plan = Plan(arms=arms, objective=ba.maximize("speed", noise=ba.Exact()), constraints=[limit], baseline="old")
    assert plan.right_answers() == (0,)
    assert job_of(plan).interpret(0, 2).outcomes.answers.tolist() == [0, 0]


def test_a_value_that_equals_its_limit_but_for_rounding_is_allowed() -> None:
    """1.15 times 100 is 114.99999999999999 in floating point."""
    for items in (None, 3):
        arms = [ba.Arm("old", {"speed": 1.0, "size": 100.0}), ba.Arm("new", {"speed": 2.0, "size": 115.0})]
        limit = ba.at_most("size", noise=ba.Exact(), relative_to_baseline=1.15)
        objective = ba.maximize("speed", noise=ba.Exact())
        plan = Plan(arms=arms, objective=objective, constraints=[limit], baseline="old", items=items)
        assert job_of(plan).interpret(0, 1).outcomes.answers.tolist() == [1]


def test_only_certify_compares_with_a_baseline() -> None:
    with pytest.raises(ba.InvalidInput, match="does not compare arms with a baseline; choose certify"):
        policy_for(plan_of("gaussian"), "racing")
    with pytest.raises(ba.InvalidInput, match="cannot be simulated on a card"):
        ba.simulate(plan_of("gaussian"), runs=1, device="cuda")


def test_theory_says_nothing_of_it() -> None:
    found = ba.analyze(plan_of("gaussian"), delta=0.1)
    assert found.answer == "good"
    assert all("relative to a baseline" in note for note in found.not_computed)
    assert references(plan_of("bounded")).tolist() == [0.0, 0.0]
