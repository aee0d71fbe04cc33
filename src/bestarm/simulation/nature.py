"""The simulated world: draws measurements of any stream from its true distribution."""

from __future__ import annotations

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import ZIGGURAT, Generator
from bestarm.kernel.state import Batch, Floats, Ints, Setting, add_test, signed
from bestarm.noises.dispatch import draw
from bestarm.noises.registry import kind_of
from bestarm.noises.shapes import OWN, shape_of
from bestarm.noises.streams import Nature
from bestarm.problem import Problem


def new_nature(problem: Problem, reference: Floats | None = None) -> Nature:
    """The world in which `problem`'s means and spreads are true, with values relative to `reference` (in normal
    form)."""
    truth = problem.true_means()
    means = truth.copy()
    spreads = problem.true_spreads()
    signs = problem.signs
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
    sources = _sources(problem)
    # In the user's terms, parts with the same metric have the same value.
    turns = signs * signs[sources]
    offsets = np.tile(turns * reference[sources] - reference, (len(truth), 1))
    return Nature(kinds, means, shifts, gains, shapes, figures, sources, turns, offsets, ZIGGURAT)


def _sources(problem: Problem) -> Ints:
    """By part: the first part with the same metric, if its value is that of this part, too. Quantiles and
    ratios are drawn by themselves: only the share beyond the threshold is known, or only the noise of both together."""
    first: dict[str, int] = {}
    sources = []
    for place, part in enumerate(problem.parts):
        sources.append(place if part.is_derived else first.setdefault(part.metric, place))
    return np.array(sources)


@kernel
def draw_part(nature: Nature, generator: Generator, arm: int, part: int, drawn: float) -> float:
    """Measure a part of a bundle once; `drawn` is what was last drawn for a part that is its own source."""
    if nature.source[part] == part:
        return draw(nature, generator, arm, part)
    value: float = nature.offset[arm, part] + nature.turn[part] * drawn
    return value


@kernel
def draw_batch(
    setting: Setting, nature: Nature, generator: Generator, batch: Batch, size: int, rows: Batch, values: Floats
) -> int:
    """Make the first `size` tests of a batch, in order. Fills `rows` (arm, metric) and `values` with their results;
    returns how many there are."""
    count = 0
    for k in range(size):
        arm = signed(batch[k, 0])
        part = signed(batch[k, 1])
        drawn = 0.0
        while part >= 0:
            value = draw_part(nature, generator, arm, part, drawn)
            if nature.source[part] == part:
                drawn = value
            values[count] = value
            count = add_test(rows, count, arm, part)
            part = setting.following[part]
    return count
