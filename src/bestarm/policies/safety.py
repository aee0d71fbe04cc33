"""SampleForSafety, the paper's search for a violated constraint of one arm (after Kano et al. 2019)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Flags, Ints, Setting, Streams, rounding_error
from bestarm.kernel.tables import slot
from bestarm.noises.dispatch import radius
from bestarm.policies.findings import Earlier, Findings, findings_by_intervals
from bestarm.policies.kernels import KernelPolicy

OPEN = 0
FEASIBLE = 1
INFEASIBLE = 2

_MOST = 1e30


class Safety(NamedTuple):
    """What is known of every arm's feasibility.

    Seven digits are enough to choose the constraint to test next, and these numbers are read more often than anything
    else. So each takes half a word, which is faster where memory is short. Verdicts rest on the streams alone.
    """

    verdict: Flags
    """By arm: OPEN, FEASIBLE (the paper's F) or INFEASIBLE (the paper's I)."""
    packed: npt.NDArray[np.complex64]
    """[arm, constraint]: the excess and 1 / sqrt(number of tests). The excess is the mean minus its threshold in units
    of sigma, and minus infinity once the constraint has left H_i. As the two parts of one complex number they are read
    together; use `unpacked` and `pack`."""
    left: Ints
    """By arm: the size of H_i."""
    tests: Ints
    """By arm: M_i, the number of constraint tests so far."""


def new_safety(arms: int, metrics: int) -> Safety:
    constraints = metrics - 1
    # Without constraints every arm is feasible from the start.
    verdict = np.full(arms, OPEN if constraints else FEASIBLE, np.int8)
    packed = np.zeros((arms, constraints), np.complex64)
    return Safety(verdict, packed, np.full(arms, constraints), np.zeros(arms, np.int64))


@kernel
def unpacked(safety: Safety, arm: int, metric: int) -> tuple[float, float]:
    """A constraint's excess, and 1 / sqrt(number of its tests)."""
    both = safety.packed[arm, metric - 1]
    return float(both.real), float(both.imag)


@kernel
def pack(safety: Safety, arm: int, metric: int, excess: float, inverse_root: float) -> None:
    safety.packed[arm, metric - 1] = complex(excess, inverse_root)


@kernel
def constraint_to_test(setting: Setting, safety: Safety, arm: int) -> int:
    """The constraint in H_i most likely violated: the largest optimistic excess over its threshold.

    Excess is counted in units of the metric's sigma, which is the paper's rule when all are alike.
    """
    root_log_tests = setting.root_log[slot(safety.tests[arm])]
    chosen = 0
    largest = -math.inf
    for metric in range(1, safety.packed.shape[1] + 1):
        excess, inverse_root = unpacked(safety, arm, metric)
        optimistic = excess + root_log_tests * inverse_root
        if optimistic > largest:
            largest = optimistic
            chosen = metric
    return chosen


@kernel
def judge_constraint(setting: Setting, streams: Streams, safety: Safety, arm: int, metric: int) -> int:
    """Take in a test of a constraint; returns the arm's verdict. The initial test decides nothing."""
    safety.tests[arm] += 1
    if unpacked(safety, arm, metric)[0] == -math.inf or safety.verdict[arm] != OPEN:
        return int(safety.verdict[arm])
    n = streams.counts[arm, metric]
    # Read here, beside the radius: on a card, reading takes long, and one reading need not wait for the other.
    inverse_root = setting.inverse_root[slot(n)]
    mean = streams.means[arm, metric]
    excess = (mean - setting.threshold[metric]) * setting.inverse_sigma[metric]
    # NaN and infinity decide nothing and make nothing urgent.
    excess = excess if -math.inf < excess < math.inf else 0.0
    # Nor does an excess that may be rounding alone.
    width = max(radius(setting, streams, arm, metric), rounding_error(n, mean) * setting.inverse_sigma[metric])
    width = width if excess != 0.0 else math.inf
    if n > 1:
        if excess > width:
            safety.verdict[arm] = INFEASIBLE
        elif excess < -width:
            excess = -math.inf
            safety.left[arm] -= 1
            if safety.left[arm] == 0:
                safety.verdict[arm] = FEASIBLE
    # An excess too large for half a word counts as the largest.
    excess = min(max(excess, -_MOST), _MOST) if excess > -math.inf else excess
    pack(safety, arm, metric, excess, inverse_root)
    return int(safety.verdict[arm])


class SafetyPolicy(KernelPolicy):
    """A policy with a `safety` in its memory. It never takes back a verdict on an arm, or an elimination."""

    def findings(self) -> Findings:
        """What the present intervals say, and what earlier ones have said: all of them hold at once."""
        safety: Safety = self.memory.safety
        holds = np.zeros((self.arms, self.metrics), np.bool_)
        holds[:, 1:] = safety.packed.real == -math.inf  # it has left H_i
        earlier = Earlier(holds, safety.verdict == INFEASIBLE, self.eliminated())
        return findings_by_intervals(self.setting, self.streams.counts, *self.bounds(), earlier)

    def eliminated(self) -> npt.NDArray[np.bool_]:
        """The arms that the policy has given up because a feasible one is at least as good."""
        return np.zeros(self.arms, np.bool_)
