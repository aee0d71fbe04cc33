"""`tf-lucb`: TF-LUCB-C (Katz-Samuels & Scott 2019), adapted as in the paper: every pull tests all metrics of an arm."""

from __future__ import annotations

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import NONE, Batch, Setting, Streams, conclude, every_metric, every_stream
from bestarm.kernel.tournament import NO_ARM, best, best_except
from bestarm.policies.contest import unrivaled
from bestarm.policies.kernels import Kernels
from bestarm.policies.performance_first import Memory, new_memory, update
from bestarm.policies.safety import FEASIBLE, SafetyPolicy


@kernel
def propose(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    if streams.counts[0, 0] == 0:
        return every_stream(streams, batch)
    safety, remaining = memory

    a = best(remaining.mean)
    if a == NO_ARM:
        return conclude(NONE)
    b = best_except(remaining.upper, a)
    if safety.verdict[a] == FEASIBLE and unrivaled(remaining, a, b):
        return conclude(a)
    size = every_metric(streams, batch, 0, a)
    if b != NO_ARM:
        size = every_metric(streams, batch, size, b)
    return size


class TFLUCB(SafetyPolicy):
    """Pull the leader and its challenger, among the arms not found infeasible, on all metrics at once.

    Made for the case that one measurement reveals every metric. Where metrics are tested separately, it pays for tests
    that are not needed. Stops when the leader is proven feasible and unrivaled. Errs with probability at most delta
    under the same assumptions as `feasible-lucb`. `propose` changes nothing.

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. It makes no random choices, so `seed` and `run` change nothing.

    >>> import bestarm as ba
    >>> result = ba.simulate(ba.instance("exp1-a"), policy="tf-lucb", runs=20, seed=1)
    >>> print(result.answer_counts, f"{result.mean_tests:,.0f}")
    {'arm 5': 20} 23,469

    Reference: J. Katz-Samuels and C. Scott, "Top Feasible Arm Identification", AISTATS 2019; adapted as in section 5 of
    T. Cai and K. Kandasamy, "Constrained Best Arm Identification with Tests for Feasibility", AAAI 2026.
    """

    name = "tf-lucb"
    kernels = Kernels(new_memory, update, propose)
