"""`performance-first`: find the best performance, test that arm's feasibility, repeat (P-first in the paper)."""

from __future__ import annotations

from typing import NamedTuple

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import NONE, Batch, Setting, Streams, add_test, conclude, every_stream
from bestarm.kernel.tournament import NO_ARM, best, best_except
from bestarm.policies.contest import Contest, enter_contest, leave_contest, new_contest, unrivaled
from bestarm.policies.kernels import Kernels
from bestarm.policies.safety import (
    FEASIBLE,
    INFEASIBLE,
    Safety,
    SafetyPolicy,
    constraint_to_test,
    judge_constraint,
    new_safety,
)


class Memory(NamedTuple):
    """What is kept from test to test."""

    safety: Safety
    remaining: Contest


def new_memory(arms: int, metrics: int) -> Memory:
    return Memory(new_safety(arms, metrics), new_contest(arms))


@kernel
def update(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
    safety, remaining = memory
    if metric == 0:
        if safety.verdict[arm] != INFEASIBLE:
            enter_contest(setting, streams, remaining, arm)
    elif judge_constraint(setting, streams, safety, arm, metric) == INFEASIBLE:
        leave_contest(remaining, arm)


@kernel
def propose(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    if streams.counts[0, 0] == 0:
        return every_stream(streams, batch)
    safety, remaining = memory

    a = best(remaining.mean)
    if a == NO_ARM:
        return conclude(NONE)
    b = best_except(remaining.upper, a)
    if not unrivaled(remaining, a, b):
        return add_test(batch, add_test(batch, 0, a, 0), b, 0)
    if safety.verdict[a] == FEASIBLE:
        return conclude(a)
    return add_test(batch, 0, a, constraint_to_test(setting, safety, a))


class PerformanceFirst(SafetyPolicy):
    """Run LUCB on the remaining arms, test the winner's feasibility, drop it if infeasible, repeat; keep all samples.

    Good when the best performer is likely feasible, wasteful when many good performers are not, because each
    must first be told apart from the next. Errs with probability at most delta under the same assumptions as
    `feasible-lucb`. `propose` changes nothing.

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. It makes no random choices, so `seed` and `run` change nothing.

    >>> import bestarm as ba
    >>> result = ba.simulate(ba.instance("exp1-a"), policy="performance-first", runs=20, seed=1)
    >>> print(result.answer_counts, f"{result.mean_tests:,.0f}")
    {'arm 5': 20} 40,855

    Reference: P-first in section 5 of T. Cai and K. Kandasamy, "Constrained Best Arm Identification with Tests for
    Feasibility", AAAI 2026. LUCB: S. Kalyanakrishnan, A. Tewari, P. Auer and P. Stone, "PAC Subset Selection in
    Stochastic Multi-armed Bandits", ICML 2012.
    """

    name = "performance-first"
    kernels = Kernels(new_memory, update, propose)
