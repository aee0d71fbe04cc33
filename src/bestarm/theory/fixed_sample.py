"""What the usual plan takes, which fixes the number of tests beforehand."""

from __future__ import annotations

import math
import sys
from statistics import NormalDist

import numpy as np

from bestarm.kernel.state import Floats
from bestarm.noises.shapes import plain
from bestarm.problem import Problem
from bestarm.problem.items import count_of
from bestarm.theory.information import truth


def fixed_sample_tests(problem: Problem, delta: float) -> float:
    """The tests of the usual plan that fixes their number beforehand and gives the same guarantee.

    Every stream is tested n times, and then intervals of half-width h = z σ / √n decide, where z is the two-sided
    normal quantile for delta / (K (N + 1)) per stream (Bonferroni). All of them hold at once with probability
    1 - delta. For them to decide whenever they hold, and not only half of the time, h may be at most half of each gap
    that matters. For the best arm, those are the gaps between its constraints and their thresholds. For any other arm
    it is whichever needs fewer tests: a violated constraint's gap, or half of the gap in performance, because there
    both intervals must shrink. A constraint's slack and the objective's tolerance widen the gaps. Infinite if a gap
    that matters is zero. Where σ is not stated it is an arm's true spread, as if that were known; a metric that never
    varies takes one test. NaN for other goals than the best arm.

    >>> import bestarm as ba
    >>> arms = [ba.Arm("old", {"yield": 1.0}), ba.Arm("new", {"yield": 2.0})]
    >>> problem = ba.Problem(arms=arms, objective=ba.maximize("yield", noise=ba.Gaussian(1.0)))
    >>> fixed_sample_tests(problem, delta=0.1)  # z = 1.96, and h = 1/4 takes n = 62
    124.0
    """
    if problem.asks != "best":
        return math.nan
    facts, form = truth(problem), problem.normal_form()
    # A tiny delta must not become zero.
    alpha = max(delta / facts.means.size, 2.0 * sys.float_info.min)
    z = -NormalDist().inv_cdf(alpha / 2.0)

    def n(gap: Floats) -> Floats:
        """How many tests of a stream it takes to see a gap, in units of σ."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.where(gap > 0.0, np.maximum(np.ceil(np.square(2.0 * z / gap)), 1.0), np.inf)

    sigma = np.broadcast_to(form.sigma, facts.means.shape).copy()
    for metric, noise in enumerate(problem.noises):
        if noise.needs_spread:
            sigma[:, metric] = [plain(spread) for spread in facts.spreads[metric]]
    for k in problem.relative:
        # A difference of two results scatters more.
        sigma[:, k] *= math.hypot(1.0, problem.constraints[k - 1].threshold)
    excess = problem.excesses()
    by_arm = n(excess / sigma[:, 1:]).min(axis=1, initial=np.inf)
    if facts.best is not None:
        lead = facts.score[facts.best] - facts.score + problem.objective.tolerance
        told_apart = n(lead / 2.0 / np.maximum(sigma[:, 0], sigma[facts.best, 0]))
        if problem.objective.noise.is_exact:
            told_apart = np.where(lead >= 0.0, 1.0, np.inf)
        by_arm = np.minimum(by_arm, told_apart)
        slack = np.array([constraint.slack for constraint in problem.constraints])
        by_arm[facts.best] = n((slack - excess[facts.best]) / sigma[facts.best, 1:]).max(initial=0.0)
    if problem.items is not None and not problem.repeats:
        # At the latest, all items settle it.
        by_arm = np.minimum(by_arm, count_of(problem.items))
    return float(by_arm.max() * len(problem.arms) * len(problem.bundles))
