"""Metrics that never vary: one test settles them, whatever else the problem has."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import examples

import bestarm as ba
from bestarm.noises.dispatch import evidence
from bestarm.noises.exact import CERTAIN
from bestarm.noises.streams import ABOVE, BELOW
from bestarm.policies import all_policies
from bestarm.testing.noise_streams import stream_of_values

SIZES = {"small": 3.0, "medium": 4.0, "large": 9.0}


def problem(limit: float = 4.0, **more: float) -> ba.Problem:
    return ba.Problem(
        arms=[ba.Arm(name, {"score": size, "size": size}) for name, size in (SIZES | more).items()],
        objective=ba.maximize("score", noise=ba.Exact()),
        constraints=[ba.at_most("size", limit, noise=ba.Exact())],
    )


def test_a_value_equal_to_c_lies_above_it() -> None:
    s = stream_of_values(ba.Exact(), np.array([2.0]))
    assert evidence(s, ABOVE, 2.0) == evidence(s, BELOW, math.nextafter(2.0, 3.0)) == CERTAIN
    assert evidence(s, BELOW, 2.0) == evidence(s, ABOVE, math.nextafter(2.0, 3.0)) == 0.0


@pytest.mark.parametrize("policy", all_policies())
def test_every_policy_decides_at_once(policy: str) -> None:
    result = ba.simulate(problem(), policy=policy, runs=3, max_tests=1_000)
    assert result.answer_counts == {"medium": 3}
    # One test of each of the six streams; the paper's algorithms let a first test decide nothing.
    assert result.mean_tests == 6 if policy == "certify" else result.mean_tests <= 60


@pytest.mark.parametrize("policy", all_policies())
@pytest.mark.parametrize(("limit", "sizes"), [(0.0, (0.0, 1.0, 1e-300)), (1e-30, (0.0, 1e-30, 2e-30))])
def test_every_policy_decides_on_the_threshold(policy: str, limit: float, sizes: tuple[float, ...]) -> None:
    """Only values above it are too large, by however little."""
    arms = [ba.Arm(f"arm {k}", {"score": float(k), "size": size}) for k, size in enumerate(sizes)]
    exact = ba.Problem(
        arms=arms,
        objective=ba.maximize("score", noise=ba.Exact()),
        constraints=[ba.at_most("size", limit, noise=ba.Exact())],
    )
    result = ba.simulate(exact, policy=policy, runs=2, max_tests=1_000)
    assert result.unfinished == 0
    assert result.error_rate == 0.0


@given(st.floats(-1e9, 1e9), st.sampled_from(["at_most", "at_least"]))
@examples(12, 100)
def test_the_threshold_itself_is_allowed(value: float, side: str) -> None:
    """However large the number, the next one beyond it is not."""
    beyond = math.nextafter(value, math.inf if side == "at_most" else -math.inf)
    at = getattr(ba, side)("size", value, noise=ba.Exact())
    for measured, answer in ((value, "a"), (beyond, None)):
        plan = ba.Problem(arms=["a"], objective=ba.maximize("m", noise=ba.Exact()), constraints=[at])
        study = ba.Study.create(plan, storage=":memory:")
        for test in study.ask(2):
            study.tell(test, 1.0 if test.metric == "m" else measured)
        assert study.done
        assert study.answer is not None
        assert study.answer.arm == answer
        assert at.allows(measured) == (answer is not None)


def test_ties_are_answered() -> None:
    """Two equal values are both best; nothing is left to find out."""
    result = ba.simulate(problem(twin=4.0), policy="certify", runs=2, max_tests=1_000)
    assert result.error_rate == 0.0
    assert result.mean_tests == 8


def test_mixed_with_noise_it_is_hardly_tested_again() -> None:
    arms = [ba.Arm(name, {"score": size, "size": size}, spreads={"score": 2.0}) for name, size in SIZES.items()]
    mixed = dataclasses.replace(problem(), arms=tuple(arms), objective=ba.maximize("score", noise=ba.Symmetric()))
    result = ba.simulate(
        mixed,
        policy="certify",
        runs=200,
        seed=2,
    )
    # At delta = 5%, more than 25 wrong ones of 200 have probability 1e-6.
    assert result.error_rate <= 25 / 200
    assert result.tests_per_stream is not None
    assert result.tests_per_stream[:, :, 1].mean() < 1.5
