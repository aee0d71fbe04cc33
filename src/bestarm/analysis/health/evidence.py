"""Evidence against an assumption of the guarantee: in one stream, and in all arms together.

A check makes several bets. What each has won is at most a *test supermartingale* as long as the assumption holds: it
starts at 1 and never rises on average, given all that is known before a result. So is the mean over bets. By Ville's
inequality it ever reaches 1/alpha with probability at most alpha. `docs/health.md` has the proofs. In short, with g the
weight of a result x, known before it, t a stake, and m the unknown mean, at which the least value counts:

- *Sub-Gaussian results*, in units of their scale: exp(a (x - m) - a²/2) with a = c + t g, and c normal with variance A.
  The least logarithm over all m is t Σ (g - ḡ) x - t² (Σ (g - ḡ)² + ḡ²/A)/2 - log(1 + n A)/2, ḡ the mean of the g.
- *Symmetric results*: exp(a psi(u) - a² psi(u)²/2), where u = (x - m)/s for a scale s known before x, and psi is odd.
- *Exchangeable results*: exp(t Σ g z - t² Σ g²/2), with z the normal scores of ranks.
- *Scatter*: Π (1 - b)^(1/2) exp(b (x - m)² / (2 sigma²)). The squares around the observed mean are the smallest.
- *Outliers* are left out of all bets. If sigma is as stated, there is none with probability 1 - alpha.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict

import numpy as np

from bestarm.analysis.health.bets import Result
from bestarm.kernel.state import Floats


def jointly(of_arms: Floats, arms: int) -> Floats:
    """The log-evidence of all `arms` together, if a result changes that of its own arm alone. The last axis is the arms
    that have results.

    For every share w, Π_arms (1 - w + w M_arm) is a test supermartingale, and so is the mean over several w.
    """
    # Evidence beyond all numbers is cut off: it suffices anyway.
    gain = np.expm1(np.minimum(of_arms, 600.0))
    shares = sorted({1.0 / (arms + 1.0), 0.5})
    mixed = [np.log1p(share * gain).sum(axis=-1) for share in shares]
    return log_mean(np.array([*mixed, of_arms.sum(axis=-1)]))


def in_any(of_arms: Floats, arms: int) -> Floats:
    """The log-evidence in any of the `arms`, however they depend on each other, as on common items. The last axis is
    those that have results. That of one arm out of K reaches K/alpha with probability at most alpha/K."""
    found: Floats = of_arms.max(axis=-1) - math.log(arms)
    return found


def log_mean(logs: Floats) -> Floats:
    """The logarithm of the mean over the first axis."""
    mean: Floats = np.logaddexp.reduce(logs, axis=0) - math.log(len(logs))
    return mean


def log_outlier_limit(arms: int, count: int) -> float:
    """How much more than log(1 / alpha) half the square of a deviation, in units of its own scale, may be, so that no
    result of any arm ever exceeds it, with probability at least 1 - alpha.

    A sub-Gaussian deviation exceeds sqrt(2 y) scales, up or down, with probability at most 2 exp(-y). Result number n
    of one of K arms is allowed alpha / (K n (n + 1)); these shares add up to alpha.
    """
    return math.log(2.0 * arms * count * (count + 1))


SQUARE_BETS = (0.2, 0.5, 0.8, 0.95)
"""Best against a scatter that is 1.1, 1.4, 2.2 and 4.5 times the stated one."""


@dataclasses.dataclass
class Outlier:
    """The first result of a metric that lies too far off, and how many there are."""

    arm: int
    test: int
    value: float
    count: int = 0


class _Squares:
    """The results of a stream: how many, their mean, and their squared deviations from it."""

    __slots__ = ("count", "mean", "squares")

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.squares = 0.0

    def add(self, x: float) -> None:
        self.count += 1
        off = x - self.mean
        self.mean += off / self.count
        self.squares += off * (x - self.mean)


class Scatter:
    """The results of a metric with a stated sigma, in units of it."""

    def __init__(self, arms: int, sigma: float, log_level: float) -> None:
        self.sigma = sigma
        self._among = arms
        self._log_level = log_level
        self._inverse = 1.0 / sigma
        self._first: dict[int, float] = {}
        # All results of each arm, and those that do not lie too far off.
        self._all = defaultdict[int, _Squares](_Squares)
        self._kept = defaultdict[int, _Squares](_Squares)
        self.outlier: Outlier | None = None

    def enter(self, result: Result) -> bool:
        """Take in a result. False if it lies too far from those before it."""
        everything, kept = self._all[result.arm], self._kept[result.arm]
        x = (result.value - self._first.setdefault(result.arm, result.value)) * self._inverse
        count, off = everything.count + 1, x - everything.mean
        everything.add(x)
        # The mean of n results before scatters by 1 / sqrt(n). Half a square below 5 is never too far.
        half_square = 0.5 * off * off * (count - 1) / count
        if half_square > 5.0 and half_square > log_outlier_limit(self._among, count) + self._log_level:
            if self.outlier is None:
                self.outlier = Outlier(result.arm, result.test, result.value)
            self.outlier.count += 1
            return False
        kept.add(x)
        return True

    @property
    def arms(self) -> list[int]:
        """The arms that have results."""
        return sorted(self._kept)

    def won(self) -> Floats:
        """[bet, sign, column, arm]: the logarithm of what bets on larger squares have won. A few typing errors are not
        scatter, so results too far off do not count."""
        bets = np.array(SQUARE_BETS).reshape(-1, 1, 1, 1)
        kept = [self._kept[arm] for arm in self.arms]
        squares = np.array([one.squares for one in kept])
        counts = np.array([one.count for one in kept])
        found: Floats = 0.5 * bets * squares + 0.5 * np.log1p(-bets) * counts
        return found

    def times(self, arm: int | None) -> float:
        """By how many sigmas results scatter: of one arm, or of all."""
        arms = [one for one in (self._all.values() if arm is None else [self._all[arm]]) if one.count > 1]
        return float(np.sqrt(sum(one.squares for one in arms) / sum(one.count - 1.0 for one in arms)))

    def largest(self, least: int) -> tuple[float, int]:
        """The largest scatter of an arm with at least this many results, and how many results such arms have."""
        arms = [one for one in self._all.values() if one.count >= least]
        spreads = [float(np.sqrt(one.squares / (one.count - 1.0))) for one in arms]
        return max(spreads, default=0.0), sum(one.count for one in arms)
