"""A noise of another package, from three kernels: counts of events. It has no sub-Gaussian scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bestarm.extend import NoiseModel, kernel, kernels_from, uniform, value

RATIOS = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Bets are that the rate is larger, or smaller, than c by these shares of it."""


@kernel
def evidence(s: Any, side: int, c: float) -> float:
    """A mixture of likelihood ratios. The logarithm of each is linear in c, so that of the mixture is convex."""
    is_reversed = s.low == -math.inf
    total = -s.total if is_reversed else s.total
    rate = max(-c if is_reversed else c, 0.0)
    direction = -side if is_reversed else side
    largest = -math.inf
    for k in range(len(RATIOS)):
        share = direction * RATIOS[k]
        largest = max(largest, total * math.log1p(share) - s.n * rate * share)
    mixture = 0.0
    for k in range(len(RATIOS)):
        share = direction * RATIOS[k]
        mixture += math.exp(total * math.log1p(share) - s.n * rate * share - largest)
    return largest + math.log(mixture / len(RATIOS))


@kernel
def scatter(setting: Any, streams: Any, arm: int, metric: int, mean: float) -> float:
    return math.sqrt(max(abs(mean), 0.01))


@kernel
def draw(nature: Any, generator: Any, arm: int, metric: int) -> float:
    """Events until the time between them, which is exponential, exceeds 1 in all."""
    limit = math.exp(-nature.mean[arm, metric])
    product = uniform(generator)
    events = 0.0
    while product > limit:
        product *= uniform(generator)
        events += 1.0
    return float(nature.shift[metric] + nature.gain[metric] * events)


@value
class Poisson(NoiseModel):
    """Observations are numbers of events."""

    name = "poisson"
    label = "numbers of events"
    about = "Each result is how many independent events there were."
    kernels = kernels_from(evidence, scatter, draw)
    is_whole = True
    is_quadratic = False

    @property
    def range(self) -> tuple[float, float]:
        return (0.0, math.inf)

    def sentence(self) -> str:
        return "each measurement is a number of independent events"

    def reference(self, sign: float, landmark: float) -> float:
        return 0.0

    def divergence(self, p: Any, q: Any) -> Any:
        return q - p + p * np.log(p / q)


@value
class FalsePoisson(Poisson):
    """The same with a scale that it does not have."""

    name = "false-poisson"

    @property
    def scale(self) -> float:
        return 1.0
