"""The interval of a ratio: it holds at all times at once, and says what the gate says."""

from __future__ import annotations

import dataclasses
import json
import math
import random

import pytest
from tests.lengths import lengths
from tests.race.simulated import a_run, race, skewed

from bestarm.race.exports import as_json, as_markdown
from bestarm.race.history import figure_of
from bestarm.race.limits_found import limits_found
from bestarm.race.ratios import Interval, ratio_interval
from bestarm.race.runs import Run
from bestarm.race.summary import limit_lines

LEVEL = -math.log(0.05)


def skewed_values(count: int, mean: float, rng: random.Random) -> list[float]:
    return [mean * (0.9 + rng.expovariate(10.0)) for _ in range(count)]


@pytest.mark.parametrize(("count", "allowed"), lengths((20, 5), (1000, 80)))
@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.3])
def test_it_holds_at_all_times_at_once(count: int, allowed: int, ratio: float) -> None:
    """The interval after 60 runs is that of all times: of each side's ends, which err with a probability of 5% at
    most, more than 5 of 20 are wrong with one of 0.03% (of 1000, more than 80: 0.002%)."""
    above = below = 0
    for seed in range(count):
        rng = random.Random(seed)
        candidate, baseline = skewed_values(60, ratio, rng), skewed_values(60, 1.0, rng)
        found = ratio_interval(candidate, baseline, 1.05, LEVEL, LEVEL)
        assert found is not None
        above += found.low > ratio
        below += found.high < ratio
        assert found.low < found.high < 2.0 * found.low
    assert max(above, below) <= allowed


def test_values_that_never_vary_leave_one_ratio() -> None:
    assert ratio_interval([3e9] * 30, [2e9] * 30, 1.05, LEVEL, LEVEL) == Interval(1.5, 1.5)
    # A byte more or less of a gigabyte counts as what it is.
    rng = random.Random(1)
    new, old = ([1e9 + rng.randrange(3) for _ in range(60)] for _ in range(2))
    found = ratio_interval(new, old, 1.05, LEVEL, LEVEL)
    assert found is not None
    assert 1.0 - 1e-9 < found.low < found.high < 1.0 + 1e-9


def test_nothing_is_known_without_runs_or_of_a_baseline_that_needs_nothing() -> None:
    everything = Interval(0.0, math.inf)
    assert ratio_interval([], [], 1.05, LEVEL, LEVEL) == everything
    assert ratio_interval([1.0] * 30, [], 1.05, LEVEL, LEVEL) == everything
    assert ratio_interval([1.0] * 30, [0.0] * 30, 1.05, LEVEL, LEVEL) == everything
    assert ratio_interval([0.0] * 30, [1.0] * 30, 1.05, LEVEL, LEVEL) == Interval(0.0, 0.0)
    assert ratio_interval([1.0] * 30, [1.0] * 29 + [-1.0], 1.05, LEVEL, LEVEL) is None


@pytest.mark.parametrize("new", [0.1, 0.118, 0.2])
@pytest.mark.parametrize("seed", [0, 1])
def test_it_says_what_the_gate_says(new: float, seed: int) -> None:
    """The gate is certified if the whole interval lies below the limit, and refuted if it lies above it."""
    draw = skewed({"old": 0.1, "new": new}, scatter=0.01)
    outcome = race(draw, ["old", "new"], ["time=1.15x"], baseline="old", is_gate=True, runs=150, seed=seed)
    [found] = limits_found(outcome)
    low, high = found.low or 0.0, found.high or math.inf
    said = {"certified": high <= 1.15, "refuted": low >= 1.15, "undecided": low < 1.15 < high}
    assert said[outcome.found], (outcome.found, low, high)
    assert found.verdict == {"certified": "holds", "refuted": "violated", "undecided": "open"}[outcome.found]


def test_the_exports_of_a_gate_have_a_row_for_each_limit() -> None:
    def draw(command: str, rng: random.Random) -> Run:
        return a_run({"old": 0.1, "new": 0.105}[command] + rng.gauss(0.0, 0.002), memory=2e8 + rng.random())

    at_most = ["time=1.2x", "memory=1.1x", "p90(time)=2s", "time=baseline+50ms"]
    outcome = race(draw, ["old", "new"], at_most, baseline="old", is_gate=True)
    assert outcome.found == "certified"
    exported = json.loads(as_json(outcome))["bestarm"]["limits_found"]
    assert [row["limit"] for row in exported] == [limit.words for limit in outcome.question.limits]
    time, memory, quantile, margin = exported
    assert time["low"] < time["ratio"] < time["high"] < 1.2
    assert time["ratio"] == pytest.approx(time["candidate"] / time["baseline"])
    assert (memory["low"], memory["high"]) == pytest.approx((1.0, 1.0), abs=1e-6)
    assert (quantile["ratio"], quantile["is_relative"]) == (None, False)
    assert quantile["high"] < 2.0
    # A ratio would say nothing of so many milliseconds.
    assert margin["ratio"] is None
    assert 0.09 < margin["low"] < margin["candidate"] < margin["high"] < margin["baseline"] + 0.05
    rows = as_markdown(outcome).splitlines()
    [words] = [line for line in limit_lines(outcome) if line.startswith(f"new: {margin['limit']} (")]
    assert words.rpartition(", interval ")[2] == limits_found(outcome)[3].interval
    assert figure_of(margin) == margin["candidate"]
    [row] = [row for row in rows if row.startswith("| time at most 1.2x the baseline | holds | ")]
    assert f"| {time['ratio']:.4g}x | {time['low']:.4g}x to {time['high']:.4g}x |" in row
    assert "Each end of an interval holds at any number of runs with 95% confidence" in "\n".join(rows)


def test_memory_that_cannot_be_seen_has_no_ratio() -> None:
    draw = skewed({"old": 0.1, "new": 0.1})
    outcome = race(
        lambda command, rng: dataclasses.replace(draw(command, rng), memory=1e6),
        *(["old", "new"], ["memory=1.5x"]),
        baseline="old",
        is_gate=True,
    )
    [found] = limits_found(outcome)
    assert (found.ratio, found.interval, outcome.found) == (None, "unknown", "certified")


def test_no_interval_where_runs_may_scatter_in_any_way() -> None:
    draw = skewed({"old": 0.1, "new": 0.1}, scatter=0.01)
    outcome = race(draw, ["old", "new"], ["time=1.5x"], baseline="old", is_gate=True, runs=40, assumed="range")
    [found] = limits_found(outcome)
    assert (found.low, found.high) == (None, None)
    assert found.ratio == pytest.approx(1.0, abs=0.2)
