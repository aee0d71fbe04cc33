"""The bets of each check in one stream, and the peaks of what they win."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bestarm.kernel.state import Floats

STEP = (0.1, 0.2, 0.4, 0.8)
"""On a shift: how many standard deviations later results are larger than earlier ones."""

TREND = 300.0
STEADY = (1.5, 0.5, 0.15, 0.05)
"""On a steady drift, which shifts scores in proportion to their place in the stream: weights are place / 300, and these
bets are best for one standard deviation within 100, 300, 1,000 and 3,000 results of a stream."""

DEPENDENCE = (0.1, 0.25, 0.5)
"""On the correlation of successive scores."""

WORKER = (0.2, 0.5, 1.0)
"""On the difference between one who measures and the others, in standard deviations."""

SKEWNESS = (0.25, 0.5, 1.0)

SCATTER = (0.2, 0.5, 0.8, 0.95)
"""On squares: best against a scatter that is 1.1, 1.4, 2.2 and 4.5 times the stated one."""

_LOG_SCATTER = tuple(0.5 * math.log1p(-bet) for bet in SCATTER)


class Bets:
    """The bets on scores being positive, and negative: their sums, and the peaks of the logarithm of what they win."""

    __slots__ = ("_bets", "_peaks", "_total", "_variance")

    def __init__(self, bets: Sequence[float]) -> None:
        self._bets = bets
        self._total = 0.0
        self._variance = 0.0
        self._peaks = ([0.0] * len(bets), [0.0] * len(bets))

    def add(self, score: float, variance: float) -> None:
        self._total += score
        self._variance += variance

    def note(self, peaks: Floats, metric: int, arm: int, first: int = 0) -> None:
        """Write what is higher than ever into `peaks` (bet, direction, metric, arm), from place `first` on."""
        side = 0 if self._total > 0.0 else 1
        total, half, own = abs(self._total), 0.5 * self._variance, self._peaks[side]
        for k, bet in enumerate(self._bets):
            won = bet * (total - bet * half)
            if won > own[k]:
                own[k] = peaks[first + k, side, metric, arm] = won


class SquareBets:
    """The same for squares."""

    __slots__ = ("_peaks",)

    def __init__(self) -> None:
        self._peaks = [0.0] * len(SCATTER)

    def note(self, count: int, squares: float, peaks: Floats, metric: int, arm: int) -> None:
        """From the number of results, and the sum of their squared deviations in units of sigma."""
        for k, bet in enumerate(SCATTER):
            won = 0.5 * bet * squares + count * _LOG_SCATTER[k]
            if won > self._peaks[k]:
                self._peaks[k] = peaks[k, 0, metric, arm] = won
