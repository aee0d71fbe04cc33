"""Every feasible arm: the kernels of `certify` for this goal. Each arm is certified feasible, or rejected.

Each round has one test for half of the arms that are not decided, those that by what is known take least to decide, on
the constraint that is likeliest violated. So a budget ends with many arms decided, and tests of several arms alternate:
if something changes in the course of time, it is less easily taken for a difference between arms. What is decided of an
arm, or of a constraint that holds, is decided for good: Theorem G.3 in `docs/certificates/goals.md`.
"""

from __future__ import annotations

import math

import numpy as np

from bestarm.evidence.claims import constraint_evidence
from bestarm.evidence.reaching import holding_reaches
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import NONE, Batch, Flags, Setting, Streams, conclude, signed
from bestarm.kernel.tournament import NO_ARM, best
from bestarm.noises.streams import BELOW
from bestarm.policies.certify.any_feasible import add_with_others, certifying, leave_out_baseline, rejection_of
from bestarm.policies.certify.choosing import drawn_doubt, rejection
from bestarm.policies.certify.goal import Goal, answer_of, kernels_of
from bestarm.policies.certify.memory import Memory, best_listed, is_certified, new_memory_of_sets, seed_choices
from bestarm.policies.certify.updating import looks_violated, updating
from bestarm.policies.confidence import PresentAnswer, compiled_if_large, lesser, violation
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Findings, judged
from bestarm.policies.open_certificates import MOST_SHOWN, OpenCertificate, open_by_evidence, open_to_hold


@kernel
def _kept_for_good(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> int:
    """A new result of the baseline takes nothing back that was certified of the arms compared with it."""
    if memory.certified[arm, metric] != 0:
        return signed(memory.certified[arm, metric])
    return holding_reaches(setting, streams, arm, metric, setting.level[arm])


@kernel
def decide_arms(setting: Setting, streams: Streams, memory: Memory) -> int:
    """List arms as feasible, or reject them, where the evidence suffices. Those that are not decided come into
    `open_arms`; returns how many there are."""
    leave_out_baseline(setting, memory)
    open_count = 0
    for arm in range(memory.rejected.shape[0]):
        if memory.rejected[arm] == 0 and memory.chosen.listed[arm] == 0:
            if is_certified(memory, arm):
                memory.chosen.listed[arm] = 1
            else:
                rejection(setting, streams, memory, arm)
                if memory.rejected[arm] == 0:
                    memory.open_arms[open_count] = arm
                    open_count += 1
    return open_count


@kernel
def likeliest_violated(setting: Setting, streams: Streams, memory: Memory, arm: int) -> int:
    """The constraint of an arm that is likeliest violated, by posterior draws, of those that are not certified."""
    chosen = 0
    largest = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        if memory.certified[arm, metric] == 0:
            found = drawn_doubt(setting, streams, memory, arm, metric)
            if chosen == 0 or found > largest:
                largest = found
                chosen = metric
    return chosen


@kernel
def cost_to_decide(setting: Setting, streams: Streams, memory: Memory, arm: int) -> float:
    """What it costs to decide an arm, if it is what it looks like: feasible, or not."""
    certified = certifying(setting, streams, memory, arm)
    if certified.chance > 0.5:
        return certified.cost
    return rejection_of(setting, streams, memory, arm).cost


@kernel
def put_nearest_first(setting: Setting, streams: Streams, memory: Memory, open_count: int) -> int:
    """Bring the half of `open_arms` to the front that costs least to decide; returns how many there are."""
    open_arms, cost = memory.open_arms, memory.chosen.scratch
    for index in range(open_count):
        cost[open_arms[index]] = cost_to_decide(setting, streams, memory, signed(open_arms[index]))
    half = (open_count + 1) // 2
    for index in range(half):
        nearest = index
        for other in range(index + 1, open_count):
            if cost[open_arms[other]] < cost[open_arms[nearest]]:
                nearest = other
        moved = open_arms[index]
        open_arms[index] = open_arms[nearest]
        open_arms[nearest] = moved
    return half


@kernel
def _tests(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    open_count = decide_arms(setting, streams, memory)
    if open_count == 0:
        found = best_listed(streams, memory)
        return conclude(NONE if found == NO_ARM else found)
    seed_choices(memory)
    size = 0
    for index in range(put_nearest_first(setting, streams, memory, open_count)):
        arm = signed(memory.open_arms[index])
        metric = likeliest_violated(setting, streams, memory, arm)
        size = add_with_others(setting, memory, batch, size, arm, metric)
    return size


# ------------------------------------------------------------------------------------------------------ for showing it


@kernel
def weigh_decisions(setting: Setting, streams: Streams, rejected: Flags, listed: Flags, certified: Flags) -> float:
    """The log of 1 / alpha for the least alpha at which every arm would be decided, one way or the other."""
    arms, metrics = streams.counts.shape
    log_delta = math.log(setting.delta)
    least = math.inf
    for arm in range(arms):
        if rejected[arm] == 0 and listed[arm] == 0:
            feasible = math.inf
            for metric in range(1, metrics):
                if certified[arm, metric] == 0:
                    feasible = lesser(feasible, constraint_evidence(setting, streams, arm, metric, BELOW))
            infeasible = violation(setting, streams, arm)
            if feasible < math.inf:
                found = infeasible if infeasible > feasible else feasible
                least = lesser(least, found - (setting.level[arm] + log_delta))
    return least


def likeliest_decisions(setting: Setting, streams: Streams, memory: Memory) -> PresentAnswer:
    """The best of the arms that look feasible, and how sure we are of every arm."""
    weigh = compiled_if_large(weigh_decisions, setting, streams)
    evidence = float(weigh(setting, streams, memory.rejected, memory.chosen.listed, memory.certified))
    return answer_of(setting, int(best(memory.candidates)), evidence)


def open_of_every_arm(
    setting: Setting, streams: Streams, memory: Memory, leader: int | None, found: Findings
) -> list[OpenCertificate]:
    """What is open about each arm that is not decided: the constraints that are not certified or, if one looks
    violated, that the arm is infeasible. Where there are too many, those that may take longest."""
    is_open = (memory.rejected == 0) & (memory.chosen.listed == 0)
    looks_feasible = memory.suspects == 0
    is_lacking = (is_open & looks_feasible)[:, np.newaxis] & (memory.certified == 0)
    arms, metrics = np.nonzero(is_lacking[:, 1:])
    own = open_to_hold(setting, streams, np.ascontiguousarray(arms), metrics + 1)
    closed = (~is_open | looks_feasible).astype(np.int8)
    others = open_by_evidence(setting, streams, memory.certified, closed, memory.beaten, NO_ARM)
    return sorted([*own, *others], key=lambda one: -one.tests)[:MOST_SHOWN]


def settled_arms(setting: Setting, streams: Streams, memory: Memory, found: Findings, stop: Stop) -> Findings:
    """Every arm is feasible, or it is not."""
    holds = found.holds.copy()
    holds[list(stop.arms), 1:] = True
    return judged(setting, streams.counts, found._replace(holds=holds))


update = updating(looks_violated, _kept_for_good)
GOAL = Goal(kernels_of(_tests, new_memory_of_sets, update), likeliest_decisions, open_of_every_arm, settled_arms)
