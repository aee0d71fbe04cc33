"""By how much, at least, one arm performs better than another: the lead that the evidence shows.

The evidence for a lead is that about the pair with the second stream moved up by it. It falls as the lead grows, so
there is a largest lead for which it reaches a level.

Compiling copies a kernel to every place where it is called. So what is large is called in one place, in a loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from bestarm.evidence.claims import suffices
from bestarm.evidence.intervals import interval_end
from bestarm.evidence.items import difference_of
from bestarm.evidence.pairs import by_tangents
from bestarm.kernel.compile import choice, kernel, one_of
from bestarm.kernel.state import ON_ITEMS, SEPARATE, Setting, Streams
from bestarm.noises.dispatch import by_kind
from bestarm.noises.kernels import NoiseKernels
from bestarm.noises.mixture import RHO
from bestarm.noises.streams import ABOVE, BELOW, Stream, stream_of

_LOG_2 = math.log(2.0)
_CLOSE = 0.01
_PRECISION = 1e-7
"""How closely a lead is found: in the logarithm of the evidence for it, or in units of the noise's width."""
LEAST_LEVEL = 0.1
"""The search asks for a little evidence at least."""


@kernel
def overhead(n: float) -> float:
    """How much less evidence there is in n results than there would be if their mean were known beforehand, as for
    normal noise."""
    return 0.5 * math.log1p(n / RHO)


@kernel
def lead_by_search(ahead: Stream, behind: Stream, level: float, enough: float) -> float:
    """`lead_at` of two streams whose evidence is log-convex, and so falls as the lead grows.

    Only a lead at which the evidence was found to suffice is returned. So it may be too small, and never too large.
    """
    # No mean lies outside its range.
    shown = ahead.low - behind.high
    difference = ahead.total / ahead.n - behind.total / behind.n
    # Means that are NaN or infinite show nothing.
    if not -math.inf < difference < math.inf:
        return shown
    # Evidence is about quadratic in the distance from the difference of the means, less the overhead: its root is about
    # linear. The first lead is a guess, the next one follows from the one before, the others from those on both sides.
    lost = overhead(ahead.n) + overhead(behind.n)
    aim = math.sqrt(level + lost + 0.5 * _CLOSE)
    spread = ahead.width * ahead.width / ahead.n + behind.width * behind.width / behind.n
    missed = difference
    root_missed = 0.0
    root_shown = math.inf
    lead = enough if enough < difference else difference - aim * math.sqrt(2.0 * spread)
    for turn in range(60):
        if not shown < lead < missed:
            # Out of the bracket: halve it, or double the distance as long as it is open.
            lead = 0.5 * (shown + missed) if shown > -math.inf else 2.0 * missed - difference
        found = by_tangents(ahead, behind, -lead)
        root = math.sqrt(max(found + lost, 0.0))
        if suffices(found, level):
            if lead >= enough or found - level < _CLOSE:
                return lead
            shown = lead
            root_shown = root
            root_missed = aim - 0.7 * (aim - root_missed)
        else:
            missed = lead
            root_missed = root
            root_shown = aim + 0.7 * (root_shown - aim)
        if missed - shown <= _PRECISION * ahead.width:
            return shown
        if turn == 0 and missed == lead and shown > -math.inf:
            # If it does not suffice next to the end of the range, it suffices nowhere.
            lead = shown + 0.5 * _PRECISION * ahead.width
        elif root_shown < math.inf:
            lead = missed - (missed - shown) * (aim - root_missed) / (root_shown - root_missed)
        elif root > 0.0:
            lead = difference - (difference - lead) * aim / root
        else:
            lead = 2.0 * missed - difference
    return shown


@kernel
def lead_by_ends(ahead: Stream, behind: Stream, level: float, enough: float) -> float:
    """`lead_at` from one interval of each stream, which hold together: whatever the evidence is."""
    return interval_end(ahead, ABOVE, level + _LOG_2) - interval_end(behind, BELOW, level + _LOG_2)


def _lead(kernels: NoiseKernels) -> Callable[[Stream, Stream, float, float], float]:
    return kernels.lead or (lead_by_ends if kernels.evidence_and_slope is None else lead_by_search)


_every_lead, _lead_of = by_kind(_lead)


@one_of("ahead.kind", _every_lead)
def lead_at(ahead: Stream, behind: Stream, level: float, enough: float) -> float:
    """The largest lead of the first stream's mean over the second's for which the evidence reaches `level`, or any lead
    of `enough` or more that it shows."""
    return _lead_of(ahead.kind)(ahead, behind, level, enough)


@kernel
def _largest_lead(setting: Setting, streams: Streams, ahead: int, behind: int, level: float, enough: float) -> float:
    if streams.counts[ahead, 0] == 0 or streams.counts[behind, 0] == 0:
        return -math.inf
    first, second = stream_of(setting, streams, ahead, 0), stream_of(setting, streams, behind, 0)
    lead = lead_at(first, second, max(level, LEAST_LEVEL), enough)
    return lead if lead < math.inf else -math.inf


@kernel
def _largest_lead_on_items(
    setting: Setting, streams: Streams, ahead: int, behind: int, level: float, enough: float
) -> float:
    lead = difference_of(setting, streams, ahead, behind)
    return -math.inf if lead.n == 0 else interval_end(lead, ABOVE, max(level, LEAST_LEVEL))


largest_lead = choice("setting.pairing", {SEPARATE: _largest_lead, ON_ITEMS: _largest_lead_on_items})
"""By how much, at least, the first arm performs better than the second (a negative lead: not worse by more), with
evidence of `level`; minus infinity if nothing is known. `enough` as in `lead_at`."""


@kernel
def _end_of_lead(setting: Setting, streams: Streams, arm: int, other: int, side: int, level: float) -> float:
    ahead, behind = (arm, other) if side == ABOVE else (other, arm)
    return side * _largest_lead(setting, streams, ahead, behind, level, math.inf)


@kernel
def _end_of_lead_on_items(setting: Setting, streams: Streams, arm: int, other: int, side: int, level: float) -> float:
    lead = difference_of(setting, streams, arm, other)
    return -side * math.inf if lead.n == 0 else interval_end(lead, side, level)


end_of_lead = choice("setting.pairing", {SEPARATE: _end_of_lead, ON_ITEMS: _end_of_lead_on_items})
"""By how much, at least (on the side `ABOVE`) or at most (on the side `BELOW`), `arm` performs better."""
