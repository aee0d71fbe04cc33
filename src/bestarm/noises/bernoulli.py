"""Observations that are 0 or 1: rates. Their evidence is that of any observations in [0, 1]."""

from __future__ import annotations

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import Generator, uniform
from bestarm.kernel.state import Floats
from bestarm.noises.base import Nature, NoiseModel
from bestarm.noises.bounded import Bounded
from bestarm.validation import is_boolean, value


@kernel
def draw(nature: Nature, generator: Generator, arm: int, metric: int) -> float:
    x = 1.0 if uniform(generator) < nature.mean[arm, metric] else 0.0
    gain: float = nature.gain[metric]
    shift: float = nature.shift[metric]
    return shift + gain * x


def _surprise(p: Floats, q: Floats) -> Floats:
    """p log(p / q) with 0 log 0 = 0; log1p keeps its digits when p is close to q."""
    logarithm = np.where(np.abs(p - q) < 0.5 * q, np.log1p((p - q) / q), np.log(p / q))
    return np.where(p > 0.0, p * logarithm, 0.0)


@value
class Bernoulli(NoiseModel):
    """Observations are 0 or 1; the mean is a rate."""

    name = "bernoulli"
    label = "yes or no (0 or 1)"
    about = "Each result is 0 or 1; the mean is a rate."
    kernels = Bounded.kernels._replace(draw=draw)
    is_whole = True
    is_quadratic = False

    @property
    def scale(self) -> float:
        return 0.5

    @property
    def range(self) -> tuple[float, float]:
        return (0.0, 1.0)

    def sentence(self) -> str:
        return "each measurement is 0 or 1"

    def read_value(self, value: object) -> object:
        # True and False are natural results of a yes-or-no test, and so are NumPy's.
        return float(bool(value)) if is_boolean(value) else value

    def accepted_values(self) -> str:
        return "must be 0 or 1"

    def value_hint(self) -> str:
        return "0 or 1"

    def divergence(self, p: Floats, q: Floats) -> Floats:
        return np.maximum(_surprise(p, q) + _surprise(1.0 - p, 1.0 - q), 0.0)
