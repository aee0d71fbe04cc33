"""Quantiles as constraints: values are told raw, and what counts is whether they lie beyond the threshold."""

from __future__ import annotations

import math

import numpy as np
import pytest

import bestarm as ba
from bestarm.policies import all_policies
from bestarm.policies.setting import new_setting, references, to_normal

LATENCY = ba.at_most("latency", 200, noise=ba.Quantile(0.99))


def problem(constraint: ba.Constraint = LATENCY, shares: tuple[float, ...] = (0.001, 0.002, 0.05)) -> ba.Problem:
    return ba.Problem(
        arms=[
            ba.Arm(f"arm {k}", {"speed": float(k), constraint.metric: share}, spreads={"speed": 1.0})
            for k, share in enumerate(shares)
        ],
        objective=ba.maximize("speed", noise=ba.Symmetric()),
        constraints=[constraint],
    )


@pytest.mark.parametrize(
    ("constraint", "limit", "beyond", "within"),
    [
        (LATENCY, 0.01, 200.0001, 200.0),
        (ba.at_least("speed up", 5, noise=ba.Quantile(0.05)), 0.05, 4.9999, 5.0),
        (ba.at_most("median", -3, noise=ba.Quantile(0.5)), 0.5, 0.0, -3.0),
    ],
)
def test_what_counts(constraint: ba.Constraint, limit: float, beyond: float, within: float) -> None:
    asked = problem(constraint)
    assert constraint.limit == limit
    assert constraint.allows(limit - 1e-9)
    assert not constraint.allows(limit)
    setting = new_setting(asked, 0.05, "paper", references(asked))
    metrics, values = np.array([1, 1, 0, 1]), np.array([beyond, within, beyond, math.nan])
    normal = to_normal(asked, setting, metrics, values)
    assert normal[:3].tolist() == [1.0, 0.0, beyond]
    assert math.isnan(normal[3])
    assert setting.threshold[1] == limit
    assert to_normal(asked, setting, 1, beyond) == 1.0


@pytest.mark.parametrize("policy", all_policies())
def test_every_policy(policy: str) -> None:
    result = ba.simulate(problem(shares=(0.1, 0.2, 0.8), constraint=_median()), policy=policy, runs=40, seed=3)
    # At delta = 5%, more than 12 wrong ones of 40 have probability 1e-7.
    assert result.error_rate <= 12 / 40
    assert result.unfinished == 0


def _median() -> ba.Constraint:
    return ba.at_most("latency", 200, noise=ba.Quantile(0.5))


def test_a_live_study_takes_raw_values_with_any_tails() -> None:
    """Cauchy latencies, whose mean does not exist: only the arm with the low quantile is feasible."""
    random, medians = np.random.default_rng(4), {"fast": 100.0, "slow": 300.0}
    live = ba.Problem(arms=list(medians), objective=ba.maximize("gain", noise=ba.Exact()), constraints=[_median()])
    study = ba.Study.create(live, storage=":memory:")
    while not study.done:
        for test in study.ask(20):
            gain = {"fast": 1.0, "slow": 2.0}[test.arm]
            study.tell(test, gain if test.metric == "gain" else medians[test.arm] + 30.0 * random.standard_cauchy())
    assert study.answer is not None
    assert study.answer.arm == "fast"
    assert study.status().tests < 200


def test_only_constraints_have_quantiles() -> None:
    with pytest.raises(ba.InvalidInput, match=r"quantile can only be constrained, with at_most or at_least"):
        ba.maximize("latency", noise=ba.Quantile(0.9))


def test_slack_is_a_share() -> None:
    with pytest.raises(ba.InvalidInput, match=r"slack = 1.0 .* must be less than 0.99: it is added to 0.01, the share"):
        ba.at_most("latency", 200, noise=ba.Quantile(0.99), slack=1)
    assert ba.at_most("latency", 200, noise=ba.Quantile(0.99), slack=0.02).allows(0.025, 0.02)


@pytest.mark.parametrize("q", [0, 1, -0.5, 2])
def test_q_lies_between_0_and_1(q: float) -> None:
    with pytest.raises(ba.InvalidInput, match=r"q = .*must lie strictly between 0 and 1"):
        ba.Quantile(q)


def test_files_name_it() -> None:
    plan = ba.Plan.of(problem())
    assert ba.Plan.from_toml(plan.to_toml()) == plan
    assert "quantile = 0.99" in plan.to_toml()
