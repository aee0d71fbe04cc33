"""No two statements that are shown of a study contradict each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.lengths import lengths

import bestarm as ba
from bestarm.analysis.standing.arms import MetricStanding
from bestarm.answer import rounded_down, rounded_up

NOISES: dict[str, Any] = {
    "gaussian": ba.Gaussian(1.0),
    "rates": ba.Bernoulli(),
    "bounded": ba.Bounded(0.0, 10.0),
    "symmetric": ba.Symmetric(),
}


def drawn_plan(random: np.random.Generator) -> tuple[ba.Plan, str]:
    """A plan, and the noise of its objective."""
    arms, kind = int(random.integers(2, 6)), str(random.choice(list(NOISES)))
    limits = []
    if random.random() < 0.6:
        side = ba.at_most if random.random() < 0.5 else ba.at_least
        limits.append(side("rate", 0.5, noise=ba.Bernoulli(), slack=float(random.choice([0.0, 0.1]))))
    if random.random() < 0.6:
        limits.append(ba.at_most("latency", 3.0, noise=ba.Quantile(0.8)))
    objective = (ba.maximize if random.random() < 0.5 else ba.minimize)(
        "gain", noise=NOISES[kind], tolerance=float(random.choice([0.0, 0.1]))
    )
    plan = ba.Plan(
        arms=[f"arm {k}" for k in range(arms)],
        objective=objective,
        constraints=limits,
        measurements=[ba.Measurement(("gain", *(one.metric for one in limits)))]
        if limits and random.random() < 0.5
        else [],
        items=40 if random.random() < 0.6 else None,
        delta=0.2,
    )
    return plan, kind


def drawn_values(arms: int, kind: str, random: np.random.Generator) -> Callable[[str, str], float]:
    means, rates, scales = random.normal(0.0, 1.0, arms), random.beta(2.0, 2.0, arms), random.uniform(0.5, 2.5, arms)

    def value(name: str, metric: str) -> float:
        arm = int(name.split()[1])
        if metric == "latency":
            return float(random.exponential(scales[arm]))
        if metric == "rate":
            return float(random.random() < rates[arm])
        if kind == "rates":
            return float(random.random() < 1.0 / (1.0 + np.exp(-means[arm])))
        return float(np.clip(5.0 + means[arm] + random.normal(), 0.0, 10.0))

    return value


def check_interval(part: ba.Constraint, row: MetricStanding) -> None:
    """An interval does not reach across the threshold of a constraint of which more is certain, unless the mean, which
    is in it, does."""
    assert not row.tests or row.low <= row.mean <= row.high
    if row.threshold is None or part.slack:
        return
    sign = 1.0 if part.at_most is not None else -1.0
    low, high = sorted((sign * row.low, sign * row.high))
    if row.verdict == "holds":
        assert high <= max(sign * row.threshold, sign * row.mean), row
    if row.verdict == "violated":
        assert low >= min(sign * row.threshold, sign * row.mean), row


def check_statements(study: ba.Study) -> set[str]:
    """Which kinds of statements were compared."""
    status, plan, kinds = study.status(), study.plan, set()
    limits = {} if status.leader is None else study.differences()
    for row in status.arms:
        for part, one in zip(plan.constraints, row.metrics[1:], strict=True):
            check_interval(part, one)
            kinds.add(f"{one.verdict}")
        if "by at least" in row.reason and f"worse than {status.leader} " in row.reason:
            assert row.reason.endswith(f"by at least {rounded_down(limits[row.name].low)}"), (row, limits)
            kinds.add("lead")
        # Evidence may decide before limits of differences, which have a level of their own, show it.
        is_shown = f"better than {status.leader}" in row.reason and "evidence" not in row.reason
        if row.verdict == "worse" and is_shown:
            low = limits[row.name].low
            assert low >= -plan.objective.tolerance, (row, limits)
            assert row.reason.startswith(f"at most {rounded_up(-low)} better" if low < 0.0 else "not better"), (
                row,
                limits,
            )
        if row.verdict == "worse" and not plan.constraints and row.name in limits:
            assert limits[row.name].high >= 0.0, (row, limits)
        assert row.reason == next(one.reason for one in study.state if one.name == row.name)
    for name, limit in limits.items():
        assert limit.low <= limit.high, (name, limit)
        seen_from_other = study.differences(name)[status.leader or ""]
        assert (-limit.high, -limit.low) == pytest.approx((seen_from_other.low, seen_from_other.high), abs=1e-6)
        if status.regret_at_most is not None and not plan.constraints:
            assert -limit.low <= status.regret_at_most, (limit, status)
            kinds.add("regret")
    if study.answer is not None:
        reasons = {row.name: f"{row.verdict}: {row.reason}" for row in status.arms}
        assert study.answer.reasons == reasons
        assert study.answer.differences in (limits, {})
        kinds.add("answer")
    return kinds


@pytest.mark.parametrize("studies", lengths(10, 60))
def test_no_two_statements_contradict_each_other(studies: int) -> None:
    seen = set()
    for number in range(studies):
        random = np.random.default_rng((8, number))
        plan, kind = drawn_plan(random)
        items_seed = None if plan.items is None else number
        study = ba.Study.create(plan, storage=":memory:", seed=number, items_seed=items_seed)
        value, told = drawn_values(len(plan.arms), kind, random), 0
        while not study.done and told < 240:
            tests = study.ask(24)
            for test in tests:
                values = {metric: value(test.arm, metric) for metric in test.metrics}
                study.tell(test, values if len(values) > 1 else values[test.metrics[0]])
            told += len(tests)
            if told % 48 == 0 or study.done:
                seen |= check_statements(study)
    assert seen >= {"lead", "regret", "holds", "violated", "open", "answer"}


@pytest.mark.parametrize("limits", [[], [ba.at_most("risk", 0.0, noise=ba.Gaussian(1.0))]])
@pytest.mark.parametrize("noise", [ba.Symmetric(), ba.Gaussian(2.0)])
def test_with_a_tolerance_nothing_that_is_said_denies_that_the_other_arm_may_be_better(
    limits: list[ba.Constraint], noise: Any
) -> None:
    """An answer may be worse than the best by up to the tolerance, and b is better than a by less than that."""
    said = set()
    for seed in range(2):
        random = np.random.default_rng(seed)
        objective = ba.maximize("gain", noise=noise, tolerance=1.0)
        plan = ba.Plan(arms=["a", "b", "c"], objective=objective, constraints=limits, delta=0.2)
        study = ba.Study.create(plan, storage=":memory:", seed=seed)
        means = {"a": 5.0, "b": 5.3, "c": 2.0}
        while not study.done:
            for test in study.ask(3):
                study.tell(test, random.normal(means[test.arm], 2.0) if test.metric == "gain" else random.normal(-1, 1))
            status = study.status()
            said |= {status.known, *(arm.reason for arm in status.arms)}
    sentences = " ".join(said).replace("worse than b by at least", "").replace("worse than a by at least", "")
    assert "worse than" not in sentences
    assert not any(sentence.endswith(("no other can be better", "not better than a")) for sentence in said)
    assert "by more than 1 (the tolerance)" in sentences
    assert "as good or better" not in sentences.replace("as good or better (up to the tolerance of 1)", "")
