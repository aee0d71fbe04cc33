"""The lead of one arm over another: a draw of it, and what the next test for it promises, of which of the two."""

from __future__ import annotations

import math

from bestarm.evidence.items import DIFFERENCE, difference_of, place_of_next, row_of
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.random import normal
from bestarm.kernel.state import ON_ITEMS, SEPARATE, Setting, Streams
from bestarm.kernel.tables import slot
from bestarm.noises.dispatch import scatter
from bestarm.policies.certify.memory import Memory

MOST_UNEVEN = 4.0
"""Where arms differ in cost, two that are compared are tested as if by at most this factor."""

_ROOT_HALF = math.sqrt(0.5)


@kernel
def _drawn_lead(
    setting: Setting, streams: Streams, memory: Memory, leader: int, drawn_leader: float, arm: int
) -> float:
    noise = scatter(setting, streams, leader, 0, streams.means[leader, 0])
    root = setting.inverse_root[slot(streams.counts[arm, 0])]
    drawn = streams.means[arm, 0] + noise * normal(memory.generator, memory.ziggurat) * root
    lead: float = (drawn_leader + setting.tolerance - drawn) / noise
    return lead


@kernel
def _both_measured_out(setting: Setting, streams: Streams, leader: int, arm: int) -> bool:
    places = setting.items.places
    return bool(streams.counts[leader, 0] >= places and streams.counts[arm, 0] >= places)


all_known = choice("setting.pairing", {ON_ITEMS: _both_measured_out}, unknown="False")
"""Whether there is nothing more to learn about the lead of one arm over another."""


@kernel
def _drawn_lead_on_items(
    setting: Setting, streams: Streams, memory: Memory, leader: int, drawn_leader: float, arm: int
) -> float:
    """In units that make it comparable to one between independent results: those differ by the root of 2 times as much
    as each scatters."""
    if all_known(setting, streams, leader, arm):
        return -1.0
    lead = difference_of(setting, streams, leader, arm)
    row, between = row_of(streams, leader, arm), streams.items.differences
    mean = between.means[row, DIFFERENCE] if lead.n > 0 else streams.means[leader, 0] - streams.means[arm, 0]
    noise = scatter(setting.items.differences, between, row, DIFFERENCE, mean)
    root = setting.inverse_root[slot(max(lead.n, 1))]
    drawn: float = mean + noise * normal(memory.generator, memory.ziggurat) * root + setting.tolerance
    return drawn / (noise * _ROOT_HALF)


drawn_lead = choice("setting.pairing", {SEPARATE: _drawn_lead, ON_ITEMS: _drawn_lead_on_items})
"""A posterior draw of how far the leader's performance lies above the arm's, in standard deviations of a result."""


@kernel
def share_of_gain(setting: Setting, streams: Streams, leader: int, arm: int) -> float:
    """How much of what is learned about the lead comes from testing the arm, not the leader: the gain of evidence per
    test is as the square of this share, or of the rest."""
    if setting.pairing == ON_ITEMS:
        # One more item on which both are measured takes one test of the arm that is behind, or one of each.
        place, of_leader = place_of_next(setting, streams, arm, 0), place_of_next(setting, streams, leader, 0)
        return 0.5 if place == of_leader else _ROOT_HALF if place < of_leader else 1.0 - _ROOT_HALF
    n, n_leader = streams.counts[arm, 0], streams.counts[leader, 0]
    share: float = n_leader / (n + n_leader)
    return share


@kernel
def _items_are_blocks(setting: Setting) -> bool:
    return setting.items.capacity > 0


is_in_blocks = choice("setting.pairing", {ON_ITEMS: _items_are_blocks}, unknown="False")
"""Whether arms are compared within blocks."""


@kernel
def _gains_more(setting: Setting, streams: Streams, leader: int, arm: int) -> bool:
    """By results that do not depend on each other: where the evidence grows more per cost. It grows less where one arm
    has much fewer results than the other, because its mixture expects about as many."""
    n, n_leader = float(streams.counts[arm, 0]), float(streams.counts[leader, 0])
    ratio = setting.inverse_cost[leader, 0] / setting.inverse_cost[arm, 0]
    return bool(n * n * min(max(ratio, 1.0 / MOST_UNEVEN), MOST_UNEVEN) > n_leader * n_leader)


@kernel
def _is_behind(setting: Setting, streams: Streams, leader: int, arm: int) -> bool:
    """On items, where it is behind in their order. In blocks it is in every block anyway."""
    place, of_leader = place_of_next(setting, streams, arm, 0), place_of_next(setting, streams, leader, 0)
    return bool(place > of_leader) and not is_in_blocks(setting)


of_leader_rather = choice("setting.pairing", {SEPARATE: _gains_more, ON_ITEMS: _is_behind}, unknown="False")
"""Whether the next test for the lead of one arm over another is one of the leader."""


@kernel
def _gain_of_one(setting: Setting, streams: Streams, leader: int, arm: int, lead: float) -> float:
    share = share_of_gain(setting, streams, leader, arm)
    gain: float = lead * lead * setting.inverse_cost[arm, 0] * share**2
    if _gains_more(setting, streams, leader, arm):
        gain = lead * lead * setting.inverse_cost[leader, 0] * (1.0 - share) ** 2
    return gain


@kernel
def _gain_on_item(setting: Setting, streams: Streams, leader: int, arm: int, lead: float) -> float:
    share = share_of_gain(setting, streams, leader, arm)
    of_arm, of_leader = setting.inverse_cost[arm, 0], setting.inverse_cost[leader, 0]
    gain: float = lead * lead * of_arm * share**2
    if share < 0.5:
        gain = lead * lead * of_leader * (1.0 - share) ** 2
    elif share == 0.5 and of_arm != of_leader:
        # An item on which neither has been measured yet takes a test of each.
        gain = 0.5 * lead * lead / (1.0 / of_arm + 1.0 / of_leader)
    return gain


gain_per_cost = choice("setting.pairing", {SEPARATE: _gain_of_one, ON_ITEMS: _gain_on_item})
"""What the next test for the lead of one arm over another promises to add to the evidence per cost."""
