"""`feasible-lucb`: Algorithm 1 of the paper."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import NONE, Batch, Setting, Streams, add_test, conclude, every_stream
from bestarm.kernel.tournament import NO_ARM, Tournament, best, best_except, enter, new_tournament
from bestarm.policies.contest import Contest, enter_contest, leave_contest, new_contest, unrivaled
from bestarm.policies.kernels import Kernels
from bestarm.policies.safety import (
    FEASIBLE,
    INFEASIBLE,
    OPEN,
    Safety,
    SafetyPolicy,
    constraint_to_test,
    judge_constraint,
    new_safety,
)


class Memory(NamedTuple):
    """What Algorithm 1 keeps from epoch to epoch; F, I and the H_i are in `safety`."""

    safety: Safety
    survivors: Contest
    """The arms in S."""
    weakest: Tournament
    """S by smallest upper bound, the next to be eliminated first (keys are minus the upper bound)."""
    proven: Tournament
    """F by lower bound."""


def new_memory(arms: int, metrics: int) -> Memory:
    return Memory(new_safety(arms, metrics), new_contest(arms), new_tournament(arms), new_tournament(arms))


@kernel
def eliminate(memory: Memory, arm: int) -> None:
    leave_contest(memory.survivors, arm)
    enter(memory.weakest, arm, -math.inf)


@kernel
def update(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
    safety, survivors, weakest, proven = memory
    if metric == 0:
        if safety.verdict[arm] == INFEASIBLE:
            return
        enter_contest(setting, streams, survivors, arm)
        enter(weakest, arm, -survivors.upper.keys[arm])
    elif judge_constraint(setting, streams, safety, arm, metric) == OPEN:
        return
    if safety.verdict[arm] == FEASIBLE:
        enter(proven, arm, survivors.lower[arm])
    elif safety.verdict[arm] == INFEASIBLE:
        eliminate(memory, arm)


@kernel
def propose(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    if streams.counts[0, 0] == 0:
        return every_stream(streams, batch)
    safety, survivors, weakest, proven = memory

    # S <- {i in S: upper_i > max over F of lower_j}
    champion = best(proven)
    if champion != NO_ARM:
        bar = proven.keys[champion]
        arm = best(weakest)
        while arm != NO_ARM and arm != champion and -weakest.keys[arm] <= bar:
            eliminate(memory, arm)
            arm = best(weakest)

    # P = {i in S: upper_i > max over S of lower_j} need not be kept as a set: the best mean of S is always in it,
    # and the best upper bound of the rest tells whether any other arm is.
    a = best(survivors.mean)
    if a == NO_ARM:
        # Results that contradict each other can leave S empty. An arm that is proven feasible is still an answer.
        return conclude(NONE if champion == NO_ARM else champion)
    b = best_except(survivors.upper, a)
    has_rival = not unrivaled(survivors, a, b)
    size = 0
    if has_rival:
        size = add_test(batch, size, a, 0)
        size = add_test(batch, size, b, 0)
    if safety.verdict[a] != FEASIBLE:
        size = add_test(batch, size, a, constraint_to_test(setting, safety, a))
    if has_rival and safety.verdict[b] != FEASIBLE:
        size = add_test(batch, size, b, constraint_to_test(setting, safety, b))
    return size if size > 0 else conclude(a)


class FeasibleLUCB(SafetyPolicy):
    """Algorithm 1 of Cai & Kandasamy (AAAI 2026): compare performance and search for violations side by side.

    Each epoch tests the performance of the leader a (best mean) and of its challenger b (best upper bound) and, of
    each that is not yet proven feasible, the one constraint most likely violated. An arm leaves when a constraint's
    lower bound exceeds its threshold, or when its performance's upper bound is at most the lower bound of an arm
    proven feasible. It stops when the leader is unrivaled and proven feasible, or when no arm is left.

    Errs with probability at most delta when observations are independent and sub-Gaussian with the stated sigma:
    then all confidence bounds hold at all times with probability 1 - delta. Two arms equal in performance, or a mean
    on its threshold, keep it going forever; set `max_tests`.

    `propose` drops from its memory the arms that the present bounds eliminate; asked again, it drops no other.

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. It makes no random choices, so `seed` and `run` change nothing.

    >>> import bestarm as ba
    >>> result = ba.simulate(ba.instance("exp1-a"), policy="feasible-lucb", runs=20, seed=1)
    >>> print(result.answer_counts, f"{result.mean_tests:,.0f}")
    {'arm 5': 20} 13,382

    Reference: T. Cai and K. Kandasamy, "Constrained Best Arm Identification with Tests for Feasibility", AAAI 2026,
    Algorithm 1 (section 4).
    """

    name = "feasible-lucb"
    remark = "Algorithm 1 of the paper"
    kernels = Kernels(new_memory, update, propose)

    def eliminated(self) -> npt.NDArray[np.bool_]:
        """The arms that have left S. A test of its performance lets an arm in."""
        survivors: Contest = self.memory.survivors
        gone: npt.NDArray[np.bool_] = (survivors.mean.keys == -math.inf) & (self.streams.counts[:, 0] > 0)
        return gone
