"""A stretch of a recorded study: results in order, with the policy's decision where a round ends."""

from __future__ import annotations

from typing import Any

from bestarm.evidence.items import record_at
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.state import (
    EMPTY,
    ON_ITEMS,
    RESERVED,
    SEPARATE,
    Batch,
    Flags,
    Floats,
    Ints,
    Setting,
    Streams,
    conclude,
)
from bestarm.noises.dispatch import record

UNDECIDED = 0
"""What `advance` returns if the last result did not end a round. The size of a batch is positive, a conclusion
negative."""


@kernel
def update(setting: Setting, streams: Streams, memory: Any, arm: int, metric: int) -> None:
    """Stands for the policy's `update` until what calls it is compiled for one."""


@kernel
def propose(setting: Setting, streams: Streams, memory: Any, batch: Batch) -> int:
    """Stands for the policy's `propose` until what calls it is compiled for one."""
    return 0


@kernel
def _take_in(setting: Setting, streams: Streams, tests: Ints, values: Floats, k: int) -> None:
    record(setting, streams, tests[k, 0], tests[k, 1], values[k])


@kernel
def _take_in_at(setting: Setting, streams: Streams, tests: Ints, values: Floats, k: int) -> None:
    record_at(setting, streams, tests[k, 0], tests[k, 1], tests[k, 2], values[k])


take_in = choice("setting.pairing", {SEPARATE: _take_in, ON_ITEMS: _take_in_at}, unknown="")
"""Enter result number k into its stream, on items at its place."""


@kernel
def _unless_retired(setting: Setting, arm: int) -> bool:
    return bool(setting.reserve.is_retired[arm] == 0)


takes_part = choice("setting.sharing", {RESERVED: _unless_retired}, unknown="True")
"""Whether the arm is not retired: it can lead, and nothing is decided before each of its metrics has a result."""


@kernel
def advance(
    setting: Setting,
    streams: Streams,
    memory: Any,
    batch: Batch,
    tests: Ints,
    values: Floats,
    ends: Flags,
    untested: Ints,
) -> int:
    """Take in results until the policy stops. Returns its decision after the last one, as `propose` does, or UNDECIDED.

    An empty batch, which would look the same, is returned as the conclusion `EMPTY`.

    Row k of `tests` is (arm, metric) of a result, on items (arm, metric, place); those of one test follow each other. A
    value of NaN means that the test ended without a result. While `untested[0]`, the number of streams without a
    result, is not 0, nothing is decided: policies rely on every stream having been tested. Without any results, the
    policy just decides.
    """
    if values.shape[0] == 0:
        size = propose(setting, streams, memory, batch)
        return size if size != 0 else conclude(EMPTY)
    size = UNDECIDED
    first = 0
    while first < values.shape[0]:
        # The results of one test follow each other, and enter together.
        k = first
        metric = tests[k, 1]
        while k < values.shape[0] and metric >= 0:
            arm = tests[k, 0]
            if values[k] == values[k]:
                is_new = streams.counts[arm, metric] == 0
                take_in(setting, streams, tests, values, k)
                if is_new and streams.counts[arm, metric] > 0 and takes_part(setting, arm):
                    untested[0] -= 1
            metric = setting.following[metric]
            k += 1
        for row in range(first, k):
            if values[row] == values[row]:
                update(setting, streams, memory, tests[row, 0], tests[row, 1])
        first = k
        size = UNDECIDED
        if ends[k - 1] and untested[0] == 0:
            size = propose(setting, streams, memory, batch)
            if size <= 0:
                return size if size < 0 else conclude(EMPTY)
    return size
