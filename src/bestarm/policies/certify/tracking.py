"""`sampling = "tracking"`: tests in the proportions that are best for the measured means. Its time has a proven limit.

Let w be the shares of tests by which the open certificates would be proven soonest if the means were as measured. Each
test adds (1 - g) w + g / streams to what the streams are owed, so that none is left alone; g falls as 1 / sqrt(t). The
stream that is owed most is tested. w is computed again at geometrically spaced times, and when a certificate is closed
or opened.

A study stops when the evidence suffices *at that time* for each certificate: what once sufficed does not count, so that
early luck can never keep a study from ending. With evidence that grows as fast as the information, the number of tests
is T* log(1/delta) in the limit of small delta: Theorem T.2 in `docs/certificates/time.md`.
"""

from __future__ import annotations

import math

from bestarm.evidence.claims import suffices
from bestarm.evidence.reaching import Infeasibility, infeasibility_up_to, infeasible_ceiling, rival_reaches
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import NONE, Batch, Setting, Streams, add_test, conclude
from bestarm.kernel.tournament import NO_ARM, best
from bestarm.policies.certify.allocation import set_weights
from bestarm.policies.certify.best_arm import likeliest, open_against, settled_best
from bestarm.policies.certify.goal import Goal, kernels_of
from bestarm.policies.certify.memory import Memory, is_certified, new_memory_of_tracking
from bestarm.policies.certify.updating import update
from bestarm.policies.confidence import pair_level

LOOKS = 8
"""Weights are computed again when the number of results has grown by one in so many."""
EXPLORED = 0.7
MOST_EXPLORED = 0.5
"""The share of test t that is for all streams alike: the first times the root of streams / t, or the second."""


@kernel
def _take_in(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
    """Judge the arm by its present evidence, and note what every stream is owed."""
    if metric > 0 and _is_tested(streams, arm):
        level = setting.rejecting[arm]
        found = infeasibility_up_to(setting, streams, arm, level)
        memory.rejected[arm] = found.is_exact and suffices(found.evidence, level)
    update(setting, streams, memory, arm, metric)
    tracked = memory.tracked
    arms, metrics = tracked.owed.shape
    explored = min(EXPLORED * math.sqrt(arms * metrics / memory.told[0]), MOST_EXPLORED)
    even = explored / (arms * metrics)
    for row in range(arms):
        for column in range(metrics):
            tracked.owed[row, column] += (1.0 - explored) * tracked.weights[row, column] + even
    tracked.owed[arm, metric] -= 1.0


@kernel
def _is_tested(streams: Streams, arm: int) -> bool:
    """Whether every constraint of the arm has a result."""
    tested = 1
    for metric in range(1, streams.counts.shape[1]):
        tested += streams.counts[arm, metric] > 0
    return bool(tested == streams.counts.shape[1])


@kernel
def _all_rejected(memory: Memory) -> bool:
    count = 0
    for arm in range(memory.rejected.shape[0]):
        count += memory.rejected[arm] != 0
    return bool(count == memory.rejected.shape[0])


@kernel
def _is_answer(setting: Setting, streams: Streams, memory: Memory, leader: int) -> bool:
    """Whether the evidence suffices for the answer `leader` or, without one, that no arm is feasible.

    Arms that are not known to be beaten are compared with the leader. Once nothing else is lacking, the same is asked
    of those that were beaten before.
    """
    if leader == NO_ARM:
        return _all_rejected(memory)
    is_answer = is_certified(memory, leader)
    for turn in range(2):
        if turn == 0 or is_answer:
            for arm in range(memory.rejected.shape[0]):
                is_known = memory.beaten[arm] == leader
                if arm != leader and memory.rejected[arm] == 0 and is_known == (turn == 1):
                    infeasible = Infeasibility(infeasible_ceiling(setting, streams, arm), False)
                    level = pair_level(setting, leader, arm)
                    is_beaten = rival_reaches(setting, streams, leader, arm, infeasible, level)
                    memory.beaten[arm] = leader if is_beaten else NO_ARM
                    is_answer = is_answer and is_beaten
    return is_answer


@kernel
def _look(memory: Memory, leader: int) -> bool:
    """Note which certificates are open; whether others were at the last look."""
    is_open = memory.tracked.is_open
    has_changed = bool(memory.open_count[1] != leader)
    memory.open_count[1] = leader
    for arm in range(is_open.shape[0]):
        is_rival = arm != leader and memory.rejected[arm] == 0 and (leader == NO_ARM or memory.beaten[arm] != leader)
        has_changed = has_changed or (is_open[arm, 0] != 0) != is_rival
        is_open[arm, 0] = is_rival
        for metric in range(1, is_open.shape[1]):
            is_lacking = arm == leader and memory.certified[arm, metric] == 0
            has_changed = has_changed or (is_open[arm, metric] != 0) != is_lacking
            is_open[arm, metric] = is_lacking
    return has_changed


@kernel
def _tests(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    leader = best(memory.candidates)
    tracked, told = memory.tracked, memory.told[0]
    is_due = told >= tracked.due[0]
    if is_due:
        # What sufficed before the last look may have been luck.
        for arm in range(memory.beaten.shape[0]):
            memory.beaten[arm] = NO_ARM
    if _is_answer(setting, streams, memory, leader):
        return conclude(NONE if leader == NO_ARM else leader)
    if _look(memory, leader) or is_due:
        set_weights(setting, streams, memory, leader)
    if is_due:
        tracked.due[0] = told + 1 + told // LOOKS
    arm, metric = 0, 0
    for row in range(tracked.owed.shape[0]):
        for column in range(tracked.owed.shape[1]):
            if tracked.owed[row, column] > tracked.owed[arm, metric]:
                arm, metric = row, column
    return add_test(batch, 0, arm, metric)


GOAL = Goal(kernels_of(_tests, new_memory_of_tracking, _take_in), likeliest, open_against, settled_best)
