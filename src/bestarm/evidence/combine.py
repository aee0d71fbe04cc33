"""Evidence about arms, put together from evidence about streams.

Against "arm j is feasible": A_j, the weighted mean over its constraints of the evidence that each is violated.
Against "j is feasible and at least as good as i": the weighted mean of the evidence P that i is better than j, and of
A_j P, which lets half a proof of one and half a proof of the other add up to a whole one. (That j is infeasible rejects
it, whatever i is; for that A_j need not be a part of this.) Results of one test may depend on each other in any way, so
their evidence is added and never multiplied: constraints measured together with the objective are left out of the
product.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from bestarm.evidence.claims import constraint_evidence
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.state import ON_ITEMS, SEARCHING, SEPARATE, TRACKING, Setting, Streams
from bestarm.noises.mixture import add_logs
from bestarm.noises.streams import ABOVE

WEIGHTS = (0.9, 0.1)
"""The weights of the evidence that an arm is worse, and of its product with the evidence that it is infeasible."""
JOINT_WEIGHTS = (1.0, 0.0)
"""Where every constraint is measured together with the objective, or on items, there is nothing to multiply."""

LOG_HALF = math.log(0.5)


@kernel
def _together(setting: Setting, streams: Streams, arm: int) -> float:
    evidence = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        violated = setting.log_weight[metric] + constraint_evidence(setting, streams, arm, metric, ABOVE)
        evidence = add_logs(evidence, violated)
    return evidence


@kernel
def _most_suspect(setting: Setting, streams: Streams, arm: int) -> float:
    """A stream that is ahead in the order of items tells about the next results of the others. So each is evidence by
    itself, at all times, and nothing is known of their sum."""
    largest = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        largest = max(largest, setting.log_weight[metric] + constraint_evidence(setting, streams, arm, metric, ABOVE))
    return largest


def sum_and_product(
    violation: Callable[[Setting, Streams, int, int, int], float], add: Callable[[float, float], float]
) -> Callable[[Setting, Streams, int], float]:
    """A kernel: half of the weight is for the product over all constraints of 1 - w + w E. Where several are violated,
    it grows with the evidence of all of them. Each is tested by itself, so that their evidence may be multiplied."""

    @kernel
    def together(setting: Setting, streams: Streams, arm: int) -> float:
        added = -math.inf
        multiplied = 0.0
        for metric in range(1, streams.counts.shape[1]):
            violated = violation(setting, streams, arm, metric, ABOVE)
            added = add(added, setting.log_weight[metric] + violated)
            multiplied += add(setting.tracking.log_rest[metric], setting.tracking.log_part[metric] + violated)
        if streams.counts.shape[1] <= 2:
            return added
        return add(added, multiplied + LOG_HALF)

    return together


_together_and_product = sum_and_product(constraint_evidence, add_logs)
_separate = choice("setting.sampling", {SEARCHING: _together, TRACKING: _together_and_product})
infeasible_evidence = choice("setting.pairing", {SEPARATE: _separate, ON_ITEMS: _most_suspect})
"""log A_j: evidence that the arm is infeasible (minus infinity without constraints). On items, it is that of the
most suspect constraint, by its weight."""


@kernel
def independent_evidence(setting: Setting, streams: Streams, arm: int, infeasible: float) -> float:
    """The part of `infeasible`, the log-evidence that the arm is infeasible, that may be multiplied with the evidence
    that it is worse: that from constraints which are not measured together with the objective."""
    if setting.is_joint == 0:
        return infeasible
    evidence = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        if setting.lead[metric] != setting.lead[0] and streams.counts[arm, metric] > 0:
            violated = setting.log_weight[metric] + constraint_evidence(setting, streams, arm, metric, ABOVE)
            evidence = add_logs(evidence, violated)
    return evidence


@kernel
def rival_evidence(setting: Setting, independent: float, worse: float) -> float:
    """Log-evidence that a rival is not both feasible and better, from the evidence that it is worse, and the
    `independent` evidence that it is infeasible: that which does not rest on tests of its performance."""
    if setting.threshold.shape[0] == 1:
        return worse
    return worse + add_logs(setting.log_worse, setting.log_both + independent)
