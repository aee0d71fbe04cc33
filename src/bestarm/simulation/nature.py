"""The simulated world: draws measurements of any stream from its true distribution."""

from __future__ import annotations

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import ZIGGURAT, Generator
from bestarm.kernel.state import Batch, Floats
from bestarm.noises.base import Nature
from bestarm.noises.dispatch import draw
from bestarm.noises.registry import kind_of
from bestarm.noises.shapes import OWN, shape_of
from bestarm.problem import Problem


def new_nature(problem: Problem, reference: Floats | None = None) -> Nature:
    """The world in which `problem`'s means and spreads are true, with values relative to `reference` (in normal
    form)."""
    truth = problem.true_means()
    means = truth.copy()
    spreads = problem.true_spreads()
    signs = problem.normal_form().sign
    reference = np.zeros(len(signs)) if reference is None else reference
    shifts, gains = np.zeros(len(signs)), np.zeros(len(signs))
    shapes, figures = np.full(means.shape, OWN), np.zeros((*means.shape, 6))
    for metric, part in enumerate(problem.parts):
        sign, relative_to = float(signs[metric]), float(reference[metric])
        world = part.noise.nature(truth[:, metric], sign, relative_to)
        means[:, metric], shifts[metric], gains[metric] = world
        for arm, spread in enumerate(spreads[metric]):
            if spread is not None:
                shape = shape_of(spread, float(truth[arm, metric]), part.noise.range, sign, relative_to)
                ends = sorted(sign * end - relative_to for end in part.noise.value_range)
                shapes[arm, metric], figures[arm, metric] = shape.kind, (*shape[1:], *ends)
    kinds = np.array([kind_of(type(noise)) for noise in problem.noises])
    return Nature(kinds, means, shifts, gains, shapes, figures, ZIGGURAT)


@kernel
def draw_batch(nature: Nature, generator: Generator, batch: Batch, size: int, values: Floats) -> None:
    """Measure the first `size` tests of a batch, in order."""
    for k in range(size):
        values[k] = draw(nature, generator, batch[k, 0], batch[k, 1])
