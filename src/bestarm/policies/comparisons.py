"""How arms compare by the evidence: why arms are out, how far the leader can be below the best, how far arms differ.

These limits hold at all times at once: Propositions K.4 to K.7 in `docs/certificates/known.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bestarm.evidence.claims import constraint_evidence
from bestarm.evidence.combine import independent_evidence
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import ABSENT, RESERVED, Flags, Floats, Ints, Setting, Streams
from bestarm.kernel.tournament import NO_ARM
from bestarm.noises.dispatch import scatter
from bestarm.noises.mixture import add_logs
from bestarm.noises.streams import ABOVE, BELOW
from bestarm.policies.confidence import Intervals, is_outperformed, pair_level, refresh_intervals, rival_case, violation
from bestarm.policies.findings import Bools, Findings
from bestarm.policies.leads import end_of_lead, largest_lead


class Reasons(NamedTuple):
    """What the evidence says about each arm that is out, by arm."""

    worst: Ints
    """The constraint that a rejected arm most clearly violates."""
    evidence: Floats
    """Log-evidence that it is infeasible; for an arm that is beaten, infeasible or worse."""
    lead: Floats
    """Minus the tolerance for an arm that is beaten by performance alone, else NaN."""


@kernel
def survey(
    setting: Setting,
    streams: Streams,
    rejected: Flags,
    beaten: Ints,
    leader: int,
    intervals: Intervals,
    reasons: Reasons,
) -> None:
    """Bring the intervals up to date, and fill in the reasons why arms are out."""
    refresh_intervals(setting, streams, intervals)
    for arm in range(streams.counts.shape[0]):
        if rejected[arm]:
            largest = -math.inf
            for metric in range(1, streams.counts.shape[1]):
                evidence = constraint_evidence(setting, streams, arm, metric, ABOVE)
                if evidence > largest:
                    largest = evidence
                    reasons.worst[arm] = metric
            reasons.evidence[arm] = violation(setting, streams, arm)
        elif leader != NO_ARM and beaten[arm] == leader:
            is_behind = is_outperformed(setting, streams, leader, arm)
            reasons.lead[arm] = -setting.tolerance if is_behind else math.nan
            reasons.evidence[arm] = rival_case(setting, streams, leader, arm, violation(setting, streams, arm))


@kernel
def needed_from_performance(setting: Setting, streams: Streams, arm: int, level: float) -> float:
    """The evidence that an arm is worse for which that it is infeasible or worse reaches `level`."""
    if setting.threshold.shape[0] == 1:
        return level
    infeasible = violation(setting, streams, arm)
    # Infinity is no evidence, and neither is NaN.
    if not infeasible < math.inf:
        return level - setting.log_worse
    independent = independent_evidence(setting, streams, arm, infeasible)
    return level - add_logs(setting.log_worse, setting.log_both + independent)


@kernel
def regret_against(setting: Setting, streams: Streams, leader: int, arm: int, limit: float) -> float:
    """How far, at most, the leader is below `arm` if that is feasible; `limit` if it is no more than that."""
    needed = needed_from_performance(setting, streams, arm, pair_level(setting, leader, arm))
    return max(limit, -largest_lead(setting, streams, leader, arm, needed, -limit))


@kernel
def optimistic_mean(setting: Setting, streams: Streams, arm: int, level: float) -> float:
    """About how good an arm may be."""
    n = streams.counts[arm, 0]
    if n == 0:
        return math.inf
    mean = streams.means[arm, 0]
    hope: float = mean + scatter(setting, streams, arm, 0, mean) * math.sqrt(2.0 * level / n)
    return hope


@kernel
def regret_of(setting: Setting, streams: Streams, rejected: Flags, beaten: Ints, leader: int) -> float:
    """How far, at most, the leader is below the best feasible arm; infinity if there is no limit.

    Certificates that are closed count as closed: an arm that the leader has beaten is better by the tolerance at most.
    """
    arms = streams.counts.shape[0]
    first = leader
    largest = -math.inf
    for arm in range(arms):
        if arm != leader and rejected[arm] == 0 and beaten[arm] != leader:
            hope = optimistic_mean(setting, streams, arm, setting.level[leader])
            if hope > largest:
                first = arm
                largest = hope
    # The arm that sets the limit comes first, as a rule. For the others it then suffices that they are no better.
    limit = 0.0
    for index in range(-1, arms):
        arm = first if index < 0 else index
        is_again = index >= 0 and arm == first
        is_beaten = beaten[arm] == leader
        matters = limit < (setting.tolerance if is_beaten else math.inf)
        if arm != leader and not is_again and rejected[arm] == 0 and matters:
            found = regret_against(setting, streams, leader, arm, limit)
            limit = min(found, setting.tolerance) if is_beaten else found
    return limit


@kernel
def margin_of(
    setting: Setting, streams: Streams, rejected: Flags, beaten: Ints, leader: int, outperformed: Flags
) -> float:
    """By how much, at least, the leader performs better than every other arm that is not rejected, by the evidence and
    at the levels that decide. Marks the arms that it has beaten by performance alone as `outperformed`.

    Certificates that are closed count as closed: when one was closed, the lead was minus the tolerance or more.
    """
    margin = math.inf
    for arm in range(streams.counts.shape[0]):
        outperformed[arm] = 0
        if arm != leader and rejected[arm] == 0:
            level = pair_level(setting, leader, arm)
            # That an arm may be infeasible counts against it, and never for the lead.
            needed = max(level, needed_from_performance(setting, streams, arm, level))
            lead = largest_lead(setting, streams, leader, arm, needed, margin)
            if beaten[arm] == leader:
                outperformed[arm] = is_outperformed(setting, streams, leader, arm)
                lead = max(lead, -setting.tolerance)
            margin = min(margin, lead)
    return margin


@kernel
def differences_from(
    setting: Setting, streams: Streams, arm: int, at_least: Floats, at_most: Floats, low: Floats, high: Floats
) -> None:
    """By how much, at least and at most, `arm` performs better than each other. `at_least` and `at_most` have the
    levels that the evidence must reach, by the other arm."""
    for other in range(streams.counts.shape[0]):
        for turn in range(2):
            side = ABOVE if turn == 0 else BELOW
            level = at_least[other] if side == ABOVE else at_most[other]
            end = 0.0 if other == arm else end_of_lead(setting, streams, arm, other, side, level)
            if side == ABOVE:
                low[other] = end
            else:
                high[other] = end


def narrow(low: Floats, high: Floats, arm: int, ahead: Sequence[int], behind: Bools, margin: float) -> None:
    """Bring into the differences between `arm` and the others that the arms `ahead` perform better by `margin` or more
    than those `behind`. Where the results contradict each other, the wider interval stays."""
    if arm in ahead:
        low[behind] = np.minimum(np.fmax(low, margin), high)[behind]
    elif behind[arm]:
        for better in ahead:
            high[better] = max(min(high[better], -margin), low[better])


def measured_leads(streams: Streams, arm: int) -> Floats:
    """By how much `arm` has measured better than each arm; NaN where one has no result. On items, only those on which
    both were measured count."""
    counts, means = streams.counts[:, 0], streams.means[:, 0]
    if streams.items == ABSENT:
        leads = means[arm] - means
    else:
        values, reached = streams.items.values[:, 0], streams.items.reached[:, 0]
        leads = np.array(
            [_mean_of_known(values[arm, :n] - values[k, :n]) for k, n in enumerate(np.minimum(reached, reached[arm]))]
        )
    return np.where((counts > 0) & (counts[arm] > 0), leads, math.nan)


def _mean_of_known(differences: Floats) -> float:
    """The mean of the differences on common items, or in common blocks; NaN without any."""
    known = differences[~np.isnan(differences)]
    return float(known.sum()) / len(known) if len(known) else math.nan


def pair_levels(setting: Setting, arm: int) -> tuple[Floats, Floats]:
    """The levels that make the differences of all ordered pairs hold at once: delta v_i v_j / (1 - v_i) for (i, j),
    where v are the weights of the arms. Those of (arm, j) and of (j, arm), by j. With a reserve, delta v_i v_j."""
    if setting.sharing == RESERVED:
        rarity = setting.reserve.rarity
        level: Floats = rarity + rarity[arm] - math.log(setting.delta)
        return level, level
    # Whatever share of delta is theirs, levels differ by the weights.
    weight = np.exp(setting.level.min() - setting.level)
    log_weight = np.log(weight / weight.sum())
    with np.errstate(divide="ignore"):
        log_rest = np.log(-np.expm1(log_weight))
    share = log_weight[arm] + log_weight
    return -math.log(setting.delta) - share + log_rest[arm], -math.log(setting.delta) - share + log_rest


def regret_by_intervals(found: Findings, leader: int) -> float:
    """How far, at most, the leader is below the best feasible arm, from intervals that all hold at once."""
    others = found.candidates.copy()
    others[leader] = False
    if not others.any():
        return 0.0
    limit = float(found.high[others, 0].max() - found.low[leader, 0])
    # An end that is NaN says nothing.
    return max(limit, 0.0) if limit == limit else math.inf


def differences_by_intervals(low: Floats, high: Floats, arm: int) -> tuple[Floats, Floats]:
    """By how much, at least and at most, `arm` performs better than each other, if all intervals hold."""
    least, most = low[arm, 0] - high[:, 0], high[arm, 0] - low[:, 0]
    least, most = np.where(np.isnan(least), -math.inf, least), np.where(np.isnan(most), math.inf, most)
    least[arm] = most[arm] = 0.0
    return least, most
