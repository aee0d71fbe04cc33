"""One command alone: it is measured, and nothing is claimed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.race.simulated import a_run, race, skewed

from bestarm.race.benchmark import benchmark_lines, outliers_of
from bestarm.race.exports import as_json, as_markdown
from bestarm.race.intervals import median_of
from bestarm.race.race import Conditions
from bestarm.race.result import RaceResult
from bestarm.race.runs import Run
from bestarm.race.summary import note_lines, verdict, verdict_words, verdicts_shown
from bestarm.validation import InvalidInput

SLOW = skewed({"gzip": 2.0})


def lines_of(outcome: RaceResult) -> dict[str, str]:
    return dict(benchmark_lines(outcome))


def test_one_command_is_measured_ten_times() -> None:
    outcome = race(SLOW, ["gzip"])
    assert (outcome.found, len(outcome.run_log.of("gzip"))) == ("measured", 10)
    assert verdict(outcome) == "MEASURED: gzip alone, 10 runs; nothing is compared."
    assert verdict_words(outcome) == {"gzip": "measured"}
    lines = lines_of(outcome)
    assert list(lines) == ["time", "range", "median", "memory", "outliers"]
    assert "(mean ± σ); user 1.6 s, system " in lines["time"]
    assert lines["range"].endswith(", 10 runs")
    assert lines["median"].endswith(" with 95% confidence, at any number of runs")
    assert lines["outliers"] == "none"


def test_a_quick_command_is_measured_three_seconds() -> None:
    assert 20 <= len(race(skewed({"quick": 0.1}, 0.01), ["quick"]).run_log.runs) <= 40


def test_runs_and_minutes_are_obeyed() -> None:
    few = race(SLOW, ["gzip"], conditions=Conditions(timeout=9.0, most_runs=3))
    assert len(few.run_log.runs) == 3
    assert "takes more runs to tell" in lines_of(few)["median"]
    more = race(SLOW, ["gzip"], conditions=Conditions(timeout=9.0, least_runs=12, most_runs=12))
    assert len(more.run_log.runs) == 12


def test_a_limit_is_a_question() -> None:
    outcome = race(SLOW, ["gzip"], ["time=3s"])
    assert (outcome.is_benchmark, outcome.found) == (False, "certified")
    assert verdicts_shown(outcome) == {"gzip": "within its limits"}
    # There is no other command that it could differ from, or lead.
    assert "Nothing is assumed of how they scatter." in next(note_lines(outcome))
    assert verdict(race(SLOW, ["gzip"], ["time=2.001s"], runs=20)).endswith("; the limits may hold or not.")
    assert verdicts_shown(race(SLOW, ["gzip"], ["time=1s"])) == {"gzip": "over a limit"}


def test_it_is_exported_without_a_claim() -> None:
    outcome = race(SLOW, ["gzip"])
    data = json.loads(as_json(outcome))
    about = data["bestarm"]
    assert (about["state"], about["answer"], about["guarantee"], about["found"]) == (
        *("measured", None, "none", "measured"),
    )
    assert about["runs"] == 10
    assert about["median"]["low"] <= about["median"]["value"] <= about["median"]["high"]
    assert len(data["results"][0]["times"]) == 10
    # The study that keeps it has one test, which is about nothing here.
    assert (about["arms"], data["results"][0]["reason"]) == ([], "")
    assert not any("more runs were made" in note for note in about["notes"])
    assert "| measured |" in as_markdown(outcome)


def test_it_is_no_study_that_is_kept(tmp_path: Path) -> None:
    """Readers of such a study would be told that the command is certified to be the best."""
    db = tmp_path / "races.db"
    with pytest.raises(InvalidInput, match=r"one command alone is measured anew each time"):
        race(SLOW, ["gzip"], db=str(db))
    assert not db.exists()
    assert race(SLOW, ["gzip"], ["time=3s"], db=str(db)).found == "certified"


def test_it_is_measured_on_one_machine() -> None:
    with pytest.raises(InvalidInput, match="on one machine"):
        race(SLOW, ["gzip"], conditions=Conditions(timeout=9.0, on=("a",), runs_per_machine=3))


def test_runs_far_from_all_others_are_named() -> None:
    def with_a_pause(command: str, rng: random.Random) -> Run:
        counts["made"] += 1
        # One run does not count: it shows how long runs take.
        return a_run(9.0 if counts["made"] == 5 else rng.gauss(2.0, 0.01))

    counts = {"made": 0}
    outcome = race(with_a_pause, ["gzip"], conditions=Conditions(warmup=1, timeout=100.0))
    assert lines_of(outcome)["outliers"].startswith("run 4 (9 s): ")
    assert outliers_of([5.0, *[1.0 + 0.01 * k for k in range(9)]]) == [0]


@pytest.mark.parametrize("skew", [0.1, 1.0])
def test_the_interval_of_the_median_is_valid_at_any_time(skew: float) -> None:
    """Of 40 streams, watched after each of their first 30 results, the limits of at most 9 ever miss the median: with
    an error probability of 10%, more do with a probability of 5 in 1,000 at most."""
    rng = random.Random(7)
    missed = 0
    for _ in range(40):
        values = [rng.lognormvariate(0.0, skew) for _ in range(30)]
        found = [median_of(values[:n], 0.05) for n in range(1, 31)]
        missed += any(not one.low <= 1.0 <= one.high for one in found)
    assert missed <= 9
