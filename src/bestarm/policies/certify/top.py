"""The `top` best feasible arms, or all feasible ones if there are fewer: the kernels of `certify` for this goal.

The members are the arms with the best means among those that look feasible. Each of their constraints must be
certified, and each other arm rejected, or beaten by every member; the second is not enough while there are fewer
members than asked for. A round has a test for each other arm, against the member that it is closest to, and one of a
constraint of each member. `docs/certificates/goals.md` has the levels, and Theorem G.5.
"""

from __future__ import annotations

import math

import numpy as np

from bestarm.evidence.reaching import Infeasibility, rival_reaches
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import NONE, Batch, Flags, Setting, Streams, add_test, conclude, signed
from bestarm.kernel.tournament import NO_ARM, best
from bestarm.policies.certify.blocks import add_once
from bestarm.policies.certify.choosing import (
    LEADER,
    drawn_performance,
    rejection,
    stream_to_test,
    tests_of_leader,
)
from bestarm.policies.certify.goal import Goal, answer_of, kernels_of, open_constraints, settled_set
from bestarm.policies.certify.leading import all_known
from bestarm.policies.certify.memory import Memory, new_memory_of_sets, seed_choices
from bestarm.policies.confidence import PresentAnswer, compiled_if_large, evidence_for, is_outperformed, pair_level
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Findings
from bestarm.policies.open_certificates import OpenCertificate, open_by_evidence


@kernel
def list_best(setting: Setting, memory: Memory) -> int:
    """Mark the `top` arms with the best means among those that look feasible; returns how many there are.

    What was shown of other arms against other members is forgotten.
    """
    keys = memory.candidates.keys
    arms = keys.shape[0]
    for arm in range(arms):
        # 2: not a member before, and one now; 3: both.
        memory.chosen.listed[arm] = memory.chosen.listed[arm] != 0
    count = 0
    while count < setting.top:
        chosen = NO_ARM
        for arm in range(arms):
            if (
                keys[arm] > -math.inf
                and memory.chosen.listed[arm] < 2
                and (chosen == NO_ARM or keys[arm] > keys[chosen])
            ):
                chosen = arm
        if chosen == NO_ARM:
            break
        memory.chosen.listed[chosen] += 2
        count += 1
    is_new = False
    for arm in range(arms):
        is_new = is_new or memory.chosen.listed[arm] == 1 or memory.chosen.listed[arm] == 2
        memory.chosen.listed[arm] = memory.chosen.listed[arm] >= 2
    if is_new:
        for arm in range(arms):
            memory.chosen.settled[arm] = 0
    return count


@kernel
def is_beaten_by_all(
    setting: Setting, streams: Streams, memory: Memory, arm: int, infeasibility: Infeasibility
) -> bool:
    """Whether the evidence suffices that `arm` is infeasible or worse than a member, for every member."""
    for member in range(memory.chosen.listed.shape[0]):
        if memory.chosen.listed[member] != 0:
            level = pair_level(setting, member, arm)
            if not rival_reaches(setting, streams, member, arm, infeasibility, level):
                return False
    return True


@kernel
def close_others(setting: Setting, streams: Streams, memory: Memory, is_full: bool) -> int:
    """Reject arms that are not on the list or, if it `is_full`, count them as beaten by all members, where the evidence
    suffices. The others come into `open_arms`; returns how many there are."""
    open_count = 0
    for arm in range(memory.rejected.shape[0]):
        if (
            memory.rejected[arm] == 0
            and memory.chosen.listed[arm] == 0
            and not (is_full and memory.chosen.settled[arm] != 0)
        ):
            infeasibility = rejection(setting, streams, memory, arm)
            if memory.rejected[arm] == 0 and is_full and is_beaten_by_all(setting, streams, memory, arm, infeasibility):
                memory.chosen.settled[arm] = 1
            elif memory.rejected[arm] == 0:
                memory.open_arms[open_count] = arm
                open_count += 1
    return open_count


@kernel
def closest_member(setting: Setting, streams: Streams, memory: Memory, arm: int) -> int:
    """The member over which the lead is least clear, by its drawn performance and the number of tests of both; `NO_ARM`
    if all is known about every one."""
    closest = NO_ARM
    least = math.inf
    n = streams.counts[arm, 0]
    for member in range(memory.chosen.listed.shape[0]):
        if memory.chosen.listed[member] != 0 and not all_known(setting, streams, member, arm):
            others = streams.counts[member, 0]
            lead = memory.chosen.scratch[member] + setting.tolerance - streams.means[arm, 0]
            clear = lead * math.sqrt(n * others / (n + others))
            if closest == NO_ARM or clear < least:
                closest = member
                least = clear
    return closest


@kernel
def _tests(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    members = list_best(setting, memory)
    is_full = members == setting.top
    open_count = close_others(setting, streams, memory, is_full)
    if members == 0 and open_count == 0:
        return conclude(NONE)

    seed_choices(memory)
    arms = memory.chosen.listed.shape[0]
    for arm in range(arms):
        if memory.chosen.listed[arm] != 0:
            memory.chosen.scratch[arm] = drawn_performance(setting, streams, memory, arm)

    # One test for each open arm: of its own, or of the member that it is closest to …
    size = 0
    for index in range(open_count):
        arm = signed(memory.open_arms[index])
        member = closest_member(setting, streams, memory, arm) if is_full else NO_ARM
        drawn = memory.chosen.scratch[member] if is_full else 0.0
        metric = stream_to_test(setting, streams, memory, member, drawn, arm)
        if metric != LEADER:
            size = add_test(batch, size, arm, metric)
        elif memory.chosen.listed[member] == 1:
            size = add_test(batch, size, member, 0)
            memory.chosen.listed[member] = 2
    # … and for every member one of its constraints.
    is_alone = size == 0
    for arm in range(arms):
        if memory.chosen.listed[arm] != 0:
            memory.chosen.listed[arm] = 1
            size = tests_of_leader(setting, streams, memory, arm, is_alone, batch, size)
    if size == 0:
        return conclude(best(memory.candidates))
    return size


@kernel
def _add_members(setting: Setting, memory: Memory, batch: Batch, size: int) -> int:
    """Every other arm is compared with every member."""
    for arm in range(memory.chosen.listed.shape[0]):
        if memory.chosen.listed[arm] != 0:
            size = add_once(batch, size, arm, 0)
    return size


@kernel
def _is_member(memory: Memory, arm: int) -> bool:
    return bool(memory.chosen.listed[arm] != 0)


# ------------------------------------------------------------------------------------------------------ for showing it


@kernel
def mark_outperformed(setting: Setting, streams: Streams, memory: Memory, marks: Flags) -> None:
    """Mark the arms that every member has beaten by performance alone."""
    for arm in range(memory.chosen.listed.shape[0]):
        is_so = memory.chosen.settled[arm] != 0
        for member in range(memory.chosen.listed.shape[0]):
            if memory.chosen.listed[member] != 0:
                is_so = is_so and is_outperformed(setting, streams, member, arm)
        marks[arm] = is_so


def likeliest_list(setting: Setting, streams: Streams, memory: Memory) -> PresentAnswer:
    """The best of the members, and how sure we are that all of them are the answer."""
    members = np.flatnonzero(memory.chosen.listed).tolist()
    is_full = len(members) == setting.top
    is_closed = memory.rejected | (memory.chosen.settled if is_full else 0)
    evidence = evidence_for(setting, streams, members, is_full, memory.certified, is_closed)
    return answer_of(setting, int(best(memory.candidates)), evidence)


def open_of_top(
    setting: Setting, streams: Streams, memory: Memory, leader: int | None, found: Findings
) -> list[OpenCertificate]:
    """For every member, its constraints; for every other arm, that the last member is better, or that it is infeasible
    while there are fewer members than asked for."""
    chosen = memory.chosen
    members = np.flatnonzero(chosen.listed).tolist()
    is_full = len(members) == setting.top
    last = min(members, key=lambda arm: float(streams.means[arm, 0])) if is_full else NO_ARM
    closed = memory.rejected | chosen.listed | (chosen.settled if is_full else 0)
    everything = np.ones_like(memory.certified)
    others = open_by_evidence(setting, streams, everything, closed, memory.beaten, last)
    return [one for member in members for one in open_constraints(setting, streams, memory, member)] + others


def settled_top(setting: Setting, streams: Streams, memory: Memory, found: Findings, stop: Stop) -> Findings:
    """As for every set, and why the others are out: the last of the best arms is better."""
    known = settled_set(setting, streams, memory, found, stop)
    last = min(stop.arms, key=lambda arm: float(streams.means[arm, 0]))
    marks = np.zeros(len(streams.counts), np.int8)
    compiled_if_large(mark_outperformed, setting, streams)(setting, streams, memory, marks)
    is_beaten = known.excluded & ~known.infeasible
    known.beaten_by[is_beaten] = last
    # When these certificates were closed, the evidence was no less and the lead was no less.
    known.evidence[is_beaten] = pair_level(setting, last, NO_ARM)
    known.lead[is_beaten] = np.where(marks != 0, -setting.tolerance, math.nan)[is_beaten]
    return known


GOAL = Goal(
    kernels_of(_tests, new_memory_of_sets, add_rivals=_add_members, is_rival=_is_member),
    likeliest_list,
    open_of_top,
    settled_top,
)
