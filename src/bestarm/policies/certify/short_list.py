"""A short list: `certify` until at most `top` arms can still be the best feasible one.

Certificates are those for the best arm. The arms that would take longest to exclude, one fewer than the list may have
besides the leader, are left alone. They are drawn again in each round, so that an arm that only looks good after a
few tests is tested again.
"""

from __future__ import annotations

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import NONE, Batch, Setting, Streams, conclude, signed
from bestarm.kernel.tournament import NO_ARM, best
from bestarm.policies.certify.best_arm import likeliest, open_against, tests_of_open_arms
from bestarm.policies.certify.choosing import closes, drawn_excess, drawn_performance, tests_of_leader
from bestarm.policies.certify.goal import Goal, kernels_of, settled_set
from bestarm.policies.certify.leading import drawn_lead
from bestarm.policies.certify.memory import Memory, best_listed, is_certified, new_memory_of_sets, seed_choices
from bestarm.policies.findings import Findings
from bestarm.policies.open_certificates import OpenCertificate

HOPELESS = 1e12
"""How many tests it takes to exclude an arm that looks as good as the leader, at least."""


@kernel
def list_candidates(memory: Memory, leader: int) -> int:
    """Mark the arms that can still be the answer; returns how many there are.

    An arm is out if it is rejected, or beaten by an arm that is certified feasible and is not out itself. The leader
    is never out by being beaten.
    """
    arms = memory.rejected.shape[0]
    for arm in range(arms):
        memory.chosen.settled[arm] = is_certified(memory, arm)
    left = 0
    for arm in range(arms):
        by = memory.beaten[arm]
        is_out = memory.rejected[arm] != 0
        if by != NO_ARM and arm != leader and memory.chosen.settled[by] != 0:
            above = memory.beaten[by]
            is_out = is_out or by == leader or above == NO_ARM or memory.chosen.settled[above] == 0
        memory.chosen.listed[arm] = not is_out
        left += not is_out
    return left


@kernel
def close_candidates(setting: Setting, streams: Streams, memory: Memory, leader: int) -> int:
    """Reject arms that can still be the answer, or count them as beaten by the leader, where the evidence suffices.
    The arms of which neither is shown come into `open_arms`; returns how many there are."""
    open_count = 0
    for arm in range(memory.rejected.shape[0]):
        is_left = (
            memory.chosen.listed[arm] != 0 and arm != leader and (leader == NO_ARM or memory.beaten[arm] != leader)
        )
        if is_left and not closes(setting, streams, memory, leader, arm):
            memory.open_arms[open_count] = arm
            open_count += 1
    return open_count


@kernel
def not_to_exclude(memory: Memory, leader: int) -> int:
    """The number of candidates that need no certificate: the leader, and the arms that it has beaten, which are out as
    soon as it is certified feasible."""
    if leader == NO_ARM:
        return 0
    count = 0
    for arm in range(memory.rejected.shape[0]):
        count += memory.chosen.listed[arm] != 0 and (arm == leader or memory.beaten[arm] == leader)
    return count


@kernel
def tests_to_exclude(
    setting: Setting, streams: Streams, memory: Memory, leader: int, drawn_leader: float, arm: int
) -> float:
    """By a posterior draw: what it costs to show that an arm is infeasible, or worse than the leader."""
    least: float = HOPELESS
    for metric in range(1, streams.counts.shape[1]):
        if memory.certified[arm, metric] == 0:
            excess = drawn_excess(setting, streams, memory, arm, metric, 1.0)
            if excess > 0.0:
                tests = 2.0 * setting.rejecting[arm] / (excess * excess) - streams.counts[arm, metric]
                least = min(least, max(tests, 1.0) / setting.inverse_cost[arm, metric])
    if leader == NO_ARM:
        return least
    lead = drawn_lead(setting, streams, memory, leader, drawn_leader, arm)
    if lead > 0.0:
        n, n_leader = streams.counts[arm, 0], streams.counts[leader, 0]
        tests = 2.0 * setting.level[leader] / (lead * lead) - n * n_leader / (n + n_leader)
        least = min(least, max(tests, 1.0) / setting.inverse_cost[arm, 0])
    elif least == HOPELESS:
        # If several arms look as good as the leader, the best of them is excluded last.
        least = HOPELESS * (1.0 - lead)
    return least


@kernel
def leave_out(memory: Memory, open_count: int, spared: int) -> int:
    """Take the `spared` arms that cost most to exclude off the list of open arms; returns how many are left."""
    for _ in range(min(spared, open_count)):
        hardest = 0
        for index in range(1, open_count):
            if memory.chosen.scratch[memory.open_arms[index]] > memory.chosen.scratch[memory.open_arms[hardest]]:
                hardest = index
        open_count -= 1
        for index in range(hardest, open_count):
            memory.open_arms[index] = memory.open_arms[index + 1]
    return open_count


@kernel
def _tests(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    leader = best(memory.candidates)
    left = list_candidates(memory, leader)
    open_count = close_candidates(setting, streams, memory, leader)
    left = list_candidates(memory, leader)
    # An arm that excludes others may be beaten by the leader. Then those are candidates again, until they are beaten.
    while left > open_count + not_to_exclude(memory, leader):
        open_count = close_candidates(setting, streams, memory, leader)
        left = list_candidates(memory, leader)
    if left == 0:
        return conclude(NONE)
    if left <= setting.top:
        return conclude(best_listed(streams, memory))

    seed_choices(memory)
    drawn_leader = drawn_performance(setting, streams, memory, leader) if leader != NO_ARM else 0.0
    for index in range(open_count):
        arm = signed(memory.open_arms[index])
        memory.chosen.scratch[arm] = tests_to_exclude(setting, streams, memory, leader, drawn_leader, arm)
    spared = setting.top if leader == NO_ARM else setting.top - 1
    open_count = leave_out(memory, open_count, spared)

    size = tests_of_open_arms(setting, streams, memory, open_count, leader, drawn_leader, batch)
    if leader == NO_ARM:
        return size
    return tests_of_leader(setting, streams, memory, leader, size == 0, batch, size)


def open_of_short_list(
    setting: Setting, streams: Streams, memory: Memory, leader: int | None, found: Findings
) -> list[OpenCertificate]:
    """Without those of the arms that may stay on the list: the ones that would take longest."""
    own, others = [], []
    for one in open_against(setting, streams, memory, leader, found):
        if one.kind == "holds":
            own.append(one)
        elif found.candidates[one.arm]:
            others.append(one)
    spared = setting.top - (leader is not None)
    return [*own, *sorted(others, key=lambda one: -one.tests)[spared:]]


GOAL = Goal(kernels_of(_tests, new_memory_of_sets), likeliest, open_of_short_list, settled_set)
