"""What the likeliest answer still lacks: the certificates that are open, how far each is, and how long it may take."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from bestarm.evidence.claims import constraint_evidence, excess_of
from bestarm.evidence.items import DIFFERENCE, UNLIMITED, difference_of, row_of
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.state import ON_ITEMS, SEPARATE, Flags, Floats, Ints, Setting, Streams
from bestarm.kernel.tournament import NO_ARM
from bestarm.noises.dispatch import scatter
from bestarm.noises.streams import BELOW
from bestarm.policies.confidence import compiled_if_large, pair_level, rival_case, violation
from bestarm.policies.findings import Bools, Findings
from bestarm.policies.leads import overhead

MOST_SHOWN = 200
"""The number of certificates shown: those that may take longest. A study of many arms has too many to show."""

_NO_METRIC = -1
_LOG_2 = math.log(2.0)
_LOST_TO_SCATTER = 3.0
"""How much less evidence there is than log 2 for each difference, if all are large and alike: 2, 3, 8 and 20 arms in
blocks took 9, 10, 12 and 13 of them."""


class OpenCertificate(NamedTuple):
    """One certificate that is open. `holds`: that `metric` of `arm` stays below its threshold; `rival`: that `arm` is
    worse than `against`, the leader, or infeasible; `infeasible`: that `arm` violates a constraint, likeliest `metric`.
    """

    kind: Literal["holds", "rival", "infeasible"]
    arm: int
    metric: int | None
    against: int | None
    share: float
    """How much evidence there is of what is needed, from 0 to 1."""
    tests: float
    """About how many more tests it takes; infinite if the means point the other way."""


@kernel
def tests_in_all(level: float, gap: float, variance: float) -> float:
    """About how many tests it takes to the level, where each result lies `gap` from what is to be excluded."""
    if not gap > 0.0:
        return math.inf
    # The square of a tiny gap is 0.
    if gap * gap == 0.0:
        return math.inf
    inverse_rate = 2.0 * variance / (gap * gap)
    n = (level + 1.0) * inverse_rate
    for _ in range(3):
        n = (level + 1.0 + overhead(n)) * inverse_rate
    return n


@kernel
def _tests_worse(setting: Setting, streams: Streams, leader: int, arm: int) -> float:
    one = scatter(setting, streams, leader, 0, streams.means[leader, 0])
    other = scatter(setting, streams, arm, 0, streams.means[arm, 0])
    gap = streams.means[leader, 0] + setting.tolerance - streams.means[arm, 0]
    needed = tests_in_all(pair_level(setting, leader, arm), gap, one * one + other * other)
    more: float = max(needed - streams.counts[leader, 0], 0.0) + max(needed - streams.counts[arm, 0], 0.0)
    return max(more, 1.0)


@kernel
def _tests_worse_on_items(setting: Setting, streams: Streams, leader: int, arm: int) -> float:
    lead = difference_of(setting, streams, leader, arm)
    if lead.n == 0:
        return math.inf
    row, between = row_of(streams, leader, arm), streams.items.differences
    mean = between.means[row, DIFFERENCE]
    noise = scatter(setting.items.differences, between, row, DIFFERENCE, mean)
    level = pair_level(setting, leader, arm)
    needed = tests_in_all(level, mean + setting.tolerance, noise * noise)
    if setting.items.is_scatter_free:
        needed = max(needed, (level + _LOST_TO_SCATTER) / _LOG_2)
    if setting.items.is_each_compared:
        # Results count by block, and several comparisons are in one.
        needed *= min(streams.counts[leader, 0], streams.counts[arm, 0]) / lead.n
    # After the last item everything is known.
    needed = min(needed, setting.items.places) if setting.items.places < UNLIMITED else needed
    more: float = max(needed - streams.counts[leader, 0], 0.0) + max(needed - streams.counts[arm, 0], 0.0)
    return max(more, 1.0)


tests_worse = choice("setting.pairing", {SEPARATE: _tests_worse, ON_ITEMS: _tests_worse_on_items})
"""About how many more tests of both arms it takes to show that the leader is better."""


@kernel
def estimate(setting: Setting, streams: Streams, leader: int, arms: Ints, worst: Ints, tests: Floats) -> None:
    """For each of `arms`: about how many more tests it takes to show that it is not the answer, in the shortest way,
    and the constraint that it likeliest violates."""
    for index in range(arms.shape[0]):
        arm = arms[index]
        shortest = math.inf
        largest = -math.inf
        for metric in range(1, streams.counts.shape[1]):
            excess = excess_of(setting, streams, arm, metric)
            if excess > largest:
                worst[index] = metric
                largest = excess
            needed = tests_in_all(setting.rejecting[arm] - setting.log_weight[metric], excess, 1.0)
            shortest = min(shortest, max(needed - streams.counts[arm, metric], 1.0))
        if leader != NO_ARM:
            shortest = min(shortest, tests_worse(setting, streams, leader, arm))
        tests[index] = shortest


@kernel
def share_of(evidence: float, level: float, lost: float) -> float:
    """The evidence as a share of its level. What is `lost` to overhead counts in both. NaN and infinity are no
    evidence."""
    if not -lost < evidence < math.inf:
        return 0.0
    return min((evidence + lost) / (level + lost), 1.0)


@kernel
def lost_in_pair(setting: Setting, streams: Streams, leader: int, arm: int) -> float:
    """The overhead of the evidence about a pair of arms: of both streams, or of that of their differences."""
    if setting.pairing == ON_ITEMS:
        return overhead(min(streams.counts[leader, 0], streams.counts[arm, 0]))
    return overhead(streams.counts[leader, 0]) + overhead(streams.counts[arm, 0])


@kernel
def left_to_go(tests: float, share: float, made: float) -> float:
    """An estimate, replaced near the end: what is missing of the evidence takes its share of the tests."""
    return max((1.0 / share - 1.0) * made, 1.0) if share > 0.5 else tests


@kernel
def weigh_holding(setting: Setting, streams: Streams, arms: Ints, metrics: Ints, shares: Floats, tests: Floats) -> None:
    """For each of `metrics`, of the arm in the same place: the share of the evidence that the constraint holds, and
    about how many more tests it takes to certify it."""
    for index in range(metrics.shape[0]):
        arm, metric = arms[index], metrics[index]
        n = streams.counts[arm, metric]
        found = constraint_evidence(setting, streams, arm, metric, BELOW)
        shares[index] = share_of(found, setting.level[arm], overhead(n))
        slack = setting.slack[metric] / scatter(setting, streams, arm, metric, setting.threshold[metric])
        needed = tests_in_all(setting.level[arm], slack - excess_of(setting, streams, arm, metric), 1.0)
        tests[index] = left_to_go(max(needed - n, 1.0), shares[index], n)


@kernel
def weigh_against(
    setting: Setting, streams: Streams, leader: int, arms: Ints, worst: Ints, shares: Floats, tests: Floats
) -> None:
    """For each of `arms`: the share of the evidence that it is not the answer, and a correction of `tests`."""
    for index in range(arms.shape[0]):
        arm, metric = arms[index], worst[index]
        infeasible = violation(setting, streams, arm)
        share = 0.0
        made = 0.0
        if metric > 0:
            made = streams.counts[arm, metric]
            share = share_of(infeasible, setting.rejecting[arm], overhead(made) - setting.log_weight[metric])
        if leader != NO_ARM:
            beaten = rival_case(setting, streams, leader, arm, infeasible)
            level = pair_level(setting, leader, arm)
            beaten_share = share_of(beaten, level, lost_in_pair(setting, streams, leader, arm))
            if beaten_share > share:
                share = beaten_share
                made = streams.counts[arm, 0] + streams.counts[leader, 0]
        shares[index] = share
        tests[index] = left_to_go(tests[index], share, made)


def open_to_hold(setting: Setting, streams: Streams, arms: Ints, metrics: Ints) -> list[OpenCertificate]:
    """That these constraints hold, each of the arm in the same place."""
    shares, tests = np.zeros((2, len(metrics)))
    compiled_if_large(weigh_holding, setting, streams)(setting, streams, arms, metrics, shares, tests)
    rows = zip(arms.tolist(), metrics.tolist(), shares.tolist(), tests.tolist(), strict=True)
    return [OpenCertificate("holds", arm, metric, None, share, more) for arm, metric, share, more in rows]


def open_by_evidence(
    setting: Setting, streams: Streams, certified: Flags, rejected: Flags, beaten: Ints, leader: int
) -> list[OpenCertificate]:
    """The certificates that `certify` has open, with its evidence. Every stream must be tested."""
    found: list[OpenCertificate] = []
    against = None if leader == NO_ARM else leader
    is_open = rejected == 0
    if against is not None:
        is_open &= beaten != leader
        is_open[leader] = False
        metrics = np.flatnonzero(certified[leader, 1:] == 0) + 1
        found = open_to_hold(setting, streams, np.full(len(metrics), leader), metrics)
    arms = np.flatnonzero(is_open)
    worst, tests = np.full(len(arms), _NO_METRIC), np.zeros(len(arms))
    compiled_if_large(estimate, setting, streams)(setting, streams, leader, arms, worst, tests)
    shown = longest(tests, MOST_SHOWN)
    arms, worst, tests = arms[shown], worst[shown], tests[shown]
    shares = np.zeros(len(arms))
    compiled_if_large(weigh_against, setting, streams)(setting, streams, leader, arms, worst, shares, tests)
    return [*found, *_against(against, arms, worst, shares, tests)]


def longest(tests: Floats, most: int) -> Ints:
    """The indices of the largest numbers, in order."""
    if len(tests) <= most:
        return np.arange(len(tests))
    return np.sort(np.argpartition(-tests, most)[:most])


def _against(leader: int | None, arms: Ints, worst: Ints, shares: Floats, tests: Floats) -> list[OpenCertificate]:
    rows = zip(arms.tolist(), worst.tolist(), shares.tolist(), tests.tolist(), strict=True)
    if leader is not None:
        return [OpenCertificate("rival", arm, None, leader, share, more) for arm, _, share, more in rows]
    return [
        OpenCertificate("infeasible", arm, None if metric == _NO_METRIC else metric, None, share, more)
        for arm, metric, share, more in rows
    ]


def open_by_intervals(setting: Setting, streams: Streams, found: Findings, leader: int | None) -> list[OpenCertificate]:
    """What must be settled by intervals before there is an answer: a gap must exceed half an interval."""
    counts, means = streams.counts, streams.means
    with np.errstate(all="ignore"):
        excess = means[:, 1:] - setting.threshold[1:]
        out = _Progress.of(excess, means[:, 1:] - found.low[:, 1:], counts[:, 1:])
        is_open = found.candidates.copy()
        questions: list[OpenCertificate] = []
        if leader is not None:
            is_open[leader] = False
            holds = _Progress.of(-excess[leader], found.high[leader, 1:] - means[leader, 1:], counts[leader, 1:])
            questions = [
                OpenCertificate("holds", leader, k + 1, None, float(holds.share[k]), float(holds.tests[k]))
                for k in np.flatnonzero(~found.holds[leader, 1:]).tolist()
            ]
            gap, behind = means[leader, 0] - means[:, 0], found.high[:, 0] - means[:, 0]
            ahead = means[leader, 0] - found.low[leader, 0]
            worse = _Progress.of(gap, ahead + behind, counts[:, 0] + counts[leader, 0])
            out = _Progress(np.column_stack([worse.share, out.share]), np.column_stack([worse.tests, out.tests]))
    arms = np.flatnonzero(is_open)
    has_any = out.share.shape[1] > 0
    shares = out.share[arms].max(axis=1) if has_any else np.zeros(len(arms))
    tests = out.tests[arms].min(axis=1) if has_any else np.full(len(arms), math.inf)
    worst = found.worst[arms] if counts.shape[1] > 1 else np.full(len(arms), _NO_METRIC)
    shown = longest(tests, MOST_SHOWN)
    return [*questions, *_against(leader, arms[shown], worst[shown], shares[shown], tests[shown])]


class _Progress(NamedTuple):
    share: Floats
    tests: Floats

    @classmethod
    def of(cls, gap: Floats, half_width: Floats, made: Ints) -> _Progress:
        """Half an interval shrinks about with the root of the number of tests."""
        known: Bools = (gap > 0.0) & np.isfinite(half_width)
        share = np.where(known, np.minimum(np.square(gap / half_width), 1.0), 0.0)
        tests = np.where(known, np.maximum(made * (np.square(half_width / gap) - 1.0), 1.0), math.inf)
        return cls(np.nan_to_num(share), np.where(np.isnan(tests), math.inf, tests))
