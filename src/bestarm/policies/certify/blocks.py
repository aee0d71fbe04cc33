"""A round of tests as one block: what is compared is in it together, and what was tested least comes first.

Arms are ranked by what is left of their performance without what their blocks added. Means would favor arms that were
in the better blocks. No certificate rests on this ranking.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from bestarm.evidence.items import places_so_far
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.state import ON_ITEMS, RELATIVE, SEPARATE, Batch, Setting, Streams, add_test, signed
from bestarm.kernel.tournament import NO_ARM, best, enter, key_of
from bestarm.policies.certify.choosing import with_baseline
from bestarm.policies.certify.memory import Memory


@kernel
def _adjust(streams: Streams, block: int) -> None:
    """Take in a block: what it added is the mean, over the arms in it, of what they gave more than they gave so far."""
    values, adjusted = streams.items.values, streams.items.adjusted
    arms = adjusted.shape[0]
    is_known = False
    for arm in range(arms):
        is_known = is_known or (values[arm, 0, block] == values[arm, 0, block] and adjusted[arm, 1] > 0.0)
    total = 0.0
    count = 0.0
    for arm in range(arms):
        value = values[arm, 0, block]
        if value == value and (adjusted[arm, 1] > 0.0 or not is_known):
            before = adjusted[arm, 0] / adjusted[arm, 1] if adjusted[arm, 1] > 0.0 else 0.0
            total += value - before
            count += 1.0
    for arm in range(arms):
        value = values[arm, 0, block]
        if value == value:
            adjusted[arm, 0] += value - total / count
            adjusted[arm, 1] += 1.0


@kernel
def _rank(setting: Setting, streams: Streams, memory: Memory) -> None:
    if setting.items.capacity > 0:
        known_to = streams.items.adjusted_to
        for block in range(known_to[0], places_so_far(streams)):
            _adjust(streams, block)
            known_to[0] = block + 1
        for arm in range(memory.rejected.shape[0]):
            total, count = streams.items.adjusted[arm, 0], streams.items.adjusted[arm, 1]
            if memory.candidates.keys[arm] > -math.inf and count > 0.0:
                enter(memory.candidates, arm, key_of(total / count))


rank_within_blocks = choice("setting.pairing", {ON_ITEMS: _rank}, unknown="")
"""In blocks, rank the candidates for leader by their performance within blocks."""


@kernel
def add_once(batch: Batch, size: int, arm: int, metric: int) -> int:
    """Add a test to a batch unless it is there."""
    for row in range(size):
        if signed(batch[row, 0]) == arm and signed(batch[row, 1]) == metric:
            return size
    return add_test(batch, size, arm, metric)


@kernel
def add_leader(setting: Setting, memory: Memory, batch: Batch, size: int) -> int:
    """The performance of the leader, with which the others are compared."""
    leader = best(memory.candidates)
    return add_once(batch, size, leader, 0) if leader != NO_ARM else size


@kernel
def _has_metric(batch: Batch, size: int, metric: int) -> bool:
    is_there = False
    for row in range(size):
        is_there = is_there or signed(batch[row, 1]) == metric
    return is_there


@kernel
def _add_baseline(setting: Setting, streams: Streams, batch: Batch, size: int) -> int:
    """The baseline, for each metric whose limit it is."""
    for metric in range(1, streams.counts.shape[1]):
        if setting.relative.factor[metric] != 0.0 and _has_metric(batch, size, metric):
            size = add_once(batch, size, setting.relative.baseline, metric)
    return size


_with_limits = choice("setting.limits", {RELATIVE: _add_baseline}, unknown="size")


@kernel
def _is_limit(setting: Setting, arm: int, metric: int) -> bool:
    return arm == setting.relative.baseline and setting.relative.factor[metric] != 0.0


is_limit = choice("setting.limits", {RELATIVE: _is_limit}, unknown="False")
"""Whether a stream of the baseline says what the limit of others is."""


@kernel
def is_leader(memory: Memory, arm: int) -> bool:
    """The others are compared with the leader."""
    return arm == best(memory.candidates)


FIRST = 2**40
"""More tests than a stream ever has."""


def finishing(
    add_rivals: Callable[[Setting, Memory, Batch, int], int], is_rival: Callable[[Memory, int], bool] = is_leader
) -> Callable[..., int]:
    """The kernel that completes a batch by the tests with which its own are compared. A conclusion stays as it is."""

    @kernel
    def need(setting: Setting, streams: Streams, memory: Memory, batch: Batch, row: int, wants_rival: bool) -> int:
        """How soon a test of a block is wanted: first those that others are compared with, then those of which there
        are few."""
        arm, metric = signed(batch[row, 0]), signed(batch[row, 1])
        if is_limit(setting, arm, metric):
            return -FIRST
        count: int = streams.counts[arm, metric]
        return count - FIRST if wants_rival and metric == 0 and is_rival(memory, arm) else count

    @kernel
    def put_first(setting: Setting, streams: Streams, memory: Memory, batch: Batch, size: int) -> None:
        """Bring the tests that are wanted most to the front, as many as a block can have. If there are many rivals,
        half of the block is left for the others."""
        rivals = 0
        for first in range(min(size, setting.items.capacity * streams.counts.shape[1])):
            wants_rival = 2 * rivals < setting.items.capacity
            soonest = first
            for row in range(first + 1, size):
                least = need(setting, streams, memory, batch, soonest, wants_rival)
                if need(setting, streams, memory, batch, row, wants_rival) < least:
                    soonest = row
            for column in range(2):
                kept = batch[first, column]
                batch[first, column] = batch[soonest, column]
                batch[soonest, column] = kept
            if signed(batch[first, 1]) == 0 and is_rival(memory, signed(batch[first, 0])):
                rivals += 1

    @kernel
    def alone(setting: Setting, streams: Streams, memory: Memory, batch: Batch, size: int) -> int:
        return with_baseline(setting, streams, batch, size)

    @kernel
    def on_items(setting: Setting, streams: Streams, memory: Memory, batch: Batch, size: int) -> int:
        if setting.items.capacity == 0 or size <= 0:
            return with_baseline(setting, streams, batch, size)
        if _has_metric(batch, size, 0):
            size = add_rivals(setting, memory, batch, size)
        size = _with_limits(setting, streams, batch, size)
        put_first(setting, streams, memory, batch, size)
        return size

    return choice("setting.pairing", {SEPARATE: alone, ON_ITEMS: on_items}, unknown="size")
