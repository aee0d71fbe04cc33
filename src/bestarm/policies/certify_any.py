"""`certify` for any feasible arm, whatever its rank."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bestarm.evidence.reaching import infeasibility_reaches, infeasibility_up_to
from bestarm.kernel.compile import kernel
from bestarm.kernel.random import CHOICE, seed_generator
from bestarm.kernel.state import NONE, Batch, Setting, Streams, add_test, conclude, every_stream
from bestarm.kernel.tournament import NOBODY, enter
from bestarm.kernel.words import whole
from bestarm.noises.base import stream_of
from bestarm.noises.dispatch import evidence_below, scatter
from bestarm.policies.base import Kernels, Stop
from bestarm.policies.certify import Certify, Memory, drawn_excess, new_memory, start, stream_to_test, update
from bestarm.policies.confidence import PresentAnswer, confidence_of, for_size, lesser, violation
from bestarm.policies.findings import Findings, judged
from bestarm.policies.goals import is_certified


@kernel
def reject_arms(setting: Setting, streams: Streams, memory: Memory) -> int:
    """Reject arms where the evidence suffices. Those that are left come into `open_arms`; returns how many."""
    open_count = 0
    for arm in range(memory.rejected.shape[0]):
        if memory.rejected[arm] == 0:
            infeasibility = infeasibility_up_to(setting, streams, arm, setting.level[arm])
            if infeasibility_reaches(infeasibility, setting.level[arm]):
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
    # The arm that, by posterior draws, costs least to certify, on the constraint with the least room …
    cheapest = math.inf
    for place in range(open_count):
        arm = whole(memory.open_arms[place])
        cost = 0.0
        tightest = math.inf
        suspect = 0
        for metric in range(1, streams.counts.shape[1]):
            if memory.certified[arm, metric] == 0 and cost < cheapest:
                room = setting.slack[metric] / scatter(setting, streams, arm, metric, setting.threshold[metric])
                room -= drawn_excess(setting, streams, memory, arm, metric, 1.0)
                if room > 0.0:
                    tests = 2.0 * setting.level[arm] / (room * room) - streams.counts[arm, metric]
                    cost += max(tests, 1.0) / setting.inverse_cost[metric]
                else:
                    cost = math.inf
                if room < tightest:
                    tightest = room
                    suspect = metric
        if cost < cheapest:
            cheapest = cost
            add_test(batch, 0, arm, suspect)
    if cheapest < math.inf:
        return 1
    # … or, if no arm is drawn feasible, each arm on the constraint that promises the most evidence against it.
    size = 0
    for place in range(open_count):
        arm = whole(memory.open_arms[place])
        metric = stream_to_test(setting, streams, memory, NOBODY, 0.0, arm)
        size = add_test(batch, size, arm, metric)
    return size


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

    Each round tests the arm that, by posterior draws, costs least to certify, on its most suspect constraint. If no arm
    is drawn feasible, it tests one constraint of every arm that is not rejected.
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

    def settled(self, found: Findings, stop: Stop) -> Findings:
        """That the answer is feasible says nothing about the other arms."""
        if stop.arm is None:
            return super().settled(found, stop)
        holds = found.holds.copy()
        holds[stop.arm, 1:] = True
        return judged(self.setting, self.streams.counts, found._replace(holds=holds))
