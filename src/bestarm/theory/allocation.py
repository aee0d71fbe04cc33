"""The characteristic time T* and the oracle's allocation: the cheapest tests that could prove the true answer."""

from __future__ import annotations

import dataclasses

import numpy as np

from bestarm.problem import Problem
from bestarm.theory.duels import Duels, duels
from bestarm.theory.information import Flags, Floats, Truth, truth


@dataclasses.dataclass(frozen=True)
class Oracle:
    """The cheapest allocation that proves the answer, per unit of log(1/δ).

    `weights` [arm, metric] are numbers of tests and `allocation` is their shares, which sum to 1; both are NaN when no
    number of tests suffices (`characteristic_time` is infinite) and 0 when none is needed. All are NaN when it is not
    known how much tests tell.
    """

    characteristic_time: float
    weights: Floats
    allocation: Floats


def oracle(problem: Problem) -> Oracle:
    """Minimize the cost of the tests, subject to enough information on i* and against every other arm."""
    facts, cost = truth(problem), np.array(problem.costs)
    if facts.uncomputed:
        nothing = np.full(facts.means.shape, np.nan)
        return Oracle(np.nan, nothing, nothing)
    weights = _weights(facts, cost)
    if not np.isfinite(weights).all():
        nothing = np.full_like(weights, np.nan)
        return Oracle(np.inf, nothing, nothing)
    total = weights.sum()
    return Oracle(float((weights @ cost).sum()), weights, weights / total if total > 0.0 else weights)


def _weights(facts: Truth, cost: Floats) -> Floats:
    """The oracle's tests [arm, metric]; some are infinite when no number of tests suffices."""
    weights = np.zeros(facts.means.shape)
    # Only the violated constraint that is cheapest per information is worth testing.
    with np.errstate(divide="ignore", over="ignore"):
        prices = np.where(facts.violated, cost[1:] / facts.margin, np.inf)
    price = prices.min(axis=1, initial=np.inf)

    done = np.zeros(len(facts.means))  # the information against each arm that performance has given
    if facts.best is not None:
        with np.errstate(divide="ignore", over="ignore"):
            weights[facts.best, 1:] = 1.0 / facts.margin[facts.best]
        done[facts.best] = 1.0
        if facts.noises[0].is_exact:
            done[facts.score <= facts.score[facts.best]] = 1.0
        contested = _contested(facts, float(cost[0]), price)
        if contested.any():
            contest = _Contest(facts, contested, float(cost[0]), price)
            x = contest.cheapest()
            weights[facts.best, 0] = x
            weights[contested, 0], done[contested] = contest.tests(x)

    for arm in np.flatnonzero(done < 1.0):
        if price[arm] == np.inf:
            weights[arm] = np.inf
        else:
            # The first of those as cheap up to rounding, so that a change of units does not change the allocation.
            metric = 1 + int(np.argmax(prices[arm] <= price[arm] * (1.0 + 1e-9)))
            weights[arm, metric] = (1.0 - done[arm]) / facts.margin[arm, metric - 1]
    return weights


def _contested(facts: Truth, cost: float, price: Floats) -> Flags:
    """The arms whose first test of performance is worth more, per cost, than one of a violated constraint."""
    contested: Flags = np.zeros(len(facts.score), dtype=bool)
    if facts.noises[0].is_exact or facts.best is None:
        return contested
    worse, best = np.flatnonzero(facts.worse), facts.best
    against_best = facts.objective_information(np.full(len(worse), best), facts.means[worse, 0])
    with np.errstate(divide="ignore"):
        is_worth_it = facts.objective_information(worse, facts.means[best, 0]) > cost / price[worse]
    # Gaps too small for floating point count as none.
    contested[worse] = (against_best > 0.0) & is_worth_it
    return contested


class _Contest:
    """The total cost as a function of x, the tests of the best arm's objective: convex, so its slope is bisected.

    Against each contested rival, tests of the rival's objective are the cheapest information up to the share `limit`,
    where one more of them adds no more per cost than a violated constraint; the rest is left to that constraint.
    """

    def __init__(self, facts: Truth, contested: Flags, cost: float, price: Floats) -> None:
        self._duels: Duels = duels(facts, np.flatnonzero(contested))
        self._cost, self._price = cost, price[contested]
        self._limit = self._duels.share_with_gain(cost / self._price)
        self._at_limit = self._duels.information(self._limit)

    def _shares(self, x: float) -> tuple[Floats, Flags]:
        """Each rival's share, and whether performance alone is enough against it."""
        if x == 0.0:
            return self._limit, np.zeros(len(self._limit), dtype=bool)
        enough: Flags = x * self._at_limit >= 1.0
        # The information wanted from the others is out of reach. Any value within reach does for them.
        wanted = np.where(enough, 1.0 / x, 0.5 * np.minimum(self._at_limit, 1.0))
        return np.where(enough, self._duels.share_with_information(wanted), self._limit), enough

    def slope(self, x: float) -> float:
        """How the total cost changes with x: a test's cost, less the worth of what it adds against the rivals."""
        share, enough = self._shares(x)
        with np.errstate(divide="ignore"):
            worth = np.where(enough, self._cost / self._duels.gain_of_rival(share), self._price)
        return self._cost - float(np.sum(worth * self._duels.gain_of_best(share)))

    def cheapest(self) -> float:
        """The x of least total cost."""
        only_by_performance = np.isinf(self._price)
        low = 0.0
        if only_by_performance.any():
            low = float(np.max(1.0 / self._at_limit[only_by_performance]))
        elif self.slope(0.0) >= 0.0:
            return 0.0
        high = 2.0 * low if low > 0.0 else 1.0
        while self.slope(high) < 0.0:
            low, high = high, 2.0 * high
        while high - low > 1e-14 * high:
            middle = 0.5 * (low + high)
            if self.slope(middle) < 0.0:
                low = middle
            else:
                high = middle
        return high

    def tests(self, x: float) -> tuple[Floats, Floats]:
        """By rival: the tests of its objective, and the information they give."""
        share, enough = self._shares(x)
        return x * share / (1.0 - share), np.where(enough, 1.0, x * self._duels.information(share))
