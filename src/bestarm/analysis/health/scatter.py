"""Do results scatter more than stated? Which of them lie too far off?"""

from __future__ import annotations

import dataclasses

import numpy as np

from bestarm.analysis.health.evidence import log_outlier_limit
from bestarm.analysis.health.weights import Result
from bestarm.kernel.state import Floats

BETS = (0.2, 0.5, 0.8, 0.95)
"""On squares: best against a scatter that is 1.1, 1.4, 2.2 and 4.5 times the stated one."""


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
        self._log_level = log_level
        self._inverse = 1.0 / sigma
        self._first: dict[int, float] = {}
        # All results of each arm, and those that do not lie too far off.
        self._all = [_Squares() for _ in range(arms)]
        self._kept = [_Squares() for _ in range(arms)]
        self.outlier: Outlier | None = None

    def enter(self, result: Result) -> bool:
        """Take in a result. False if it lies too far from those before it."""
        everything, kept = self._all[result.arm], self._kept[result.arm]
        x = (result.value - self._first.setdefault(result.arm, result.value)) * self._inverse
        count, off = everything.count + 1, x - everything.mean
        everything.add(x)
        # The mean of n results before scatters by 1 / sqrt(n). Half a square below 5 is never too far.
        half_square = 0.5 * off * off * (count - 1) / count
        if half_square > 5.0 and half_square > log_outlier_limit(len(self._all), count) + self._log_level:
            if self.outlier is None:
                self.outlier = Outlier(result.arm, result.test, result.value)
            self.outlier.count += 1
            return False
        kept.add(x)
        return True

    def won(self) -> Floats:
        """[bet, sign, column, arm]: the logarithm of what bets on larger squares have won. A few typing errors are not
        scatter, so results too far off do not count."""
        bets = np.array(BETS).reshape(-1, 1, 1, 1)
        squares = np.array([arm.squares for arm in self._kept])
        counts = np.array([arm.count for arm in self._kept])
        found: Floats = 0.5 * bets * squares + 0.5 * np.log1p(-bets) * counts
        return found

    def times(self, arm: int | None) -> float:
        """By how many sigmas results scatter: of one arm, or of all."""
        arms = [one for one in (self._all if arm is None else [self._all[arm]]) if one.count > 1]
        return float(np.sqrt(sum(one.squares for one in arms) / sum(one.count - 1.0 for one in arms)))

    def largest(self, least: int) -> tuple[float, int]:
        """The largest scatter of an arm with at least this many results, and how many results such arms have."""
        arms = [one for one in self._all if one.count >= least]
        spreads = [float(np.sqrt(one.squares / (one.count - 1.0))) for one in arms]
        return max(spreads, default=0.0), sum(one.count for one in arms)
