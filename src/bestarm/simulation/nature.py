"""The simulated world: draws a measurement of any stream from its true distribution."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import ZIGGURAT, Generator, Ziggurat, normal, uniform
from bestarm.kernel.state import Batch, Floats, Ints
from bestarm.noises import Bernoulli, Gaussian
from bestarm.problem import Problem

GAUSSIAN = 0
BERNOULLI = 1
BOUNDED = 2


class Nature(NamedTuple):
    """True distributions in normal form, relative to the setting's `reference`. Entries are by metric, but `mean` is
    [arm, metric]."""

    kind: Ints
    mean: Floats
    """Gaussian: the mean itself. Otherwise where in its range it lies, from 0 to 1."""
    shift: Floats
    gain: Floats
    """A draw x from the standard range stands for the value shift + gain * x."""
    ziggurat: Ziggurat


def new_nature(problem: Problem, reference: Floats | None = None) -> Nature:
    """The world in which `problem`'s means are true, with values relative to `reference` (in normal form)."""
    means = problem.true_means()
    signs = problem.normal_form().sign
    reference = np.zeros(len(signs)) if reference is None else reference
    kinds, shifts, gains = [], [], []
    for metric, (noise, sign) in enumerate(zip(problem.noises, signs, strict=True)):
        if isinstance(noise, Gaussian):
            kinds.append(GAUSSIAN)
            shifts.append(0.0)
            gains.append(noise.sigma)
            means[:, metric] = sign * means[:, metric] - reference[metric]
        else:
            low, high = noise.range
            kinds.append(BERNOULLI if isinstance(noise, Bernoulli) else BOUNDED)
            shifts.append(sign * low - reference[metric])
            gains.append(sign * (high - low))
            means[:, metric] = (means[:, metric] - low) / (high - low)
    return Nature(np.array(kinds), means, np.array(shifts), np.array(gains), ZIGGURAT)


@kernel
def power_draw(generator: Generator, mean: float) -> float:
    """A draw from [0, 1] with the given mean: Beta(1, b), or its mirror image where the mean is above one half."""
    if mean <= 0.5:
        return 1.0 - math.pow(uniform(generator), mean / (1.0 - mean))
    return math.pow(uniform(generator), (1.0 - mean) / mean)


@kernel
def draw(nature: Nature, generator: Generator, arm: int, metric: int) -> float:
    """Measure a stream once."""
    mean: float = nature.mean[arm, metric]
    gain: float = nature.gain[metric]
    shift: float = nature.shift[metric]
    if nature.kind[metric] == GAUSSIAN:
        return mean + gain * normal(generator, nature.ziggurat)
    if nature.kind[metric] == BERNOULLI:
        x = 1.0 if uniform(generator) < mean else 0.0
    else:
        x = power_draw(generator, mean)
    return shift + gain * x


@kernel
def draw_batch(nature: Nature, generator: Generator, batch: Batch, size: int, values: Floats) -> None:
    """Measure the first `size` tests of a batch, in order."""
    for k in range(size):
        values[k] = draw(nature, generator, batch[k, 0], batch[k, 1])
