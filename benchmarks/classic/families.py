"""The two families of results that the classical algorithms are for: rates, and Gaussians of known standard deviation.

Everything here is in the family's own terms: a rate is a number from 0 to 1, a Gaussian's mean is in units of its
standard deviation. Larger is better.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import apart, kernel
from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.gaussian import Gaussian
from bestarm.policies.kernels import KernelPolicy
from bestarm.problem import Problem
from bestarm.validation import InvalidInput


class Classic(KernelPolicy):
    """A policy for the best of several arms without constraints. It refuses any other problem."""

    @classmethod
    def new_setting(cls, problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Setting:
        # Goals, items, baselines and reserves have been refused before: a policy has to say that it knows them.
        reason = ""
        if len(problem.bundles) < len(problem.parts):
            reason = "tests one metric at a time; choose certify, or leave out measurements of several metrics"
        elif problem.constraints:
            reason = "knows no constraints; choose certify, or leave them out"
        elif not isinstance(problem.objective.noise, Bernoulli | Gaussian):
            noise = problem.objective.noise.name
            reason = f"knows Bernoulli and Gaussian results, and no {noise} ones; choose certify"
        elif problem.objective.tolerance > 0.0:
            reason = "finds the best arm itself; choose certify, or leave out the tolerance"
        if reason:
            raise InvalidInput("policy", cls.name, reason, ["certify"])
        return super().new_setting(problem, delta, bound, reference)


@kernel
def ignore(setting: Setting, streams: Streams, memory: object, arm: int, metric: int) -> None:
    """What a policy does with a result that keeps nothing but the streams."""


@kernel
def are_rates(setting: Setting) -> bool:
    """Whether results are 0 or 1. Of the two families only they have a range."""
    return bool(setting.high[0] < math.inf)


@kernel
def observed(setting: Setting, streams: Streams, arm: int) -> float:
    """An arm's mean so far in the family's own terms."""
    mean: float = streams.means[arm, 0]
    if are_rates(setting):
        return float((mean - setting.low[0]) / setting.width[0])
    return float(mean * setting.inverse_sigma[0])


@kernel
def _log_ratio(q: float, p: float, difference: float) -> float:
    """log(q / p) where q = p + difference. Rates that nearly agree keep their digits."""
    relative = difference / p
    return math.log1p(relative) if -0.5 < relative < 0.5 else math.log(q / p)


@apart
@kernel
def divergence(rates: bool, p: float, q: float) -> float:
    """The Kullback-Leibler divergence of the mean p from the mean q."""
    if not rates:
        return 0.5 * (p - q) * (p - q)
    if q <= 0.0 or q >= 1.0:
        return 0.0 if p == q else math.inf
    total = 0.0
    if p > 0.0:
        total -= p * _log_ratio(q, p, q - p)
    if p < 1.0:
        total -= (1.0 - p) * _log_ratio(1.0 - q, 1.0 - p, p - q)
    return total if total > 0.0 else 0.0


@kernel
def variance(rates: bool, mean: float) -> float:
    """The divergence's curvature: d/dq of the divergence of p from q is (q - p) / variance(q)."""
    return mean * (1.0 - mean) if rates else 1.0


@kernel
def total_tests(streams: Streams) -> int:
    """How many tests there have been."""
    tests = 0
    for arm in range(streams.counts.shape[0]):
        tests += streams.counts[arm, 0]
    return tests


@kernel
def leader_of(streams: Streams) -> int:
    """The arm with the best mean; of several, the one with the fewest tests."""
    leader = 0
    for arm in range(1, streams.counts.shape[0]):
        mean = streams.means[arm, 0]
        best = streams.means[leader, 0]
        if mean > best or (mean == best and streams.counts[arm, 0] < streams.counts[leader, 0]):
            leader = arm
    return leader
