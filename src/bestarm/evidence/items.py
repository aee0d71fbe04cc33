"""Comparisons item by item: how much one arm was better than another, or than its limit, on the same items.

All arms meet the items in one random order, so their results depend on each other, and no evidence about two arms may
be multiplied. Instead, arms are compared by their differences on common items: one stream of its own for each arm,
against the present leader. When the leader changes, that stream is computed again from the values, which are all kept.
If the answer has several arms, each other arm has several such streams, so that they are rarely computed again.
"""

from __future__ import annotations

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import ABSENT, ON_ITEMS, RELATIVE, Floats, Ints, ItemStreams, Setting, Streams, new_streams
from bestarm.noises.dispatch import most_kept, record
from bestarm.noises.streams import Stream, stream_of

UNLIMITED = 2**62
FIRST_ROOM = 64
SLOTS = 4
"""The number of leaders for which differences are kept, for each arm of the answer."""
DIFFERENCE = 1
"""The metric of a stream of differences, which counts as a constraint: its threshold is minus the tolerance."""


def streams_for(setting: Setting, arms: int, metrics: int, room: int = FIRST_ROOM) -> Streams:
    """Streams without results; where arms are compared item by item, with room for `room` items."""
    own = new_streams(arms, metrics, most_kept(setting))
    if setting.pairing != ON_ITEMS:
        return own
    items, has_contrasts = setting.items, setting.limits == RELATIVE
    contrasts = new_streams(arms, metrics, most_kept(items.contrasts)) if has_contrasts else ABSENT
    values = np.full((arms, metrics, room), np.nan)
    return own._replace(items=ItemStreams(values, *_no_differences(setting, arms), contrasts))


def _no_differences(setting: Setting, arms: int) -> tuple[Streams, Ints]:
    slots = 1 if setting.log_members == 0.0 else min(SLOTS * setting.top, arms)
    return new_streams(slots * arms + 1, 2, most_kept(setting.items.differences)), np.full((slots, arms), -1)


def with_room(streams: Streams, places: int) -> Streams:
    """The same streams, with room for results at `places` places or more."""
    values = streams.items.values
    have = values.shape[2]
    if places <= have:
        return streams
    room: Floats = np.full((*values.shape[:2], max(places, 2 * have, FIRST_ROOM)), np.nan)
    room[:, :, :have] = values
    return streams._replace(items=streams.items._replace(values=room))


def with_own_differences(setting: Setting, streams: Streams) -> Streams:
    """The same results with new differences, so that the present ones stay as they are."""
    differences, against = _no_differences(setting, len(streams.counts))
    return streams._replace(items=streams.items._replace(differences=differences, against=against))


@kernel
def record_at(setting: Setting, streams: Streams, arm: int, metric: int, place: int, value: float) -> None:
    """Take in a result on the item at a place. Results enter in the order of the places: one that comes before an
    earlier place's waits for it."""
    values = streams.items.values
    values[arm, metric, place] = value
    room = values.shape[2]
    after = streams.counts[arm, metric]
    while after < room and values[arm, metric, after] == values[arm, metric, after]:
        record(setting, streams, arm, metric, values[arm, metric, after])
        after += 1


@kernel
def row_of(streams: Streams, leader: int, arm: int) -> int:
    """The row of the differences between the leader and an arm. In the first are those of all arms together."""
    slots, arms = streams.items.against.shape
    row: int = leader % slots * arms + arm + 1
    return row


@kernel
def difference_of(setting: Setting, streams: Streams, leader: int, arm: int) -> Stream:
    """How much the leader was better than the arm, on all items on which both were measured."""
    items, between = streams.items, streams.items.differences
    row, slot = row_of(streams, leader, arm), leader % items.against.shape[0]
    if items.against[slot, arm] != leader:
        items.against[slot, arm] = leader
        between.counts[row, DIFFERENCE] = 0
        between.sums[row, DIFFERENCE] = 0.0
        between.means[row, DIFFERENCE] = 0.0
        for k in range(between.kept.shape[2]):
            between.kept[row, DIFFERENCE, k] = 0.0
    common = min(streams.counts[leader, 0], streams.counts[arm, 0])
    for place in range(between.counts[row, DIFFERENCE], common):
        difference = items.values[leader, 0, place] - items.values[arm, 0, place]
        record(setting.items.differences, between, row, DIFFERENCE, difference)
    return stream_of(setting.items.differences, between, row, DIFFERENCE)


@kernel
def contrast_of(setting: Setting, streams: Streams, arm: int, metric: int) -> Stream:
    """The arm's values minus the factor times the baseline's, on all items on which both were measured."""
    items, contrasts, baseline = streams.items, streams.items.contrasts, setting.relative.baseline
    common = min(streams.counts[baseline, metric], streams.counts[arm, metric])
    for place in range(contrasts.counts[arm, metric], common):
        limit = setting.relative.factor[metric] * items.values[baseline, metric, place]
        contrast = items.values[arm, metric, place] - limit
        # What may be rounding is no difference.
        if abs(contrast) <= 1e-12 * abs(limit):
            contrast = 0.0
        record(setting.items.contrasts, contrasts, arm, metric, contrast)
    return stream_of(setting.items.contrasts, contrasts, arm, metric)
