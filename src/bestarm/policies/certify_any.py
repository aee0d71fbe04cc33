"""`certify` for any feasible arm, whatever its rank."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bestarm.evidence.reaching import infeasibility_reaches, infeasibility_up_to
from bestarm.kernel.compile import kernel
from bestarm.kernel.random import CHOICE, normal, seed_generator
from bestarm.kernel.state import NONE, Batch, Setting, Streams, add_test, conclude, every_stream
from bestarm.kernel.tables import slot
from bestarm.kernel.tournament import NOBODY, enter
from bestarm.kernel.words import whole
from bestarm.noises.base import stream_of
from bestarm.noises.dispatch import evidence_below, scatter
from bestarm.policies.base import Kernels, Stop
from bestarm.policies.certify import Certify, Memory, new_memory, start, update
from bestarm.policies.confidence import PresentAnswer, confidence_of, excess_of, for_size, lesser, violation
from bestarm.policies.findings import Findings, judged
from bestarm.policies.goals import constraints_open, is_certified
from bestarm.policies.open_certificates import OpenCertificate

SPREAD = 0.25
"""How far draws of a constraint's mean spread, in posterior standard deviations: enough for an arm with an unlucky
start not to be left alone for good where the others are hard to certify."""
SLIM = 1e-15
"""A chance that is not worth a thought."""
_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
"""Of the standard normal distribution at 0."""


class Prospect(NamedTuple):
    """What it would cost to show something of an arm if it is true, how likely that is, and what to test first."""

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
            limit = setting.threshold[metric] + setting.slack[metric]
            room = (limit - streams.means[arm, metric]) / scatter(setting, streams, arm, metric, limit)
            root = setting.inverse_root[slot(streams.counts[arm, metric])]
            room += SPREAD * normal(memory.generator, memory.ziggurat) * root
            shown = shown_at(room, streams.counts[arm, metric], setting.level[arm])
            cost += shown.cost / setting.inverse_cost[metric]
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
            cost = shown.cost / setting.inverse_cost[metric]
            # What costs less by its chances: comparing products, as chances may be zero.
            if cost * found.chance < found.cost * shown.chance or found.chance == 0.0:
                found = Prospect(cost, shown.chance, metric)
    return found


@kernel
def reject_arms(setting: Setting, streams: Streams, memory: Memory) -> int:
    """Reject arms where the evidence suffices. Those that are left come into `open_arms`; returns how many."""
    open_count = 0
    for arm in range(memory.rejected.shape[0]):
        if memory.rejected[arm] == 0:
            infeasibility = infeasibility_up_to(setting, streams, arm, setting.rejecting[arm])
            if infeasibility_reaches(infeasibility, setting.rejecting[arm]):
                memory.rejected[arm] = 1
                enter(memory.candidates, arm, -math.inf)
            else:
                memory.open_arms[open_count] = arm
                open_count += 1
    return open_count


@kernel
def best_certified(streams: Streams, memory: Memory, open_count: int) -> int:
    """The arm with the best mean among those certified feasible, or `NOBODY`."""
    found = NOBODY
    for place in range(open_count):
        arm = whole(memory.open_arms[place])
        if is_certified(memory, arm) and (found == NOBODY or streams.means[arm, 0] > streams.means[found, 0]):
            found = arm
    return found


@kernel
def propose(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    if streams.counts[0, 0] == 0:
        return every_stream(streams, batch)
    open_count = reject_arms(setting, streams, memory)
    if open_count == 0:
        return conclude(NONE)
    found = best_certified(streams, memory, open_count)
    if found != NOBODY:
        return conclude(found)

    # Random choices depend only on what is known, so that asking twice gives the same tests.
    seed_generator(memory.generator, whole(memory.seed[0]), memory.told[0], CHOICE)
    # The arm that is the cheapest to certify, by a draw, on the constraint that is least likely to hold …
    cheapest = math.inf
    all_fail = 1.0
    for place in range(open_count):
        arm = whole(memory.open_arms[place])
        prospect = certifying(setting, streams, memory, arm)
        all_fail *= 1.0 - prospect.chance
        if prospect.cost < cheapest * prospect.chance:
            cheapest = prospect.cost / prospect.chance
            add_test(batch, 0, arm, prospect.metric)
    rejecting_all = 0.0
    for place in range(open_count):
        rejecting_all += rejection_of(setting, streams, memory, whole(memory.open_arms[place])).cost
    if cheapest < math.inf and cheapest * all_fail <= rejecting_all:
        return 1
    # … or, if that promises an end sooner, each arm on the constraint that is most clearly violated.
    for place in range(open_count):
        arm = whole(memory.open_arms[place])
        add_test(batch, place, arm, rejection_of(setting, streams, memory, arm).metric)
    return open_count


@kernel
def weigh_arms(setting: Setting, streams: Streams, rejected: Any, certified: Any, cases: Any) -> float:
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
                    limit = setting.threshold[metric] + setting.slack[metric]
                    evidence = evidence_below(stream_of(setting, streams, arm, metric), limit)
                    cases[arm] = lesser(cases[arm], evidence - handicap)
            none = lesser(none, violation(setting, streams, arm) - handicap)
    return none


class CertifyAny(Certify):
    """`certify` that stops as soon as any arm is certified feasible, or all are rejected.

    Each test goes where an end is expected soonest: to the arm with the least cost of certifying it divided by the
    chance that it is feasible, on its most suspect constraint; or, if that promises more, to one constraint of every
    arm that is not rejected.
    """

    asked = "any feasible"
    kernels = Kernels(new_memory, update, propose, start, large=True)
    weigh_arms = staticmethod(weigh_arms)

    def present_answer(self, stop: Stop | None = None) -> PresentAnswer:
        """The arm that is closest to being certified, and how sure we are that it is feasible."""
        if stop is not None or self.untested:
            return super().present_answer(stop)
        cases = np.zeros(self.arms)
        weigh = for_size(type(self).weigh_arms, self.setting, self.streams)
        none = float(weigh(self.setting, self.streams, self.memory.rejected, self.memory.certified, cases))
        # The first of several that nothing is known of has the best mean.
        order = np.argsort(-self.streams.means[:, 0], kind="stable")
        leader = int(order[cases[order].argmax()])
        looks_feasible = self.memory.rejected[leader] == 0 and self.memory.suspects[leader] == 0
        sure = confidence_of(float(cases[leader]) if looks_feasible else none)
        return PresentAnswer(leader if looks_feasible else None, min(sure, 1.0 - self.setting.delta))

    def open_certificates(self, leader: int | None, found: Findings) -> list[OpenCertificate]:
        """The leader's constraints; those of nobody else matter while it looks feasible."""
        if leader is None or self.untested:
            return super().open_certificates(leader, found)
        return constraints_open(self, leader)

    def settled(self, found: Findings, stop: Stop) -> Findings:
        """That the answer is feasible says nothing about the other arms."""
        if stop.arm is None:
            return super().settled(found, stop)
        holds = found.holds.copy()
        holds[stop.arm, 1:] = True
        return judged(self.setting, self.streams.counts, found._replace(holds=holds))
