"""Races with drawn runs: what is certified, what counts, how errors are kept rare."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.lengths import lengths
from tests.race.simulated import Drawn, a_run, race, skewed

from bestarm.answer import Difference
from bestarm.race.benchmark import benchmark_lines
from bestarm.race.closing import closing_line
from bestarm.race.exports import as_json
from bestarm.race.race import Conditions
from bestarm.race.runs import Run
from bestarm.race.summary import difference_lines, limit_lines, note_lines, verdict
from bestarm.study.record import seeds
from bestarm.study.work.failures import MeasurementFailed, NotStarted
from bestarm.validation import InvalidInput

FAST_AND_SLOW = skewed({"fast": 0.1, "slow": 0.2, "slower": 0.4}, scatter=0.01)


def test_the_fastest_is_certified() -> None:
    outcome = race(FAST_AND_SLOW, ["slow", "fast", "slower"])
    assert (outcome.status.state, outcome.status.answer, outcome.found) == ("certified", "fast", "certified")
    assert verdict(outcome).startswith("CERTIFIED: fast has the lowest mean time, except for pauses rarer than 1 in ")
    assert ", with 95% confidence, after " in verdict(outcome)
    assert outcome.differences["slow"].low > 0
    assert [line.split(" by ")[0] for line in difference_lines(outcome)] == [
        "fast is better than slow",
        "fast is better than slower",
    ]
    # All runs of a race are among its records, and those of the study.
    assert len(outcome.run_log.runs) == outcome.status.tests


def test_limits_keep_commands_out() -> None:
    def draw(command: str, rng: random.Random) -> Run:
        time = {"quick": 0.1, "safe": 0.2, "large": 0.05, "hangs": 0.01}[command] + rng.gauss(0, 0.005)
        fails = command == "quick" and rng.random() < 0.5
        if command == "hangs" and rng.random() < 0.5:
            time = 100.0
        return a_run(time, memory=1e9 if command == "large" else 1e7, status=int(fails))

    limits = ["memory=100MB", "failures=20%", "p80(time)=1s"]
    outcome = race(draw, ["quick", "safe", "large", "hangs"], limits)
    assert outcome.status.answer == "safe"
    verdicts = {arm.name: arm.verdict for arm in outcome.status.arms}
    assert (verdicts["quick"], verdicts["large"]) == ("infeasible", "infeasible")
    assert outcome.ceilings == {}
    assert any(run.timed_out for run in outcome.run_log.of("hangs"))
    lines = "\n".join(limit_lines(outcome))
    assert "large: median memory at most 100 MB: violated; measured 1 GB" in lines
    assert "safe: failures at most 20%: holds" in lines


def test_no_command_meets_the_limits() -> None:
    outcome = race(FAST_AND_SLOW, ["slow", "slower"], ["time=0.15s"])
    assert outcome.found == "refuted"
    assert verdict(outcome).startswith("No command meets every limit")


@pytest.mark.parametrize(
    ("new", "at_most", "found"),
    [(0.1, "time=1.3x", "certified"), (0.2, "time=1.3x", "refuted"), (0.13, "time=1.3x", "undecided")],
)
def test_a_gate_has_three_outcomes(new: float, at_most: str, found: str) -> None:
    draw = skewed({"old": 0.1, "new": new}, scatter=0.02)
    outcome = race(draw, ["old", "new"], [at_most], baseline="old", is_gate=True, runs=60)
    assert outcome.found == found
    assert verdict(outcome).startswith(found.upper())


def test_a_gate_lets_pass_what_is_slower_within_the_limit() -> None:
    """Though the baseline is certainly the quicker one."""
    draw = skewed({"old": 0.1, "new": 0.11}, scatter=0.001)
    assert race(draw, ["old", "new"], ["time=1.2x"], baseline="old", is_gate=True).found == "certified"


def test_the_baseline_of_a_race_limits_the_others() -> None:
    def draw(command: str, rng: random.Random) -> Run:
        return a_run({"old": 0.2, "new": 0.1}[command] + rng.gauss(0, 0.01), memory=2e8 if command == "new" else 1e8)

    assert race(draw, ["old", "new"], ["memory=1.5x"], baseline="old").status.answer == "old"


@pytest.mark.parametrize(("count", "allowed"), lengths((4, 2), (60, 10)))
def test_equal_commands_end_with_the_budget(count: int, allowed: int) -> None:
    """Of 4 races between commands that take the same time, skewed as times are, at most 2 may claim a difference: at
    an error probability of 5% each, more happen with a probability of 5 in 10,000 (of 60, more than 10: 2)."""
    outcomes = [race(skewed({"a": 1, "b": 1}), ["a", "b"], seed=seed, runs=40) for seed in range(count)]
    assert sum(outcome.found != "undecided" for outcome in outcomes) <= allowed
    undecided = next(outcome for outcome in outcomes if outcome.found == "undecided")
    assert verdict(undecided).startswith("UNDECIDED: the budget is spent after 40 runs, and no answer is certain; ")
    assert undecided.status.tests == 40


def test_without_symmetry_it_takes_many_more_runs() -> None:
    outcome = race(FAST_AND_SLOW, ["fast", "slow"], assumed="range", conditions=Conditions(timeout=0.5))
    assert outcome.status.answer == "fast"
    assert outcome.plan.items is None
    assert outcome.ceilings == {"time": 0.5}
    assert outcome.status.tests > race(FAST_AND_SLOW, ["fast", "slow"]).status.tests
    assert "Nothing is assumed of how they scatter." in next(note_lines(outcome))


def test_the_order_of_a_round_is_random_and_repeats_with_its_seed() -> None:
    orders = []
    for seed in (1, 1, 2):
        runner = Drawn(skewed({"a": 1, "b": 1, "c": 1}))
        race(runner._draw, ["a", "b", "c"], runner=runner, runs=30, conditions=Conditions(timeout=10.0, seed=seed))
        orders.append(runner.made)
    assert orders[0] == orders[1] != orders[2]
    # No command is always the first of its round; that one is so in all of 10 rounds has a chance of 3 in 3 ** 10.
    assert len(Counter(orders[0][0:30:3])) > 1


def test_a_race_draws_its_seed_and_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "fresh_seed", iter((9, 1, 9, 1, 9, 2, 9, 5)).__next__)  # also for the place of a run
    orders = []
    for _ in range(3):
        runner = Drawn(skewed({"a": 1, "b": 1, "c": 1}))
        outcome = race(runner._draw, ["a", "b", "c"], runner=runner, runs=30)
        orders.append(runner.made)
    assert orders[0] == orders[1] != orders[2]
    assert "The order of runs was drawn with --seed 2." in note_lines(outcome)
    assert json.loads(as_json(outcome))["bestarm"]["seed"] == 2
    # Kept, it goes on with its seed.
    db = str(tmp_path / "races.db")
    stated: list[dict[str, Any]] = [{}, {"seed": 5}, {}]
    for more in stated:
        outcome = race(FAST_AND_SLOW, ["fast", "slow"], db=db, conditions=Conditions(timeout=10.0, **more))
        assert outcome.status.seed == 5
    with pytest.raises(InvalidInput, match="seed = 6: the study 'fast vs slow' was made with 5, which cannot change"):
        race(FAST_AND_SLOW, ["fast", "slow"], db=db, conditions=Conditions(timeout=10.0, seed=6))


def test_the_timeout_is_chosen_by_the_first_runs() -> None:
    runner = Drawn(FAST_AND_SLOW)
    outcome = race(FAST_AND_SLOW, ["fast", "slow"], runner=runner, conditions=Conditions())
    assert (outcome.timeout, outcome.is_own_timeout) == (2.0, True)
    # Two first runs of each: one may find caches cold.
    assert runner.made[:4] == ["fast", "fast", "slow", "slow"]
    assert len(runner.made) == outcome.status.tests + 4
    assert any("No --timeout was stated: a run that takes longer than 2 s" in line for line in note_lines(outcome))


def test_preparing_and_warming_up() -> None:
    def draw(command: str, rng: random.Random) -> Run:
        return a_run(0.001) if command == "clear" else FAST_AND_SLOW(command, rng)

    runner = Drawn(draw)
    conditions, around = Conditions(warmup=3, timeout=9.0), {"prepare": ["clear"]}
    outcome = race(draw, ["fast", "slow"], runner=runner, conditions=conditions, around=around)
    assert runner.made[0::2] == ["clear"] * (outcome.status.tests + 6)
    assert runner.made[1:12:2] == ["fast"] * 3 + ["slow"] * 3
    with pytest.raises(NotStarted, match="--prepare 'clear' ended with status 1"):
        race(lambda *_: a_run(1.0, status=1), ["a", "b"], conditions=conditions, around=around)


def test_failures_end_a_race_unless_something_is_said_of_them(tmp_path: Path) -> None:
    def draw(command: str, rng: random.Random) -> Run:
        fails = command == "fast" and rng.random() < 0.3
        return a_run(FAST_AND_SLOW(command, rng).time, status=int(fails))

    db = str(tmp_path / "races.db")
    with pytest.raises(MeasurementFailed, match=r"'fast' ended with status 1\. Say how many runs may fail"):
        race(draw, ["fast", "slow"], db=db)
    # It is not forgotten: going on meets the same failure, until it is said what it counts as.
    with pytest.raises(MeasurementFailed, match="'fast' ended with status 1"):
        race(FAST_AND_SLOW, ["fast", "slow"], db=db)
    ignoring = Conditions(timeout=10.0, ignores_failures=True)
    outcome = race(draw, ["fast", "slow"], db=db, conditions=ignoring)
    assert outcome.status.answer == "fast"
    assert sum(run.failed for run in outcome.run_log.of("fast")) > 0
    assert race(draw, ["fast", "slow"], ["failures=50%"]).status.answer == "fast"


def test_a_race_goes_on_where_it_stopped(tmp_path: Path) -> None:
    db = str(tmp_path / "races.db")
    first = race(FAST_AND_SLOW, ["fast", "slow"], ["time=1s"], db=db, runs=6, conditions=Conditions())
    assert (first.found, first.status.tests) == ("undecided", 6)
    # The timeout that the first runs chose stays as it is, and no runs are lost.
    second = race(FAST_AND_SLOW, ["fast", "slow"], ["time=1s"], db=db, runs=2000, seed=7, conditions=Conditions())
    assert (second.found, second.timeout, second.ceilings) == ("certified", first.timeout, first.ceilings)
    assert len(second.run_log.runs) == second.status.tests > 6
    assert {test: second.run_log.runs[test] for test in first.run_log.runs} == first.run_log.runs


def test_another_race_of_the_same_name_is_refused(tmp_path: Path) -> None:
    db = str(tmp_path / "races.db")
    race(FAST_AND_SLOW, ["fast", "slow"], db=db, runs=6)
    with pytest.raises(InvalidInput, match="with another plan"):
        race(FAST_AND_SLOW, ["fast", "slow"], ["memory=1GB"], db=db, runs=6)
    with pytest.raises(InvalidInput, match="this race began with null; --fresh starts over"):
        race(FAST_AND_SLOW, ["fast", "slow"], db=db, around={"prepare": ["slow"]})


def test_a_line_cut_off_by_a_kill_harms_nothing(tmp_path: Path) -> None:
    db = str(tmp_path / "races.db")
    race(FAST_AND_SLOW, ["fast", "slow"], db=db, runs=6)
    [file] = tmp_path.glob("*.runs.jsonl")
    file.write_bytes(file.read_bytes()[:-20])
    outcome = race(FAST_AND_SLOW, ["fast", "slow"], db=db, runs=2000)
    assert outcome.found == "certified"
    assert len(outcome.run_log.runs) == outcome.status.tests - 1


def test_a_timeout_shorter_than_a_limit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="must be longer than the limit, 20 s"):
        race(FAST_AND_SLOW, ["fast", "slow"], ["time=20s"])


def test_a_certified_winner_is_never_shown_as_worse() -> None:
    """Before, the differences of a certified race had levels of their own, and 40 of 40 such races said "by -…"."""
    draw = skewed({"fast": 0.1, "slow": 0.115, "mid": 0.12}, scatter=0.02)
    for seed in range(4):
        outcome = race(draw, ["slow", "fast", "mid"][: 2 + seed % 2], seed=seed)
        assert outcome.status.state == "certified"
        assert all(limits.low > 0.0 for limits in outcome.differences.values())
        assert not any("-" in line for line in difference_lines(outcome))


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.001, 0.003, "fast is better than slow by 1 ms to 3 ms of time; "),
        (0.001, math.inf, "fast is better than slow by 1 ms or more of time; "),
        (-0.003, -0.001, "fast is worse than slow by 1 ms to 3 ms of time; "),
        (
            -0.002,
            0.003,
            "it is not certain yet by how much fast and slow differ in time: fast is at most 2 ms worse or ",
        ),
        (-math.inf, math.inf, "it is not certain yet by how much fast and slow differ in time; measured"),
    ],
)
def test_differences_in_words(low: float, high: float, said: str) -> None:
    outcome = race(FAST_AND_SLOW, ["slow", "fast"])
    shown = dataclasses.replace(outcome, differences={"slow": Difference(low, high, 0.002)})
    (line,) = difference_lines(shown)
    assert line.startswith(said)
    assert "any amount" not in line


@pytest.mark.parametrize("is_gate", [True, False])
def test_runs_that_were_stopped_are_not_taken_for_short_ones(is_gate: bool) -> None:
    """Every run is stopped after the same time. The new command takes three times as long, and is not known to."""

    def draw(command: str, rng: random.Random) -> Run:
        return a_run((3.0 if command == "new" else 1.0) + rng.gauss(0, 0.01))

    conditions = Conditions(timeout=0.5)
    limits = ["time=1.05x"] if is_gate else []
    baseline = "old" if is_gate else None
    outcome = race(draw, ["old", "new"], limits, baseline=baseline, is_gate=is_gate, conditions=conditions, runs=60)
    assert outcome.found == "undecided"
    assert closing_line(outcome) is None
    if is_gate:
        assert "were stopped after 500 ms, so how long they take is not known" in verdict(outcome)
    alone = race(draw, ["new"], conditions=conditions, runs=12)
    assert dict(benchmark_lines(alone))["median"].startswith("unknown: at least half of the runs were stopped")


def test_no_interval_if_runs_change_over_time() -> None:
    made = iter(range(10**6))
    outcome = race(lambda command, rng: a_run(0.02 if next(made) < 25 else 0.05 + rng.gauss(0, 1e-4)), ["a"], runs=120)
    assert "runs have changed over time" in dict(benchmark_lines(outcome))["median"]
    assert json.loads(as_json(outcome))["bestarm"]["median"]["low"] is None
