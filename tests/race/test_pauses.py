"""Pauses: what a verdict that rests on symmetry does not cover, and when it is withheld."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
from tests.lengths import lengths
from tests.race.simulated import Draw, Drawn, a_run, race
from typer.testing import CliRunner

from bestarm.cli.app import app
from bestarm.race.contestants import contestants_of
from bestarm.race.exports import as_json
from bestarm.race.limits import Limit
from bestarm.race.limits_found import interval_words, limits_found
from bestarm.race.pauses import Pauses, cutoffs_of, rarer_than
from bestarm.race.plans import CANDIDATE, Question
from bestarm.race.race import Conditions, Race
from bestarm.race.result import RaceResult
from bestarm.race.runs import Run
from bestarm.race.summary import limit_lines, note_lines, verdict, verdict_words
from bestarm.study import Study

DELTA = 0.05


def pausing(rates: dict[str, float], mean: float = 1.0, pause: float = 12.0) -> Draw:
    """Equal commands, but for pauses in these shares of runs."""

    def draw(command: str, rng: random.Random) -> Run:
        time = mean + rng.gauss(0.0, 0.02)
        return a_run(time + pause * (rng.random() < rates[command]))

    return draw


class Scripted(Drawn):
    """Runs of which those with these numbers pause, by command; the first is not counted."""

    def __init__(self, at: dict[str, set[int]], means: dict[str, float] | None = None) -> None:
        super().__init__(lambda *_: a_run(1.0))
        self._at, self._means = at, means or {}

    def run(self, words: list[str], timeout: float | None) -> Run:
        command = words[-1]
        self.made.append(command)
        number = self.made.count(command) - 1
        time = self._means.get(command, 1.0) + self._rng.gauss(0.0, 0.01)
        return a_run(time + 3.0 * (number in self._at.get(command, ())))


def gate(draw: Draw, *at_most: str, runner: Drawn | None = None, seed: int = 0, **question: object) -> RaceResult:
    conditions = Conditions(timeout=20.0, seed=seed)
    limits = at_most or ("time=1.05x",)
    question = {"runs": 400, **question}
    kept = {"seed": seed, "runner": runner, "conditions": conditions}
    return race(draw, ["old", "new"], limits, baseline="old", is_gate=True, **kept, **question)  # type: ignore[arg-type]


NO_DRAW = pausing({"old": 0.0, "new": 0.0})


@pytest.mark.parametrize("count", lengths(6, 60))
def test_a_rare_long_pause_never_passes_without_a_word(count: int) -> None:
    """12 s in 1% of runs make the mean 1.12 times that of the baseline, and the limit is 1.05. What is certified is
    certified except for pauses rarer than 1 in N, and none was seen. N > 100 takes 440 runs of the candidate, more than
    there are; so this cannot fail by chance."""
    for seed in range(count):
        outcome = gate(pausing({"old": 0.0, "new": 0.01}), seed=seed)
        conclusion = outcome.conclusion
        if outcome.found == "certified":
            assert conclusion.pauses_rarer_than is not None
            assert 2 <= conclusion.pauses_rarer_than <= 100
            assert f"except for pauses rarer than 1 in {conclusion.pauses_rarer_than}, with 95%" in verdict(outcome)
        else:
            assert any(run.time > 12.0 for run in outcome.run_log.of("new"))


def test_claims_about_pauses_are_rarely_false() -> None:
    """Of 20,000 commands with each share of pauses, "rarer than 1 in N" is ever false of 5% at most, in exact terms.
    More than 1,250 of them, an excess of 8 standard deviations, would come by chance with a probability of 1e-15."""
    rng, alpha = np.random.default_rng(5), 0.05
    claims = np.array([rarer_than(runs, alpha) for runs in range(1, 3000)])
    assert (np.diff(claims) >= 0).all()
    for share in (0.5, 0.1, 0.013, 0.002):
        first_pause = rng.geometric(share, 20_000)  # claims are made up to the run before it
        said = claims[np.minimum(first_pause - 2, len(claims) - 1)]
        assert ((first_pause > 1) & (share * said >= 1.0)).sum() <= 1250


def test_seen_pauses_withhold_the_certificate() -> None:
    outcome = gate(NO_DRAW, "time=2x", runner=Scripted({"new": {4}}))
    assert outcome.status.state == "certified"
    assert (outcome.found, verdict_words(outcome)["new"]) == ("undecided", "open")
    assert {found.verdict for found in limits_found(outcome)} == {"open"}
    said = verdict(outcome)
    assert said.startswith("UNDECIDED after ")
    assert "new has pauses in 1 of " in said
    assert "(up to 4 s), old in 0 of " in said
    assert "--at-most pauses=… or --assume range decides" in said


@pytest.mark.parametrize(("pauses", "state"), [({"a": {3}}, "void"), ({}, "certified")])
def test_a_kept_study_says_no_more_than_its_race(pauses: dict[str, set[int]], state: str, tmp_path: Path) -> None:
    db = str(tmp_path / "races.db")
    for again in (False, True):
        runner = Scripted(pauses, {"a": 1.0, "b": 1.5, "c": 2.0})
        question, conditions = Question("time"), Conditions(timeout=20.0, shell="none")
        held = Race(contestants_of(["a", "b", "c"]), question, conditions, study="kept", db=db, runners=[runner])
        outcome = held.run()
        # The race judges its runs anew, whatever it said before.
        assert outcome.status.state == "certified"
        assert bool(runner.made) is not again
        held.remark(outcome.remark)
    study = Study.open("kept", storage=db)
    [remark] = [event for event in study.log() if event.kind == "remarked"]
    answer, status = study.answer, study.status()
    assert answer is not None
    assert answer.state == status.state == state
    if state == "void":
        assert outcome.found == "undecided"
        assert remark.detail.startswith("broken: time: a has pauses in 1 of ")
        [because] = status.void_because
        assert because.endswith("so symmetry cannot be assumed (time)")
    else:
        said = "time: the verdict holds except for pauses rarer than 1 in "
        assert [text.startswith(said) for text in answer.warnings] == [True]
    checked = CliRunner().invoke(app, ["status", "kept", "--check", "--db", db], env={"COLUMNS": "200"})
    assert checked.exit_code == (5 if state == "void" else 0), checked.output
    assert ("symmetry cannot be assumed" if state == "void" else "rarer than 1 in") in checked.output


def test_a_winner_that_paused_is_not_certified() -> None:
    runner = Scripted({"a": {3}}, {"a": 1.0, "b": 1.5, "c": 2.0})
    outcome = race(NO_DRAW, ["a", "b", "c"], runner=runner, conditions=Conditions(timeout=20.0))
    assert (outcome.status.answer, outcome.found) == ("a", "undecided")
    assert set(verdict_words(outcome).values()) == {"feasible", "open"}
    assert "a has pauses in 1 of " in verdict(outcome)
    # What it takes longer matters only where a rival is as quick.
    runner = Scripted({"a": {3}}, {"a": 1.0, "b": 3.0})
    assert race(NO_DRAW, ["a", "b"], runner=runner, conditions=Conditions(timeout=60.0)).found == "certified"


def test_pauses_may_strike_both_alike() -> None:
    outcome = gate(NO_DRAW, "time=2x", runner=Scripted({"new": {3}, "old": {5}}))
    assert outcome.found == "certified"
    assert re.search(
        r"^CERTIFIED: new meets every limit \(pauses: 1 of (\d+) runs of new against 1 of \1 runs of old; "
        r"assumed, as chance allows: they strike new no more than old\), with 95%",
        verdict(outcome),
    )
    assert outcome.conclusion.pauses_rarer_than is None
    assert any(line.startswith("Counted as pauses: more than ") for line in note_lines(outcome))


def test_a_few_runs_do_not_say_what_is_usual() -> None:
    assert [Pauses(runs, runs, "3 s").are_usual for runs in (1, 5, 6)] == [False, False, True]


def test_what_most_runs_do_is_no_pause() -> None:
    """The first two runs of each command are quick, and all later ones take 3 s longer, but one of the baseline."""
    runner = Scripted({"new": set(range(2, 400)), "old": {3, *range(5, 400)}})
    outcome = gate(NO_DRAW, "time=2x", runner=runner)
    assert outcome.found == "certified"
    runs = len(outcome.run_log.of("new"))
    assert f"(beyond the cutoff for pauses: {runs} of {runs} runs of new against {runs - 2} of " in verdict(outcome)
    said = [*note_lines(outcome)]
    [line] = [one for one in said if one.startswith(f"{runs} of {runs} runs of new are beyond the cutoff for pauses (")]
    assert line.endswith(" time). So such runs are usual; the first ones, which set the cutoff, were unusual.")
    assert not any(one.startswith("Counted as pauses") for one in said)
    alone = gate(NO_DRAW, "time=9x", runner=Scripted({"new": set(range(2, 400))}))
    assert "new is beyond the cutoff for pauses in " in verdict(alone)
    assert any(
        one.startswith("Counted as pauses: more than ") and " of old, in 0 of " in one for one in note_lines(alone)
    )


def test_pauses_of_the_baseline_could_refute_wrongly() -> None:
    outcome = gate(NO_DRAW, runner=Scripted({}, {"old": 1.0, "new": 1.5}))
    assert verdict(outcome).startswith(
        "REFUTED: the candidate does not meet every limit, except for pauses of old rarer"
    )
    assert gate(NO_DRAW, runner=Scripted({"old": {3}}, {"old": 1.0, "new": 1.5})).found == "undecided"
    # A limit of its own does not rest on symmetry.
    outcome = gate(NO_DRAW, "time=10x", "memory=10MB", runner=Scripted({}))
    assert verdict(outcome).startswith("REFUTED: the candidate does not meet every limit, with 95%")


def test_a_limit_on_pauses_decides() -> None:
    outcome = gate(NO_DRAW, "time=2x", "pauses=20%", runner=Scripted({"new": {3}}))
    assert outcome.found == "certified"
    assert ", except for pauses rarer than 1 in 5, with 95%" in verdict(outcome)
    paused = gate(NO_DRAW, "time=20x", "pauses=20%", runner=Scripted({"new": set(range(1, 400, 2))}))
    assert paused.found == "refuted"
    assert verdict(paused).startswith("REFUTED: the candidate does not meet every limit, with 95%")


def test_what_pauses_can_add_may_be_too_little_to_matter() -> None:
    """At a fifth of all runs, and 4 s each, pauses add 0.8 s, and the candidate is 2 s below the limit."""
    quick = Scripted({}, {"old": 1.0, "new": 1.0})
    outcome = race(
        NO_DRAW,
        ["old", "new"],
        ["time=3x", "pauses=20%"],
        baseline="old",
        is_gate=True,
        runner=quick,
        conditions=Conditions(timeout=4.0),
    )
    assert verdict(outcome).startswith("CERTIFIED: new meets every limit, with 95%")


def test_without_symmetry_nothing_is_said_of_pauses() -> None:
    outcome = gate(NO_DRAW, "p50(time)=3s", runner=Scripted({}))
    assert (outcome.cutoffs, outcome.found) == ({}, "certified")
    assert "pauses" not in verdict(outcome)


def test_cutoffs() -> None:
    first = {"zstd": [a_run(0.5)], "gzip": [a_run(0.8), a_run(0.9)], "xz": [a_run(6.7, memory=1e8)]}
    found = cutoffs_of(first, {"time", "memory", "system"})
    # The least of the first runs counts, the others may have found caches cold; and so does the closest rival.
    assert {name: of_one["time"] for name, of_one in found.items()} == {"zstd": 1.0, "gzip": 1.0, "xz": 8.375}
    close = cutoffs_of(first, {"time"}, [Limit("time", 1.02, is_relative=True), Limit("time", 3.0)])
    assert close["gzip"]["time"] == pytest.approx(0.88)
    assert found["xz"]["memory"] == pytest.approx(1.1e8)
    assert found["zstd"]["memory"] == pytest.approx(2.2e7)
    assert cutoffs_of(first, set()) == {}


def test_spikes_of_memory() -> None:
    def draw(command: str, rng: random.Random) -> Run:
        spikes = command == "new" and rng.random() < 0.3
        return a_run(1.0 + rng.gauss(0, 0.02), memory=2e9 if spikes else 2e7)

    outcome = gate(lambda *_: a_run(1.0), "memory=1.1x")
    assert ", except for spikes rarer than 1 in 3, with 95%" in verdict(outcome)
    assert gate(draw, "memory=1.1x", runs=100).found != "certified"


def test_an_interval_is_without_the_pauses_of_its_own_metric() -> None:
    def draw(command: str, rng: random.Random) -> Run:
        time = 1.0 + rng.gauss(0.0, 0.02)
        return a_run(time, memory=2e9 if command == "old" and rng.random() < 0.1 else 2e7)

    limits = ("time=2x", "memory=2x", "memory=1GB")
    outcome = gate(draw, *limits, runs=60)
    time, memory, stated = limit_lines(outcome)
    assert ", interval without spikes " in memory
    assert not any("without" in line for line in (time, stated))
    assert ", for runs without pauses or spikes, or if these strike both alike" in interval_words(outcome)
    pauses = Scripted({"old": {4, 9, 14}})
    time, memory, stated = limit_lines(gate(NO_DRAW, *limits, runner=pauses, runs=60))
    assert ", interval without pauses " in time
    assert not any("without" in line for line in (memory, stated))


def test_the_export_has_all_of_it() -> None:
    about = json.loads(as_json(gate(NO_DRAW, runner=Scripted({}))))
    assert about["bestarm"]["pauses_rarer_than"] >= 2
    assert set(about["bestarm"]["pauses_exceed"]) == {"old", "new"}
    assert [result["pauses"] for result in about["results"]] == [0, 0]


def test_cutoffs_are_kept_with_the_race(tmp_path: Path) -> None:
    db = str(tmp_path / "races.db")
    kept = {"db": db, "conditions": Conditions()}
    first = race(NO_DRAW, ["old", "new"], runner=Scripted({}), runs=6, **kept)  # type: ignore[arg-type]
    runner = Scripted({})
    second = race(NO_DRAW, ["old", "new"], runner=runner, runs=20, **kept)  # type: ignore[arg-type]
    assert second.cutoffs == first.cutoffs
    assert len(runner.made) == 14  # no first runs


def test_delta_is_shared_between_the_study_and_pauses() -> None:
    relative = (Limit("time", 1.05, is_relative=True),)
    gate_of_today = Question(CANDIDATE, relative, "old", delta=DELTA)
    for one in (Question(delta=DELTA), gate_of_today):
        assert one.delta_of_study() + one.delta_of_ratios(2, None) + one.delta_of_pauses == pytest.approx(DELTA)
    # Only one of the two commands of a gate can be favored where the study does not err.
    assert gate_of_today.delta_of_each_claim(2) == gate_of_today.delta_of_pauses
    assert Question(delta=DELTA).delta_of_each_claim(2) == 0.5 * Question(delta=DELTA).delta_of_pauses
    assert Question(assumed="range", delta=DELTA).delta_of_study() == DELTA


@pytest.mark.parametrize(("count", "allowed"), lengths((4, 2), (60, 10)))
@pytest.mark.parametrize("rate", [0.0, 0.05])
def test_equal_commands_on_the_limit(rate: float, count: int, allowed: int) -> None:
    """Of 4 gates at 1.00x between equal commands at most 2 may pass, and 2 fail: either has a probability of at
    most 5%, and more than 2 happen with a probability of 5 in 10,000 (of 60, more than 10: 2 in 10,000)."""
    draw = pausing({"old": rate, "new": rate})
    outcomes = [gate(draw, "time=1.00x", seed=seed, runs=40) for seed in range(count)]
    for found in ("certified", "refuted"):
        assert sum(outcome.found == found for outcome in outcomes) <= allowed


@pytest.mark.parametrize(("at_most", "found"), [("output=1.05x", "certified"), ("output=0.5x", "refuted")])
def test_what_never_varies_takes_bets_on_signs(at_most: str, found: str) -> None:
    """The evidence of n equal differences is 0.9 + 0.05 (1 + 1.5^n): 15 pairs reach 1 / (0.95 DELTA) = 21.1."""
    outcome = gate(lambda *_: a_run(1.0), at_most)
    assert (outcome.found, outcome.status.tests) == (found, 30)


def test_a_limit_on_what_never_varies_is_about_the_median() -> None:
    outcome = gate(lambda *_: dataclasses.replace(a_run(1.0), output=715_049), "output=700kB")
    assert outcome.found == "refuted"
    assert outcome.status.tests <= 30
    assert "output" not in outcome.ceilings


def test_equal_constants_end_with_the_budget() -> None:
    outcome = gate(lambda *_: a_run(1.0), "output=1.00x", runs=40)
    assert (outcome.found, outcome.status.tests) == ("undecided", 40)


def test_a_hopeless_command_is_run_ten_times() -> None:
    runner = Scripted({}, {"zstd": 0.5, "gzip": 0.9, "xz": 6.7})
    outcome = race(NO_DRAW, ["zstd", "gzip", "xz"], runner=runner, conditions=Conditions(timeout=60.0))
    assert (outcome.status.answer, len(outcome.run_log.of("xz"))) == ("zstd", 10)
