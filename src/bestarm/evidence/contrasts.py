"""How far an arm's mean exceeds its limit where that is a baseline arm's mean times a factor: both have to be learned.

With d = mean of the arm - factor * mean of the baseline, in normal form, a constraint holds if d is less than its
margin, 0 by default. Without items, the evidence is that of a comparison of two streams, the arm's and the baseline's
of the same metric (`bestarm.evidence.pairs`). On items, it is that of one stream of contrasts. The baseline meets its
constraints by definition, so nothing here is asked about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from bestarm.evidence.intervals import interval_end
from bestarm.evidence.items import contrast_of
from bestarm.evidence.pairs import scaled_evidence, scaled_pair_ceiling
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.state import ON_ITEMS, SEPARATE, Setting, Streams
from bestarm.noises.base import RELATIVE_ROUNDING
from bestarm.noises.dispatch import ceiling, evidence, scatter
from bestarm.noises.streams import ABOVE, BELOW, Stream, stream_of

_STEPS = 16
"""The end of an interval is shown up to 2^-16 of its distance from the mean."""

OfContrast = Callable[[Setting, Streams, int, int, int, float], float]

# ------------------------------------------------------------------------------------------------------ without items


@kernel
def _both_tested(setting: Setting, streams: Streams, arm: int, metric: int) -> bool:
    return bool(streams.counts[arm, metric] > 0 and streams.counts[setting.relative.baseline, metric] > 0)


@kernel
def _difference_of_means(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    baseline, factor = setting.relative.baseline, setting.relative.factor[metric]
    mean: float = streams.means[arm, metric] - factor * streams.means[baseline, metric]
    return mean


@kernel
def _scatter_of_both(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    baseline = setting.relative.baseline
    own = scatter(setting, streams, arm, metric, streams.means[arm, metric])
    other = scatter(setting, streams, baseline, metric, streams.means[baseline, metric])
    spread: float = math.sqrt(own * own + (setting.relative.factor[metric] * other) ** 2)
    return spread


@kernel
def _rounding_of_limit(setting: Setting, streams: Streams, metric: int) -> float:
    limit = setting.relative.factor[metric] * streams.means[setting.relative.baseline, metric]
    excess: float = 2.0 * RELATIVE_ROUNDING * (abs(limit) + abs(setting.relative.margin[metric]))
    return excess


def _of_pair(of_streams: Callable[[Stream, Stream, float, float], float]) -> OfContrast:
    @kernel
    def of_pair(setting: Setting, streams: Streams, arm: int, metric: int, side: int, d: float) -> float:
        own = stream_of(setting, streams, arm, metric)
        base = stream_of(setting, streams, setting.relative.baseline, metric)
        if side == ABOVE:
            return of_streams(own, base, -d, setting.relative.factor[metric])
        inverse = 1.0 / setting.relative.factor[metric]
        return of_streams(base, own, d * inverse, inverse)

    return of_pair


_evidence_of_pair = _of_pair(scaled_evidence)


@kernel
def _reaches(setting: Setting, streams: Streams, arm: int, metric: int, side: int, d: float, level: float) -> bool:
    return level <= _evidence_of_pair(setting, streams, arm, metric, side, d) < math.inf


@kernel
def _end_of_pair(setting: Setting, streams: Streams, arm: int, metric: int, side: int, level: float) -> float:
    factor, baseline = setting.relative.factor[metric], setting.relative.baseline
    middle = _difference_of_means(setting, streams, arm, metric)
    if _reaches(setting, streams, arm, metric, side, middle, level):
        # It never varies.
        return middle
    farthest: float = setting.low[metric] - factor * setting.high[metric]
    if side == BELOW:
        farthest = setting.high[metric] - factor * setting.low[metric]
    n = min(streams.counts[arm, metric], streams.counts[baseline, metric])
    step = _scatter_of_both(setting, streams, arm, metric) * math.sqrt(2.0 * max(level, 1.0) / n)
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


# ----------------------------------------------------------------------------------------------------------- on items


@kernel
def _any_common_item(setting: Setting, streams: Streams, arm: int, metric: int) -> bool:
    return contrast_of(setting, streams, arm, metric).n > 0


@kernel
def _mean_on_items(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    contrast_of(setting, streams, arm, metric)
    mean: float = streams.items.contrasts.means[arm, metric]
    return mean


@kernel
def _scatter_on_items(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    between = setting.items.contrasts
    return scatter(between, streams.items.contrasts, arm, metric, between.threshold[metric])


def _on_items(of_stream: Callable[[Stream, int, float], float]) -> OfContrast:
    @kernel
    def on_items(setting: Setting, streams: Streams, arm: int, metric: int, side: int, d: float) -> float:
        limit = setting.items.contrasts.threshold[metric] + d
        return of_stream(contrast_of(setting, streams, arm, metric), side, limit)

    return on_items


@kernel
def _end_on_items(setting: Setting, streams: Streams, arm: int, metric: int, side: int, level: float) -> float:
    return interval_end(contrast_of(setting, streams, arm, metric), side, level)


# --------------------------------------------------------------------------------------------------------------- both

is_known = choice("setting.pairing", {SEPARATE: _both_tested, ON_ITEMS: _any_common_item}, unknown="False")
"""Whether there is something to compare."""
contrast_mean = choice("setting.pairing", {SEPARATE: _difference_of_means, ON_ITEMS: _mean_on_items})
"""How far the arm's measured mean lies over the factor times the baseline's."""
contrast_scatter = choice("setting.pairing", {SEPARATE: _scatter_of_both, ON_ITEMS: _scatter_on_items})
"""The standard deviation of one result of the arm minus the factor times one of the baseline."""
least_excess = choice("setting.pairing", {SEPARATE: _rounding_of_limit}, unknown="0.0")
"""What may be rounding is no excess. On items, contrasts that may be rounding count as 0 already."""
contrast_evidence = choice("setting.pairing", {SEPARATE: _evidence_of_pair, ON_ITEMS: _on_items(evidence)})
"""Log-evidence that the arm's excess over the limit lies on this side of d."""
contrast_ceiling = choice("setting.pairing", {SEPARATE: _of_pair(scaled_pair_ceiling), ON_ITEMS: _on_items(ceiling)})
"""A ceiling of it."""
contrast_end = choice("setting.pairing", {SEPARATE: _end_of_pair, ON_ITEMS: _end_on_items})
"""The last d for which the evidence that the arm's excess over the limit lies on this side of d reaches `level`."""
