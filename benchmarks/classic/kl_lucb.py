"""`kl-lucb` (Kaufmann & Kalyanakrishnan 2013), at its published exploration rate and at the one usually used.

bestarm simulate PLAN --policy benchmarks/classic/kl_lucb.py:KLLUCB
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))  # named as a file, it finds its neighbors, too

from benchmarks.classic.families import Classic, are_rates, divergence, ignore, leader_of, observed, total_tests
from benchmarks.classic.specialized import specialized

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Batch, Ints, Setting, Streams, add_test, conclude, every_stream
from bestarm.policies.kernels import Kernels

K1, ALPHA = 405.5, 1.1
"""The paper's choice. For a bound on the errors, any k1 > 1 + 1 / (α - 1) = 11 is enough, for one on the number of
tests, k1 > 2 e + 1 + e / (α - 1) + (e + 1) / (α - 1)² = 405.4."""

_STEPS = 60
_CLOSE = 1e-12


class Memory(NamedTuple):
    """Nothing but what the streams have; a memory cannot be empty."""

    nothing: Ints


def new_memory(arms: int, metrics: int) -> Memory:
    return Memory(np.zeros(1, np.int64))


@kernel
def exploration_rate(setting: Setting, arms: int, tests: int) -> float:
    """β(t, δ) = log(k1 K t^α / δ), where t counts the rounds.

    A bound of an arm with N tests is wrong only if N d(mean, μ) > β(t) >= β(N), since no arm has more tests than there
    were rounds. That has probability e^-β(N) for each N, and the sum over N, and over one side of the interval of each
    arm, is at most δ.
    """
    rounds = 1.0 + 0.5 * (tests - arms)
    return math.log(K1 * arms / setting.delta) + ALPHA * math.log(rounds)


@kernel
def usual_rate(setting: Setting, arms: int, tests: int) -> float:
    """log((1 + log t) / δ), where t counts the tests. It has no proof."""
    return math.log((1.0 + math.log(tests)) / setting.delta)


@kernel
def upper_rate(p: float, allowed: float) -> float:
    """The largest rate from which p diverges by no more than allowed, or a little more.

    Newton's method from the right, where a convex function is never left of its root.
    """
    if p >= 1.0:
        return 1.0
    if p <= 0.0:
        return 1.0 - math.exp(-allowed)
    q = p + math.sqrt(0.5 * allowed)  # by Pinsker's inequality
    if q >= 1.0:
        surprise = -p * math.log(p) - (1.0 - p) * math.log(1.0 - p)
        q = 1.0 - math.exp(-(allowed + surprise) / (1.0 - p))
    for _ in range(_STEPS):
        if not p < q < 1.0:
            break
        step = (divergence(True, p, q) - allowed) * q * (1.0 - q) / (q - p)
        q -= step
        if step <= _CLOSE:
            break
    return q


@kernel
def upper_end(rates: bool, mean: float, allowed: float) -> float:
    return upper_rate(mean, allowed) if rates else mean + math.sqrt(2.0 * allowed)


@kernel
def lower_end(rates: bool, mean: float, allowed: float) -> float:
    return 1.0 - upper_rate(1.0 - mean, allowed) if rates else mean - math.sqrt(2.0 * allowed)


@kernel
def propose(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    if streams.counts[0, 0] == 0:
        return every_stream(streams, batch)
    rates = are_rates(setting)
    arms = streams.counts.shape[0]
    leader = leader_of(streams)
    beta = exploration_rate(setting, arms, total_tests(streams))
    rival = -1
    highest = -math.inf
    for arm in range(arms):
        if arm != leader:
            upper = upper_end(rates, observed(setting, streams, arm), beta / streams.counts[arm, 0])
            # Written this way, NaN is a rival.
            if not upper <= highest:
                highest = upper
                rival = arm
    if rival < 0:
        return conclude(leader)
    lower = lower_end(rates, observed(setting, streams, leader), beta / streams.counts[leader, 0])
    if -math.inf < highest < lower < math.inf:
        return conclude(leader)
    size = add_test(batch, 0, leader, 0)
    return add_test(batch, size, rival, 0)


class KLLUCB(Classic):
    """Test the leader and the rival with the highest upper bound, until the leader's lower bound exceeds it.

    Bounds are by Kullback-Leibler divergence. Errs with probability at most delta. It is for the best arm without
    constraints, with Bernoulli results or, with the same rate, Gaussian ones.

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. It makes no random choices, so `seed` and `run` change nothing.

    Reference: E. Kaufmann and S. Kalyanakrishnan, "Information Complexity in Bandit Subset Selection", COLT 2013.
    """

    name = "kl-lucb"
    kernels = Kernels(new_memory, ignore, propose)


class UnprovenKLLUCB(Classic):
    """KL-LUCB at the rate of the experiments of Garivier & Kaufmann (2016). **Nothing is proven about its errors.**

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. It makes no random choices, so `seed` and `run` change nothing.

    Reference: A. Garivier and E. Kaufmann, "Optimal Best Arm Identification with Fixed Confidence", COLT 2016.
    """

    name = "kl-lucb-unproven"
    remark = "its errors are not bounded by any proof"
    kernels = Kernels(new_memory, ignore, specialized(propose, "unproven", exploration_rate=usual_rate))
