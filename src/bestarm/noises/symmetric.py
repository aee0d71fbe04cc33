"""Observations that scatter as far up as down around their mean, by an unknown amount.

Their evidence is self-normalized (`bestarm.noises.self_normalized`), and two streams are compared cell by cell
(`bestarm.noises.cells`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.noises.base import NoiseModel, OnItems
from bestarm.noises.cells import by_cells, by_scaled_cells
from bestarm.noises.gaussian import draw
from bestarm.noises.kernels import NoiseKernels, radius_from
from bestarm.noises.self_normalized import ALL_FREEDOM, ALL_SQUARES, KEPT, SQUARES, end, evidence, keep, lead_by_steps
from bestarm.noises.shapes import is_normal, plain
from bestarm.noises.streams import BELOW
from bestarm.validation import value

_USUAL = 3.0
"""The scatter of all arms counts as much for planning as this many results of the arm itself."""


@kernel
def scatter(setting: Setting, streams: Streams, arm: int, metric: int, mean: float) -> float:
    free = streams.kept[0, metric, ALL_FREEDOM]
    if free == 0.0 or streams.kept[0, metric, ALL_SQUARES] == 0.0:
        width: float = setting.width[metric]
        return width
    own = max(streams.counts[arm, metric] - 1.0, 0.0)
    usual = streams.kept[0, metric, ALL_SQUARES] / free
    spread: float = math.sqrt((streams.kept[arm, metric, SQUARES] + _USUAL * usual) / (own + _USUAL))
    return spread


@value
class Symmetric(NoiseModel):
    """Observations scatter as far up as down around their mean; by how much is learned from them.

    >>> Symmetric().sentence()
    'scatters as far up as down around its mean, by an unknown amount'
    """

    name = "symmetric"
    label = "a number, with unknown scatter"
    about = "Results scatter as far up as down around their mean; you need not know how much."
    place = 10
    kernels = NoiseKernels(
        evidence,
        None,
        scatter,
        draw,
        keep=keep,
        pair=by_cells,
        end=end,
        lead=lead_by_steps,
        radius=radius_from(end),
        scaled_pair=by_scaled_cells,
    )
    kept = KEPT
    is_quadratic = False
    is_family = False
    is_symmetric = True
    learns_scatter = True
    needs_spread = True

    def information(self, mean: float, c: Floats, spread: float | Mapping[str, float] | None) -> Floats:
        """That of normal results of unknown variance. In which other ways results may scatter makes it no larger, so
        lower bounds hold for them, too. Nothing is known about results that are not normal."""
        if spread is None or not is_normal(spread) or plain(spread) == 0.0:
            return np.full(len(c), math.nan)
        return 0.5 * np.log1p(np.square((c - mean) / plain(spread)))

    def sentence(self) -> str:
        return "scatters as far up as down around its mean, by an unknown amount"

    def of_set(self, items: int, *, ties: int = BELOW) -> NoiseModel:
        return OnItems.symmetric_set(items, ties)
