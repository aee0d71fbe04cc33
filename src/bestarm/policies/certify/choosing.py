"""What the goals of `certify` share: taking in a result, closing certificates, and choosing the next tests."""

from __future__ import annotations

import math
from collections.abc import Callable

from bestarm.evidence.claims import excess_of, looks_fine, suffices
from bestarm.evidence.items import DIFFERENCE, difference_of, row_of
from bestarm.evidence.reaching import HOLDS, Infeasibility, holding_reaches, infeasibility_up_to, rival_reaches
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.random import normal
from bestarm.kernel.state import (
    FIRST_RULES,
    FIXED,
    ON_ITEMS,
    RELATIVE,
    RESERVED,
    SECOND_RULES,
    SEPARATE,
    SHARED,
    Batch,
    Setting,
    Streams,
    add_test,
    every_stream,
    signed,
)
from bestarm.kernel.tables import slot
from bestarm.kernel.tournament import NO_ARM, enter, key_of
from bestarm.noises.dispatch import scatter
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
_ROOT_HALF = math.sqrt(0.5)

# -------------------------------------------------------------------------------------------------- taking in results


def updating(is_suspicious: Callable[[Setting, Streams, int, int], bool]) -> Callable[..., None]:
    """The kernel that takes in a result. An arm is no candidate while one of its constraints `is_suspicious` and not
    certified."""

    @kernel
    def judge(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
        """Certify a constraint if it can be, and see whether the arm is a candidate."""
        if metric > 0:
            # A certificate could be kept for good. But if its constraint is tested again it must still hold: otherwise
            # one that was closed by luck could cost many tests.
            memory.certified[arm, metric] = holding_reaches(setting, streams, arm, metric, setting.level[arm])
            suspicious = memory.certified[arm, metric] == 0 and is_suspicious(setting, streams, arm, metric)
            memory.suspects[arm] += suspicious - memory.suspect[arm, metric]
            memory.suspect[arm, metric] = suspicious
        is_candidate = memory.suspects[arm] == 0 and not memory.rejected[arm] and streams.counts[arm, 0] > 0
        enter(memory.candidates, arm, key_of(streams.means[arm, 0]) if is_candidate else -math.inf)

    @kernel
    def judge_compared(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
        """A result of the baseline says something about every arm that is compared with it."""
        is_limit = setting.relative.factor[metric] != 0.0 and arm == setting.relative.baseline
        first, last = (0, streams.counts.shape[0]) if is_limit else (arm, arm + 1)
        for concerned in range(first, last):
            judge(setting, streams, memory, concerned, metric)

    judge_all = choice("setting.limits", {FIXED: judge, RELATIVE: judge_compared}, unknown="")

    @kernel
    def update(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
        memory.told[0] += 1
        judge_all(setting, streams, memory, arm, metric)

    return update


@kernel
def looks_violated(setting: Setting, streams: Streams, arm: int, metric: int) -> bool:
    """Whether a constraint's mean is on the wrong side."""
    return not looks_fine(setting, streams, arm, metric)


update = updating(looks_violated)
"""Certify the constraint that was just tested if it can be, and see whether the arm looks feasible."""


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
    return infeasibility


@kernel
def closes(setting: Setting, streams: Streams, memory: Memory, leader: int, arm: int) -> bool:
    """Whether the evidence rejects `arm` or shows it beaten by the leader. If so, that is noted and stays noted."""
    infeasibility = rejection(setting, streams, memory, arm)
    if memory.rejected[arm] != 0:
        return True
    if leader == NO_ARM:
        return False
    if not rival_reaches(setting, streams, leader, arm, infeasibility, pair_level(setting, leader, arm)):
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
def _evidence_per_cost(setting: Setting, excess: float, metric: int) -> float:
    gain: float = excess * abs(excess) * setting.inverse_cost[metric]
    return gain


@kernel
def suspicion_per_cost(setting: Setting, excess: float, metric: int) -> float:
    """If a violation is likely, the evidence for it that a test promises per cost; else the larger, the likelier and
    cheaper it is."""
    gain: float = excess * abs(excess)
    inverse_cost: float = setting.inverse_cost[metric]
    # A division would take longer than the rest.
    return gain * inverse_cost if excess > 0.0 or inverse_cost == 1.0 else gain / inverse_cost


@kernel
def _excess_alone(setting: Setting, excess: float, metric: int) -> float:
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


@kernel
def _drawn_lead(
    setting: Setting, streams: Streams, memory: Memory, leader: int, drawn_leader: float, arm: int
) -> float:
    noise = scatter(setting, streams, leader, 0, streams.means[leader, 0])
    root = setting.inverse_root[slot(streams.counts[arm, 0])]
    drawn = streams.means[arm, 0] + noise * normal(memory.generator, memory.ziggurat) * root
    lead: float = (drawn_leader + setting.tolerance - drawn) / noise
    return lead


@kernel
def _both_measured_out(setting: Setting, streams: Streams, leader: int, arm: int) -> bool:
    places = setting.items.places
    return bool(streams.counts[leader, 0] >= places and streams.counts[arm, 0] >= places)


all_known = choice("setting.pairing", {ON_ITEMS: _both_measured_out}, unknown="False")
"""Whether there is nothing more to learn about the lead of one arm over another."""


@kernel
def _drawn_lead_on_items(
    setting: Setting, streams: Streams, memory: Memory, leader: int, drawn_leader: float, arm: int
) -> float:
    """In units that make it comparable to one between independent results: those differ by the root of 2 times as much
    as each scatters."""
    if all_known(setting, streams, leader, arm):
        return -1.0
    lead = difference_of(setting, streams, leader, arm)
    row = row_of(streams, leader, arm)
    mean = lead.total / lead.n if lead.n > 0 else streams.means[leader, 0] - streams.means[arm, 0]
    noise = scatter(setting.items.differences, streams.items.differences, row, DIFFERENCE, mean)
    root = setting.inverse_root[slot(max(lead.n, 1))]
    drawn: float = mean + noise * normal(memory.generator, memory.ziggurat) * root + setting.tolerance
    return drawn / (noise * _ROOT_HALF)


drawn_lead = choice("setting.pairing", {SEPARATE: _drawn_lead, ON_ITEMS: _drawn_lead_on_items})
"""A posterior draw of how far the leader's performance lies above the arm's, in standard deviations of a result."""


@kernel
def share_of_gain(setting: Setting, streams: Streams, leader: int, arm: int) -> float:
    """How much of what is learned about the lead comes from testing the arm, not the leader: the gain of evidence per
    test is as the square of this share, or of the rest."""
    n, n_leader = streams.counts[arm, 0], streams.counts[leader, 0]
    if setting.pairing == ON_ITEMS:
        # One more item on which both are measured takes one test of the arm measured less often, or one of each.
        return 0.5 if n == n_leader else _ROOT_HALF if n < n_leader else 1.0 - _ROOT_HALF
    share: float = n_leader / (n + n_leader)
    return share


@kernel
def _drawn_suspect(setting: Setting, streams: Streams, memory: Memory, arm: int) -> int:
    """The constraint that is likeliest violated, by posterior draws, or one that is stale; 0 if all are certified."""
    chosen = 0
    largest = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        if is_stale(streams, memory, arm, metric):
            return metric
        if memory.certified[arm, metric] == 0:
            excess = drawn_excess(setting, streams, memory, arm, metric, CONSTRAINT_SPREAD)
            gain = suspicion(setting, excess, metric)
            if gain > largest:
                largest = gain
                chosen = metric
    return chosen


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
    n, n_leader = streams.counts[arm, 0], streams.counts[leader, 0]
    if chosen > 0:
        # The largest of many draws is too optimistic: use the mean instead, shrunk toward the threshold.
        tests = streams.counts[arm, chosen]
        excess = max(excess_of(setting, streams, arm, chosen), 0.0) * tests / (tests + SHRINKAGE)
        promise = excess * excess * setting.inverse_cost[chosen]
    if lead > 0.0:
        share = share_of_gain(setting, streams, leader, arm)
        if chosen > 0 and setting.lead[chosen] == setting.lead[0]:
            # One test of the arm measures both.
            both = promise + (lead * share) ** 2 * setting.inverse_cost[0]
            return 0 if both >= (lead * (1.0 - share)) ** 2 * setting.inverse_cost[0] else LEADER
        gain = lead * lead * setting.inverse_cost[0] * max(share, 1.0 - share) ** 2
        if gain > promise:
            return 0 if n <= n_leader else LEADER
    if chosen > 0:
        return chosen
    return 0 if n <= n_leader else LEADER


@kernel
def drawn_performance(setting: Setting, streams: Streams, memory: Memory, arm: int) -> float:
    """A posterior draw of an arm's performance."""
    noise = scatter(setting, streams, arm, 0, streams.means[arm, 0])
    spread = noise * setting.inverse_root[slot(streams.counts[arm, 0])]
    drawn: float = streams.means[arm, 0] + spread * normal(memory.generator, memory.ziggurat)
    return drawn


@kernel
def tests_of_leader(
    setting: Setting, streams: Streams, memory: Memory, leader: int, is_alone: bool, batch: Batch, size: int
) -> int:
    """Add a test of the leader's constraint most likely violated or, if it `is_alone` and no other arm is open, of all
    that are open: an early leader is often wrong, and certifying it is expensive."""
    chosen = 0
    largest = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        if is_stale(streams, memory, leader, metric):
            size = add_test(batch, size, leader, metric)
        elif memory.certified[leader, metric] == 0:
            if is_alone:
                size = add_test(batch, size, leader, metric)
            else:
                doubt = doubt_of_leader(setting, drawn_excess(setting, streams, memory, leader, metric, 1.0), metric)
                if doubt > largest:
                    largest = doubt
                    chosen = metric
    if chosen > 0:
        size = add_test(batch, size, leader, chosen)
    return size


# ---------------------------------------------------------------------------- the first tests, and those of a baseline


@kernel
def _every_stream_first(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    # After that, every stream has a result.
    return every_stream(streams, batch) if streams.counts[0, 0] == 0 else 0


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
