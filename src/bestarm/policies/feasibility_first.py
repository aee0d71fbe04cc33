"""`feasibility-first`: decide every arm's feasibility, then find the best of the feasible (F-first in the paper)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import NONE, Batch, Ints, Setting, Streams, add_test, conclude, every_stream
from bestarm.kernel.tournament import NO_ARM, best, best_except
from bestarm.policies.contest import Contest, enter_contest, new_contest, unrivaled
from bestarm.policies.kernels import Kernels
from bestarm.policies.safety import (
    FEASIBLE,
    OPEN,
    Safety,
    SafetyPolicy,
    constraint_to_test,
    judge_constraint,
    new_safety,
)


class Memory(NamedTuple):
    """What is kept from test to test."""

    safety: Safety
    feasible: Contest
    undecided: Ints
    """[0]: the first arm whose feasibility is not yet decided."""


def new_memory(arms: int, metrics: int) -> Memory:
    return Memory(new_safety(arms, metrics), new_contest(arms), np.zeros(1, np.int64))


@kernel
def update(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
    if metric > 0:
        judge_constraint(setting, streams, memory.safety, arm, metric)
    if memory.safety.verdict[arm] == FEASIBLE:
        enter_contest(setting, streams, memory.feasible, arm)


@kernel
def propose(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    if streams.counts[0, 0] == 0:
        return every_stream(streams, batch)
    safety, feasible, undecided = memory

    arm = undecided[0]
    while arm < safety.verdict.shape[0] and safety.verdict[arm] != OPEN:
        arm += 1
    undecided[0] = arm
    if arm < safety.verdict.shape[0]:
        return add_test(batch, 0, arm, constraint_to_test(setting, safety, arm))

    a = best(feasible.mean)
    if a == NO_ARM:
        return conclude(NONE)
    b = best_except(feasible.upper, a)
    if unrivaled(feasible, a, b):
        return conclude(a)
    return add_test(batch, add_test(batch, 0, a, 0), b, 0)


class FeasibilityFirst(SafetyPolicy):
    """Search each arm in turn for a violated constraint until it is decided, then run LUCB on the feasible arms.

    Good when infeasibility is easy to see, wasteful on arms that are near a threshold and perform badly. Errs with
    probability at most delta under the same assumptions as `feasible-lucb`.

    `propose` notes in its memory which arm is the first undecided one; asked again, it finds the same.

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. It makes no random choices, so `seed` and `run` change nothing.

    >>> import bestarm as ba
    >>> result = ba.simulate(ba.instance("exp1-a"), policy="feasibility-first", runs=20, seed=1)
    >>> print(result.answer_counts, f"{result.mean_tests:,.0f}")
    {'arm 5': 20} 7,640

    Reference: F-first in section 5 of T. Cai and K. Kandasamy, "Constrained Best Arm Identification with Tests for
    Feasibility", AAAI 2026. LUCB: S. Kalyanakrishnan, A. Tewari, P. Auer and P. Stone, "PAC Subset Selection in
    Stochastic Multi-armed Bandits", ICML 2012.
    """

    name = "feasibility-first"
    kernels = Kernels(new_memory, update, propose)
