"""What a run counts as that was stopped, or whose memory is less than can be seen."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.race.simulated import a_run, race, skewed

from bestarm.analysis.status.words import about_intervals, assumptions
from bestarm.race.exports import as_json
from bestarm.race.limits import read_limits
from bestarm.race.plans import Question, ceilings_of
from bestarm.race.result import RaceResult
from bestarm.race.runs import Run
from bestarm.race.summary import limit_lines, note_lines
from bestarm.study.work.failures import MeasurementTimedOut
from bestarm.validation import InvalidInput

FAST_AND_SLOW = skewed({"fast": 0.1, "slow": 0.2}, scatter=0.01)


def test_memory_below_what_can_be_seen_counts_as_that() -> None:
    def draw(command: str, rng: random.Random) -> Run:
        return a_run(FAST_AND_SLOW(command, rng).time, memory=rng.uniform(0.5e6, 2e6))

    outcome = race(draw, ["fast", "slow"], ["memory=1.5x"], baseline="slow", runs=300)
    lines = [*limit_lines(outcome), *note_lines(outcome)]
    limit = "fast: memory at most 1.5x the baseline (less than 2 MB counts as that)"
    assert f"{limit}: holds; measured < 2 MB, interval < 2 MB to < 2 MB" in lines
    assert "Memory below 2 MB cannot be seen, and counts as 2 MB." in lines
    assert {result["verdict"] for result in json.loads(as_json(outcome))["results"]} == {"feasible", "worse"}
    with pytest.raises(InvalidInput, match="'memory=2 MB': must be more than 2 MB: memory below that cannot be seen"):
        race(draw, ["fast", "slow"], ["memory=2MB"])


def test_a_mean_has_an_interval_only_where_something_is_known_of_its_own_scatter() -> None:
    def draw(command: str, rng: random.Random) -> Run:
        return a_run({"a": 0.1, "b": 0.2}[command] if rng.random() < 0.9 else 2.0)

    outcome = race(draw, ["a", "b"], ["time=1.5x", "user=3s"], baseline="b", runs=40)
    a, b = json.loads(as_json(outcome))["bestarm"]["arms"]
    assert [row[0]["low"] for row in (a["metrics"], b["metrics"])] == [None, None]
    # The distance to the baseline, which itself has none, and a mean whose values are cut off.
    assert [[row["high"] is None for row in arm["metrics"][1:]] for arm in (a, b)] == [[False, False], [True, False]]
    assert not any(point.startswith("time: scatters") for point in assumptions(outcome.plan))
    assert "The mean time of one command has none" in about_intervals(outcome.plan)
    [bounded, _] = race(draw, ["a", "b"], assumed="range", runs=40).status.arms
    assert bounded.metrics[0].high < 20.0


@pytest.mark.parametrize(
    ("at_most", "question", "found"),
    [
        (["output=1kB"], {}, "refuted"),
        (["memory=1GB"], {}, "refuted"),
        (["user=3s"], {}, "refuted"),
        (["p90(memory)=1GB"], {}, "refuted"),
        (["output=2x"], {"assumed": "range"}, "refuted"),
        (["output=2x"], {}, None),
        (["memory=2x", "failures=50%"], {}, None),
    ],
)
def test_a_stopped_run_is_not_a_measurement(at_most: list[str], question: dict[str, Any], found: str | None) -> None:
    """A command that hangs has written next to nothing, and used little memory."""

    def draw(command: str, rng: random.Random) -> Run:
        return a_run(99.0 if command == "hangs" else 0.1)

    def made() -> RaceResult:
        return race(draw, ["quick", "hangs"], at_most, baseline="quick", is_gate=True, runs=3000, **question)

    if found is not None:
        assert made().found == found
        return
    with pytest.raises(MeasurementTimedOut, match=r"'hangs' took longer than 10 s and was stopped, so its \w+ is not"):
        made()


@pytest.mark.parametrize(
    ("at_most", "assumed"), [(["mean(memory)=10MB", "p90(memory)=90MB"], "symmetry"), (["p90(memory)=900MB"], "range")]
)
def test_a_cut_off_value_still_exceeds_the_limit_of_a_quantile(at_most: list[str], assumed: str) -> None:
    asked = Question("memory", tuple(read_limits(at_most, None)), assumed=assumed)  # type: ignore[arg-type]
    ceiling = ceilings_of(asked, 10.0, {"memory": 1e6})["memory"]
    assert all(limit.value < ceiling for limit in asked.limits)
    with pytest.raises(InvalidInput, match="must be longer than the limit, 20 s"):
        ceilings_of(Question(limits=tuple(read_limits(["p99(time)=20s"], None))), 10.0, {})
