"""The best feasible arm: the kernels of `certify` for its usual goal."""

from __future__ import annotations

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import NONE, Batch, Setting, Streams, add_test, conclude, signed
from bestarm.kernel.tournament import NO_ARM, best
from bestarm.policies.certify.choosing import LEADER, closes, drawn_performance, stream_to_test, tests_of_leader
from bestarm.policies.certify.goal import Goal, answer_of, kernels_of
from bestarm.policies.certify.memory import Memory, seed_choices
from bestarm.policies.confidence import PresentAnswer, evidence_for
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Findings, settled
from bestarm.policies.open_certificates import OpenCertificate, open_by_evidence


@kernel
def close_certificates(setting: Setting, streams: Streams, memory: Memory, leader: int) -> None:
    """Bring the list of open arms up to date: reject arms, or count them as beaten by the leader, where the evidence
    suffices."""
    open_arms, open_count = memory.open_arms, memory.open_count
    if open_count[1] != leader:
        open_count[1] = leader
        open_count[0] = 0
        for arm in range(memory.rejected.shape[0]):
            if arm != leader and memory.rejected[arm] == 0 and (leader == NO_ARM or memory.beaten[arm] != leader):
                open_arms[open_count[0]] = arm
                open_count[0] += 1
    kept = 0
    for index in range(open_count[0]):
        arm = signed(open_arms[index])
        if not closes(setting, streams, memory, leader, arm):
            open_arms[kept] = arm
            kept += 1
    open_count[0] = kept


@kernel
def tests_of_open_arms(
    setting: Setting, streams: Streams, memory: Memory, open_count: int, leader: int, drawn_leader: float, batch: Batch
) -> int:
    """One test for each open arm: of its own, or of the leader's performance."""
    size = 0
    leader_tested = False
    for index in range(open_count):
        arm = signed(memory.open_arms[index])
        metric = stream_to_test(setting, streams, memory, leader, drawn_leader, arm)
        if metric != LEADER:
            size = add_test(batch, size, arm, metric)
        elif not leader_tested:
            size = add_test(batch, size, leader, 0)
            leader_tested = True
    return size


@kernel
def _tests(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    leader = best(memory.candidates)
    close_certificates(setting, streams, memory, leader)
    if leader == NO_ARM and memory.open_count[0] == 0:
        return conclude(NONE)
    seed_choices(memory)
    drawn_leader = drawn_performance(setting, streams, memory, leader) if leader != NO_ARM else 0.0
    # One test for each open arm …
    size = tests_of_open_arms(setting, streams, memory, memory.open_count[0], leader, drawn_leader, batch)
    if leader == NO_ARM:
        return size
    # … and for the leader one of its constraints.
    size = tests_of_leader(setting, streams, memory, leader, size == 0, batch, size)
    return conclude(leader) if size == 0 else size


# ------------------------------------------------------------------------------------------------------ for showing it


def likeliest(setting: Setting, streams: Streams, memory: Memory) -> PresentAnswer:
    """The leader and how sure we are of it."""
    leader = int(best(memory.candidates))
    is_closed = (memory.rejected != 0) | ((leader != NO_ARM) & (memory.beaten == leader))
    members = [] if leader == NO_ARM else [leader]
    evidence = evidence_for(setting, streams, members, certified=memory.certified, is_closed=is_closed)
    return answer_of(setting, leader, evidence)


def open_against(
    setting: Setting, streams: Streams, memory: Memory, leader: int | None, found: Findings
) -> list[OpenCertificate]:
    """What is lacking for the answer that `leader` is the best arm, or that no arm is feasible."""
    closed = (memory.certified, memory.rejected, memory.beaten)
    return open_by_evidence(setting, streams, *closed, NO_ARM if leader is None else leader)


def settled_best(setting: Setting, streams: Streams, memory: Memory, found: Findings, stop: Stop) -> Findings:
    return settled(setting, streams.counts, found, stop.arm)


GOAL = Goal(kernels_of(_tests, patient=True), likeliest, open_against, settled_best)
