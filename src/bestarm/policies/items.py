"""Items in policies: how every arm did on each item, and how much the leader was better than another arm there.

All arms meet the items in one random order, so their results depend on each other, and no evidence about two arms may
be multiplied. Instead, arms are compared by their differences on common items: one stream of its own for each arm,
against the present leader. When the leader changes, that stream is made anew from the values, which are all kept.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np

from bestarm.evidence.combine import suffices, violation_evidence
from bestarm.evidence.reaching import Infeasibility
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Floats, Setting, Streams, new_streams
from bestarm.noises.base import ABOVE, NoiseModel, Stream, stream_of
from bestarm.noises.dispatch import ceiling, evidence_above, most_kept, record, scatter
from bestarm.policies.confidence import interval_end
from bestarm.policies.leads import LEAST_LEVEL, overhead
from bestarm.policies.open_certificates import tests_in_all
from bestarm.policies.setting import new_setting
from bestarm.problem import Problem, at_most, maximize
from bestarm.problem.items import count_of

UNLIMITED = 2**62
FIRST_ROOM = 64
DIFFERENCE = 1
"""The metric of a stream of differences, which counts as a constraint: its threshold is minus the tolerance."""

_tuple: Any = namedtuple
PairedSetting = _tuple("PairedSetting", (*Setting._fields, "differences", "places"))
"""A `Setting`, with that of the differences and the number of places: how often an arm can be measured at most."""

PairedStreams = _tuple("PairedStreams", (*Streams._fields, "values", "differences", "against"))
"""`Streams`, with values [arm, metric, place], which are NaN where there is none; the differences between the leader
and each arm, in the row after the arm's number; and, by arm, the leader that they are about."""


def new_paired_setting(problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Any:
    """The setting of a problem with items."""
    assert problem.items is not None
    setting = new_setting(problem, delta, bound, reference)
    # Where the leader is as good as an arm up to the tolerance, it is good enough.
    between = new_setting(_differences(problem), delta, bound, ties=ABOVE)
    places = UNLIMITED if problem.repeats else count_of(problem.items)
    return PairedSetting(*setting, between, places)


def on_items_of(problem: Problem, between: NoiseModel, odds: float) -> NoiseModel:
    """The noise of differences on the items of the problem. If there is one item, a bet on a sign gains `odds`."""
    return between.on_one_item(odds) if problem.repeats and problem.items == 1 else between


def _differences(problem: Problem) -> Problem:
    """A problem whose one constraint is how much the leader is better than an arm on the same item."""
    noise = on_items_of(problem, problem.objective.noise.differences(), 2.0)
    return Problem(
        arms=problem.arm_names,
        objective=maximize("performance", noise=noise),
        constraints=[at_most("lead", -problem.objective.tolerance, noise=noise)],
        items=problem.items,
        repeats=problem.repeats,
    )


def new_paired_streams(setting: Any, arms: int, metrics: int, room: int) -> Any:
    """Streams without results, with room for so many items."""
    own = new_streams(arms, metrics, most_kept(setting))
    between = new_streams(arms + 1, 2, most_kept(setting.differences))
    values = np.full((arms, metrics, room), np.nan)
    return PairedStreams(*own, values, between, np.full(arms, -1))


def with_room(streams: Any, places: int) -> Any:
    """The same streams, with room for results at `places` places or more."""
    have = streams.values.shape[2]
    if places <= have:
        return streams
    room = np.full((*streams.values.shape[:2], max(places, 2 * have, FIRST_ROOM)), np.nan)
    room[:, :, :have] = streams.values
    return streams._replace(values=room)


@kernel
def record_at(setting: Setting, streams: Any, arm: int, metric: int, place: int, value: float) -> None:
    """Take in a result on the item at a place. Results enter in the order of the places: one that comes before an
    earlier place's waits for it."""
    streams.values[arm, metric, place] = value
    room = streams.values.shape[2]
    after = streams.counts[arm, metric]
    while after < room and streams.values[arm, metric, after] == streams.values[arm, metric, after]:
        record(setting, streams, arm, metric, streams.values[arm, metric, after])
        after += 1


@kernel
def lead_of(setting: Any, streams: Any, leader: int, arm: int) -> Stream:
    """How much the leader was better than the arm, on all items on which both were measured."""
    between = streams.differences
    row = arm + 1
    if streams.against[arm] != leader:
        streams.against[arm] = leader
        between.counts[row, DIFFERENCE] = 0
        between.sums[row, DIFFERENCE] = 0.0
        between.means[row, DIFFERENCE] = 0.0
        for k in range(between.kept.shape[2]):
            between.kept[row, DIFFERENCE, k] = 0.0
    common = min(streams.counts[leader, 0], streams.counts[arm, 0])
    for place in range(between.counts[row, DIFFERENCE], common):
        difference = streams.values[leader, 0, place] - streams.values[arm, 0, place]
        record(setting.differences, between, row, DIFFERENCE, difference)
    return stream_of(setting.differences, between, row, DIFFERENCE)


@kernel
def worse_on_items(setting: Any, streams: Any, leader: int, arm: int) -> float:
    """Log-evidence that the leader performs better than the arm."""
    lead = lead_of(setting, streams, leader, arm)
    if lead.n == 0:
        return -math.inf
    return evidence_above(lead, -setting.tolerance)


@kernel
def largest_lead_on_items(setting: Any, streams: Any, ahead: int, behind: int, level: float, enough: float) -> float:
    """By how much, at least, the first arm performs better than the second."""
    lead = lead_of(setting, streams, ahead, behind)
    return -math.inf if lead.n == 0 else interval_end(lead, ABOVE, max(level, LEAST_LEVEL))


@kernel
def end_of_lead_on_items(setting: Any, streams: Any, arm: int, other: int, side: int, level: float) -> float:
    """By how much, at least or at most, the first arm performs better than the second."""
    lead = lead_of(setting, streams, arm, other)
    return -side * math.inf if lead.n == 0 else interval_end(lead, side, level)


@kernel
def tests_worse_on_items(setting: Any, streams: Any, leader: int, arm: int) -> float:
    """About how many more tests of both arms it takes to show that the leader is better."""
    lead = lead_of(setting, streams, leader, arm)
    if lead.n == 0:
        return math.inf
    noise = scatter(setting.differences, streams.differences, arm + 1, DIFFERENCE, lead.total / lead.n)
    needed = tests_in_all(setting.level[leader], lead.total / lead.n + setting.tolerance, noise * noise)
    # After the last item everything is known.
    needed = min(needed, setting.places) if setting.places < UNLIMITED else needed
    more: float = max(needed - streams.counts[leader, 0], 0.0) + max(needed - streams.counts[arm, 0], 0.0)
    return max(more, 1.0)


@kernel
def lost_on_items(setting: Any, streams: Any, leader: int, arm: int) -> float:
    """The overhead of the evidence about a pair of arms."""
    return overhead(min(streams.counts[leader, 0], streams.counts[arm, 0]))


def apart_from(streams: Any, setting: Any) -> Any:
    """The same results, with differences that are made anew: about whom, nobody else needs to know."""
    arms = len(streams.against)
    return streams._replace(
        differences=new_streams(arms + 1, 2, most_kept(setting.differences)), against=np.full(arms, -1)
    )


@kernel
def rival_reaches_on_items(
    setting: Any, streams: Any, leader: int, arm: int, found: Infeasibility, level: float
) -> bool:
    """Whether the evidence that `arm` is worse than the leader reaches the level. That it is infeasible counts by
    itself."""
    lead = lead_of(setting, streams, leader, arm)
    if lead.n == 0 or not ceiling(lead, ABOVE, -setting.tolerance) >= level:
        return False
    return suffices(evidence_above(lead, -setting.tolerance), level)


@kernel
def infeasible_on_items(setting: Any, streams: Any, arm: int) -> float:
    """Log-evidence that the arm is infeasible: that of its most suspect constraint, by its weight.

    A stream that is ahead in the order of items tells about the next results of the others. So each is evidence by
    itself, at all times, and nothing is known of their sum.
    """
    largest = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        largest = max(largest, setting.log_weight[metric] + violation_evidence(setting, streams, arm, metric))
    return largest
