"""How sure the results make us of the present best answer, at any time and under any policy.

Kernels compute what is shown of a study. They are interpreted if the problem is small and compiled if it is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bestarm.evidence.claims import constraint_evidence, end_of, looks_fine, suffices, worse_evidence
from bestarm.evidence.combine import independent_evidence, infeasible_evidence, rival_evidence
from bestarm.kernel.compile import choice, compiled, kernel
from bestarm.kernel.state import RELATIVE, RESERVED, SHARED, Flags, Floats, Ints, Setting, Streams
from bestarm.kernel.tournament import NO_ARM
from bestarm.noises.registry import known_for
from bestarm.noises.streams import ABOVE, BELOW
from bestarm.policies.advance import takes_part

COMPILE_STREAMS = 100
"""With this many streams or more, kernels are interpreted only until compiled code is there."""
WAIT_STREAMS = 2000
"""With this many, waiting for compiled code (a few seconds, the first time ever) costs less than interpreting."""


class PresentAnswer(NamedTuple):
    """The present best answer (None: no arm is feasible) and how sure we are of it, from 0 to 1."""

    leader: int | None
    confidence: float


def compiled_if_large(root: Callable[..., Any], setting: Setting, streams: Streams) -> Callable[..., Any]:
    """The kernel as it is for few streams, compiled for many, and for some compiled as soon as it can be."""
    # Like compiled code, it is silent about overflow and NaN.
    plain = np.errstate(over="ignore", invalid="ignore")(root)
    if streams.counts.size < COMPILE_STREAMS:
        return plain
    fast = compiled(root, known=known_for(setting))
    chosen: Callable[..., Any] = fast.interpreted_until_ready(plain, wait=streams.counts.size >= WAIT_STREAMS)
    return chosen


@kernel
def _pair_level(setting: Setting, leader: int, arm: int) -> float:
    level: float = setting.level[leader] + setting.log_members
    return level


@kernel
def _pair_level_with_reserve(setting: Setting, leader: int, arm: int) -> float:
    reserve = setting.reserve
    is_later = reserve.came[leader] != 0 or reserve.came[arm] != 0
    if not is_later and reserve.is_reduced == 0:
        return _pair_level(setting, leader, arm)
    first = reserve.later_pairs if is_later else reserve.first_pairs
    level: float = first + reserve.rarity[leader] + reserve.rarity[arm]
    return level


pair_level = choice("setting.sharing", {SHARED: _pair_level, RESERVED: _pair_level_with_reserve})
"""What the evidence that `arm` is infeasible or worse than the leader must reach."""


@kernel
def looks_feasible(setting: Setting, streams: Streams, arm: int) -> bool:
    """Whether every metric of the arm is tested and every constraint's mean is on the right side."""
    for metric in range(streams.counts.shape[1]):
        if streams.counts[arm, metric] == 0:
            return False
        if metric > 0 and not looks_fine(setting, streams, arm, metric):
            return False
    return True


@kernel
def present_leader(setting: Setting, streams: Streams) -> int:
    """The arm with the best mean among those that look feasible, or `NO_ARM`."""
    leader = NO_ARM
    largest = -math.inf
    for arm in range(streams.counts.shape[0]):
        is_asked = arm != setting.aside and takes_part(setting, arm)
        if is_asked and looks_feasible(setting, streams, arm) and streams.means[arm, 0] > largest:
            leader = arm
            largest = streams.means[arm, 0]
    return leader


@kernel
def violation(setting: Setting, streams: Streams, arm: int) -> float:
    """Log-evidence that the arm is infeasible."""
    for metric in range(1, streams.counts.shape[1]):
        if streams.counts[arm, metric] == 0:
            return -math.inf
    return infeasible_evidence(setting, streams, arm)


@kernel
def is_outperformed(setting: Setting, streams: Streams, leader: int, arm: int) -> bool:
    """Whether it is performance alone by which the leader has beaten an arm.

    So it is if nothing else counts in that certificate. Otherwise it may have been closed by half a proof that the arm
    is infeasible and half a proof that it is worse, and the evidence must show the second alone.
    """
    if setting.threshold.shape[0] == 1 or setting.log_both == -math.inf:
        return True
    return suffices(worse_evidence(setting, streams, leader, arm), pair_level(setting, leader, arm))


@kernel
def rival_case(setting: Setting, streams: Streams, leader: int, arm: int, infeasible: float) -> float:
    """Log-evidence that the arm is infeasible or worse than the leader; `infeasible` is that for the first alone."""
    worse = worse_evidence(setting, streams, leader, arm)
    return rival_evidence(setting, independent_evidence(setting, streams, arm, infeasible), worse)


@kernel
def lesser(least: float, evidence: float) -> float:
    """The least evidence so far. NaN and infinity are no evidence."""
    if not -math.inf < evidence < math.inf:
        return -math.inf
    return min(least, evidence)


@kernel
def weigh(
    setting: Setting, streams: Streams, members: Ints, is_full: bool, certified: Flags, is_closed: Flags
) -> float:
    """The log of 1 / alpha for the least alpha at which the arms `members` would be certified to be the answer or,
    without members, that no arm is feasible.

    Nothing has to be shown of arms that are closed. Each other arm must be infeasible or, if the answer `is_full`,
    worse than every member. Certificates that a policy has closed count as closed, whatever the evidence says now. A
    number of 0 or less means that it is certified at no alpha below 1; infinity means that no certificate is open.
    """
    arms, metrics = streams.counts.shape
    # What certificates must reach beyond log(1 / alpha) follows from the shares of delta.
    log_delta = math.log(setting.delta)
    least = math.inf
    for index in range(members.shape[0]):
        member = members[index]
        for metric in range(1, metrics):
            if certified[member, metric] == 0:
                evidence = constraint_evidence(setting, streams, member, metric, BELOW)
                least = lesser(least, evidence - (setting.level[member] + log_delta))
    for arm in range(arms):
        if is_closed[arm] == 0 and least > 0.0:
            infeasible = violation(setting, streams, arm)
            case = infeasible - (setting.rejecting[arm] + log_delta)
            if not suffices(case, least):
                beaten = math.inf if is_full else -math.inf
                if is_full:
                    for index in range(members.shape[0]):
                        handicap = pair_level(setting, members[index], arm) + log_delta
                        rival = rival_case(setting, streams, members[index], arm, infeasible)
                        beaten = lesser(beaten, rival - handicap)
                least = lesser(least, case if case >= beaten else beaten)
    return least


def evidence_for(
    setting: Setting,
    streams: Streams,
    members: Sequence[int],
    is_full: bool = True,
    certified: Flags | None = None,
    is_closed: Flags | None = None,
) -> float:
    """`weigh`, compiled if there is much to weigh. By default, no certificate is closed."""
    certified = np.zeros(streams.counts.shape, np.int8) if certified is None else certified
    is_closed = np.zeros(len(streams.counts), np.int8) if is_closed is None else is_closed.astype(np.int8)
    is_closed[[*members]] = 1
    given = (np.array(members, np.int64), is_full and len(members) > 0, certified, is_closed)
    return float(compiled_if_large(weigh, setting, streams)(setting, streams, *given))


def confidence_of(log_evidence: float) -> float:
    """1 - alpha, from the log of 1 / alpha."""
    return -math.expm1(-max(log_evidence, 0.0))


def present_answer(setting: Setting, streams: Streams) -> PresentAnswer:
    """The leader, or "no arm is feasible" if none looks feasible, with the least alpha at which it would be certified.

    One minus that alpha is the confidence: for every alpha fixed beforehand, the probability that a wrong answer is
    ever shown with a confidence of 1 - alpha or more is at most alpha.
    """
    leader = int(compiled_if_large(present_leader, setting, streams)(setting, streams))
    members = [] if leader == NO_ARM else [leader]
    return PresentAnswer(members[0] if members else None, confidence_of(evidence_for(setting, streams, members)))


@kernel
def lower_level(setting: Setting, arm: int, metric: int) -> float:
    """The level for the lower end of an interval. For a constraint, it is the level that rejects the arm."""
    level: float = setting.rejecting[arm] - setting.log_weight[metric] if metric > 0 else setting.level[arm]
    return level


class Intervals(NamedTuple):
    """The intervals of all streams, [arm, metric], and the statistics that they were computed from."""

    counts: Ints
    sums: Floats
    low: Floats
    high: Floats


def new_intervals(arms: int, metrics: int) -> Intervals:
    """Intervals that have not been computed yet."""
    shape = (arms, metrics)
    return Intervals(np.full(shape, -1), np.zeros(shape), np.zeros(shape), np.zeros(shape))


@kernel
def _baseline_of(setting: Setting, arm: int, metric: int) -> int:
    baseline = setting.relative.baseline
    return NO_ARM if setting.relative.factor[metric] == 0.0 or arm == baseline else baseline


compared_with = choice("setting.limits", {RELATIVE: _baseline_of}, unknown=str(NO_ARM))
"""The baseline that limits a metric of the arm, or `NO_ARM`."""


@kernel
def refresh_intervals(setting: Setting, streams: Streams, intervals: Intervals) -> None:
    """Compute the intervals of the streams that have changed."""
    for arm in range(streams.counts.shape[0]):
        for metric in range(streams.counts.shape[1]):
            n, total = streams.counts[arm, metric], streams.sums[arm, metric]
            base = compared_with(setting, arm, metric)
            if base != NO_ARM:
                n += streams.counts[base, metric]
                total += streams.sums[base, metric]
            if intervals.counts[arm, metric] != n or intervals.sums[arm, metric] != total:
                intervals.counts[arm, metric] = n
                intervals.sums[arm, metric] = total
                above = lower_level(setting, arm, metric)
                intervals.low[arm, metric] = end_of(setting, streams, arm, metric, ABOVE, above)
                intervals.high[arm, metric] = end_of(setting, streams, arm, metric, BELOW, setting.level[arm])
