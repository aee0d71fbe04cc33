"""Metrics that do not vary: the first result settles them.

Evidence about c is beyond all doubt if the value lies on that side of c, and none otherwise. Here a value equal to c
lies above it: every threshold is taken as the next number above what the user states, so that "at most 3" allows 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import Generator
from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.noises.base import RELATIVE_ROUNDING, NoiseModel
from bestarm.noises.gaussian import scatter
from bestarm.noises.kernels import NoiseKernels
from bestarm.noises.streams import ABOVE, BELOW, Nature, Stream
from bestarm.validation import value

CERTAIN = 1e6
"""Log-evidence that no level exceeds."""


@kernel
def keep(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    if streams.counts[arm, metric] == 0:
        streams.kept[arm, metric, 0] = value


@kernel
def value_of(s: Stream) -> float:
    """The value: the first result. Later ones are the same, or the noise is not what was stated."""
    first: float = s.kept[s.arm, s.metric, 0]
    return first


@kernel
def evidence(s: Stream, side: int, c: float) -> float:
    value = value_of(s)
    # NaN and infinity say nothing.
    if not -math.inf < value < math.inf:
        return 0.0
    return CERTAIN if (value >= c) == (side == ABOVE) else 0.0


@kernel
def pair(high: Stream, low: Stream, margin: float) -> float:
    """Equal values are no reason to go on: then both arms are best."""
    return CERTAIN if -math.inf < value_of(low) <= value_of(high) + margin < math.inf else 0.0


@kernel
def scaled_pair(high: Stream, low: Stream, margin: float, factor: float) -> float:
    """Values that are equal but for rounding are equal."""
    product = factor * value_of(low)
    reach = value_of(high) + margin + RELATIVE_ROUNDING * abs(product)
    return CERTAIN if -math.inf < product <= reach < math.inf else 0.0


@kernel
def end(s: Stream, side: int, level: float) -> float:
    value = value_of(s)
    if s.n == 0 or not -math.inf < value < math.inf:
        return s.low if side == ABOVE else s.high
    return value


@kernel
def lead(ahead: Stream, behind: Stream, level: float, enough: float) -> float:
    return value_of(ahead) - value_of(behind)


@kernel
def radius(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    return 0.0


@kernel
def draw(nature: Nature, generator: Generator, arm: int, metric: int) -> float:
    mean: float = nature.mean[arm, metric]
    return mean


@value
class Exact(NoiseModel):
    """Every measurement of an arm gives the same number: file sizes, prices, counts.

    One test of each arm settles such a metric. "At most" and "at least" include the threshold itself.

    >>> Exact().sentence()
    'every measurement of an arm gives the same number'
    """

    name = "exact"
    label = "a number that never varies"
    about = "Every measurement of an arm gives the same number, such as a size or a price: one test settles it."
    place = 60
    kernels = NoiseKernels(
        evidence, None, scatter, draw, keep=keep, pair=pair, end=end, lead=lead, radius=radius, scaled_pair=scaled_pair
    )
    kept = 1
    is_exact = True
    is_quadratic = False
    is_family = False
    takes_spread = False

    @property
    def scale(self) -> float:
        # Far below any difference that matters. Bounds and plans divide by it.
        return 1e-20

    def sentence(self) -> str:
        return "every measurement of an arm gives the same number"

    def information(self, mean: float, c: Floats, spread: float | Mapping[str, float] | None) -> Floats:
        # One test tells everything.
        return np.full(len(c), math.inf)

    def limit(self, threshold: float) -> float:
        return math.nextafter(threshold, math.inf)

    def of_set(self, items: int, *, ties: int = BELOW) -> NoiseModel:
        return self

    def differences(self) -> NoiseModel:
        return self
