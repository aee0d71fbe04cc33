"""By how much, at least, one arm performs better than another: the lead that the evidence shows.

The evidence for a lead is the evidence about the pair with the second stream moved up by it. It falls as the lead
grows, so there is a largest lead for which it reaches a level.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from bestarm.evidence.combine import suffices
from bestarm.evidence.pairs import GAP, common_range, pair_evidence
from bestarm.kernel.compile import kernel, one_of
from bestarm.kernel.state import Setting, Streams
from bestarm.noises.base import ABOVE, BELOW, NoiseKernels, Stream, stream_of
from bestarm.noises.dispatch import by_kind, evidence_and_slope
from bestarm.noises.mixture import RHO
from bestarm.policies.confidence import interval_end

_LOG_2 = math.log(2.0)
LEAST_LEVEL = 0.1
"""The search asks for a little evidence at least."""


class Plane(NamedTuple):
    """The tangent plane of the log-evidence for a lead, `value` at (c, lead), with its slopes."""

    c: float
    lead: float
    value: float
    slope_c: float
    slope_lead: float


@kernel
def tangent(ahead: Stream, behind: Stream, c: float, lead: float) -> Plane:
    """The evidence that `behind` lies below c and `ahead` above c + lead: its logarithm is convex in both.

    It is taken at the nearest c inside both ranges: beyond that, a tangent would promise too much.
    """
    first, last = common_range(ahead, behind, -lead)
    c = min(max(c, first), last)
    above, fall = evidence_and_slope(ahead, ABOVE, c + lead)
    below, rise = evidence_and_slope(behind, BELOW, c)
    return Plane(c, lead, above + below, fall + rise, fall)


@kernel
def height_at(plane: Plane, c: float, lead: float) -> float:
    return plane.value + plane.slope_c * (c - plane.c) + plane.slope_lead * (lead - plane.lead)


@kernel
def least_lead(ahead: Stream, behind: Stream, tolerance: float, level: float, evidence: float) -> float:
    """The largest lead of the first stream over the second for which the evidence reaches `level`. `evidence` is that
    for a lead of minus `tolerance`.

    The evidence is the least over all c. It lies above any two tangent planes. So if two planes that slope in opposite
    directions in c meet at `level`, the lead where they meet is never too large. The next tangent is taken there.
    """
    mean_ahead, mean_behind = ahead.total / ahead.n, behind.total / behind.n
    # Where evidence is not log-convex all slopes are NaN, so that no comparison with them holds.
    least, most = -tolerance, mean_ahead - mean_behind
    left, right = tangent(ahead, behind, mean_behind, least), tangent(ahead, behind, mean_ahead - least, least)
    # If one of the two means is hardly known, the minimum is on the far side of the other.
    if left.slope_c >= 0.0:
        left = tangent(ahead, behind, 2.0 * mean_behind - mean_ahead + least, least)
    if right.slope_c <= 0.0:
        right = tangent(ahead, behind, 2.0 * (mean_ahead - least) - mean_behind, least)
    if left.slope_c < 0.0 < right.slope_c:
        # A first guess: evidence is about quadratic in the distance from the means, weighted by how well each is known.
        lead = most - (most - least) * math.sqrt(level / evidence)
        weight_ahead, weight_behind = ahead.n / (ahead.width * ahead.width), behind.n / (behind.width * behind.width)
        c = mean_behind + weight_ahead / (weight_ahead + weight_behind) * (most - lead)
        for _ in range(60):
            new = tangent(ahead, behind, c, lead)
            if new.slope_c < 0.0:
                left = new
            else:
                right = new
            share = right.slope_c / (right.slope_c - left.slope_c)
            fall = share * left.slope_lead + (1.0 - share) * right.slope_lead
            height = share * height_at(left, 0.0, 0.0) + (1.0 - share) * height_at(right, 0.0, 0.0)
            lead = (level - height) / fall
            least = max(least, lead)
            bound = height + fall * new.lead
            if new.value - bound < GAP and abs(bound - level) < GAP:
                return least
            c = (height_at(right, 0.0, lead) - height_at(left, 0.0, lead)) / (left.slope_c - right.slope_c)
    # The minimum is at an end of the values' range, or farther out.
    for _ in range(40):
        middle = 0.5 * (least + most)
        if suffices(pair_evidence(ahead, behind, -middle), level):
            least = middle
        else:
            most = middle
    return least


@kernel
def lead_by_tangents(ahead: Stream, behind: Stream, level: float, enough: float) -> float:
    """`largest_lead` of two streams whose evidence is log-convex."""
    if enough < math.inf and suffices(pair_evidence(ahead, behind, -enough), level):
        return enough
    # No mean lies outside its range.
    sure = ahead.low - behind.high
    difference = ahead.total / ahead.n - behind.total / behind.n
    # About where the evidence suffices, and then farther out until it does.
    spread = ahead.width * ahead.width * (ahead.n + RHO) / (ahead.n * ahead.n)
    spread += behind.width * behind.width * (behind.n + RHO) / (behind.n * behind.n)
    step = math.sqrt(2.0 * (level + 4.0) * spread)
    for _ in range(60):
        lead = difference - step
        # Written this way, means that are NaN or infinite show nothing.
        if not sure < lead < math.inf:
            return sure
        found = pair_evidence(ahead, behind, -lead)
        if suffices(found, level):
            return max(sure, least_lead(ahead, behind, -lead, level, found))
        step *= 2.0
    return sure


@kernel
def lead_by_ends(ahead: Stream, behind: Stream, level: float, enough: float) -> float:
    """`largest_lead` from one interval of each stream, which hold together: whatever the evidence is."""
    return interval_end(ahead, ABOVE, level + _LOG_2) - interval_end(behind, BELOW, level + _LOG_2)


def _lead(kernels: NoiseKernels) -> Callable[[Stream, Stream, float, float], float]:
    return kernels.lead or (lead_by_ends if kernels.evidence_and_slope is None else lead_by_tangents)


_every_lead, _lead_of = by_kind(_lead)


@one_of("ahead.kind", _every_lead)
def lead_at(ahead: Stream, behind: Stream, level: float, enough: float) -> float:
    """The largest lead of the first stream's mean over the second's for which the evidence reaches `level`, or any lead
    of `enough` or more that it shows."""
    found: float = _lead_of(ahead.kind)(ahead, behind, level, enough)
    return found


@kernel
def largest_lead(setting: Setting, streams: Streams, ahead: int, behind: int, level: float, enough: float) -> float:
    """By how much, at least, the first arm performs better than the second (a negative lead: not worse by more), with
    evidence of `level`; minus infinity if nothing is known. `enough` as in `lead_at`."""
    if streams.counts[ahead, 0] == 0 or streams.counts[behind, 0] == 0:
        return -math.inf
    first, second = stream_of(setting, streams, ahead, 0), stream_of(setting, streams, behind, 0)
    lead = lead_at(first, second, max(level, LEAST_LEVEL), enough)
    return lead if lead < math.inf else -math.inf


@kernel
def most_lead(setting: Setting, streams: Streams, ahead: int, behind: int, level: float) -> float:
    """By how much, at most, the first arm performs better than the second."""
    return -largest_lead(setting, streams, behind, ahead, level, math.inf)
