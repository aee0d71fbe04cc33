"""`track-and-stop`: Garivier & Kaufmann (2016) with D-tracking and Chernoff stopping, at the threshold usually used.

bestarm simulate PLAN --policy benchmarks/classic/track_and_stop.py:TrackAndStop
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))  # named as a file, it finds its neighbors, too

from benchmarks.classic.families import Classic, are_rates, divergence, ignore, leader_of, observed, total_tests
from benchmarks.classic.proportions import optimal_proportions
from benchmarks.classic.specialized import specialized

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Batch, Floats, Ints, Setting, Streams, add_test, conclude, every_stream
from bestarm.policies.kernels import Kernels

RECOMPUTED = 100
"""Proportions are computed again after a hundredth as many tests as there have been: means, and so proportions, hardly
change within 1% of the tests, and computing them takes longer than all the rest. `EagerTrackAndStop` does it at every
test, to see what that saves."""


class Memory(NamedTuple):
    """The means, and the optimal proportions at those of some time ago."""

    means: Floats
    """In the family's own terms."""
    weights: Floats
    shares: Floats
    """By arm: its share of its duel with the leader, from which the next search starts."""
    leader: Ints
    """[0]: whose rivals they are of."""
    due: Ints
    """[0]: at how many tests they are computed again."""


def new_memory(arms: int, metrics: int) -> Memory:
    return Memory(np.zeros(arms), np.zeros(arms), np.zeros(arms), np.full(1, -1), np.zeros(1, np.int64))


@kernel
def threshold(setting: Setting, tests: int, of_leader: int, of_rival: int) -> float:
    """What the log likelihood ratio of a pair has to exceed: log((1 + log t) / δ). It has no proof.
    It depends on all tests, not on those of the pair."""
    return math.log((1.0 + math.log(tests)) / setting.delta)


@kernel
def is_decided(setting: Setting, streams: Streams, means: Floats, leader: int, tests: int) -> bool:
    """Chernoff's stopping rule: every rival is told from the leader by the generalized likelihood ratio."""
    rates = are_rates(setting)
    best = means[leader]
    n_best = streams.counts[leader, 0]
    for arm in range(streams.counts.shape[0]):
        if arm != leader:
            n = streams.counts[arm, 0]
            mean = means[arm]
            m = (n_best * best + n * mean) / (n_best + n)
            evidence = n_best * divergence(rates, best, m) + n * divergence(rates, mean, m)
            # Written this way, NaN decides nothing.
            if not (best > mean and math.inf > evidence > threshold(setting, tests, n_best, n)):
                return False
    return True


@kernel
def least_tested(streams: Streams) -> int:
    chosen = 0
    for arm in range(1, streams.counts.shape[0]):
        if streams.counts[arm, 0] < streams.counts[chosen, 0]:
            chosen = arm
    return chosen


@kernel
def is_alone(means: Floats, leader: int) -> bool:
    """Whether the leader is better than all others, and means are numbers."""
    alone = True
    for arm in range(means.shape[0]):
        alone = alone and (arm == leader or -math.inf < means[arm] < means[leader] < math.inf)
    return alone


@kernel
def next_due(tests: int) -> int:
    """At how many tests proportions are computed again."""
    return tests + (tests + RECOMPUTED - 1) // RECOMPUTED


@kernel
def at_once(tests: int) -> int:
    return tests + 1


@kernel
def propose(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    if streams.counts[0, 0] == 0:
        return every_stream(streams, batch)
    arms = streams.counts.shape[0]
    tests = total_tests(streams)
    leader = leader_of(streams)
    means, weights, shares, known, due = memory
    for arm in range(arms):
        means[arm] = observed(setting, streams, arm)
    if is_decided(setting, streams, means, leader, tests):
        return conclude(leader)

    # D-tracking: no arm is left behind, and otherwise the one farthest below its proportion comes next.
    behind = least_tested(streams)
    if streams.counts[behind, 0] < math.sqrt(tests) - 0.5 * arms:
        return add_test(batch, 0, behind, 0)
    if not is_alone(means, leader):
        # There are no proportions. The paper draws one of the best; this is the one with the fewest tests.
        return add_test(batch, 0, leader, 0)
    if leader != known[0] or tests >= due[0]:
        optimal_proportions(are_rates(setting), means, leader, shares, weights)
        known[0] = leader
        due[0] = next_due(tests)
    chosen = 0
    lacking = -math.inf
    for arm in range(arms):
        lack = tests * weights[arm] - streams.counts[arm, 0]
        if lack > lacking:
            lacking = lack
            chosen = arm
    return add_test(batch, 0, chosen, 0)


class TrackAndStop(Classic):
    """Test arms in the proportions that would be optimal if the observed means were true, until likelihood ratios tell.

    Its expected number of tests is asymptotically optimal as delta goes to 0. With this threshold, the one of the
    authors' experiments, **nothing is proven about its errors**; `kaufmann_koolen.py` has one with a proof. It is for
    the best arm without constraints, with Bernoulli or Gaussian results.

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. It makes no random choices, so `seed` and `run` change nothing.

    Reference: A. Garivier and E. Kaufmann, "Optimal Best Arm Identification with Fixed Confidence", COLT 2016.
    """

    name = "track-and-stop"
    remark = "its errors are not bounded by any proof"
    kernels = Kernels(new_memory, ignore, propose)


class EagerTrackAndStop(TrackAndStop):
    """`TrackAndStop` that computes proportions at every test, as in the paper. **Nothing is proven about its errors.**

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. It makes no random choices, so `seed` and `run` change nothing.

    Reference: A. Garivier and E. Kaufmann, "Optimal Best Arm Identification with Fixed Confidence", COLT 2016.
    """

    name = "track-and-stop-eager"
    kernels = Kernels(new_memory, ignore, specialized(propose, "eager", next_due=at_once))
