"""How far off a result is: in ranks, and in units of the scatter of those before it."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from statistics import NormalDist

DENSE = 4096
RUN = 64
"""In a longer stream, not every result is ranked: after 4,096 results every second run of 64, after 8,192 every fourth,
and so on. Which ones is fixed beforehand, so the ranks are what they would be in a shorter stream."""

_quantile = NormalDist().inv_cdf


def is_ranked(place: int) -> bool:
    """Whether the result at this place in its stream, from 0, is ranked.

    >>> [sum(map(is_ranked, range(start, 2 * start))) for start in (2048, 4096, 8192, 16384)]
    [2048, 2048, 2048, 2048]
    """
    return place < DENSE or (place // RUN) % (1 << (place // DENSE).bit_length()) == 0


class Ranks:
    """The results of a stream in the order of their size.

    Each new result gets a score: its place among all so far, as a number that is standard normal and independent of
    the scores before it, as long as results are exchangeable. (The rank of the n-th of exchangeable values is uniform
    on 1 … n and independent of how the earlier ones are ordered among themselves.) `luck`, uniform on [0, 1), decides
    between ties and makes the place continuous.
    """

    __slots__ = ("_sorted",)

    def __init__(self) -> None:
        self._sorted = array("d")

    def score(self, value: float, luck: float) -> float:
        below = bisect_left(self._sorted, value)
        after = bisect_right(self._sorted, value, below)
        place = (below + luck * (after - below + 1)) / (len(self._sorted) + 1)
        self._sorted.insert(after, value)
        return _quantile(min(max(place, 1e-15), 1.0 - 1e-15))


_USUAL = 3.0
"""The variance of all arms counts as much as this many results of the arm itself."""


class Scale:
    """The variance of a metric's results around the mean of their arm, as those before a result show it."""

    __slots__ = ("_arms", "_freedom", "_squares")

    def __init__(self) -> None:
        self._arms: dict[int, tuple[int, float, float]] = {}
        self._squares = 0.0
        self._freedom = 0

    def next(self, arm: int, x: float) -> tuple[float, float]:
        """The variance expected of an arm's next result x, or 0 if too little is known, and how far x lies above the
        mean of those before it, in units in which that has this variance."""
        n, mean, squares = self._arms.get(arm, (0, 0.0, 0.0))
        variance = off = 0.0
        if n:
            off = (x - mean) * math.sqrt(n / (n + 1.0))
            if self._freedom >= _USUAL:
                usual = self._squares / self._freedom
                variance = (squares + _USUAL * usual) / (n - 1.0 + _USUAL)
            self._squares += off * off
            self._freedom += 1
        self._arms[arm] = n + 1, mean + (x - mean) / (n + 1.0), squares + off * off
        return variance, off
