"""Numbers whose law is known if results are as assumed: scores of ranks, and the skewness of blocks."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from statistics import NormalDist

DENSE = 4096
RUN = 64
"""Of a longer stream not every result is ranked: after 4,096 results every second run of 64, after 8,192 every fourth,
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


def skewness(values: Sequence[float]) -> float:
    """The third moment in units of the second; 0 if all values are equal.

    Results that scatter symmetrically around one center, wherever it is, have a skewness that is symmetric around 0.

    >>> skewness([1.0, 2.0, 3.0]), round(skewness([0.0, 0.0, 0.0, 4.0]), 3)
    (0.0, 1.155)
    """
    # Relative to one of them, so that rounding cannot make equal values differ from their mean.
    relative = [value - values[0] for value in values]
    mean = sum(relative) / len(values)
    deviations = [value - mean for value in relative]
    largest = max(map(abs, deviations))
    if largest == 0.0:
        return 0.0
    second = sum((off / largest) ** 2 for off in deviations) / len(values)
    third = sum((off / largest) ** 3 for off in deviations) / len(values)
    return third / (second * math.sqrt(second))
