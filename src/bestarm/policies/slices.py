"""Where the items of each slice stand in the order of all items, as the engines and the study look it up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bestarm.kernel.state import ABSENT, Ints, Setting, Slices
from bestarm.problem import Problem


def slices_of(problem: Problem, order: Ints | Sequence[int]) -> Slices:
    """The slices of a problem whose items come in this order, by number; `ABSENT` without slices.

    A slice's items come in the order in which they stand among all: if that is random, so is the order of the slice.
    """
    if problem.inside is None:
        absent: Slices = ABSENT
        return absent
    inside = np.ascontiguousarray(problem.inside[:, order])
    sizes = inside.sum(axis=1)
    ranks = np.where(inside, np.cumsum(inside, axis=1) - 1, -1)
    places = np.zeros((len(inside), int(sizes.max())), np.int64)
    for part, row in enumerate(inside):
        places[part, : sizes[part]] = np.flatnonzero(row)
    return Slices(sizes, places, ranks)


def in_order(setting: Setting, slices: Slices) -> Setting:
    """The same setting, with the items of its slices in this order."""
    return setting if slices == ABSENT else setting._replace(items=setting.items._replace(slices=slices))


def shuffled(problem: Problem, seed: int, run: int) -> Slices:
    """The slices of a simulated run, whose items come in a random order."""
    count = 0 if problem.inside is None else problem.inside.shape[1]
    return slices_of(problem, np.random.default_rng((seed, run)).permutation(count))
