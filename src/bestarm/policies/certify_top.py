"""`certify` for the m best feasible arms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bestarm.evidence.combine import suffices
from bestarm.evidence.reaching import infeasibility_reaches, infeasibility_up_to, rival_reaches
from bestarm.kernel.compile import kernel, specialized
from bestarm.kernel.random import CHOICE, seed_generator
from bestarm.kernel.state import NONE, Batch, Flags, Streams, add_test, conclude, every_stream
from bestarm.kernel.tournament import NOBODY, best, enter
from bestarm.kernel.words import whole
from bestarm.noises.base import stream_of
from bestarm.noises.dispatch import evidence_below
from bestarm.policies.base import Kernels, Stop
from bestarm.policies.certify import LEADER, drawn_performance, start, stream_to_test, tests_of_leader, update
from bestarm.policies.confidence import (
    PresentAnswer,
    confidence_of,
    for_size,
    is_outperformed,
    lesser,
    rival_case,
    violation,
)
from bestarm.policies.findings import Findings
from bestarm.policies.goals import ForSets, constraints_open, new_memory
from bestarm.policies.limits import regret_of
from bestarm.policies.open_certificates import BY_EVIDENCE, OpenCertificate, Weighing, by_evidence
from bestarm.problem import Problem


@kernel
def list_best(setting: Any, memory: Any) -> int:
    """Mark the `top` arms with the best means among those that look feasible; returns how many there are.

    What was shown of other arms against other members is forgotten.
    """
    keys = memory.candidates.keys
    arms = keys.shape[0]
    for arm in range(arms):
        # 2: not a member before, and one now; 3: both.
        memory.listed[arm] = memory.listed[arm] != 0
    count = 0
    while count < setting.top:
        chosen = NOBODY
        for arm in range(arms):
            if keys[arm] > -math.inf and memory.listed[arm] < 2 and (chosen == NOBODY or keys[arm] > keys[chosen]):
                chosen = arm
        if chosen == NOBODY:
            break
        memory.listed[chosen] += 2
        count += 1
    is_new = False
    for arm in range(arms):
        is_new = is_new or memory.listed[arm] == 1 or memory.listed[arm] == 2
        memory.listed[arm] = memory.listed[arm] >= 2
    if is_new:
        for arm in range(arms):
            memory.settled[arm] = 0
    return count


@kernel
def pair_level_of_list(setting: Any, member: int, arm: int) -> float:
    """What the evidence that `arm` is infeasible or worse than a member must reach: any of `top` arms may be the one
    that a wrong member takes the place of."""
    level: float = setting.level[member] + math.log(setting.top)
    return level


@kernel
def is_beaten_by_all(setting: Any, streams: Streams, memory: Any, arm: int, infeasibility: Any) -> bool:
    """Whether the evidence suffices that `arm` is infeasible or worse than a member, for every member."""
    for member in range(memory.listed.shape[0]):
        if memory.listed[member] != 0:
            level = pair_level_of_list(setting, member, arm)
            if not rival_reaches(setting, streams, member, arm, infeasibility, level):
                return False
    return True


@kernel
def mark_outperformed(setting: Any, streams: Streams, memory: Any, marks: Flags) -> None:
    """Mark the arms that every member has beaten by performance alone."""
    for arm in range(memory.listed.shape[0]):
        is_so = memory.settled[arm] != 0
        for member in range(memory.listed.shape[0]):
            if memory.listed[member] != 0:
                is_so = is_so and is_outperformed(setting, streams, member, arm)
        marks[arm] = is_so


_LEVELS = {"pair_level": pair_level_of_list}
_MARK_OUTPERFORMED = specialized(mark_outperformed, "top", **_LEVELS)


@kernel
def close_others(setting: Any, streams: Streams, memory: Any, is_full: bool) -> int:
    """Reject arms that are not on the list or, if it `is_full`, count them as beaten by all members, where the evidence
    suffices. The others come into `open_arms`; returns how many there are."""
    open_count = 0
    for arm in range(memory.rejected.shape[0]):
        if memory.rejected[arm] == 0 and memory.listed[arm] == 0 and not (is_full and memory.settled[arm] != 0):
            infeasibility = infeasibility_up_to(setting, streams, arm, setting.rejecting[arm])
            if infeasibility_reaches(infeasibility, setting.rejecting[arm]):
                memory.rejected[arm] = 1
                enter(memory.candidates, arm, -math.inf)
            elif is_full and is_beaten_by_all(setting, streams, memory, arm, infeasibility):
                memory.settled[arm] = 1
            else:
                memory.open_arms[open_count] = arm
                open_count += 1
    return open_count


@kernel
def closest_member(setting: Any, streams: Streams, memory: Any, arm: int) -> int:
    """The member over which the lead is least clear, by its drawn performance and the number of tests of both."""
    closest = NOBODY
    least = math.inf
    n = streams.counts[arm, 0]
    for member in range(memory.listed.shape[0]):
        if memory.listed[member] != 0:
            others = streams.counts[member, 0]
            lead = memory.numbers[member] + setting.tolerance - streams.means[arm, 0]
            clear = lead * math.sqrt(n * others / (n + others))
            if closest == NOBODY or clear < least:
                closest = member
                least = clear
    return closest


@kernel
def propose(setting: Any, streams: Streams, memory: Any, batch: Batch) -> int:
    if streams.counts[0, 0] == 0:
        return every_stream(streams, batch)
    members = list_best(setting, memory)
    is_full = members == setting.top
    open_count = close_others(setting, streams, memory, is_full)
    if members == 0 and open_count == 0:
        return conclude(NONE)

    # Random choices depend only on what is known, so that asking twice gives the same tests.
    seed_generator(memory.generator, whole(memory.seed[0]), memory.told[0], CHOICE)
    arms = memory.listed.shape[0]
    for arm in range(arms):
        if memory.listed[arm] != 0:
            memory.numbers[arm] = drawn_performance(setting, streams, memory, arm)

    # One test for each open arm: of its own, or of the member that it is closest to …
    size = 0
    for place in range(open_count):
        arm = whole(memory.open_arms[place])
        member = closest_member(setting, streams, memory, arm) if is_full else NOBODY
        drawn = memory.numbers[member] if is_full else 0.0
        metric = stream_to_test(setting, streams, memory, member, drawn, arm)
        if metric != LEADER:
            size = add_test(batch, size, arm, metric)
        elif memory.listed[member] == 1:
            size = add_test(batch, size, member, 0)
            memory.listed[member] = 2
    # … and for every member one of its constraints.
    is_alone = size == 0
    for arm in range(arms):
        if memory.listed[arm] != 0:
            memory.listed[arm] = 1
            size = tests_of_leader(setting, streams, memory, arm, is_alone, batch, size)
    if size == 0:
        return conclude(best(memory.candidates))
    return size


@kernel
def weigh_list(setting: Any, streams: Streams, memory: Any) -> float:
    """The log of 1 / alpha for the least alpha at which the members at hand would be certified to be the answer, or,
    without members, that no arm is feasible."""
    arms, metrics = streams.counts.shape
    log_delta = math.log(setting.delta)
    members = 0
    least = math.inf
    for arm in range(arms):
        if memory.listed[arm] != 0:
            members += 1
            for metric in range(1, metrics):
                if memory.certified[arm, metric] == 0:
                    limit = setting.threshold[metric] + setting.slack[metric]
                    evidence = evidence_below(stream_of(setting, streams, arm, metric), limit)
                    least = lesser(least, evidence - (setting.level[arm] + log_delta))
    is_full = members == setting.top
    for arm in range(arms):
        is_closed = memory.rejected[arm] != 0 or (is_full and memory.settled[arm] != 0)
        if memory.listed[arm] == 0 and not is_closed and least > 0.0:
            infeasible = violation(setting, streams, arm)
            case = infeasible - (setting.rejecting[arm] + log_delta)
            if not suffices(case, least):
                beaten = math.inf if is_full else -math.inf
                for member in range(arms):
                    if memory.listed[member] != 0 and is_full:
                        handicap = pair_level_of_list(setting, member, arm) + log_delta
                        beaten = lesser(beaten, rival_case(setting, streams, member, arm, infeasible) - handicap)
                least = lesser(least, case if case >= beaten else beaten)
    return least


class CertifyTop(ForSets):
    """`certify` for the `top` best feasible arms, or all feasible ones if there are fewer.

    The members are the arms with the best means among those that look feasible. Each of their constraints must be
    certified, and each other arm rejected, or beaten by every member; the second is not enough while there are fewer
    members than asked for. A round has a test for each other arm, against the member that it is closest to, and one of
    a constraint of each member. `docs/certify.md` has the levels and the proof.
    """

    asked = "top"
    setting: Any
    kernels = Kernels(new_memory, update, propose, start, large=True)
    regret_of = staticmethod(specialized(regret_of, "top", **_LEVELS))
    weighing = Weighing(*(specialized(kernel, "top", **_LEVELS) for kernel in BY_EVIDENCE))

    @classmethod
    def regret_is_apart(cls, problem: Problem) -> bool:
        """A member that is one of the best arms, but not the best of them, can do no harm but by its regret."""
        return True

    def present_answer(self, stop: Stop | None = None) -> PresentAnswer:
        """The best of the members, and how sure we are that all of them are the answer."""
        if stop is not None or self.untested:
            return super().present_answer(stop)
        leader = self.leader
        weigh = for_size(weigh_list, self.setting, self.streams)
        sure = confidence_of(float(weigh(self.setting, self.streams, self.memory)))
        return PresentAnswer(None if leader == NOBODY else leader, min(sure, 1.0 - self.setting.delta))

    def open_certificates(self, leader: int | None, found: Findings) -> list[OpenCertificate]:
        """Of every member its constraints; of every other arm, that the last member is better, or that it is infeasible
        while there are fewer members than asked for."""
        if self.untested:
            return []
        memory = self.memory
        members = np.flatnonzero(memory.listed).tolist()
        is_full = len(members) == self.setting.top
        last = min(members, key=lambda arm: float(self.streams.means[arm, 0])) if is_full else NOBODY
        closed = memory.rejected | memory.listed | (memory.settled if is_full else 0)
        everything = np.ones_like(memory.certified)
        others = by_evidence(
            *(self.setting, self.streams, everything, closed, memory.beaten, last), weighing=type(self).weighing
        )
        return [one for member in members for one in constraints_open(self, member)] + others

    def settled(self, found: Findings, stop: Stop) -> Findings:
        known = super().settled(found, stop)
        if stop.arm is None:
            return known
        last = min(stop.arms, key=lambda arm: float(self.streams.means[arm, 0]))
        marks = np.zeros(self.arms, np.int8)
        for_size(_MARK_OUTPERFORMED, self.setting, self.streams)(self.setting, self.streams, self.memory, marks)
        is_beaten = known.excluded & ~known.infeasible
        known.beaten_by[is_beaten] = last
        # When these certificates were closed, the evidence was no less and the lead was no less.
        known.evidence[is_beaten] = pair_level_of_list(self.setting, last, NOBODY)
        known.lead[is_beaten] = np.where(marks != 0, -self.setting.tolerance, math.nan)[is_beaten]
        return known
