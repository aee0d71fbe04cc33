"""Any feasible arm, whatever its rank: the kernels of `certify` for this goal.

Each test goes where an end is expected soonest: to the arm with the least cost of certifying it divided by the chance
that it is feasible, on its most suspect constraint; or, if that promises more, to one constraint of every arm that is
not rejected.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bestarm.evidence.claims import constraint_evidence, excess_of, room_of
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.random import normal
from bestarm.kernel.state import (
    NONE,
    ON_ITEMS,
    Batch,
    Flags,
    Floats,
    Setting,
    Streams,
    add_test,
    conclude,
    signed,
)
from bestarm.kernel.tables import slot
from bestarm.kernel.tournament import NO_ARM
from bestarm.noises.streams import BELOW
from bestarm.policies.certify.best_arm import open_against
from bestarm.policies.certify.choosing import reject, rejection
from bestarm.policies.certify.goal import Goal, answer_of, kernels_of, open_constraints
from bestarm.policies.certify.memory import Memory, is_certified, seed_choices
from bestarm.policies.confidence import PresentAnswer, compiled_if_large, lesser, violation
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Findings, judged
from bestarm.policies.open_certificates import OpenCertificate

SPREAD = 0.25
"""How far draws of a constraint's mean spread, in posterior standard deviations: enough for an arm with an unlucky
start not to be left alone for good where the others are hard to certify."""
WELLS_EACH = 6
"""In blocks of 24, four arms are tested together, and two at least in smaller ones. With one arm in a block it took up
to 30% more tests, and with eight up to 14% more (`python benchmarks/blocks.py --goals`)."""
SLIM = 1e-15
"""Smaller probabilities count as 0."""
_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
"""The density of the standard normal distribution at 0."""


class Prospect(NamedTuple):
    """The cost of proving a claim about an arm if it is true, its probability, and the metric to test first."""

    cost: float
    chance: float
    metric: int


@kernel
def shown_at(room: float, n: int, level: float) -> Prospect:
    """The tests to show that a mean lies on its side of a limit, from which it is `room` standard deviations away after
    n tests, and the chance that it does. If it does, it is as far away as a normal posterior expects then."""
    root = math.sqrt(n)
    z = room * root
    chance = 0.5 * math.erfc(-z * _ROOT_HALF)
    if not chance > SLIM:
        return Prospect(math.inf, 0.0, 0)
    expected = room + math.exp(-0.5 * z * z) * _DENSITY / (chance * root)
    return Prospect(max(2.0 * level / (expected * expected) - n, 1.0), chance, 0)


@kernel
def certifying(setting: Setting, streams: Streams, memory: Memory, arm: int) -> Prospect:
    """To certify that every constraint of an arm holds. The one least likely to hold is tested first."""
    cost = 0.0
    chance = 1.0
    least = math.inf
    suspect = 0
    for metric in range(1, streams.counts.shape[1]):
        if memory.certified[arm, metric] == 0:
            room = room_of(setting, streams, arm, metric)
            root = setting.inverse_root[slot(streams.counts[arm, metric])]
            room += SPREAD * normal(memory.generator, memory.ziggurat) * root
            shown = shown_at(room, streams.counts[arm, metric], setting.level[arm])
            cost += shown.cost / setting.inverse_cost[arm, metric]
            chance *= shown.chance
            if shown.chance < least:
                least = shown.chance
                suspect = metric
    return Prospect(cost, chance, suspect)


@kernel
def rejection_of(setting: Setting, streams: Streams, memory: Memory, arm: int) -> Prospect:
    """To show that some constraint of an arm is violated: the one for which that takes least, by its chances."""
    found = Prospect(math.inf, 0.0, 1)
    for metric in range(1, streams.counts.shape[1]):
        if memory.certified[arm, metric] == 0:
            level = setting.rejecting[arm] - setting.log_weight[metric]
            excess = excess_of(setting, streams, arm, metric)
            shown = shown_at(excess, streams.counts[arm, metric], level)
            cost = shown.cost / setting.inverse_cost[arm, metric]
            # What costs less by its chances: comparing products, as chances may be zero.
            if cost * found.chance < found.cost * shown.chance or found.chance == 0.0:
                found = Prospect(cost, shown.chance, metric)
    return found


@kernel
def leave_out_baseline(setting: Setting, memory: Memory) -> None:
    """An arm that is set aside is no candidate, and needs no certificate."""
    if setting.aside != NO_ARM and memory.rejected[setting.aside] == 0:
        reject(memory, setting.aside)


@kernel
def reject_arms(setting: Setting, streams: Streams, memory: Memory) -> int:
    """Reject arms where the evidence suffices. Those that are left come into `open_arms`; returns how many."""
    leave_out_baseline(setting, memory)
    open_count = 0
    for arm in range(memory.rejected.shape[0]):
        if memory.rejected[arm] == 0:
            rejection(setting, streams, memory, arm)
            if memory.rejected[arm] == 0:
                memory.open_arms[open_count] = arm
                open_count += 1
    return open_count


@kernel
def best_certified(streams: Streams, memory: Memory, open_count: int) -> int:
    """The arm with the best mean among those certified feasible, or `NO_ARM`."""
    found = NO_ARM
    for index in range(open_count):
        arm = signed(memory.open_arms[index])
        if is_certified(memory, arm) and (found == NO_ARM or streams.means[arm, 0] > streams.means[found, 0]):
            found = arm
    return found


@kernel
def add_with_others(setting: Setting, memory: Memory, batch: Batch, size: int, arm: int, metric: int) -> int:
    """Add a test of a constraint and, if there is a baseline, the open constraints that it measures anyway, so that the
    baseline keeps up with all of them. Returns the size of the batch."""
    size = add_test(batch, size, arm, metric)
    for other in range(1, memory.certified.shape[1]):
        is_measured = other != metric and setting.queue[other] == setting.queue[metric]
        if setting.aside != NO_ARM and is_measured and memory.certified[arm, other] == 0:
            size = add_test(batch, size, arm, other)
    return size


@kernel
def _has_arm(batch: Batch, size: int, arm: int) -> bool:
    is_there = False
    for row in range(size):
        is_there = is_there or signed(batch[row, 0]) == arm
    return is_there


@kernel
def _next_cheapest(setting: Setting, streams: Streams, memory: Memory, batch: Batch, size: int, open_count: int) -> int:
    """In a block, add the arms that are the next cheapest to certify: one value of an arm counts there, however often
    it is tested."""
    if setting.items.capacity == 0:
        return size
    for _ in range(1, min(open_count, max(setting.items.capacity // WELLS_EACH, 2))):
        # The same draws as for the cheapest.
        seed_choices(memory)
        cheapest = math.inf
        chosen = NO_ARM
        suspect = 0
        for index in range(open_count):
            arm = signed(memory.open_arms[index])
            prospect = certifying(setting, streams, memory, arm)
            if prospect.cost < cheapest * prospect.chance and not _has_arm(batch, size, arm):
                cheapest = prospect.cost / prospect.chance
                chosen = arm
                suspect = prospect.metric
        if chosen != NO_ARM:
            size = add_with_others(setting, memory, batch, size, chosen, suspect)
    return size


_with_next_cheapest = choice("setting.pairing", {ON_ITEMS: _next_cheapest}, unknown="size")


@kernel
def _tests(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    open_count = reject_arms(setting, streams, memory)
    if open_count == 0:
        return conclude(NONE)
    found = best_certified(streams, memory, open_count)
    if found != NO_ARM:
        return conclude(found)

    seed_choices(memory)
    # The arm that is the cheapest to certify, by a draw, on the constraint that is least likely to hold …
    cheapest = math.inf
    chosen = NO_ARM
    suspect = 0
    all_fail = 1.0
    for index in range(open_count):
        arm = signed(memory.open_arms[index])
        prospect = certifying(setting, streams, memory, arm)
        all_fail *= 1.0 - prospect.chance
        if prospect.cost < cheapest * prospect.chance:
            cheapest = prospect.cost / prospect.chance
            chosen = arm
            suspect = prospect.metric
    rejecting_all = 0.0
    for index in range(open_count):
        rejecting_all += rejection_of(setting, streams, memory, signed(memory.open_arms[index])).cost
    if cheapest < math.inf and cheapest * all_fail <= rejecting_all:
        size = add_with_others(setting, memory, batch, 0, chosen, suspect)
        return _with_next_cheapest(setting, streams, memory, batch, size, open_count)
    # … or, if that promises an end sooner, each arm on the constraint that is most clearly violated.
    for index in range(open_count):
        arm = signed(memory.open_arms[index])
        add_test(batch, index, arm, rejection_of(setting, streams, memory, arm).metric)
    return open_count


# ------------------------------------------------------------------------------------------------------ for showing it


@kernel
def weigh_arms(setting: Setting, streams: Streams, rejected: Flags, certified: Flags, cases: Floats) -> float:
    """By arm: the log of 1 / alpha for the least alpha at which it would be certified feasible. Returns that for "no
    arm is feasible"."""
    arms, metrics = streams.counts.shape
    log_delta = math.log(setting.delta)
    none = math.inf
    for arm in range(arms):
        cases[arm] = -math.inf
        if rejected[arm] == 0:
            handicap = setting.level[arm] + log_delta
            cases[arm] = math.inf
            for metric in range(1, metrics):
                if certified[arm, metric] == 0:
                    evidence = constraint_evidence(setting, streams, arm, metric, BELOW)
                    cases[arm] = lesser(cases[arm], evidence - handicap)
            none = lesser(none, violation(setting, streams, arm) - (setting.rejecting[arm] + log_delta))
    return none


def likeliest_feasible(setting: Setting, streams: Streams, memory: Memory) -> PresentAnswer:
    """The arm that is closest to being certified, and how sure we are that it is feasible."""
    cases = np.zeros(len(memory.rejected))
    weigh = compiled_if_large(weigh_arms, setting, streams)
    none = float(weigh(setting, streams, memory.rejected, memory.certified, cases))
    # Among arms with equal cases, the best mean comes first.
    order = np.argsort(-streams.means[:, 0], kind="stable")
    leader = int(order[cases[order].argmax()])
    looks_feasible = memory.rejected[leader] == 0 and memory.suspects[leader] == 0
    return answer_of(setting, leader if looks_feasible else NO_ARM, float(cases[leader]) if looks_feasible else none)


def open_of_leader(
    setting: Setting, streams: Streams, memory: Memory, leader: int | None, found: Findings
) -> list[OpenCertificate]:
    """Those of other arms do not matter while one looks feasible."""
    if leader is None:
        return open_against(setting, streams, memory, leader, found)
    return open_constraints(setting, streams, memory, leader)


def settled_feasible(setting: Setting, streams: Streams, memory: Memory, found: Findings, stop: Stop) -> Findings:
    """That the answer is feasible says nothing about the other arms."""
    holds = found.holds.copy()
    holds[stop.arm, 1:] = True
    return judged(setting, streams.counts, found._replace(holds=holds))


GOAL = Goal(kernels_of(_tests), likeliest_feasible, open_of_leader, settled_feasible)
