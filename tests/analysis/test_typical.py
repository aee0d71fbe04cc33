"""Which values lie far outside the others."""

from __future__ import annotations

import random

import pytest

from bestarm.analysis.health.typical import Typical, far_from

OTHERS = [66.0, 58.0, 74.0, 63.0, 68.0, 70.0, 61.0, 65.0]


@pytest.mark.parametrize("value", [661.0, 6.61, -66.0, 0.0])
def test_a_slip_of_the_hand_is_far(value: float) -> None:
    usual = far_from(value, OTHERS)
    assert usual is not None
    assert usual.words() == "the others lie between 58 and 74"


@pytest.mark.parametrize("value", [66.0, 40.0, 100.0])
def test_what_may_well_be_is_not(value: float) -> None:
    assert far_from(value, OTHERS) is None


def test_one_far_value_does_not_hide_the_next() -> None:
    usual = far_from(661.0, [*OTHERS, 64.0, 67.0, 62.0, 660.0])
    assert usual is not None
    assert usual.words() == "most of the others lie between 61 and 74"


def test_equal_values() -> None:
    assert far_from(66.5, [66.0] * 8) is None
    assert far_from(661.0, [66.0] * 8) is not None
    assert far_from(3.0, [0.0] * 8) is None


def test_normal_results_are_never_asked_about() -> None:
    """The farthest of 20,000 lies 4 standard deviations off; a question needs more than 5 even if the eight values
    before it happen to lie close together."""
    rng = random.Random(1)
    typical = Typical()
    asked = 0
    for k in range(20_000):
        value = rng.gauss(0.0, 1.0)
        asked += typical.far(k % 3, value) is not None
        typical.add(k % 3, value)
    assert asked <= 2


def test_an_arm_is_compared_with_itself_once_it_has_results() -> None:
    typical = Typical()
    for k in range(8):
        typical.add(0, 66.0 + k)
        typical.add(1, 660.0 + k)
    assert typical.far(0, 661.0) is not None
    assert typical.far(1, 661.0) is None
    assert typical.far(2, 300.0) is None  # among all that have been seen
    assert typical.far(2, 30_000.0) is not None


def test_values_told_together_count_among_the_others() -> None:
    typical = Typical()
    assert typical.far(0, 661.0) is None
    assert typical.far(0, 661.0, [(0, value) for value in OTHERS]) is not None
    assert typical.far(0, 661.0, [(1, value) for value in OTHERS]) is not None
