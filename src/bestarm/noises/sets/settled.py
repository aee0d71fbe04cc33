"""What all noises of sets have in common: after the last item the mean over the set is known.

A mean that equals c, or differs from it by no more than rounding, lies on the side `ties` of c: by default below, so
that "at most 0.2" allows 0.2 and, mirrored, "at least 0.8" allows 0.8.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import Generator
from bestarm.kernel.state import ROUNDING, Streams
from bestarm.noises.base import NoiseModel
from bestarm.noises.streams import ABOVE, Law, Nature, Stream

ITEMS, TIES, OFFSET = 0, 1, 2
"""The numbers of a law: how many items the set has, on which side of c a mean lies that equals it, and how large the
reference is, which was subtracted from every value."""


@kernel
def items_of(s: Stream) -> float:
    items: float = s.numbers[s.metric, ITEMS]
    return items


@kernel
def is_settled(s: Stream) -> bool:
    return s.n >= items_of(s)


@kernel
def keep_rounding(streams: Streams, arm: int, metric: int, place: int, value: float) -> None:
    """Keep the sum of all numbers whose rounding adds up to that of the stream's sum."""
    streams.kept[arm, metric, place] += 2.0 * abs(value) + abs(streams.sums[arm, metric] + value)


@kernel
def is_certain(s: Stream, side: int, c: float, total: float, rounded: float) -> bool:
    """Whether the mean lies on this side of c, if the values of the set add up to `total`, or to more of what speaks
    for that side. `rounded` is the sum of the numbers whose rounding that sum has."""
    items = items_of(s)
    uncertain = 2.0 * ROUNDING * (rounded + 2.0 * items * (abs(c) + s.numbers[s.metric, OFFSET]))
    excess = side * (total - items * c)
    # NaN and infinity say nothing.
    if not (-math.inf < excess < math.inf and uncertain < math.inf):
        return False
    ties: float = s.numbers[s.metric, TIES]
    return excess > uncertain or (excess >= -uncertain and ties == side)


@kernel
def settled_mean(s: Stream, side: int) -> float:
    """Where both ends of the interval meet once all items are done."""
    mean = s.total / s.n
    if -math.inf < mean < math.inf:
        return mean
    return s.low if side == ABOVE else s.high


@kernel
def no_pair(high: Stream, low: Stream, margin: float) -> float:
    """Streams of one random order depend on each other: no products. Arms are compared by differences."""
    return -math.inf


@kernel
def no_draw(nature: Nature, generator: Generator, arm: int, metric: int) -> float:
    """Simulated worlds draw from the noise that was stated."""
    return math.nan


class SetNoise(NoiseModel):
    """A noise of a set of `items`."""

    items: int
    ties: int

    def law(self, sign: float, reference: float) -> Law:
        law = super().law(sign, reference)
        return law._replace(numbers=(float(self.items), float(self.ties), abs(reference)))
