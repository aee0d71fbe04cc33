"""A noise of three kernels and without a scale: what it lacks is derived, or refused by name."""

from __future__ import annotations

import unittest
from pathlib import Path

import pytest
from tests.installed import install
from tests.noises.poisson import FalsePoisson, Poisson

import bestarm as ba
from bestarm.testing.error_rates import check_intervals_rarely_miss
from bestarm.testing.noises import NOISE_CHECKS, Check

NEEDS_AN_ENTRY_POINT = "check_file_round_trip"
INTERVAL_POLICIES = ("feasible-lucb", "tf-lucb", "racing", "feasibility-first", "performance-first")


def counts(noise: Poisson) -> ba.Problem:
    events = {"few": (9.0, 4.0), "best": (12.0, 4.0), "harmful": (15.0, 9.0)}
    return ba.Problem(
        arms=[ba.Arm(name, {"sold": sold, "broken": broken}) for name, (sold, broken) in events.items()],
        objective=ba.maximize("sold", noise=noise),
        constraints=[ba.at_most("broken", 6.5, noise=noise)],
    )


@pytest.mark.parametrize("mean", [0.5, 6.5])
@pytest.mark.parametrize(
    "check", [check for check in NOISE_CHECKS if check.__name__ != NEEDS_AN_ENTRY_POINT], ids=lambda one: one.__name__
)
def test_conformance(check: Check, mean: float) -> None:
    try:
        check(Poisson(), mean)
    except unittest.SkipTest as reason:
        pytest.skip(str(reason))


def test_a_false_scale_is_found_out() -> None:
    with pytest.raises(AssertionError, match=r"intervals of \d+ of 1000 paths miss the mean, where 20% may"):
        check_intervals_rarely_miss(FalsePoisson(), 6.5)


def test_it_decides_by_evidence() -> None:
    result = ba.simulate(counts(Poisson()), runs=50, delta=0.1)
    assert result.answer_counts == {"best": 50}


@pytest.mark.parametrize("policy", INTERVAL_POLICIES)
def test_policies_that_decide_by_intervals_refuse_it_by_name(policy: str) -> None:
    said = rf"policy = '{policy}': decides by confidence intervals, and the poisson noise of 'sold' has none"
    with pytest.raises(ba.InvalidInput, match=said):
        ba.simulate(counts(Poisson()), policy=policy, runs=1)


@pytest.mark.usefixtures("installed")
def test_a_live_study_refuses_it_when_it_is_made() -> None:
    with pytest.raises(ba.InvalidInput, match="the poisson noise of 'sold' has none"):
        ba.Study.create(counts(Poisson()), policy="feasible-lucb", storage=":memory:")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Study files know it, as those of an installed package."""
    install(tmp_path, "[bestarm.noises]\npoisson = tests.noises.poisson:Poisson\n", name="poisson-for-tests")
    monkeypatch.syspath_prepend(tmp_path)
