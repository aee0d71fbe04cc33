"""How many pairs of runs it takes to tell two commands apart, in continuations that are drawn.

The evidence is that which decides, `bestarm.noises.self_normalized`, at the mean 0: how far ahead one command has been
so far is known exactly, and what is still to come is drawn from a normal distribution. Runs that scatter otherwise end
a little sooner or later.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bestarm.noises.mixture import RHO
from bestarm.noises.self_normalized import LOG_2, LOG_FLAT, LOG_SN, SKIPPED

Floats = npt.NDArray[np.float64]

CONTINUATIONS = 200
LEAST_PAIRS = 6
_LEAST_LEAD = 1.0
"""Before so many pairs of runs, or with a lead of less than so many of its own standard errors, nothing is foreseen."""
_MOST = 1e5
_STEP = 1.06
"""Evidence is looked at after numbers of pairs that grow by this factor."""


def pairs_in_all(leads: Sequence[float], level: float, rng: np.random.Generator) -> Floats:
    """After how many pairs one of two commands is certain to be ahead, in each of many continuations; infinite where
    that does not end, or where it is too early to tell. `leads` is by how much one was ahead in each pair so far.

    The true lead is known only as well as so many pairs tell. So each continuation has one of its own, around the one
    that was measured.
    """
    n = len(leads)
    found = np.full(CONTINUATIONS, math.inf)
    mean, scatter = (statistics.fmean(leads), statistics.stdev(leads)) if n >= LEAST_PAIRS else (0.0, 0.0)
    if not mean * math.sqrt(n) > _LEAST_LEAD * scatter:
        return found
    enough_signs = (level - LOG_FLAT) / LOG_2
    if not scatter:
        return np.full(CONTINUATIONS, max(n + 1.0, math.ceil(enough_signs)))
    so_far = _so_far([lead / scatter for lead in leads])
    squares, total, deviations, weights = (np.full(CONTINUATIONS, one) for one in so_far)
    lead = mean / scatter
    true = lead + math.sqrt((1.0 + 0.5 * lead * lead) / n) * rng.standard_normal(CONTINUATIONS)
    is_ahead = np.full(CONTINUATIONS, min(leads) > 0.0)
    while n < _MOST and np.isinf(found).any():
        step = max(round((_STEP - 1.0) * n), 1)
        ww = (n - 1.0) / (squares * (1.0 + 2.0 / n))
        added = step * true + math.sqrt(step) * rng.standard_normal(CONTINUATIONS)
        around = rng.chisquare(step - 1, CONTINUATIONS) if step > 1 else 0.0
        deviations, weights = deviations + np.sqrt(ww) * added, weights + ww * (around + added * added / step)
        squares = squares + around + (added / step - total / n) ** 2 * n * step / (n + step)
        total, n = total + added, n + step
        root = np.sqrt(weights + RHO)
        y = np.abs(deviations) / root
        # The logarithm of Phi(y) is as close as it need be here.
        log_sn = 0.5 * np.log(4.0 * RHO) - np.log(root) + 0.5 * y * y - np.log1p(np.exp(-1.702 * y))
        # As long as no run of the leader was the slower one, bets on signs win.
        is_ahead &= (added > 0.0) & (step == 1)
        is_over = (np.logaddexp(LOG_SN + log_sn, LOG_FLAT) >= level) | (is_ahead & (n >= enough_signs))
        found[is_over & np.isinf(found)] = n
    return found


def _so_far(leads: Sequence[float]) -> tuple[float, float, float, float]:
    """The squares around the mean, the total, and the sums of the weighted leads and of their squares."""
    squares = total = deviations = weights = 0.0
    for n, lead in enumerate(leads):
        if n >= SKIPPED and squares > 0.0:
            ww = (n - 1.0) / (squares * (1.0 + 2.0 / n))
            deviations += math.sqrt(ww) * lead
            weights += ww * lead * lead
        squares += (lead - total / n) ** 2 * n / (n + 1.0) if n else 0.0
        total += lead
    return squares, total, deviations, weights
