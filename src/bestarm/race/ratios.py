"""The ratio of two commands' means, with an interval that is valid at any time, from the evidence that decides a gate.

The true ratio r of the means of X and B is the one at which X - r B has the mean 0. So every r is excluded at which the
evidence against that mean has reached its level: Proposition R.4 in `docs/certificates/races.md`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bestarm.noises.self_normalized import (
    FIRST,
    KEPT,
    LEAST,
    LEAST_SQUARES,
    MOST,
    SKIPPED,
    TOTAL,
    WEIGHT,
    WW,
    WWX,
    WWXX,
    WX,
    end,
    evidence,
)
from bestarm.noises.streams import ABOVE, BELOW, Stream

_CLOSE = 1e-3
"""Before the last run, an end is not computed anew if it moves by less than this share of its distance from the ratio
that was measured."""


class Interval(NamedTuple):
    """Between what a ratio lies. Infinite: there is no limit yet."""

    low: float
    high: float


def ratio_interval(
    candidate: Sequence[float], baseline: Sequence[float], factor: float, log_low: float, log_high: float
) -> Interval | None:
    """Between what the ratio of the candidate's mean to the baseline's lies, by values of runs at the same places of
    the order. None if a value is negative: then a ratio says little.

    The lower end is below the ratio at all times at once with probability 1 - exp(-log_low), the upper end above it
    with 1 - exp(-log_high). Runs have the weights that they have in the gate with the limit `factor`. None, too, if the
    two ends contradict each other.

    >>> ratio_interval([1.1] * 30, [1.0] * 30, 1.05, 3.0, 3.0)
    Interval(low=1.1, high=1.1)
    """
    if min(itertools.chain(candidate, baseline), default=0.0) < 0.0:
        return None
    kept = np.zeros((1, 1, KEPT))
    sums = kept[0, 0]
    first = candidate[0] / baseline[0] if len(candidate) and len(baseline) and baseline[0] > 0.0 else 0.0
    sums[FIRST], sums[LEAST], sums[MOST] = first, math.inf, -math.inf
    low, high = 0.0, math.inf
    mean = squares = candidates = baselines = 0.0
    for n, (x, b) in enumerate(zip(candidate, baseline, strict=False)):
        if n >= SKIPPED and squares > LEAST_SQUARES:
            ww = (n - 1.0) / (squares * (1.0 + 2.0 / n))
            w, d = math.sqrt(ww), x - first * b
            # With X - r B in place of X - c, what was summed up for each 1 is for B.
            sums[[WEIGHT, WX, WW, WWX, WWXX]] += w * b, w * d, ww * b * b, ww * d * b, ww * d * d
        contrast = x - factor * b
        away = contrast - mean
        mean += away / (n + 1.0)
        squares += away * (contrast - mean)
        # Below all of these r, X - r B is positive, and above all of those it is negative.
        sums[LEAST] = min(sums[LEAST], (x / b if b > 0.0 else math.inf if x > 0.0 else -math.inf) - first)
        sums[MOST] = max(sums[MOST], (x / b if b > 0.0 else math.inf) - first)
        candidates, baselines = candidates + x, baselines + b
        if not baselines > 0.0:
            continue
        measured, is_last = candidates / baselines, n + 1 == min(len(candidate), len(baseline))
        sums[TOTAL] = (n + 1.0) * (measured - first)
        stream = Stream(0, 0.0, math.inf, 1.0, 1.0, n + 1, 0.0, 0, 0, kept[0], kept, sums)
        # Each end holds at all times at once, so the narrowest counts.
        if is_last or low == 0.0 or evidence(stream, ABOVE, low + _CLOSE * (measured - low)) >= log_low:
            low = max(low, float(end(stream, ABOVE, log_low)))
        if is_last or math.isinf(high) or evidence(stream, BELOW, high + _CLOSE * (measured - high)) >= log_high:
            high = min(high, float(end(stream, BELOW, log_high)))
    return Interval(low, high) if low <= high else None
