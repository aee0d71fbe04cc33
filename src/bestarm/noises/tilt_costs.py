"""What a mixture of tilts costs, at least: close ceilings of the evidence about rates are read from a table.

With m the observed mean of n results and p_k the rate c under tilt k, the term of tilt k is n (kl(m, c) - kl(m, p_k)).
So the log-evidence falls short of D = n kl(m, c) by

    cost = -log(sum over k of w_k exp(-D r_k)),   r_k = kl(m, p_k) / kl(m, c) >= 0.

Let L be the tilt that turns c into m, and B(t) = p (1 - p) at tilt t, so that kl(m, p_k) is the integral of
|t - tilt k| B(t) between tilt k and L, and kl(m, c) that of t B(t) from 0 to L. B falls no faster than e^-t, so
exp(t) B(t) rises, and every r_k is at least what it would be with exp(-t) in place of B. That is the limit c -> 1,
where only L is free.

There, r_k falls as L rises up to tilt k, and rises from there on. So in a cell of L that no tilt divides, each r_k is
least at one of the cell's ends, and the cost is at least what follows from the lesser ones. As a function of D that is
concave and rises: between two knots it lies above the straight line, and after the last one above the last value.

In a pair, the bets k and j weigh a_k a_j LIKENESS^|k - j|. By the inequality of Cauchy and Schwarz their sum is at most

    (1 + LIKENESS) / (1 - LIKENESS) sqrt(sum of a_k² exp(-2 D r_k)) sqrt(sum of a_j² exp(-2 D' r'_j)),

so half of what each stream alone would cost with twice the evidence is a bound, but for a constant.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from bestarm.kernel.compile import kernel, large
from bestarm.kernel.elementary import exp, log
from bestarm.kernel.state import Floats
from bestarm.noises.bets import BETS, LIKENESS, PAIRED_SHARES, PAIRS, RATIO, TILT
from bestarm.noises.mixture import ROUNDING
from bestarm.noises.streams import TUNING

_PER_TILT = 8
_CELLS = _PER_TILT * (BETS - 1)
"""From the least tilt to the largest. Before and after these there is one more."""
_KNOT = 4.0
_KNOTS = 9
_PER_LOG = _PER_TILT / math.log(RATIO)
_LEAST_LOG = math.log(TILT[0])

ALONE = TUNING + BETS
"""Where a metric's `numbers` have the costs of its own mixture; those of the pairs' come after them."""
_TABLE = (_CELLS + 2) * _KNOTS
PAIRED = ALONE + _TABLE
_END = PAIRED + _TABLE

_LIKENESS_COST = math.log(PAIRS * (1.0 - LIKENESS) / (1.0 + LIKENESS))


def _shortfalls(best: Floats) -> Floats:
    """[L, k]: r_k in the limit c -> 1."""
    tilts, best = np.array(TILT), best[:, np.newaxis]
    gain = 1.0 - exp(-tilts) - tilts * exp(-best)
    most = 1.0 - exp(-best) - best * exp(-best)
    shortfalls: Floats = np.maximum(1.0 - gain / most, 0.0)
    return shortfalls


@functools.cache
def _costs_of(weights: tuple[float, ...]) -> tuple[float, ...]:
    """[cell, knot]: the least cost of a mixture with these weights, in one row."""
    ends = _shortfalls(TILT[0] * exp(np.arange(_CELLS + 1) / _PER_LOG))
    least = np.concatenate([ends[:1], np.minimum(ends[:-1], ends[1:]), ends[-1:]])
    knots = _KNOT * np.arange(_KNOTS)
    sums = (np.array(weights) * exp(-knots[:, np.newaxis] * least[:, np.newaxis, :])).sum(axis=2)
    # A mean on the edge of two cells may be put into the wrong one by rounding.
    return tuple((-log(sums) - ROUNDING).ravel().tolist())


@functools.cache
def tuning_of(log_weights: tuple[float, ...]) -> tuple[float, ...]:
    """What kernels of rates read of a metric's `numbers`, from `TUNING` on: the logs of its tilts' weights, what these
    cost alone, and what a pair's do."""
    return (*log_weights, *_costs_of(tuple(map(math.exp, log_weights))), *_costs_of(PAIRED_SHARES))


@kernel
def has_tables(numbers: Floats) -> bool:
    """Whether there are tables: a noise that borrows the kernels of rates may state its weights alone."""
    return bool(numbers.shape[1] >= _END)


@large
@kernel
def divergence_and_cell(n: int, total: float, c: float) -> tuple[float, int]:
    """D, and the cell of L in the table. The mean must lie above c, and c inside (0, 1)."""
    mean = total / n
    gained = math.log(mean / c)
    if mean >= 1.0:
        return n * gained, _CELLS + 1
    lost = math.log((1.0 - mean) / (1.0 - c))
    tilt = gained - lost
    divergence = n * (mean * gained + (1.0 - mean) * lost)
    if not tilt > TILT[0]:
        return divergence, 0
    return divergence, 1 + min(int((math.log(tilt) - _LEAST_LOG) * _PER_LOG), _CELLS)


@kernel
def least_cost(numbers: Floats, metric: int, table: int, cell: int, divergence: float) -> float:
    """What a mixture costs at least, by the table that begins at `table`."""
    place = min(divergence * (1.0 / _KNOT), _KNOTS - 1.0)
    knot = min(int(place), _KNOTS - 2)
    first = table + cell * _KNOTS + knot
    before: float = numbers[metric, first]
    after: float = numbers[metric, first + 1]
    return before + (place - knot) * (after - before)


@kernel
def least_cost_alone(n: int, total: float, c: float, numbers: Floats, metric: int) -> tuple[float, float]:
    """D, and what the mixture of one stream costs at least."""
    divergence, cell = divergence_and_cell(n, total, c)
    return divergence, least_cost(numbers, metric, ALONE, cell, divergence)


@kernel
def half_in_a_pair(n: int, total: float, c: float, numbers: Floats, metric: int) -> tuple[float, float]:
    """D, and a stream's half of what the mixture of a pair costs at least; nothing if its mean lies below c."""
    if not total > n * c:
        return 0.0, 0.5 * _LIKENESS_COST
    divergence, cell = divergence_and_cell(n, total, c)
    return divergence, 0.5 * (least_cost(numbers, metric, PAIRED, cell, 2.0 * divergence) + _LIKENESS_COST)
