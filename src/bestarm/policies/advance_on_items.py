"""As `advance`, for a study with items: results come with the place of their item and enter in the order of places."""

from __future__ import annotations

from typing import Any

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import EMPTY, Batch, Flags, Floats, Ints, conclude
from bestarm.policies.advance import UNDECIDED, propose, update
from bestarm.policies.items import record_at


@kernel
def advance_on_items(
    setting: Any,
    streams: Any,
    memory: Any,
    batch: Batch,
    tests: Ints,
    values: Floats,
    ends: Flags,
    untested: Ints,
) -> int:
    """Take in results until the policy stops. Row k of `tests` is (arm, metric, place). A test without a result (NaN)
    leaves its place open."""
    if values.shape[0] == 0:
        size = propose(setting, streams, memory, batch)
        return size if size != 0 else conclude(EMPTY)
    size = UNDECIDED
    first = 0
    while first < values.shape[0]:
        k = first
        metric = tests[k, 1]
        while k < values.shape[0] and metric >= 0:
            arm = tests[k, 0]
            if values[k] == values[k]:
                is_new = streams.counts[arm, metric] == 0
                record_at(setting, streams, arm, metric, tests[k, 2], values[k])
                if is_new and streams.counts[arm, metric] > 0:
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
