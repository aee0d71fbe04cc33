"""How many runs of each command a race makes, and what a tolerance in percent is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.lengths import lengths
from tests.race.simulated import Drawn, a_run, race, skewed

from bestarm.race.race import Conditions
from bestarm.race.runs import Run
from bestarm.race.summary import note_lines, verdict
from bestarm.study.work.failures import MeasurementFailed

APART = skewed({"fast": 0.1, "slow": 0.2, "slower": 0.4}, scatter=0.01)
NAMES = ["fast", "slow", "slower"]


def counts(outcome: object) -> list[int]:
    return [len(outcome.run_log.of(one.name)) for one in outcome.contestants]  # type: ignore[attr-defined]


@pytest.mark.parametrize("limits", [(), ("time=1s", "memory=1GB", "failures=60%")])
@pytest.mark.parametrize("number", [3, 25])
def test_exactly_so_many_runs_of_each_command(number: int, limits: tuple[str, ...]) -> None:
    conditions = Conditions(timeout=10.0, least_runs=number, most_runs=number)
    outcome = race(APART, NAMES, limits, conditions=conditions)
    assert counts(outcome) == [number] * 3
    assert outcome.status.tests == 3 * number - outcome.run_log.later
    if number == 3 or not limits:
        assert outcome.found == ("undecided" if number == 3 else "certified")
    assert f"after {outcome.status.tests} runs" in verdict(outcome)
    said = any(f"{outcome.run_log.later} more runs were made after that" in line for line in note_lines(outcome))
    assert said == (outcome.run_log.later > 0)


def test_runs_beyond_the_answer_do_not_change_it() -> None:
    """What is certified is certified by the runs up to then, and intervals stay as they were."""
    short = race(APART, NAMES, conditions=Conditions(timeout=10.0, least_runs=12, seed=1))
    long = race(APART, NAMES, conditions=Conditions(timeout=10.0, least_runs=40, seed=1))
    assert (short.found, long.found) == ("certified", "certified")
    assert short.status.answer == long.status.answer == "fast"
    assert short.differences == long.differences


def test_at_least_and_at_most() -> None:
    assert min(counts(race(APART, NAMES, conditions=Conditions(timeout=10.0, least_runs=20)))) == 20
    equal = race(skewed({"a": 1, "b": 1}), ["a", "b"], conditions=Conditions(timeout=10.0, most_runs=15))
    assert (counts(equal), equal.found) == ([15, 15], "undecided")


@pytest.mark.parametrize("assumed", ["symmetry", "range"])
def test_a_gate_makes_so_many_runs_of_both(assumed: str) -> None:
    conditions = Conditions(timeout=1.0, least_runs=30, most_runs=30)
    draw = skewed({"old": 0.1, "new": 0.1}, scatter=0.01)
    outcome = race(
        draw, ["old", "new"], ["time=2x"], baseline="old", is_gate=True, conditions=conditions, assumed=assumed
    )
    assert counts(outcome) == [30, 30]


def test_it_goes_on_to_the_stated_number(tmp_path: Path) -> None:
    db, names = str(tmp_path / "races.db"), ["fast", "slow"]
    for number in (4, 30, 45):
        kept = race(APART, names, db=db, conditions=Conditions(timeout=10.0, least_runs=number, most_runs=number))
        assert counts(kept) == [number] * 2
    again = Drawn(APART)
    assert race(APART, names, db=db, runner=again, conditions=Conditions(timeout=10.0, least_runs=45)).decided_before
    assert again.made == []


def test_it_says_if_no_run_was_made_though_nothing_is_decided(tmp_path: Path) -> None:
    db = str(tmp_path / "races.db")
    for number, said in ((4, ""), (4, "The last run was made on "), (3, "The last run was made on ")):
        runner = Drawn(skewed({"fast": 0.1, "slow": 0.2, "make": 0.1}, scatter=0.01))
        conditions = Conditions(timeout=10.0, warmup=2, least_runs=number, most_runs=number)
        around = {"setup": ["make"]}
        kept = race(APART, ["fast", "slow"], db=db, runner=runner, conditions=conditions, around=around)
        assert (counts(kept), kept.found, bool(runner.made)) == ([4, 4], "undecided", not said)
        assert kept.decided_before.startswith(said)
        assert ("; no run was made now. " in kept.decided_before) == bool(said)


def test_a_failure_among_the_least_runs_is_not_forgotten(tmp_path: Path) -> None:
    def draw(command: str, rng: random.Random) -> Run:
        return a_run(APART(command, rng).time, status=int(command == "fast" and rng.random() < 0.2))

    db, conditions = str(tmp_path / "races.db"), Conditions(timeout=10.0, least_runs=30)
    for one in (draw, APART):
        with pytest.raises(MeasurementFailed, match="'fast' ended with status 1"):
            race(one, ["fast", "slow"], db=db, conditions=conditions)


def test_a_failure_after_the_answer_ends_a_race_and_changes_nothing() -> None:
    made: list[str] = []

    def draw(command: str, rng: random.Random) -> Run:
        made.append(command)
        return a_run(APART(command, rng).time, status=int(len(made) > 100))

    with pytest.raises(MeasurementFailed, match="ended with status 1"):
        race(draw, ["fast", "slow"], conditions=Conditions(timeout=10.0, least_runs=60))
    assert len(made) == 101


@pytest.mark.parametrize(("races", "most"), lengths((10, 3), (40, 5)))
def test_fixed_numbers_of_runs_keep_errors_rare(races: int, most: int) -> None:
    """Of 10 races with 30 runs of each of two equal commands, at most 3 name a winner, of 40 at most 5: with an error
    probability of 5% each, more have a probability of 0.1% and 1.4% at most, and much less, since certificates are
    conservative."""
    wrong = 0
    for seed in range(races):
        conditions = Conditions(timeout=10.0, least_runs=30, most_runs=30, seed=seed)
        wrong += race(skewed({"a": 1, "b": 1}), ["a", "b"], seed=seed, conditions=conditions).found != "undecided"
    assert wrong <= most


def test_a_tolerance_in_percent_is_one_of_the_first_runs(tmp_path: Path) -> None:
    def draw(command: str, rng: random.Random) -> Run:
        return a_run({"a": 0.2, "b": 0.202}[command] + rng.gauss(0, 0.002))

    db = str(tmp_path / "races.db")
    asked = {"tolerance_share": 0.1, "db": db}
    outcome = race(draw, ["a", "b"], runs=200, **asked)  # type: ignore[arg-type]
    assert outcome.found == "certified"
    assert 0.018 < outcome.plan.objective.tolerance < 0.0202
    assert "has a mean time within " in verdict(outcome)
    [said] = [line for line in note_lines(outcome) if line.startswith("The tolerance is 10% of the smallest")]
    assert said.endswith(f"{outcome.plan.objective.tolerance * 1000:g} ms.")
    # It stays as it was, whatever the first runs would be now.
    again = race(draw, ["a", "b"], seed=9, runs=200, **asked)  # type: ignore[arg-type]
    assert again.plan.objective.tolerance == outcome.plan.objective.tolerance
