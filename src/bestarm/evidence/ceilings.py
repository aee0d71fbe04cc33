"""Ceilings: at least the evidence, close to it, and cheap, since they take no logarithm.

Evidence is wanted after every test and suffices after few, so it is computed only when its ceiling suffices. No answer
depends on how close a ceiling is.
"""

from __future__ import annotations

import math

import numpy as np

from bestarm.evidence.bounded import bounded_ceiling
from bestarm.evidence.combine import LOG_BOTH, LOG_INFEASIBLE, LOG_WORSE
from bestarm.evidence.gaussian import RHO
from bestarm.evidence.streams import BOUNDED, GAUSSIAN, inside, mirrored
from bestarm.kernel.compile import kernel, large
from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.kernel.tables import slot, tabulate

ROUNDING = 1e-9
"""What keeps a ceiling from falling below what it bounds for rounding alone."""

_SHARE = 1e-13
"""The same for evidence so large that its own rounding exceeds `ROUNDING`: a share of it."""

_LOG_2 = math.log(2.0)

_FAR = 30.0
"""Of two logarithms that lie so far apart the smaller adds less than `ROUNDING`."""


def mixture_table() -> Floats:
    """[slot]: log(2 sqrt(RHO / (n + RHO))), what the Gaussian mixture costs, and 1 / (2 (n + RHO)), rounded up."""
    cost = tabulate(lambda n: 0.5 * np.log(4.0 * RHO / (n + RHO)) + ROUNDING)
    return np.ascontiguousarray(np.stack([cost, tabulate(lambda n: (0.5 + _SHARE) / (n + RHO))], axis=1))


@kernel
def gaussian_ceiling(setting: Setting, n: int, deviation: float) -> float:
    """Of the evidence that a mean is above c, from n deviations from c that add up to `deviation` sigmas."""
    place = slot(n)
    cost: float = setting.mixture[place, 0]
    if deviation <= 0.0:
        return cost - _LOG_2
    # Phi, which is at most 1, is left out.
    gain: float = deviation * deviation * setting.mixture[place, 1]
    return cost + gain


@large
@kernel
def _bounded_ceiling(low: float, width: float, n: int, total: float, c: float) -> float:
    return bounded_ceiling(n, (total - n * low) / width, inside((c - low) / width))


@kernel
def ceiling_above(setting: Setting, metric: int, n: int, total: float, c: float) -> float:
    """Of the evidence that the mean of a stream of `metric` lies above c."""
    if setting.kind[metric] == GAUSSIAN:
        return gaussian_ceiling(setting, n, (total - n * c) * setting.inverse_sigma[metric])
    return _bounded_ceiling(setting.low[metric], setting.width[metric], n, total, c)


@kernel
def ceiling_below(setting: Setting, metric: int, n: int, total: float, c: float) -> float:
    """Of the evidence that the mean of a stream of `metric` lies below c."""
    if setting.kind[metric] == GAUSSIAN:
        return gaussian_ceiling(setting, n, (n * c - total) * setting.inverse_sigma[metric])
    low = mirrored(setting.kind[metric], setting.low[metric], setting.width[metric])
    return _bounded_ceiling(low, setting.width[metric], n, -total, -c)


@kernel
def add_logs_ceiling(a: float, b: float) -> float:
    """Of log(e^a + e^b), at most 0.007 above it."""
    if a == b:
        # Among them two equal infinities, whose difference is not a number.
        return a + (_LOG_2 + ROUNDING)
    apart = abs(a - b)
    if apart > _FAR:
        return max(a, b) + ROUNDING
    # e^x is at least its series up to the fifth power, and log(1 + y) at most y (6 + y) / (6 + 4 y).
    power = 1.0 + apart * (1.0 + apart * (0.5 + apart * (1.0 / 6.0 + apart * (1.0 / 24.0 + apart * (1.0 / 120.0)))))
    return max(a, b) + (6.0 * power + 1.0) / (power * (6.0 * power + 4.0))


@kernel
def infeasible_ceiling(setting: Setting, streams: Streams, arm: int) -> float:
    """Of log A_j, the evidence that the arm is infeasible: as if all constraints but one were equally suspect."""
    chosen = 0
    largest = -math.inf
    second = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        n, total = streams.counts[arm, metric], streams.sums[arm, metric]
        violated = ceiling_above(setting, metric, n, total, setting.threshold[metric])
        if violated > largest:
            chosen, second, largest = metric, largest, violated
        else:
            second = max(second, violated)
    return add_logs_ceiling(setting.log_weight[chosen] + largest, second)


@kernel
def pair_ceiling(setting: Setting, streams: Streams, leader: int, arm: int) -> float:
    """Of the evidence that the leader performs better than the arm: the product at any c is at least the least."""
    n_leader, n = streams.counts[leader, 0], streams.counts[arm, 0]
    mean_leader, mean = streams.means[leader, 0] + setting.tolerance, streams.means[arm, 0]
    if mean_leader <= mean:
        return -math.inf
    c = (n_leader * mean_leader + n * mean) / (n_leader + n)
    if setting.kind[0] == BOUNDED:
        # Only a c that both means can reach lies between them.
        c = min(max(c, setting.low[0] + setting.tolerance), setting.low[0] + setting.width[0])
    above = ceiling_above(setting, 0, n_leader, streams.sums[leader, 0], c - setting.tolerance)
    return above + ceiling_below(setting, 0, n, streams.sums[arm, 0], c)


@kernel
def rival_ceiling(constraints: int, infeasible: float, worse: float) -> float:
    """Of `rival_evidence`, from ceilings of what it is made from."""
    if constraints == 0:
        return worse
    either = add_logs_ceiling(LOG_INFEASIBLE + infeasible, LOG_WORSE + worse)
    return add_logs_ceiling(either, LOG_BOTH + infeasible + worse)
