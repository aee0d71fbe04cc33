"""Whether evidence reaches its level, computed only as far as it takes to tell.

Every question here is one inequality, "evidence >= level". It is asked after every test, and rarely answered by yes. So
a ceiling is tried first: an upper bound of the evidence that is close to it and cheap, because it takes no logarithm.
If that reaches the level, a closer ceiling is tried, and in the end the evidence itself. NaN fails each of these
comparisons. No answer depends on how close a ceiling is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from bestarm.evidence.claims import constraint_ceiling, constraint_evidence, suffices
from bestarm.evidence.combine import independent_evidence, infeasible_evidence, rival_evidence, sum_and_product
from bestarm.evidence.items import difference_of
from bestarm.evidence.pairs import evidence_between, pair_evidence, product_ceiling
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.state import ON_ITEMS, SEARCHING, SEPARATE, TRACKING, Setting, Streams
from bestarm.noises.dispatch import ceiling, evidence
from bestarm.noises.mixture import ROUNDING
from bestarm.noises.streams import ABOVE, BELOW, Stream, stream_of

HOLDS = 1
HOLDS_BEYOND_LUCK = 2
BEYOND_LUCK = 1e5
"""A constraint that is certified by this much evidence was not certified by luck."""

_LOG_2 = math.log(2.0)

_FAR = 30.0
"""If two logarithms are this far apart, the smaller one adds less than `ROUNDING`."""


@kernel
def add_logs_ceiling(a: float, b: float) -> float:
    """A ceiling of log(e^a + e^b), at most 0.007 above it."""
    if a == b:
        # This includes two equal infinities, whose difference is NaN.
        return a + (_LOG_2 + ROUNDING)
    gap = abs(a - b)
    if gap > _FAR:
        return max(a, b) + ROUNDING
    # e^x is at least its series up to the fifth power, and log(1 + y) at most y (6 + y) / (6 + 4 y).
    power = 1.0 + gap * (1.0 + gap * (0.5 + gap * (1.0 / 6.0 + gap * (1.0 / 24.0 + gap * (1.0 / 120.0)))))
    return max(a, b) + (6.0 * power + 1.0) / (power * (6.0 * power + 4.0))


@kernel
def _sum_ceiling(setting: Setting, streams: Streams, arm: int) -> float:
    """All constraints but the most suspect one count as if they were as suspect as the second."""
    chosen = 0
    largest = -math.inf
    second = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        violated = constraint_ceiling(setting, streams, arm, metric, ABOVE)
        if violated > largest:
            chosen, second, largest = metric, largest, violated
        else:
            second = max(second, violated)
    return add_logs_ceiling(setting.log_weight[chosen] + largest, second)


_sum_and_product_ceiling = sum_and_product(constraint_ceiling, add_logs_ceiling)
infeasible_ceiling = choice("setting.sampling", {SEARCHING: _sum_ceiling, TRACKING: _sum_and_product_ceiling})
"""A ceiling of log A_j, the evidence that the arm is infeasible."""


@kernel
def ceiling_between(ahead: Stream, behind: Stream, mean_ahead: float, mean: float, margin: float) -> float:
    """A ceiling of `pair_evidence`, given the means of both streams: the product at any c is at least the smallest
    product."""
    mean_ahead += margin
    if mean_ahead < mean:
        return -math.inf
    c = (ahead.n * mean_ahead + behind.n * mean) / (ahead.n + behind.n)
    # Only a c inside both ranges can lie between the means.
    c = min(max(c, ahead.low + margin), behind.high)
    return product_ceiling(ahead, behind, c - margin, c)


@kernel
def pair_may_reach(ahead: Stream, behind: Stream, margin: float, level: float) -> bool:
    """Whether the evidence that the first mean plus `margin` is above the second may reach the level."""
    if ahead.n == 0 or behind.n == 0:
        return False
    if not ceiling_between(ahead, behind, ahead.total / ahead.n, behind.total / behind.n, margin) >= level:
        return False
    return evidence_between(ahead, behind, margin) + ROUNDING >= level


@kernel
def pair_ceiling(setting: Setting, streams: Streams, leader: int, arm: int) -> float:
    """A ceiling of the evidence that the leader performs better than the arm."""
    ahead, behind = stream_of(setting, streams, leader, 0), stream_of(setting, streams, arm, 0)
    return ceiling_between(ahead, behind, streams.means[leader, 0], streams.means[arm, 0], setting.tolerance)


@kernel
def rival_ceiling(setting: Setting, infeasible: float, worse: float) -> float:
    """A ceiling of `rival_evidence`, from ceilings of its parts. The independent evidence is at most `infeasible`."""
    if setting.threshold.shape[0] == 1:
        return worse
    return worse + add_logs_ceiling(setting.log_worse, setting.log_both + infeasible)


@kernel
def holding_reaches(setting: Setting, streams: Streams, arm: int, metric: int, level: float) -> int:
    """`HOLDS` if the evidence that a constraint holds reaches the level, `HOLDS_BEYOND_LUCK` if it may be beyond luck,
    else 0."""
    highest = constraint_ceiling(setting, streams, arm, metric, BELOW)
    if not (highest >= level and suffices(constraint_evidence(setting, streams, arm, metric, BELOW), level)):
        return 0
    return HOLDS_BEYOND_LUCK if highest >= BEYOND_LUCK else HOLDS


class Infeasibility(NamedTuple):
    """Log-evidence that an arm is infeasible: the evidence itself, or a ceiling of it that settled the question."""

    evidence: float
    is_exact: bool


@kernel
def infeasibility_up_to(setting: Setting, streams: Streams, arm: int, level: float) -> Infeasibility:
    """The evidence that an arm is infeasible if it may reach the level, else a ceiling of it. In a hurry, a ceiling."""
    limit = infeasible_ceiling(setting, streams, arm)
    if limit >= level and setting.is_hurried == 0:
        return Infeasibility(infeasible_evidence(setting, streams, arm), True)
    return Infeasibility(limit, False)


@kernel
def _rival_may_reach(
    setting: Setting, streams: Streams, leader: int, arm: int, infeasible: float, level: float
) -> bool:
    return rival_ceiling(setting, infeasible, pair_ceiling(setting, streams, leader, arm)) >= level


@kernel
def _rival_suffices(
    setting: Setting, streams: Streams, leader: int, arm: int, found: Infeasibility, level: float
) -> bool:
    ahead, behind = stream_of(setting, streams, leader, 0), stream_of(setting, streams, arm, 0)
    worse_limit = evidence_between(ahead, behind, setting.tolerance) + ROUNDING
    if not rival_ceiling(setting, found.evidence, worse_limit) >= level:
        return False
    infeasible = found.evidence if found.is_exact else infeasible_evidence(setting, streams, arm)
    if not rival_ceiling(setting, infeasible, worse_limit) >= level:
        return False
    independent = independent_evidence(setting, streams, arm, infeasible)
    worse = pair_evidence(ahead, behind, setting.tolerance)
    return suffices(rival_evidence(setting, independent, worse), level)


@kernel
def _may_reach_on_items(
    setting: Setting, streams: Streams, leader: int, arm: int, infeasible: float, level: float
) -> bool:
    """That the arm is infeasible counts by itself."""
    difference = difference_of(setting, streams, leader, arm)
    return difference.n > 0 and ceiling(difference, ABOVE, -setting.tolerance) >= level


@kernel
def _suffices_on_items(
    setting: Setting, streams: Streams, leader: int, arm: int, found: Infeasibility, level: float
) -> bool:
    return suffices(evidence(difference_of(setting, streams, leader, arm), ABOVE, -setting.tolerance), level)


rival_may_reach = choice(
    "setting.pairing", {SEPARATE: _rival_may_reach, ON_ITEMS: _may_reach_on_items}, unknown="False"
)
"""Whether the evidence that `arm` is infeasible or worse than the leader may reach the level, given the evidence that
it is infeasible or a ceiling of it."""
rival_suffices = choice("setting.pairing", {SEPARATE: _rival_suffices, ON_ITEMS: _suffices_on_items}, unknown="False")
"""Whether it does reach the level, if it may."""


@kernel
def rival_reaches(
    setting: Setting, streams: Streams, leader: int, arm: int, found: Infeasibility, level: float
) -> bool:
    """Whether the evidence that `arm` is infeasible or worse than the leader reaches the level."""
    if not rival_may_reach(setting, streams, leader, arm, found.evidence, level):
        return False
    return rival_suffices(setting, streams, leader, arm, found, level)
