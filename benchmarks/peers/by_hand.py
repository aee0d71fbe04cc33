"""What people do by hand: measure everything equally often, and test with Bonferroni's correction, or not at all."""

from __future__ import annotations

import itertools
import math

import numpy as np
from benchmarks.peers.problems import NO_ARM, UNDECIDED, Floats, Ints, best_looking, is_wrong, measure, normal_form
from scipy.stats import norm

from bestarm.noises.bernoulli import Bernoulli
from bestarm.problem import Plan

ROUND_GROWTH = 1.05
"""By how much the number of rounds grows in the search for the one that suffices."""


def streams(plan: Plan) -> int:
    return len(plan.arms) * len(plan.metrics)


def equal_samples(plan: Plan, tests: int, runs: int, seed: int) -> Ints:
    """`tests` spread equally over all streams; the answer is what looks best."""
    return best_looking(plan, measure(plan, max(1, tests // streams(plan)), runs, np.random.default_rng(seed)))


def _quantile(plan: Plan) -> float:
    """Two-sided, over every stream with a threshold and every pair of arms: whichever turn out to matter."""
    k = len(plan.arms)
    return float(norm.isf(plan.delta / (2 * (k * len(plan.constraints) + k * (k - 1) // 2))))


def _variance(plan: Plan, metric: int, means: Floats) -> Floats | float:
    noise = plan.noises[metric]
    return means * (1.0 - means) if isinstance(noise, Bernoulli) else noise.unit**2


def conclude(plan: Plan, means: Floats, n: int) -> Ints:
    """By run, the arm that fixed-sample tests prove to be the answer, all of them at once at level δ.

    Thresholds are tested with the standard deviation that the threshold itself implies (the score test), differences
    with the one of the means, two successes and two failures added to rates (Agresti and Caffo).
    """
    z = _quantile(plan)
    objective, missed = normal_form(plan, means)
    limits = [z * math.sqrt(float(_variance(plan, k, c.threshold)) / n) for k, c in enumerate(plan.constraints, 1)]  # type: ignore[arg-type]
    feasible = np.all(missed < -np.array(limits), axis=-1)
    infeasible = np.any(missed > np.array(limits), axis=-1)
    smoothed = (means[..., 0] * n + 1.0) / (n + 2.0) if isinstance(plan.noises[0], Bernoulli) else means[..., 0]
    variance = np.broadcast_to(_variance(plan, 0, smoothed), objective.shape)
    answers = np.where(infeasible.all(axis=-1), NO_ARM, UNDECIDED)
    for arm in range(len(plan.arms)):
        proven = feasible[..., arm].copy()
        for other in (k for k in range(len(plan.arms)) if k != arm):
            margin = z * np.sqrt((variance[..., arm] + variance[..., other]) / n)
            worse = objective[..., arm] - objective[..., other] + plan.objective.tolerance > margin
            proven &= infeasible[..., other] | worse
        answers = np.where(proven, arm, answers)
    return answers


def planned(plan: Plan, runs: int, seed: int, power: float = 0.95) -> tuple[int, float]:
    """Tests of a study of fixed size that decides rightly with probability `power`, and its share of wrong answers.

    The size is the least that does, found with the true means, which are unknown in a real study.
    """
    n = 2
    while True:
        answers = conclude(plan, measure(plan, n, runs, np.random.default_rng([seed, n])), n)
        wrong = is_wrong(plan, answers)
        if ((answers != UNDECIDED) & ~wrong).mean() >= power:
            return n * streams(plan), float(wrong.mean())
        n = max(n + 1, int(n * ROUND_GROWTH))


def peeking(plan: Plan, runs: int, seed: int, first_look: int = 5, most_rounds: int = 20_000) -> tuple[float, Ints]:
    """Look after every round of one test of everything, with the tests for a fixed size, until they decide.

    Returns the mean number of tests, and the answers.
    """
    rng = np.random.default_rng(seed)
    answers = np.full(runs, UNDECIDED)
    rounds = np.full(runs, most_rounds)
    going = np.arange(runs)
    total = measure(plan, first_look, runs, rng) * first_look
    for n in itertools.count(first_look):
        found = conclude(plan, total / n, n)
        decided = found != UNDECIDED
        answers[going[decided]], rounds[going[decided]] = found[decided], n
        going, total = going[~decided], total[~decided]
        if not len(going) or n == most_rounds:
            return float(rounds.mean()) * streams(plan), answers
        total = total + measure(plan, 1, len(going), rng)
    raise AssertionError("the rounds have an end")
