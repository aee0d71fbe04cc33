"""The characteristic time T* and the oracle's allocation: the cheapest tests that could prove the true answer."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable

import numpy as np

from bestarm.kernel.state import Ints
from bestarm.noises.base import NoiseModel
from bestarm.problem import Problem
from bestarm.theory.information import Flags, Floats, Truth, divergence, truth

_PLACES = 129
"""The points of a table of information between two means."""


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
    facts, cost = truth(problem), problem.normal_form().cost
    if facts.uncomputed:
        nothing = np.full(facts.means.shape, np.nan)
        return Oracle(np.nan, nothing, nothing)
    weights = _weights(facts, cost)
    if not np.isfinite(weights).all():
        nothing = np.full_like(weights, np.nan)
        return Oracle(np.inf, nothing, nothing)
    total = weights.sum()
    return Oracle(float((weights * cost).sum()), weights, weights / total if total > 0.0 else weights)


def _weights(facts: Truth, cost: Floats) -> Floats:
    """The oracle's tests [arm, metric]; some are infinite when no number of tests suffices."""
    weights = np.zeros(facts.means.shape)
    # Only the violated constraint that is cheapest per information is worth testing.
    with np.errstate(divide="ignore", over="ignore"):
        prices = np.where(facts.violated, cost[:, 1:] / facts.margin, np.inf)
    price = prices.min(axis=1, initial=np.inf)

    done = np.zeros(len(facts.means))  # the information against each arm that performance has given
    if facts.best is not None:
        with np.errstate(divide="ignore", over="ignore"):
            weights[facts.best, 1:] = 1.0 / facts.margin[facts.best]
        done[facts.best] = 1.0
        if facts.noises[0].is_exact:
            done[facts.score <= facts.score[facts.best]] = 1.0
        contested = _contested(facts, cost[:, 0], price)
        if contested.any():
            contest = _Contest(facts, contested, cost[:, 0], price)
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


def _contested(facts: Truth, cost: Floats, price: Floats) -> Flags:
    """The arms whose first test of performance is worth more, per cost, than one of a violated constraint."""
    contested: Flags = np.zeros(len(facts.score), dtype=bool)
    if facts.noises[0].is_exact or facts.best is None:
        return contested
    worse, best = np.flatnonzero(facts.worse), facts.best
    against_best = facts.objective_information(np.full(len(worse), best), facts.means[worse, 0])
    with np.errstate(divide="ignore"):
        is_worth_it = facts.objective_information(worse, facts.means[best, 0]) > cost[worse] / price[worse]
    # Gaps too small for floating point count as none.
    contested[worse] = (against_best > 0.0) & is_worth_it
    return contested


class _Contest:
    """The total cost as a function of x, the tests of the best arm's objective: convex, so its slope is bisected.

    Against each contested rival, tests of the rival's objective are the cheapest information up to the share `limit`,
    where one more of them adds no more per cost than a violated constraint; the rest is left to that constraint.
    """

    def __init__(self, facts: Truth, contested: Flags, cost: Floats, price: Floats) -> None:
        self._duels = _duels(facts, np.flatnonzero(contested))
        self._cost_of_best = float(cost[facts.best])
        self._cost, self._price = cost[contested], price[contested]
        self._limit = self._duels.share_with_gain(self._cost / self._price)
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
        of_best, of_rival = self._duels.gains(share)
        with np.errstate(divide="ignore"):
            worth = np.where(enough, self._cost / of_rival, self._price)
        return self._cost_of_best - float(np.sum(worth * of_best))

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


# ------------------------------------------------------------------------------------- the best arm against one rival


class _Duels(abc.ABC):
    """The duels of the best arm with each of several rivals; arguments and results are by rival.

    With x tests of the best arm and w of a rival, s = w / (w + x) is the rival's share. The closest world in which the
    rival is as good gives both the same mean m. So the information is the least x kl(μ, m) + w kl(μ_rival, m) over all
    m. If streams differ in nothing but their means, it is reached at the mean m = μ + s (μ_rival - μ) of all their
    tests. Per test of the best arm, x = 1, it is a function of s alone, and increasing. What one more test of the rival
    adds, kl(μ_rival, m), is decreasing in s. Shares are found by bisection.
    """

    def __init__(self, rivals: Floats) -> None:
        self._rivals = rivals

    @abc.abstractmethod
    def gains(self, share: Floats) -> tuple[Floats, Floats]:
        """The information that one more test of the best arm adds, and one of the rival."""

    def information(self, share: Floats) -> Floats:
        """The information per test of the best arm."""
        of_best, of_rival = self.gains(share)
        # At a share of 1 the rival has infinitely many tests, and one more adds nothing.
        with np.errstate(divide="ignore", invalid="ignore"):
            return of_best + np.where(share < 1.0, share / (1.0 - share) * of_rival, 0.0)

    def share_with_information(self, value: Floats) -> Floats:
        """The share at which the information is `value`; it must be within reach."""
        return _bisect(lambda share: self.information(share) < value, self._rivals)

    def share_with_gain(self, value: Floats) -> Floats:
        """The share at which one more test of the rival adds `value`; 0 if no share gives as much."""
        return np.where(value > 0.0, _bisect(lambda share: self.gains(share)[1] > value, self._rivals), 1.0)


def _duels(facts: Truth, rivals: Ints) -> _Duels:
    """The duels of the best arm with those of these numbers."""
    noise, best = facts.noises[0], float(facts.means[facts.best, 0])
    if not noise.is_family or any(spread is not None for spread in facts.spreads[0]):
        return _TabulatedDuels(facts, rivals)
    if noise.is_quadratic:
        return _QuadraticDuels(divergence(noise, facts.means[rivals, 0], best))
    return _SearchedDuels(noise, best, facts.means[rivals, 0])


class _QuadraticDuels(_Duels):
    """Gaussian noise, and all noise of which only the scale is known: everything is in closed form."""

    def __init__(self, gap: Floats) -> None:
        super().__init__(gap)
        self._gap = gap

    def gains(self, share: Floats) -> tuple[Floats, Floats]:
        return self._gap * np.square(share), self._gap * np.square(1.0 - share)

    def information(self, share: Floats) -> Floats:
        return self._gap * share

    def share_with_information(self, value: Floats) -> Floats:
        return value / self._gap

    def share_with_gain(self, value: Floats) -> Floats:
        return np.maximum(0.0, 1.0 - np.sqrt(value / self._gap))


class _SearchedDuels(_Duels):
    """Streams that differ in nothing but their means."""

    def __init__(self, noise: NoiseModel, best: float, rivals: Floats) -> None:
        super().__init__(rivals)
        self._noise, self._best = noise, best

    def gains(self, share: Floats) -> tuple[Floats, Floats]:
        m = self._best * (1.0 - share) + self._rivals * share
        return divergence(self._noise, self._best, m), divergence(self._noise, self._rivals, m)


class _TabulatedDuels(_Duels):
    """Any other streams: the common mean m is searched in a table of both arms' information."""

    def __init__(self, facts: Truth, rivals: Ints) -> None:
        super().__init__(facts.means[rivals, 0])
        assert facts.best is not None, "a duel needs a best arm"
        best = float(facts.means[facts.best, 0])
        places = [np.linspace(best, mean, _PLACES) for mean in self._rivals.tolist()]
        # [rival, place]
        self._of_best = np.array([facts.objective_table(facts.best, row) for row in places])
        rows = zip(rivals.tolist(), places, strict=True)
        self._of_rivals = np.array([facts.objective_table(rival, row) for rival, row in rows])

    def gains(self, share: Floats) -> tuple[Floats, Floats]:
        part = share[:, np.newaxis]
        together = (1.0 - part) * self._of_best + part * self._of_rivals
        near = np.clip(together.argmin(axis=1), 1, _PLACES - 2)
        rival = np.arange(len(share))
        left, middle, right = (together[rival, near + k] for k in (-1, 0, 1))
        bend = left - 2.0 * middle + right
        # The lowest point of the parabola through three places.
        with np.errstate(all="ignore"):
            offset = np.where(bend > 0.0, 0.5 * (left - right) / bend, np.where(left < right, -1.0, 1.0))
        offset = np.clip(offset, -1.0, 1.0)
        return _between(self._of_best, rival, near, offset), _between(self._of_rivals, rival, near, offset)


def _between(table: Floats, row: Ints, place: Ints, offset: Floats) -> Floats:
    """The value of a table between three places, by the parabola through them."""
    left, middle, right = (table[row, place + k] for k in (-1, 0, 1))
    found = middle + 0.5 * offset * (right - left) + 0.5 * np.square(offset) * (left - 2.0 * middle + right)
    return np.maximum(found, 0.0)


def _bisect(is_too_small: Callable[[Floats], Flags], like: Floats) -> Floats:
    """By rival, the share below which a share is too small."""
    low, high = np.zeros_like(like), np.ones_like(like)
    for _ in range(60):
        middle = 0.5 * (low + high)
        small = is_too_small(middle)
        low, high = np.where(small, middle, low), np.where(small, high, middle)
    return 0.5 * (low + high)
