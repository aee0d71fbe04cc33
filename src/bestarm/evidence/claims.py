"""What certificates claim: a constraint is violated, a constraint holds, one arm performs better than another.

Each claim is one function, which chooses its evidence by a number in the setting: `limits` says what limits
constraints, `pairing` how arms are compared. Where the limit is a baseline's mean, `bestarm.evidence.contrasts` has the
evidence; on items, `bestarm.evidence.items` has the streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from bestarm.evidence.contrasts import (
    OfContrast,
    contrast_ceiling,
    contrast_end,
    contrast_evidence,
    contrast_mean,
    contrast_scatter,
    is_known,
    least_excess,
)
from bestarm.evidence.intervals import interval_end
from bestarm.evidence.items import difference_of
from bestarm.evidence.pairs import pair_evidence
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.state import FIXED, ON_ITEMS, RELATIVE, SEPARATE, Setting, Streams
from bestarm.noises.dispatch import ceiling, evidence, scatter
from bestarm.noises.exact import CERTAIN
from bestarm.noises.streams import ABOVE, BELOW, Stream, stream_of


@kernel
def suffices(evidence: float, level: float) -> bool:
    """Whether log-evidence reaches its level. NaN and infinity are no evidence, so they fail."""
    return level <= evidence < math.inf


# ------------------------------------------------------------------------------- a constraint is violated, or it holds


def _about_constraint(
    of_stream: Callable[[Stream, int, float], float], of_contrast: OfContrast
) -> Callable[[Setting, Streams, int, int, int], float]:
    @kernel
    def against_threshold(setting: Setting, streams: Streams, arm: int, metric: int, side: int) -> float:
        limit = setting.threshold[metric]
        if side == BELOW:
            limit += setting.slack[metric]
        return of_stream(stream_of(setting, streams, arm, metric), side, limit)

    @kernel
    def against_limit(setting: Setting, streams: Streams, arm: int, metric: int, side: int) -> float:
        if setting.relative.factor[metric] == 0.0:
            return against_threshold(setting, streams, arm, metric, side)
        if arm == setting.relative.baseline:
            # It meets its constraints by definition.
            return CERTAIN if side == BELOW else -math.inf
        if not is_known(setting, streams, arm, metric):
            return -math.inf
        excess = setting.slack[metric] if side == BELOW else least_excess(setting, streams, metric)
        return of_contrast(setting, streams, arm, metric, side, setting.relative.margin[metric] + excess)

    return choice("setting.limits", {FIXED: against_threshold, RELATIVE: against_limit})


constraint_evidence = _about_constraint(evidence, contrast_evidence)
"""Log-evidence that a constraint is violated (on the side `ABOVE`), or that it holds up to its slack (`BELOW`)."""
constraint_ceiling = _about_constraint(ceiling, contrast_ceiling)
"""A ceiling of it."""


# ------------------------------------------------------------------------------- where a constraint's mean seems to be


@kernel
def _is_below_threshold(setting: Setting, streams: Streams, arm: int, metric: int) -> bool:
    return bool(streams.means[arm, metric] < setting.threshold[metric] + 0.5 * setting.slack[metric])


@kernel
def _is_below_limit(setting: Setting, streams: Streams, arm: int, metric: int) -> bool:
    if setting.relative.factor[metric] == 0.0:
        return _is_below_threshold(setting, streams, arm, metric)
    if arm == setting.relative.baseline or not is_known(setting, streams, arm, metric):
        return True
    most = setting.relative.margin[metric] + 0.5 * setting.slack[metric]
    return bool(contrast_mean(setting, streams, arm, metric) < most)


looks_fine = choice("setting.limits", {FIXED: _is_below_threshold, RELATIVE: _is_below_limit}, unknown="False")
"""Whether a constraint's mean is on the right side."""


@kernel
def _excess_over_threshold(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    threshold = setting.threshold[metric]
    inverse_scatter = 1.0 / scatter(setting, streams, arm, metric, threshold)
    excess: float = (streams.means[arm, metric] - threshold) * inverse_scatter
    return excess


@kernel
def _excess_over_limit(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    if setting.relative.factor[metric] == 0.0:
        return _excess_over_threshold(setting, streams, arm, metric)
    if arm == setting.relative.baseline or not is_known(setting, streams, arm, metric):
        return 0.0
    excess: float = contrast_mean(setting, streams, arm, metric) - setting.relative.margin[metric]
    return excess / contrast_scatter(setting, streams, arm, metric)


excess_of = choice("setting.limits", {FIXED: _excess_over_threshold, RELATIVE: _excess_over_limit})
"""How far a constraint's measured mean lies over its limit, in standard deviations."""


@kernel
def _room_to_threshold(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    limit = setting.threshold[metric] + setting.slack[metric]
    room: float = (limit - streams.means[arm, metric]) / scatter(setting, streams, arm, metric, limit)
    return room


@kernel
def _room_to_limit(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    if setting.relative.factor[metric] == 0.0:
        return _room_to_threshold(setting, streams, arm, metric)
    if arm == setting.relative.baseline or not is_known(setting, streams, arm, metric):
        return 0.0
    most = setting.relative.margin[metric] + setting.slack[metric]
    room: float = most - contrast_mean(setting, streams, arm, metric)
    return room / contrast_scatter(setting, streams, arm, metric)


room_of = choice("setting.limits", {FIXED: _room_to_threshold, RELATIVE: _room_to_limit})
"""How far a constraint's measured mean lies below its limit and slack, in standard deviations."""


@kernel
def _end_of_stream(setting: Setting, streams: Streams, arm: int, metric: int, side: int, level: float) -> float:
    return interval_end(stream_of(setting, streams, arm, metric), side, level)


@kernel
def _end_of_excess(setting: Setting, streams: Streams, arm: int, metric: int, side: int, level: float) -> float:
    factor = setting.relative.factor[metric]
    if factor == 0.0:
        return _end_of_stream(setting, streams, arm, metric, side, level)
    if arm == setting.relative.baseline:
        own = _end_of_stream(setting, streams, arm, metric, side, level)
        shifted: float = own - factor * streams.means[arm, metric]
        # It meets its constraint, whatever the factor.
        return min(shifted, setting.relative.margin[metric]) if side == ABOVE else shifted
    if not is_known(setting, streams, arm, metric):
        return -side * math.inf
    return contrast_end(setting, streams, arm, metric, side, level)


end_of = choice("setting.limits", {FIXED: _end_of_stream, RELATIVE: _end_of_excess})
"""The end of a stream's interval; if the limit is relative, that of the excess over it."""


# --------------------------------------------------------------------------------- one arm performs better than another


@kernel
def _is_behind(setting: Setting, streams: Streams, leader: int, arm: int) -> float:
    if streams.counts[arm, 0] == 0:
        return -math.inf
    ahead, behind = stream_of(setting, streams, leader, 0), stream_of(setting, streams, arm, 0)
    return pair_evidence(ahead, behind, setting.tolerance)


@kernel
def _is_behind_on_items(setting: Setting, streams: Streams, leader: int, arm: int) -> float:
    difference = difference_of(setting, streams, leader, arm)
    return -math.inf if difference.n == 0 else evidence(difference, ABOVE, -setting.tolerance)


worse_evidence = choice("setting.pairing", {SEPARATE: _is_behind, ON_ITEMS: _is_behind_on_items})
"""Log-evidence that the leader performs better than the arm."""
