"""Comparisons item by item: how much one arm was better than another, or than its limit, on the same items.

All arms meet the items in one random order, so their results depend on each other, and no evidence about two arms may
be multiplied. Instead, arms are compared by their differences on common items: one stream of its own for each arm,
against the present leader. When the leader changes, that stream is computed again from the values, which are all kept.
If the answer has several arms, each other arm has several such streams, so that they are rarely computed again.

A block is an item that only some arms are measured on, and that is not met again: one place, with the mean of an arm's
tests in the block. If a block adds the same to all arms, it is as many places as an arm has tests in it.
"""

from __future__ import annotations

import numpy as np

from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.state import (
    ABSENT,
    JUDGED,
    ON_ITEMS,
    RELATIVE,
    RESERVED,
    UNJUDGED,
    Floats,
    Ints,
    ItemStreams,
    Setting,
    Slices,
    Streams,
    new_streams,
)
from bestarm.noises.dispatch import most_kept, record, take_note
from bestarm.noises.sets.judged import estimate, expect
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
    reached, contrasted = np.zeros((2, arms, metrics), np.int64)
    if setting.sharing == RESERVED:
        reached += setting.reserve.first[:, np.newaxis]
    differences = _no_differences(setting, arms)
    adjusted = np.zeros((arms, 2)), np.zeros(1, np.int64)
    return own._replace(items=ItemStreams(values, reached, *differences, contrasts, contrasted, *adjusted))


def _no_differences(setting: Setting, arms: int) -> tuple[Streams, Ints, Ints]:
    slots = 1 if setting.log_members == 0.0 else min(SLOTS * setting.top, arms)
    rows = slots * arms + 1
    return (
        new_streams(rows, 2, most_kept(setting.items.differences)),
        np.full((slots, arms), -1),
        np.zeros(rows, np.int64),
    )


def with_room(streams: Streams, places: int) -> Streams:
    """The same streams, with room for results at `places` places or more."""
    values = streams.items.values
    have = values.shape[2]
    if places <= have:
        return streams
    room: Floats = np.full((*values.shape[:2], max(places, 2 * have, FIRST_ROOM)), np.nan)
    room[:, :, :have] = values
    return streams._replace(items=streams.items._replace(values=room))


def with_blocks(streams: Streams, tests: Ints, values: Floats) -> Streams:
    """The same streams, with these values at the places of blocks that enter next. Rows of `tests` are (arm, metric,
    place)."""
    streams = with_room(streams, 1 + int(tests[:, 2].max(initial=-1)))
    streams.items.values[tuple(tests.T)] = values
    return streams


def in_next_blocks(setting: Setting, streams: Streams, tests: Ints, values: Floats) -> tuple[Streams, Ints]:
    """If tests come in blocks, the same with these results, which are only supposed, as if each next one of a stream
    were alone in the next block. Rows of `tests` are (arm, metric, how many the stream has before)."""
    if setting.pairing != ON_ITEMS or setting.items.capacity == 0:
        return streams, tests
    first = streams.counts[tests[:, 0], tests[:, 1]]
    places = np.column_stack([tests[:, :2], tests[:, 2] - first + places_so_far(streams)])
    return with_blocks(streams, places, values), places + np.array([0, 0, 1])


def with_own_differences(setting: Setting, streams: Streams) -> Streams:
    """The same results with new differences, so that the present ones stay as they are."""
    differences, against, compared = _no_differences(setting, len(streams.counts))
    return streams._replace(items=streams.items._replace(differences=differences, against=against, compared=compared))


def next_places(setting: Setting, streams: Streams) -> Ints:
    """[arm, metric]: how many results there are or, on items, the place of the next one: a result may have several
    trials."""
    on_items = setting.pairing == ON_ITEMS and setting.items.capacity == 0
    return streams.items.reached if on_items else streams.counts


def tests_on_items(setting: Setting, streams: Streams) -> Ints:
    """[arm, metric]: how many tests there have been. With slices, some of their results may wait for their turn; at the
    first metric of a bundle all tests of it count."""
    if setting.pairing != ON_ITEMS or setting.items.slices == ABSENT:
        return streams.counts
    known = ~np.isnan(at_places(setting.items.slices, streams.items.values))
    tests: Ints = known.sum(axis=2)
    for lead in np.unique(setting.lead).tolist():
        tests[:, lead] = known[:, setting.lead == lead].any(axis=1).sum(axis=1)
    return tests


def at_places(slices: Slices, values: Floats) -> Floats:
    """The values of streams, [arm, metric, rank in the slice], by the places of items."""
    if slices == ABSENT:
        return values
    found = np.full((*values.shape[:2], slices.ranks.shape[1]), np.nan)
    for part, size in enumerate(slices.sizes.tolist()):
        counted = min(size, values.shape[2])
        found[:, part, slices.places[part, :counted]] = values[:, part, :counted]
    return found


@kernel
def next_item(setting: Setting, streams: Streams, arm: int, metric: int) -> int:
    """The place of the next item that counts for a metric and that the arm has not been measured on; beyond all places
    if there is none."""
    slices, values = setting.items.slices, streams.items.values
    rank = streams.items.reached[arm, metric]
    room = values.shape[2]
    # Some results may have come before their turn.
    while rank < room and values[arm, metric, rank] == values[arm, metric, rank]:
        rank += 1
    place: int = slices.places[metric, rank] if rank < slices.sizes[metric] else UNLIMITED
    return place


@kernel
def places_so_far(streams: Streams) -> int:
    """How many places the blocks have that entered."""
    number = 0
    reached = streams.items.reached
    for arm in range(reached.shape[0]):
        for metric in range(reached.shape[1]):
            number = max(number, reached[arm, metric])
    return number


# ------------------------------------------------------------------------------------------------ arms that come later


@kernel
def _first_place(setting: Setting, arm: int) -> int:
    place: int = setting.reserve.first[arm]
    return place


@kernel
def _is_fresh(setting: Setting, one: int, other: int, place: int) -> bool:
    return bool(place >= max(setting.reserve.since[one], setting.reserve.since[other]))


first_place = choice("setting.sharing", {RESERVED: _first_place}, unknown="0")
"""The place of an arm's first test."""
is_fresh = choice("setting.sharing", {RESERVED: _is_fresh}, unknown="True")
"""Whether no arm had been measured on the item at a place when the later one of two arms came."""


@kernel
def place_of_next(setting: Setting, streams: Streams, arm: int, metric: int) -> int:
    """The place of the item of an arm's next test, where all items count for every metric."""
    place: int = first_place(setting, arm) + streams.counts[arm, metric]
    return place


# ------------------------------------------------------------------------------------------------------------- judges


@kernel
def _with_score(
    setting: Setting, streams: Streams, arm: int, metric: int, value: float, score: float, mean: float
) -> None:
    """Add a result whose item a judge has scored. `mean` is that of all scores. Without a score, it is as any other."""
    if score == score:
        expect(streams, arm, metric, score, mean)
    record(setting, streams, arm, metric, value)
    if score == score:
        streams.means[arm, metric] = estimate(stream_of(setting, streams, arm, metric))


@kernel
def _enter(setting: Setting, streams: Streams, arm: int, metric: int, place: int) -> None:
    value = streams.items.values[arm, metric, place]
    if is_fresh(setting, arm, arm, place):
        record(setting, streams, arm, metric, value)
    else:
        take_note(setting, streams, arm, metric, value)


@kernel
def _enter_judged(setting: Setting, streams: Streams, arm: int, metric: int, place: int) -> None:
    judge, value = setting.items.judge, streams.items.values[arm, metric, place]
    _with_score(setting, streams, arm, metric, value, judge.scores[arm, metric, place], judge.means[arm, metric])


enter = choice("setting.judging", {UNJUDGED: _enter, JUDGED: _enter_judged}, unknown="")
"""Add the result at a place to its stream."""


@kernel
def _enter_difference(setting: Setting, streams: Streams, leader: int, arm: int, place: int, value: float) -> None:
    row = row_of(streams, leader, arm)
    if is_fresh(setting, leader, arm, place):
        record(setting.items.differences, streams.items.differences, row, DIFFERENCE, value)
    else:
        take_note(setting.items.differences, streams.items.differences, row, DIFFERENCE, value)


@kernel
def _enter_judged_difference(
    setting: Setting, streams: Streams, leader: int, arm: int, place: int, value: float
) -> None:
    scores, means, row = setting.items.judge.scores, setting.items.judge.means, row_of(streams, leader, arm)
    score, mean = scores[leader, 0, place] - scores[arm, 0, place], means[leader, 0] - means[arm, 0]
    _with_score(setting.items.differences, streams.items.differences, row, DIFFERENCE, value, score, mean)


enter_difference = choice(
    "setting.judging", {UNJUDGED: _enter_difference, JUDGED: _enter_judged_difference}, unknown=""
)
"""Add the difference between two arms at a place to its stream."""


@kernel
def _enter_contrast(setting: Setting, streams: Streams, arm: int, metric: int, place: int, value: float) -> None:
    record(setting.items.contrasts, streams.items.contrasts, arm, metric, value)


@kernel
def _enter_judged_contrast(setting: Setting, streams: Streams, arm: int, metric: int, place: int, value: float) -> None:
    scores, means = setting.items.judge.scores, setting.items.judge.means
    factor, baseline = setting.relative.factor[metric], setting.relative.baseline
    score = scores[arm, metric, place] - factor * scores[baseline, metric, place]
    mean = means[arm, metric] - factor * means[baseline, metric]
    _with_score(setting.items.contrasts, streams.items.contrasts, arm, metric, value, score, mean)


enter_contrast = choice("setting.judging", {UNJUDGED: _enter_contrast, JUDGED: _enter_judged_contrast}, unknown="")
"""Add the contrast between an arm and the baseline at a place to its stream."""


# ------------------------------------------------------------------------------------------------------------- places


@kernel
def record_at(setting: Setting, streams: Streams, arm: int, metric: int, place: int, value: float) -> None:
    """Take in a result on the item at a place. Results enter in the order of the places: one that comes before an
    earlier place's waits for it. In blocks, `value` is the mean of the arm's tests in a block whose places, which have
    their values, end before `place`. Blocks come in order, and an arm that is not in one is passed over."""
    values, reached = streams.items.values, streams.items.reached
    if setting.items.capacity > 0:
        reached[arm, metric] = place
        record(setting, streams, arm, metric, value)
        return
    values[arm, metric, place] = value
    room = values.shape[2]
    after = reached[arm, metric]
    while after < room and values[arm, metric, after] == values[arm, metric, after]:
        enter(setting, streams, arm, metric, after)
        after += 1
    reached[arm, metric] = after


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
        items.compared[row] = 0
        between.counts[row, DIFFERENCE] = 0
        between.sums[row, DIFFERENCE] = 0.0
        between.means[row, DIFFERENCE] = 0.0
        for k in range(between.kept.shape[2]):
            between.kept[row, DIFFERENCE, k] = 0.0
    common = min(items.reached[leader, 0], items.reached[arm, 0])
    for place in range(items.compared[row], common):
        difference = items.values[leader, 0, place] - items.values[arm, 0, place]
        if difference == difference:
            enter_difference(setting, streams, leader, arm, place, difference)
    items.compared[row] = max(items.compared[row], common)
    return stream_of(setting.items.differences, between, row, DIFFERENCE)


@kernel
def contrast_of(setting: Setting, streams: Streams, arm: int, metric: int) -> Stream:
    """The arm's values minus the factor times the baseline's, on all items on which both were measured."""
    items, contrasts, baseline = streams.items, streams.items.contrasts, setting.relative.baseline
    common = min(items.reached[baseline, metric], items.reached[arm, metric])
    for place in range(items.contrasted[arm, metric], common):
        limit = setting.relative.factor[metric] * items.values[baseline, metric, place]
        contrast = items.values[arm, metric, place] - limit
        # What may be rounding is no difference.
        if abs(contrast) <= 1e-12 * abs(limit):
            contrast = 0.0
        if contrast == contrast:
            enter_contrast(setting, streams, arm, metric, place, contrast)
    items.contrasted[arm, metric] = max(items.contrasted[arm, metric], common)
    return stream_of(setting.items.contrasts, contrasts, arm, metric)
