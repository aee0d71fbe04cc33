"""The proportions in which tests prove an answer soonest, if the means are as measured: w* of the lower bound.

With leader i, x tests of its performance and w x of a rival's, the closest world in which the rival is as good has both
at the mean m of these tests. So per test of the leader they are the information I(w) = kl(p, m) + w kl(q, m), which is
concave in w and grows with slope kl(q, m). Against each rival, tests of its performance are worth their cost up to the
w where that slope falls to what a test of a violated constraint tells per cost; the rest of the unit of information
that is needed comes from that constraint. The total cost is convex in x, so its slope is bisected. `bestarm.theory`
computes the same for true means.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import kernel, large
from bestarm.kernel.state import Setting, Streams
from bestarm.kernel.tournament import NO_ARM
from bestarm.noises.bernoulli import rate_divergence
from bestarm.policies.certify.memory import Memory

HOPELESS = 1e300
"""The price of what no test can show."""
_LEAST, _MOST = 1e-12, 1e3
"""The information of a test is taken to be at least and at most this much."""
_HALVINGS = 44
_PRECISION = 1e-13
_CLOSEST = 1e-3
"""Means that are equal are taken to differ by this share of their unit, divided by the number of results."""


@large
@kernel
def information(setting: Setting, metric: int, p: float, q: float) -> float:
    """How much a test of a stream with the mean p tells against the mean q; both are as `place_of` has them."""
    if setting.low[metric] > -math.inf:
        return rate_divergence(p, q)
    gap = p - q
    return 0.5 * gap * gap


@kernel
def place_of(setting: Setting, metric: int, c: float) -> float:
    """A mean as a place in the range, or in units of the standard deviation."""
    low = setting.low[metric] if setting.low[metric] > -math.inf else 0.0
    place: float = (c - low) / setting.width[metric]
    return place


@kernel
def _performance(setting: Setting, streams: Streams, arm: int) -> float:
    """The mean performance. That of rates is never 0 or 1: it counts half a one and half a zero more."""
    n = streams.counts[arm, 0]
    place = place_of(setting, 0, streams.means[arm, 0])
    return (n * place + 0.5) / (n + 1.0) if setting.low[0] > -math.inf else place


@kernel
def _told_by_constraint(setting: Setting, streams: Streams, arm: int, metric: int, margin: float) -> float:
    """How much a test tells against the mean being at the threshold plus `margin`."""
    limit = place_of(setting, metric, setting.threshold[metric] + margin)
    told = information(setting, metric, place_of(setting, metric, streams.means[arm, metric]), limit)
    return min(max(told, _LEAST), _MOST)


@kernel
def _worst_constraint(setting: Setting, streams: Streams, memory: Memory, arm: int) -> int:
    """The violated constraint that tells most per cost, whose price is noted; 0 if none seems to be violated."""
    chosen = 0
    memory.tracked.price[arm] = HOPELESS
    for metric in range(1, streams.counts.shape[1]):
        if streams.means[arm, metric] > setting.threshold[metric]:
            told = _told_by_constraint(setting, streams, arm, metric, 0.0)
            price = 1.0 / (setting.inverse_cost[arm, metric] * told)
            if price < memory.tracked.price[arm]:
                memory.tracked.price[arm] = price
                chosen = metric
    return chosen


# ---------------------------------------------------------------------------------------- the leader against the rivals


@kernel
def _told_of_both(setting: Setting, p: float, q: float, ratio: float) -> tuple[float, float]:
    """How much one more test of the leader tells, and one of the rival, which has `ratio` times as many."""
    middle = (p + ratio * q) / (1.0 + ratio)
    return information(setting, 0, p, middle), information(setting, 0, q, middle)


@kernel
def _limit_of(setting: Setting, p: float, q: float, enough: float) -> float:
    """The ratio up to which a test of the rival tells more than `enough`; 0 if the first does not."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        share = 0.5 * (low + high)
        if information(setting, 0, q, p + share * (q - p)) > enough:
            low = share
        else:
            high = share
    return low / (1.0 - low)


@kernel
def _ratio_with(setting: Setting, p: float, q: float, wanted: float) -> float:
    """The ratio at which both tell `wanted` per test of the leader. I is concave: Newton's steps from the left never go
    too far."""
    ratio = 0.0
    for _ in range(200):
        of_leader, of_rival = _told_of_both(setting, p, q, ratio)
        step = (wanted - of_leader - ratio * of_rival) / max(of_rival, _LEAST * _LEAST)
        if not step > _PRECISION * ratio:
            return ratio
        ratio += step
    return ratio


@kernel
def _slope(setting: Setting, memory: Memory, leader: int, x: float) -> float:
    """How the total cost changes with x, the tests of the leader's performance: a test's cost, less the worth of what
    it tells against the rivals."""
    tracked = memory.tracked
    slope: float = 1.0 / setting.inverse_cost[leader, 0]
    for arm in range(tracked.reach.shape[0]):
        if tracked.reach[arm] > 0.0:
            p, q = tracked.place[leader], tracked.place[arm]
            is_enough = x * tracked.reach[arm] >= 1.0
            ratio = _ratio_with(setting, p, q, 1.0 / x) if is_enough else tracked.limit[arm]
            of_leader, of_rival = _told_of_both(setting, p, q, ratio)
            cost = 1.0 / setting.inverse_cost[arm, 0]
            slope -= of_leader * (cost / max(of_rival, _LEAST * _LEAST) if is_enough else tracked.price[arm])
    return slope


@kernel
def _tests_of_leader(setting: Setting, memory: Memory, leader: int) -> float:
    """The x of least total cost."""
    tracked = memory.tracked
    low = 0.0
    is_contested = False
    for arm in range(tracked.reach.shape[0]):
        if tracked.reach[arm] > 0.0:
            is_contested = True
            if tracked.price[arm] == HOPELESS:
                low = max(low, 1.0 / tracked.reach[arm])
    if not is_contested:
        return 0.0
    high = max(2.0 * low, 1.0)
    # The slope is taken at one place of the program: first the bracket grows, and then it is halved.
    is_bracket = False
    halvings = 0
    while halvings < _HALVINGS:
        x = 0.5 * (low + high) if is_bracket else high
        falls = _slope(setting, memory, leader, x) < 0.0 and x < HOPELESS
        if falls:
            low = x
            high = high if is_bracket else 2.0 * high
        else:
            high = x
            halvings += is_bracket
            is_bracket = True
        halvings += falls and is_bracket
    return high


@kernel
def _contest(setting: Setting, streams: Streams, memory: Memory, leader: int, arm: int) -> None:
    """Note up to which ratio an arm's performance is worth a test, and what it tells then."""
    tracked = memory.tracked
    # A tie is broken by a little, which vanishes with more results.
    closest = _CLOSEST / (1.0 + streams.counts[leader, 0])
    p = tracked.place[leader]
    is_hopeless = tracked.price[arm] == HOPELESS
    tracked.reach[arm] = 0.0
    if is_hopeless or tracked.place[arm] < p - closest:
        q = min(tracked.place[arm], p - closest)
        tracked.place[arm] = q
        if is_hopeless:
            tracked.limit[arm] = HOPELESS
            tracked.reach[arm] = information(setting, 0, p, q)
        else:
            enough = 1.0 / (setting.inverse_cost[arm, 0] * tracked.price[arm])
            limit = _limit_of(setting, p, q, enough)
            of_leader, of_rival = _told_of_both(setting, p, q, limit)
            tracked.limit[arm] = limit
            tracked.reach[arm] = of_leader + limit * of_rival if limit > 0.0 else 0.0


@large
@kernel
def set_weights(setting: Setting, streams: Streams, memory: Memory, leader: int) -> None:
    """Set the tests' shares to the best ones for the measured means and the certificates that are open."""
    tracked = memory.tracked
    weights, is_open = tracked.weights, tracked.is_open
    arms, metrics = weights.shape
    if leader != NO_ARM:
        # Where a tolerance is allowed, the leader need not be better by more.
        p = _performance(setting, streams, leader) + setting.tolerance / setting.width[0]
        tracked.place[leader] = min(p, 1.0 - _LEAST) if setting.low[0] > -math.inf else p
    for arm in range(arms):
        tracked.reach[arm] = 0.0
        for metric in range(metrics):
            weights[arm, metric] = 0.0
            if metric > 0 and is_open[arm, metric] != 0:
                weights[arm, metric] = 1.0 / _told_by_constraint(setting, streams, arm, metric, setting.slack[metric])
        if is_open[arm, 0] != 0:
            chosen = _worst_constraint(setting, streams, memory, arm)
            if chosen > 0:
                weights[arm, chosen] = tracked.price[arm] * setting.inverse_cost[arm, chosen]
            if leader != NO_ARM:
                tracked.place[arm] = _performance(setting, streams, arm)
                _contest(setting, streams, memory, leader, arm)
    if leader != NO_ARM:
        _set_performance_weights(setting, memory, leader)
    total = 0.0
    for arm in range(arms):
        for metric in range(metrics):
            total += weights[arm, metric]
    for arm in range(arms):
        for metric in range(metrics):
            weights[arm, metric] = weights[arm, metric] / total if total > 0.0 else 1.0 / (arms * metrics)


@kernel
def _set_performance_weights(setting: Setting, memory: Memory, leader: int) -> None:
    tracked = memory.tracked
    x = _tests_of_leader(setting, memory, leader)
    tracked.weights[leader, 0] = x
    for arm in range(tracked.reach.shape[0]):
        if tracked.reach[arm] > 0.0 and x > 0.0:
            is_enough = x * tracked.reach[arm] >= 1.0
            ratio = tracked.limit[arm]
            if is_enough:
                ratio = _ratio_with(setting, tracked.place[leader], tracked.place[arm], 1.0 / x)
            tracked.weights[arm, 0] = x * ratio
            left = 0.0 if is_enough else 1.0 - x * tracked.reach[arm]
            for metric in range(1, tracked.weights.shape[1]):
                tracked.weights[arm, metric] *= left
