"""`racing`: test everything about every survivor, round after round (Naive in the paper; Even-Dar et al. 2002)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import NONE, Batch, Ints, Setting, Streams, conclude, every_metric, every_stream, signed
from bestarm.kernel.tournament import NO_ARM
from bestarm.noises.dispatch import half_width
from bestarm.policies.kernels import Kernels
from bestarm.policies.safety import FEASIBLE, INFEASIBLE, Safety, SafetyPolicy, judge_constraint, new_safety


class Memory(NamedTuple):
    """What is kept from round to round."""

    safety: Safety
    survivors: npt.NDArray[np.uint32]
    """The surviving arms, in the first places."""
    alive: Ints
    """[0]: how many there are."""


def new_memory(arms: int, metrics: int) -> Memory:
    return Memory(new_safety(arms, metrics), np.arange(arms, dtype=np.uint32), np.full(1, arms))


@kernel
def update(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
    if metric > 0:
        judge_constraint(setting, streams, memory.safety, arm, metric)


@kernel
def propose(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    if streams.counts[0, 0] == 0:
        return every_stream(streams, batch)
    safety, survivors, alive = memory

    bar = -math.inf
    champion = NO_ARM
    for index in range(alive[0]):
        arm = signed(survivors[index])
        lower = streams.means[arm, 0] - half_width(setting, streams, arm, 0)
        if safety.verdict[arm] == FEASIBLE and bar < lower < math.inf:
            bar = lower
            champion = arm
    kept = 0
    for index in range(alive[0]):
        arm = signed(survivors[index])
        upper = streams.means[arm, 0] + half_width(setting, streams, arm, 0)
        # Written this way, NaN beats no arm, and rounding lets no arm beat itself.
        is_beaten = -math.inf < upper <= bar and arm != champion
        if safety.verdict[arm] != INFEASIBLE and not is_beaten:
            survivors[kept] = arm
            kept += 1
    alive[0] = kept

    if kept == 0:
        return conclude(NONE)
    first = signed(survivors[0])
    if kept == 1 and safety.verdict[first] == FEASIBLE:
        return conclude(first)
    size = 0
    for index in range(kept):
        size = every_metric(streams, batch, size, signed(survivors[index]))
    return size


class Racing(SafetyPolicy):
    """Each round tests every metric of every surviving arm, then drops the infeasible and the beaten.

    An arm is beaten when the upper bound of its performance is at most the lower bound of a surviving arm proven
    feasible. Stops when one arm is left and proven feasible, or none is left. Simple, parallel, and the most
    expensive. Errs with probability at most delta under the same assumptions as `feasible-lucb`.

    `propose` removes from its memory the arms that it drops; asked again, it drops no other.

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. It makes no random choices, so `seed` and `run` change nothing.

    >>> import bestarm as ba
    >>> result = ba.simulate(ba.instance("exp1-a"), policy="racing", runs=20, seed=1)
    >>> print(result.answer_counts, f"{result.mean_tests:,.0f}")
    {'arm 5': 20} 23,603

    Reference: Naive in section 5 of T. Cai and K. Kandasamy, "Constrained Best Arm Identification with Tests for
    Feasibility", AAAI 2026, after E. Even-Dar, S. Mannor and Y. Mansour, "PAC Bounds for Multi-armed Bandit and Markov
    Decision Processes", COLT 2002.
    """

    name = "racing"
    kernels = Kernels(new_memory, update, propose)

    def eliminated(self) -> npt.NDArray[np.bool_]:
        return ~np.isin(np.arange(self.arms), self.memory.survivors[: self.memory.alive[0]])
