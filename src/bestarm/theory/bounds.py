"""Theorem 1 (no algorithm needs fewer tests) and Theorem 2 (Algorithm 1 needs no more), with all lower-order terms."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from bestarm.problem import Problem
from bestarm.theory.complexity import Complexity, complexity
from bestarm.theory.information import truth

TESTS_PER_EPOCH = 4


def lower_bound(H: float, delta: float) -> float:  # noqa: N803 (the paper's letter)
    """Theorem 1: the expected tests of any algorithm that errs with probability at most delta.

    >>> round(lower_bound(112.0, 0.1), 1)
    319.7
    """
    factor = 2.0 * math.log(1.0 / (2.4 * delta))
    return H * factor if factor > 0.0 else 0.0


def divergence_bound(characteristic_time: float, delta: float) -> float:
    """T* · kl(δ, 1 - δ): the expected cost of any algorithm that errs with probability at most delta.

    From δ = ½ on, a guess is good enough, and the bound is 0.
    """
    return characteristic_time * (1.0 - 2.0 * delta) * math.log((1.0 - delta) / delta) if delta < 0.5 else 0.0


@dataclasses.dataclass(frozen=True)
class UpperBound:
    """Theorem 2, summand by summand, in epochs of Algorithm 1.

    `infeasible` finds the arms of I infeasible, `performance` tells the others apart and `best` finds i* feasible.
    G1 to G5 are the paper's lower-order terms; those that do not apply (G4 and G5 when an arm is feasible, G1 to G3
    when none is) are 0.
    """

    infeasible: float
    performance: float
    best: float
    G1: float
    G2: float
    G3: float
    G4: float
    G5: float
    streams: int

    @property
    def epochs(self) -> float:
        main = self.infeasible + self.performance + self.best
        return main + self.G1 + self.G2 + self.G3 + self.G4 + self.G5

    @property
    def tests(self) -> float:
        """An epoch makes up to four tests; the first epoch is preceded by one test of every stream."""
        return TESTS_PER_EPOCH * self.epochs + self.streams


def upper_bound(problem: Problem, delta: float) -> UpperBound:
    """Theorem 2 for a problem whose metrics may have any scales and thresholds.

    Algorithm 1 knows only the scale σ of the noise, so gaps enter in units of it, for any noise.
    """
    facts = truth(problem, sub_gaussian=True)
    terms = _Terms(problem, complexity(facts), delta)
    arms = range(len(problem.arms))
    streams = len(problem.arms) * len(problem.metrics)
    if facts.best is None:
        infeasible = math.fsum(terms.settle(terms.sizes.theta[i]) for i in arms)
        G4 = math.fsum(terms.g(i) for i in arms)  # noqa: N806 (the paper's letter)
        G5 = 4.0 * delta * terms.pairs(list(arms), list(arms))  # noqa: N806 (the paper's letter)
        return UpperBound(infeasible, 0.0, 0.0, 0.0, 0.0, 0.0, G4, G5, streams)
    condemned, worse = terms.sizes.members("I"), terms.sizes.members("W")
    others = [facts.best, *worse]
    return UpperBound(
        infeasible=math.fsum(terms.settle(terms.sizes.theta[i]) for i in condemned),
        performance=_contest(math.fsum(terms.sizes.phi[i] for i in others), delta),
        best=math.fsum(terms.settle(gamma) for gamma in terms.gamma[facts.best]),
        G1=8.0 * math.fsum(terms.gamma[facts.best]) + 16.0,
        G2=math.fsum(terms.g(i) for i in condemned),
        G3=delta
        * (
            4.0 * terms.pairs(condemned, list(arms))
            + math.fsum(terms.settle(gamma) + 8.0 * gamma for i in worse for gamma in terms.gamma[i])
            + 2.0 * terms.pairs(others, others)
        ),
        G4=0.0,
        G5=0.0,
        streams=streams,
    )


def _contest(phi: float, delta: float) -> float:
    """The epochs of LUCB; gaps beyond the paper's range, whose logarithm is negative, count as nothing."""
    return 292.0 * phi * math.log(phi / delta) if phi > delta else 0.0


def _log_times_log(a: float, b: float) -> float:
    """log(a · log b), which is positive where the paper's assumptions hold.

    For gaps beyond them log b is raised to 1, as the proof that defines n_{i,ℓ} needs, and the whole to 0.
    """
    inner = max(1.0, math.log(b)) if b > 0.0 else 1.0
    return max(0.0, math.log(a * inner)) if a > 0.0 else 0.0


class _Terms:
    """The quantities the theorem is written in."""

    def __init__(self, problem: Problem, sizes: Complexity, delta: float) -> None:
        form = problem.normal_form()
        values = problem.true_means() * form.sign
        self.sizes = sizes
        self.n = len(problem.constraints)
        self.streams = len(problem.arms) * (self.n + 1)
        self.share = delta / self.streams
        self.root: float = self.share**0.25  # the paper's δ'
        self.eighth_root: float = self.streams**0.125
        self.performance: list[float] = (values[:, 0] / form.sigma[0]).tolist()
        excess = (values[:, 1:] - form.threshold[1:]) / form.sigma[1:]
        # The paper numbers an arm's constraints from the largest mean down.
        self.excess: list[list[float]] = (-np.sort(-excess, axis=1)).tolist()
        self.gamma = [[_power(gap) for gap in row] for row in self.excess]

    def settle(self, gamma: float) -> float:
        """n_{i,ℓ}: about how many tests decide a constraint whose gap is gamma^(-1/2)."""
        return 32.0 * gamma * _log_times_log(91.0 * gamma / self.root, 95.0 * gamma / self.root)

    def g(self, arm: int) -> float:
        """g_i: what the search for the violated constraint of an infeasible arm costs."""
        gamma, excess = self.gamma[arm], self.excess[arm]
        settle = [self.settle(value) for value in gamma]
        total = 8.0 * gamma[0] + 8.0 * math.fsum(gamma) * self.n / self.eighth_root
        if self.n == 1:
            return total
        horizon = self.n * (math.floor(max(settle) + 2.0) if max(settle) < math.inf else math.inf)
        closest = _power_between(excess[0], excess[1])
        if closest > 1 / 32:  # otherwise the logarithm is negative, and the gap is beyond the paper's range
            total += closest * 16.0 * math.log(32.0 * closest)
        total += closest * (32.0 * self.n - 22.0)
        for k in range(1, self.n):
            total += 8.0 * math.log(horizon) * _power_between(excess[0], excess[k])
            total += self.share * (settle[k] + 8.0 * gamma[k])
        return total

    def q(self, i: int, j: int) -> float:
        """q_{i,j}: about how many epochs tell which of two arms performs better."""
        gap = _power(self.performance[i] - self.performance[j])
        return 128.0 * gap * _log_times_log(368.0 * gap / self.root, 384.0 * gap / self.root) + self.share

    def pairs(self, first: list[int], second: list[int]) -> float:
        """The sum of q over ordered pairs of different arms: leader and challenger can be either."""
        return math.fsum(self.q(i, j) for i in first for j in second if i != j)


def _power(gap: float) -> float:
    """gap^(-2), infinite for no gap."""
    square = gap * gap
    return 1.0 / square if square > 0.0 else math.inf


def _power_between(first: float, second: float) -> float:
    """The gap between two constraints to the power of -2; if only rounding tells them apart there is none."""
    return math.inf if math.isclose(first, second, rel_tol=1e-9) else _power(first - second)
