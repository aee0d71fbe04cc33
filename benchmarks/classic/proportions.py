"""How an oracle divides its tests among the arms: the optimal proportions w* of Garivier & Kaufmann (2016).

They make the least information of any duel of the best arm (number 1) with a rival as large as possible. With
x tests of the rival for one of the best, both arms are tested x + 1 times, a share s = x / (x + 1) of them goes to the
rival, the closest world in which it is as good has m = μ_1 + s (μ_a - μ_1) for both means, and the duel tells

    G_a(s) = d(μ_1, m) + s / (1 - s) d(μ_a, m)

per test of the best arm. Optimal proportions make all G_a equal (theorem 5 there), to a number y such that

    F(y) = sum over rivals of d(μ_1, m_a) / d(μ_a, m_a) = 1.

So there are two nested searches. The outer one is for the share of the nearest rival, which is between 0 and 1 while y
may be infinite. The inner one is for the shares of the others. Both are Newton's method inside a bracket, on functions
that are straight lines, or nearly, for Gaussians: G itself, and sqrt(F) / (1 + sqrt(F)).
"""

from __future__ import annotations

import math

from benchmarks.classic.families import divergence, variance

from bestarm.kernel.compile import apart, kernel
from bestarm.kernel.state import Floats

_STEPS = 60
_CLOSE = 1e-10
"""Shares are found up to this; a search that does not get there ends after so many steps."""


@kernel
def duel(rates: bool, best: float, rival: float, share: float) -> tuple[float, float]:
    """What one more test of the best arm tells, and one of the rival, if the rival gets this share of both."""
    m = best + share * (rival - best)
    return divergence(rates, best, m), divergence(rates, rival, m)


@kernel
def information(of_best: float, of_rival: float, share: float) -> float:
    """What a duel tells per test of the best arm."""
    return of_best + share / (1.0 - share) * of_rival


@kernel
def share_with(rates: bool, best: float, rival: float, y: float, most: float, guess: float) -> float:
    """The share of a rival at which the duel tells y; `most` is enough."""
    low = 0.0
    high = most
    share = guess if 0.0 < guess < most else 0.5 * most
    for _ in range(_STEPS):
        of_best, of_rival = duel(rates, best, rival, share)
        missing = y - information(of_best, of_rival, share)
        if missing > 0.0:
            low = share
        else:
            high = share
        # A test more of the rival tells of_rival, and the number of its tests has the slope (1 - share)^-2.
        step = missing * (1.0 - share) * (1.0 - share) / of_rival if of_rival > 0.0 else math.inf
        if -_CLOSE * share <= step <= _CLOSE * share:
            break
        after = share + step
        share = after if low < after < high else 0.5 * (low + high)
    return share


@kernel
def ratio_and_slope(rates: bool, best: float, rival: float, share: float) -> tuple[float, float]:
    """d(μ_1, m) / d(μ_a, m), and its derivative in y."""
    of_best, of_rival = duel(rates, best, rival, share)
    if not of_rival > 0.0:
        return math.inf, math.inf
    m = best + share * (rival - best)
    turn = (rival - best) / variance(rates, m)
    by_share = ((m - best) * turn * of_rival - of_best * (m - rival) * turn) / (of_rival * of_rival)
    return of_best / of_rival, by_share * (1.0 - share) * (1.0 - share) / of_rival


@apart
@kernel
def optimal_proportions(rates: bool, means: Floats, leader: int, shares: Floats, weights: Floats) -> None:
    """Fill in the weights of all arms, which add up to 1. No other arm may be as good as the leader.

    `shares` are of the rivals in their duels: guesses before, what was found afterward.
    """
    arms = means.shape[0]
    best = means[leader]
    nearest = -1
    for arm in range(arms):
        if arm != leader and (nearest < 0 or means[arm] > means[nearest]):
            nearest = arm
    rival = means[nearest]

    low = 0.0
    high = 1.0
    share = shares[nearest] if 0.0 < shares[nearest] < 1.0 else 0.5
    for _ in range(_STEPS):
        of_best, of_rival = duel(rates, best, rival, share)
        y = information(of_best, of_rival, share)
        total = 0.0
        slope = 0.0
        for arm in range(arms):
            if arm != leader:
                if arm == nearest:
                    shares[arm] = share
                else:
                    shares[arm] = share_with(rates, best, means[arm], y, share, shares[arm])
                ratio, by_y = ratio_and_slope(rates, best, means[arm], shares[arm])
                total += ratio
                slope += by_y
        root = math.sqrt(total)
        if total > 1.0:
            high = share
        else:
            low = share
        by_share = slope * of_rival / ((1.0 - share) * (1.0 - share))
        # From sqrt(F) / (1 + sqrt(F)) to 1/2, whose slope is that of F over 2 sqrt(F) (1 + sqrt(F))^2.
        step = (1.0 - root) * root * (1.0 + root) / by_share if 0.0 < by_share < math.inf else math.inf
        if -_CLOSE <= step <= _CLOSE:
            break
        after = share + step
        share = after if low < after < high else 0.5 * (low + high)

    together = 0.0
    for arm in range(arms):
        weights[arm] = 1.0 if arm == leader else shares[arm] / (1.0 - shares[arm])
        together += weights[arm]
    for arm in range(arms):
        weights[arm] /= together
