"""What arms give on the items of each slice, where means are stated: in simulated worlds they are true together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from bestarm.problem.parts import Constraint, Objective
from bestarm.problem.slices import Cells, Means

Parts = Sequence[Objective | Constraint]


def _families(parts: Parts) -> list[list[int]]:
    """The parts by metric: those of a family have the same value of a test. Quantiles and ratios are on their own."""
    found: dict[object, list[int]] = {}
    for k, part in enumerate(parts):
        found.setdefault(k if part.is_derived else part.metric, []).append(k)
    return [*found.values()]


def is_rate(part: Objective | Constraint) -> bool:
    """Whether its mean over a set of items is a whole number of them."""
    return part.noise.is_whole or part.noise.is_share


def cell_means(
    cells: Cells, parts: Parts, given: Sequence[Collection[str]], labels: Sequence[str], means: Means
) -> Means:
    """[arm, part, cell]: what arms give on the items of each cell, so that their means are these, as far as they can be
    true together. By arm, `given` are the `labels` of the parts whose means are stated. Means of slices that are not
    stated follow from the others."""
    found = np.zeros((*means.shape, len(cells.sizes)))
    for arm, stated in enumerate(given):
        for family in _families(parts):
            first = parts[family[0]]
            known = [k for k in family if k == family[0] or not _is_of_slice(parts[k]) or labels[k] in stated]
            row = cells.means(known, means[arm, known].tolist(), first.noise.range, is_rate=is_rate(first))
            found[arm, family] = row
    return found


def _is_of_slice(part: Objective | Constraint) -> bool:
    return isinstance(part, Constraint) and part.where is not None


def reconciled(cells: Cells, by_cell: Means) -> Means:
    """[arm, part]: the means over all items that count for a part, from those by cell."""
    rows = [[cells.mean_of(part, row) for part, row in enumerate(of_arm)] for of_arm in by_cell]
    return np.array(rows)
