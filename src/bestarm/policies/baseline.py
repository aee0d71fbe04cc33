"""Constraints relative to a baseline arm: its mean times a factor is the limit, and both means have to be learned.

The evidence is that of a comparison of two streams, the arm's and the baseline's of the same metric
(`bestarm.evidence.pairs`). With d = mean of the arm - factor * mean of the baseline, in normal form, the constraint
holds if d < 0. Everything here that is named after a kernel of `certify` takes its place where there are such
constraints. The baseline meets them by definition.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from bestarm.evidence.combine import suffices
from bestarm.evidence.pairs import scaled_evidence, scaled_pair_ceiling
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Batch, Floats, Setting, add_test
from bestarm.kernel.words import whole
from bestarm.noises.base import ABOVE, BELOW, RELATIVE_ROUNDING, stream_of
from bestarm.noises.dispatch import ceiling, evidence_above, evidence_below, scatter
from bestarm.noises.exact import CERTAIN
from bestarm.policies.confidence import Intervals, interval_end, lower_level
from bestarm.problem import Problem

_tuple: Any = namedtuple
_BASELINE = ("baseline", "factor")
RelativeSetting = _tuple("RelativeSetting", (*Setting._fields, *_BASELINE))
"""A `Setting`, with the number of the baseline and, by metric, the factor; 0 where nothing is relative to it."""

_STEPS = 16
"""The end of an interval is shown up to 2^-16 of its distance from the mean."""


def baseline_of(problem: Problem) -> tuple[int, Floats]:
    """The number of the baseline and, by metric, the factor."""
    factor = np.zeros(len(problem.parts))
    for k in problem.relative:
        factor[k] = problem.constraints[k - 1].threshold
    return problem.arm_names.index(problem.baseline or problem.arm_names[0]), factor


# ------------------------------------------------------------- what a comparison says, here by pairs of streams


@kernel
def is_known(setting: Any, streams: Any, arm: int, metric: int) -> bool:
    """Whether there is something to compare."""
    return bool(streams.counts[arm, metric] > 0 and streams.counts[setting.baseline, metric] > 0)


@kernel
def contrast_mean(setting: Any, streams: Any, arm: int, metric: int) -> float:
    """How far the arm's measured mean lies over the factor times the baseline's."""
    mean: float = streams.means[arm, metric] - setting.factor[metric] * streams.means[setting.baseline, metric]
    return mean


@kernel
def contrast_scatter(setting: Any, streams: Any, arm: int, metric: int) -> float:
    """The standard deviation of one result of the arm minus the factor times one of the baseline."""
    own = scatter(setting, streams, arm, metric, streams.means[arm, metric])
    other = scatter(setting, streams, setting.baseline, metric, streams.means[setting.baseline, metric])
    spread: float = math.sqrt(own * own + (setting.factor[metric] * other) ** 2)
    return spread


@kernel
def _least_excess(setting: Any, streams: Any, metric: int) -> float:
    """What may be rounding is no excess."""
    limit = setting.factor[metric] * streams.means[setting.baseline, metric]
    excess: float = 2.0 * RELATIVE_ROUNDING * abs(limit)
    return excess


@kernel
def evidence_over(setting: Any, streams: Any, arm: int, metric: int, d: float) -> float:
    """Log-evidence that the arm's mean exceeds the factor times the baseline's by more than d."""
    own, base = stream_of(setting, streams, arm, metric), stream_of(setting, streams, setting.baseline, metric)
    return scaled_evidence(own, base, -d, setting.factor[metric])


@kernel
def evidence_under(setting: Any, streams: Any, arm: int, metric: int, d: float) -> float:
    """Log-evidence that the arm's mean exceeds the factor times the baseline's by less than d."""
    own, base = stream_of(setting, streams, arm, metric), stream_of(setting, streams, setting.baseline, metric)
    inverse = 1.0 / setting.factor[metric]
    return scaled_evidence(base, own, d * inverse, inverse)


@kernel
def excess_evidence(setting: Any, streams: Any, arm: int, metric: int) -> float:
    """Log-evidence that a relative constraint is violated."""
    return evidence_over(setting, streams, arm, metric, _least_excess(setting, streams, metric))


@kernel
def excess_ceiling(setting: Any, streams: Any, arm: int, metric: int) -> float:
    """A ceiling of it."""
    own, base = stream_of(setting, streams, arm, metric), stream_of(setting, streams, setting.baseline, metric)
    return scaled_pair_ceiling(own, base, -_least_excess(setting, streams, metric), setting.factor[metric])


@kernel
def keeping_evidence(setting: Any, streams: Any, arm: int, metric: int) -> float:
    """Log-evidence that a relative constraint holds, up to its slack."""
    return evidence_under(setting, streams, arm, metric, setting.slack[metric])


@kernel
def keeping_ceiling(setting: Any, streams: Any, arm: int, metric: int) -> float:
    """A ceiling of it."""
    own, base = stream_of(setting, streams, arm, metric), stream_of(setting, streams, setting.baseline, metric)
    inverse = 1.0 / setting.factor[metric]
    return scaled_pair_ceiling(base, own, setting.slack[metric] * inverse, inverse)


@kernel
def _reaches(setting: Any, streams: Any, arm: int, metric: int, side: int, d: float, level: float) -> bool:
    if side == ABOVE:
        return suffices(evidence_over(setting, streams, arm, metric, d), level)
    return suffices(evidence_under(setting, streams, arm, metric, d), level)


@kernel
def contrast_end(setting: Any, streams: Any, arm: int, metric: int, side: int, level: float) -> float:
    """The last d for which the evidence that the arm's excess over the limit lies on this side of d reaches `level`."""
    factor = setting.factor[metric]
    middle = contrast_mean(setting, streams, arm, metric)
    if _reaches(setting, streams, arm, metric, side, middle, level):
        # It never varies.
        return middle
    farthest: float = setting.low[metric] - factor * setting.high[metric]
    if side == BELOW:
        farthest = setting.high[metric] - factor * setting.low[metric]
    n = min(streams.counts[arm, metric], streams.counts[setting.baseline, metric])
    step = contrast_scatter(setting, streams, arm, metric) * math.sqrt(2.0 * max(level, 1.0) / n)
    outer = middle
    is_reached = False
    for _ in range(40):
        outer = max(middle - step, farthest) if side == ABOVE else min(middle + step, farthest)
        is_reached = _reaches(setting, streams, arm, metric, side, outer, level)
        if is_reached or outer == farthest:
            break
        step = 2.0 * step
    if not is_reached:
        return farthest
    inner = middle
    for _ in range(_STEPS):
        d = 0.5 * (outer + inner)
        if _reaches(setting, streams, arm, metric, side, d, level):
            outer = d
        else:
            inner = d
    return outer


# ------------------------------------------------------------------- in the place of kernels of the same purpose


@kernel
def violation_evidence(setting: Any, streams: Any, arm: int, metric: int) -> float:
    if setting.factor[metric] == 0.0:
        return evidence_above(stream_of(setting, streams, arm, metric), setting.threshold[metric])
    if arm == setting.baseline or not is_known(setting, streams, arm, metric):
        return -math.inf
    return excess_evidence(setting, streams, arm, metric)


@kernel
def violation_ceiling(setting: Any, streams: Any, arm: int, metric: int) -> float:
    if setting.factor[metric] == 0.0:
        return ceiling(stream_of(setting, streams, arm, metric), ABOVE, setting.threshold[metric])
    if arm == setting.baseline or not is_known(setting, streams, arm, metric):
        return -math.inf
    return excess_ceiling(setting, streams, arm, metric)


@kernel
def holding_ceiling(setting: Any, streams: Any, arm: int, metric: int) -> float:
    if setting.factor[metric] == 0.0:
        limit = setting.threshold[metric] + setting.slack[metric]
        return ceiling(stream_of(setting, streams, arm, metric), BELOW, limit)
    if arm == setting.baseline:
        return CERTAIN
    return keeping_ceiling(setting, streams, arm, metric) if is_known(setting, streams, arm, metric) else -math.inf


@kernel
def holding_evidence(setting: Any, streams: Any, arm: int, metric: int) -> float:
    if setting.factor[metric] == 0.0:
        limit = setting.threshold[metric] + setting.slack[metric]
        return evidence_below(stream_of(setting, streams, arm, metric), limit)
    if arm == setting.baseline:
        return CERTAIN
    return keeping_evidence(setting, streams, arm, metric) if is_known(setting, streams, arm, metric) else -math.inf


@kernel
def looks_fine(setting: Any, streams: Any, arm: int, metric: int) -> bool:
    if setting.factor[metric] == 0.0:
        return bool(streams.means[arm, metric] < setting.threshold[metric] + 0.5 * setting.slack[metric])
    if arm == setting.baseline or not is_known(setting, streams, arm, metric):
        return True
    return bool(contrast_mean(setting, streams, arm, metric) < 0.5 * setting.slack[metric])


@kernel
def excess_of(setting: Any, streams: Any, arm: int, metric: int) -> float:
    if setting.factor[metric] == 0.0:
        threshold = setting.threshold[metric]
        inverse_scatter = 1.0 / scatter(setting, streams, arm, metric, threshold)
        excess: float = (streams.means[arm, metric] - threshold) * inverse_scatter
        return excess
    if arm == setting.baseline or not is_known(setting, streams, arm, metric):
        return 0.0
    return contrast_mean(setting, streams, arm, metric) / contrast_scatter(setting, streams, arm, metric)


@kernel
def end_of(setting: Any, streams: Any, arm: int, metric: int, side: int, level: float) -> float:
    """The end of a stream's interval; of a relative constraint, that of the excess over its limit."""
    if setting.factor[metric] == 0.0:
        return interval_end(stream_of(setting, streams, arm, metric), side, level)
    if arm == setting.baseline:
        own = interval_end(stream_of(setting, streams, arm, metric), side, level)
        shifted: float = own - setting.factor[metric] * streams.means[arm, metric]
        # It meets its constraint, whatever the factor.
        return min(shifted, 0.0) if side == ABOVE else shifted
    if not is_known(setting, streams, arm, metric):
        return -side * math.inf
    return contrast_end(setting, streams, arm, metric, side, level)


@kernel
def refresh_intervals(setting: Any, streams: Any, intervals: Intervals) -> None:
    for arm in range(streams.counts.shape[0]):
        for metric in range(streams.counts.shape[1]):
            n, total = streams.counts[arm, metric], streams.sums[arm, metric]
            if setting.factor[metric] != 0.0 and arm != setting.baseline:
                n += streams.counts[setting.baseline, metric]
                total += streams.sums[setting.baseline, metric]
            if intervals.counts[arm, metric] != n or intervals.sums[arm, metric] != total:
                intervals.counts[arm, metric] = n
                intervals.sums[arm, metric] = total
                above = lower_level(setting, arm, metric)
                intervals.low[arm, metric] = end_of(setting, streams, arm, metric, ABOVE, above)
                intervals.high[arm, metric] = end_of(setting, streams, arm, metric, BELOW, setting.level[arm])


@kernel
def with_baseline(setting: Any, streams: Any, batch: Batch, size: int) -> int:
    """Add tests of the baseline to a batch, so that it is tested as often as any arm that is compared with it."""
    for metric in range(1, streams.counts.shape[1]):
        if setting.factor[metric] != 0.0:
            most = 0
            is_there = False
            for row in range(size):
                arm = whole(batch[row, 0])
                if whole(batch[row, 1]) == metric:
                    most = max(most, streams.counts[arm, metric] + 1)
                    is_there = is_there or arm == setting.baseline
            if streams.counts[setting.baseline, metric] < most and not is_there:
                size = add_test(batch, size, setting.baseline, metric)
    return size


IN_PLACE: dict[str, Callable[..., Any]] = {
    "violation_evidence": violation_evidence,
    "violation_ceiling": violation_ceiling,
    "holding_evidence": holding_evidence,
    "looks_fine": looks_fine,
    "excess_of": excess_of,
    "refresh_intervals": refresh_intervals,
}
"""By name: what takes the place of the kernel of that name."""
