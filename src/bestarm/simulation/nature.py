"""The simulated world: draws measurements of any stream from its true distribution."""

from __future__ import annotations

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import ZIGGURAT, Generator
from bestarm.kernel.state import Batch, Floats
from bestarm.noises.base import Nature
from bestarm.noises.dispatch import draw
from bestarm.noises.registry import kind_of
from bestarm.problem import Problem


def new_nature(problem: Problem, reference: Floats | None = None) -> Nature:
    """The world in which `problem`'s means are true, with values relative to `reference` (in normal form)."""
    means = problem.true_means()
    signs = problem.normal_form().sign
    reference = np.zeros(len(signs)) if reference is None else reference
    shifts, gains = np.zeros(len(signs)), np.zeros(len(signs))
    for metric, noise in enumerate(problem.noises):
        world = noise.nature(means[:, metric], float(signs[metric]), float(reference[metric]))
        means[:, metric], shifts[metric], gains[metric] = world
    kinds = np.array([kind_of(type(noise)) for noise in problem.noises])
    return Nature(kinds, means, shifts, gains, ZIGGURAT)


@kernel
def draw_batch(nature: Nature, generator: Generator, batch: Batch, size: int, values: Floats) -> None:
    """Measure the first `size` tests of a batch, in order."""
    for k in range(size):
        values[k] = draw(nature, generator, batch[k, 0], batch[k, 1])
