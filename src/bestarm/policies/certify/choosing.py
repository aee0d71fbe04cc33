"""What the goals of `certify` share: closing certificates, and choosing the next tests."""

from __future__ import annotations

import math
from collections.abc import Callable

from bestarm.evidence.claims import excess_of, suffices
from bestarm.evidence.reaching import HOLDS, Infeasibility, infeasibility_up_to, rival_may_reach, rival_suffices
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.random import normal
from bestarm.kernel.state import (
    FIRST_RULES,
    RELATIVE,
    RESERVED,
    SECOND_RULES,
    SHARED,
    Batch,
    Setting,
    Streams,
    add_test,
    every_stream,
    signed,
)
from bestarm.kernel.tables import slot
from bestarm.kernel.tournament import NO_ARM, enter
from bestarm.noises.dispatch import scatter
from bestarm.policies.certify.leading import drawn_lead, gain_per_cost, is_in_blocks, of_leader_rather, share_of_gain
from bestarm.policies.certify.memory import Memory
from bestarm.policies.confidence import pair_level

# Draws of constraint means spread by half their posterior standard deviation: any one violated constraint of an arm
# is enough, it need not be the worst.
CONSTRAINT_SPREAD = 0.5
SHRINKAGE = 4.0
"""How many imaginary tests at the threshold a constraint's mean is averaged with when weighed against performance."""

STALE = 16
"""A certified constraint is tested again when the arm's performance has been tested this many times as often."""

LEADER = -1

# ------------------------------------------------------------------------------------------------ closing certificates


@kernel
def reject(memory: Memory, arm: int) -> None:
    memory.rejected[arm] = 1
    enter(memory.candidates, arm, -math.inf)


@kernel
def rejection(setting: Setting, streams: Streams, memory: Memory, arm: int) -> Infeasibility:
    """The evidence that the arm is infeasible, as far as it takes to tell. If it suffices, the arm is rejected."""
    level = setting.rejecting[arm]
    infeasibility = infeasibility_up_to(setting, streams, arm, level)
    if infeasibility.is_exact and suffices(infeasibility.evidence, level):
        reject(memory, arm)
    if not infeasibility.is_exact and infeasibility.evidence >= level:
        memory.put_off[0] = 1
    return infeasibility


@kernel
def closes(setting: Setting, streams: Streams, memory: Memory, leader: int, arm: int) -> bool:
    """Whether the evidence rejects `arm` or shows it beaten by the leader. If so, that is noted and stays noted."""
    infeasibility = rejection(setting, streams, memory, arm)
    if memory.rejected[arm] != 0:
        return True
    if leader == NO_ARM:
        return False
    level = pair_level(setting, leader, arm)
    if not rival_may_reach(setting, streams, leader, arm, infeasibility.evidence, level):
        return False
    if setting.is_hurried != 0:
        memory.put_off[0] = 1
        return False
    if not rival_suffices(setting, streams, leader, arm, infeasibility, level):
        return False
    memory.beaten[arm] = leader
    return True


# ----------------------------------------------------------------------------------------------- choosing what to test


@kernel
def drawn_excess(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int, spread: float) -> float:
    """A posterior draw of how far a constraint's mean lies over its threshold, in standard deviations."""
    excess = excess_of(setting, streams, arm, metric)
    drawn: float = (
        excess
        + spread * normal(memory.generator, memory.ziggurat) * setting.inverse_root[slot(streams.counts[arm, metric])]
    )
    return drawn


@kernel
def _evidence_per_cost(setting: Setting, excess: float, arm: int, metric: int) -> float:
    gain: float = excess * abs(excess) * setting.inverse_cost[arm, metric]
    return gain


@kernel
def suspicion_per_cost(setting: Setting, excess: float, arm: int, metric: int) -> float:
    """If a violation is likely, the evidence for it that a test promises per cost; else the larger, the likelier and
    cheaper it is."""
    gain: float = excess * abs(excess)
    inverse_cost: float = setting.inverse_cost[arm, metric]
    # A division would take longer than the rest.
    return gain * inverse_cost if excess > 0.0 or inverse_cost == 1.0 else gain / inverse_cost


@kernel
def _excess_alone(setting: Setting, excess: float, arm: int, metric: int) -> float:
    return excess


suspicion = choice("setting.rules", {FIRST_RULES: _evidence_per_cost, SECOND_RULES: suspicion_per_cost})
"""By which the constraint of an arm is chosen that is tested next."""
doubt_of_leader = choice("setting.rules", {FIRST_RULES: _excess_alone, SECOND_RULES: suspicion_per_cost})
"""The same for the leader."""


@kernel
def is_stale(streams: Streams, memory: Memory, arm: int, metric: int) -> bool:
    """Whether a certified constraint is worth another test.

    About one study in a thousand certifies a violated constraint by early luck, as delta allows. If that arm is almost
    as good as the best, telling the two apart could take a thousand times as long as all the rest.
    """
    return memory.certified[arm, metric] == HOLDS and bool(STALE * streams.counts[arm, metric] < streams.counts[arm, 0])


def searching(index: Callable[[Setting, Streams, Memory, int, int], float]) -> Callable[..., int]:
    """The kernel that finds the constraint of an arm with the largest `index`, of those that are not certified, or one
    that is stale; 0 if all are certified."""

    @kernel
    def suspect(setting: Setting, streams: Streams, memory: Memory, arm: int) -> int:
        chosen = 0
        largest = -math.inf
        for metric in range(1, streams.counts.shape[1]):
            if is_stale(streams, memory, arm, metric):
                return metric
            if memory.certified[arm, metric] == 0:
                found = index(setting, streams, memory, arm, metric)
                if found > largest:
                    largest = found
                    chosen = metric
        return chosen

    return suspect


@kernel
def _drawn_suspicion(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> float:
    return suspicion(setting, drawn_excess(setting, streams, memory, arm, metric, CONSTRAINT_SPREAD), arm, metric)


_drawn_suspect = searching(_drawn_suspicion)
"""The constraint that is likeliest violated, by posterior draws."""


@kernel
def stream_to_test(
    setting: Setting, streams: Streams, memory: Memory, leader: int, drawn_leader: float, arm: int
) -> int:
    """The metric of `arm` that promises the most evidence against it per cost, or LEADER for the leader's
    performance."""
    chosen = _drawn_suspect(setting, streams, memory, arm)
    return against_performance(setting, streams, memory, leader, drawn_leader, arm, chosen)


@kernel
def against_performance(
    setting: Setting, streams: Streams, memory: Memory, leader: int, drawn_leader: float, arm: int, chosen: int
) -> int:
    """The metric `chosen` of `arm`, or 0 or LEADER if performance promises more evidence per cost."""
    if leader == NO_ARM or (chosen > 0 and memory.certified[arm, chosen] != 0):
        return chosen
    promise = 0.0
    lead = drawn_lead(setting, streams, memory, leader, drawn_leader, arm)
    if chosen > 0:
        # The largest of many draws is too optimistic: use the mean instead, shrunk toward the threshold.
        tests = streams.counts[arm, chosen]
        excess = max(excess_of(setting, streams, arm, chosen), 0.0) * tests / (tests + SHRINKAGE)
        promise = excess * excess * setting.inverse_cost[arm, chosen]
    if lead > 0.0:
        if chosen > 0 and setting.queue[chosen] == setting.queue[0]:
            # One test of the arm measures both.
            share = share_of_gain(setting, streams, leader, arm)
            both = promise + (lead * share) ** 2 * setting.inverse_cost[arm, 0]
            if both >= (lead * (1.0 - share)) ** 2 * setting.inverse_cost[leader, 0] or is_in_blocks(setting):
                return 0
            return LEADER
        if gain_per_cost(setting, streams, leader, arm, lead) > promise:
            return LEADER if of_leader_rather(setting, streams, leader, arm) else 0
    if chosen > 0:
        return chosen
    return LEADER if of_leader_rather(setting, streams, leader, arm) else 0


@kernel
def drawn_performance(setting: Setting, streams: Streams, memory: Memory, arm: int) -> float:
    """A posterior draw of an arm's performance."""
    noise = scatter(setting, streams, arm, 0, streams.means[arm, 0])
    spread = noise * setting.inverse_root[slot(streams.counts[arm, 0])]
    drawn: float = streams.means[arm, 0] + spread * normal(memory.generator, memory.ziggurat)
    return drawn


def testing_leader(index: Callable[[Setting, Streams, Memory, int, int], float]) -> Callable[..., int]:
    """The kernel that adds a test of the leader's constraint with the largest `index` or, if it `is_alone` and no other
    arm is open, of all that are open: an early leader is often wrong, and certifying it is expensive."""

    @kernel
    def tests(
        setting: Setting, streams: Streams, memory: Memory, leader: int, is_alone: bool, batch: Batch, size: int
    ) -> int:
        chosen = 0
        largest = -math.inf
        for metric in range(1, streams.counts.shape[1]):
            if is_stale(streams, memory, leader, metric):
                size = add_test(batch, size, leader, metric)
            elif memory.certified[leader, metric] == 0:
                if is_alone:
                    size = add_test(batch, size, leader, metric)
                else:
                    found = index(setting, streams, memory, leader, metric)
                    if found > largest:
                        largest = found
                        chosen = metric
        return add_test(batch, size, leader, chosen) if chosen > 0 else size

    return tests


@kernel
def drawn_doubt(setting: Setting, streams: Streams, memory: Memory, leader: int, metric: int) -> float:
    return doubt_of_leader(setting, drawn_excess(setting, streams, memory, leader, metric, 1.0), leader, metric)


tests_of_leader = testing_leader(drawn_doubt)
"""Add a test of the leader's constraint that is likeliest violated, by posterior draws, or of all."""


# ---------------------------------------------------------------------------- the first tests, and those of a baseline


@kernel
def _every_stream_first(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    # After that, every stream has a result, unless a block had no room for it, or it was lost.
    is_first = streams.counts[0, 0] == 0
    if is_in_blocks(setting):
        for arm in range(streams.counts.shape[0]):
            for metric in range(streams.counts.shape[1]):
                is_first = is_first or streams.counts[arm, metric] == 0
    return every_stream(streams, batch) if is_first else 0


@kernel
def leave_out_retired(setting: Setting, memory: Memory) -> None:
    """Retired arms are no candidates, and need no certificate."""
    for arm in range(memory.rejected.shape[0]):
        if setting.reserve.is_retired[arm] != 0 and memory.rejected[arm] == 0:
            reject(memory, arm)


@kernel
def _untested_first(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    size = 0
    for arm in range(streams.counts.shape[0]):
        for metric in range(streams.counts.shape[1]):
            if setting.reserve.is_retired[arm] == 0 and streams.counts[arm, metric] == 0:
                size = add_test(batch, size, arm, metric)
    if size == 0:
        leave_out_retired(setting, memory)
    return size


first_tests = choice("setting.sharing", {SHARED: _every_stream_first, RESERVED: _untested_first}, unknown="0")
"""One test of every stream that has none, of arms that are not retired; 0 if there is no such stream."""


@kernel
def _baseline_as_often(setting: Setting, streams: Streams, batch: Batch, size: int) -> int:
    baseline = setting.relative.baseline
    for metric in range(1, streams.counts.shape[1]):
        if setting.relative.factor[metric] != 0.0:
            most = 0
            is_there = False
            for row in range(size):
                arm = signed(batch[row, 0])
                if signed(batch[row, 1]) == metric:
                    most = max(most, streams.counts[arm, metric] + 1)
                    is_there = is_there or arm == baseline
            if streams.counts[baseline, metric] < most and not is_there:
                size = add_test(batch, size, baseline, metric)
    return size


with_baseline = choice("setting.limits", {RELATIVE: _baseline_as_often}, unknown="size")
"""Add tests of the baseline to a batch, so that it is tested as often as any arm that is compared with it. A
conclusion stays as it is."""
