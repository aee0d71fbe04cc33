"""SampleForSafety, the paper's search for a violated constraint of one arm (after Kano et al. 2019)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Flags, Floats, Ints, Setting, Streams
from bestarm.kernel.tables import slot

OPEN = 0
FEASIBLE = 1
INFEASIBLE = 2


class Safety(NamedTuple):
    """What is known of every arm's feasibility."""

    verdict: Flags
    """By arm: OPEN, FEASIBLE (the paper's F) or INFEASIBLE (the paper's I)."""
    excess: Floats
    """[arm, metric]: mean over threshold in units of sigma; minus infinity once the constraint has left H_i."""
    spread: Floats
    """[arm, metric]: 1 / sqrt(number of tests)."""
    left: Ints
    """By arm: the size of H_i."""
    tests: Ints
    """By arm: M_i, the number of constraint tests so far."""


def new_safety(arms: int, metrics: int) -> Safety:
    constraints = metrics - 1
    # Without constraints every arm is feasible from the start.
    verdict = np.full(arms, OPEN if constraints else FEASIBLE, np.int8)
    shape = (arms, metrics)
    return Safety(verdict, np.zeros(shape), np.zeros(shape), np.full(arms, constraints), np.zeros(arms, np.int64))


@kernel
def constraint_to_test(setting: Setting, safety: Safety, arm: int) -> int:
    """The constraint in H_i most likely violated: the largest optimistic excess over its threshold.

    Excess is counted in units of the metric's sigma, which is the paper's rule when all are alike.
    """
    root_log_tests = setting.root_log[slot(safety.tests[arm])]
    chosen = 0
    largest = -math.inf
    for metric in range(1, safety.excess.shape[1]):
        optimistic = safety.excess[arm, metric] + root_log_tests * safety.spread[arm, metric]
        if optimistic > largest:
            largest = optimistic
            chosen = metric
    return chosen


@kernel
def judge_constraint(setting: Setting, streams: Streams, safety: Safety, arm: int, metric: int) -> int:
    """Take in a test of a constraint; returns the arm's verdict. The initial test decides nothing."""
    safety.tests[arm] += 1
    if safety.excess[arm, metric] == -math.inf or safety.verdict[arm] != OPEN:
        return int(safety.verdict[arm])
    n = streams.counts[arm, metric]
    excess = (streams.means[arm, metric] - setting.threshold[metric]) * setting.inverse_sigma[metric]
    radius = setting.radius[slot(n)]
    if n > 1:
        if excess > radius:
            safety.verdict[arm] = INFEASIBLE
        elif excess < -radius:
            excess = -math.inf
            safety.left[arm] -= 1
            if safety.left[arm] == 0:
                safety.verdict[arm] = FEASIBLE
    safety.excess[arm, metric] = excess
    safety.spread[arm, metric] = setting.inverse_root[slot(n)]
    return int(safety.verdict[arm])
