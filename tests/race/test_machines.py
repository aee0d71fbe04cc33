"""Races on several machines: what counts, how errors are kept rare, and machines that are lost."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from tests.lengths import lengths
from tests.race.simulated import Drawn, a_run

from bestarm.race.contestants import contestants_of
from bestarm.race.exports import as_json
from bestarm.race.limits import read_limits
from bestarm.race.machines import runners_on, shares_of
from bestarm.race.plans import CANDIDATE, Question
from bestarm.race.race import Conditions, Race
from bestarm.race.result import RaceResult
from bestarm.race.runs import MachineLost, Run
from bestarm.race.summary import note_lines, verdict
from bestarm.study import Study, Test
from bestarm.study.work.failures import MeasurementFailed, NotStarted
from bestarm.validation import InvalidInput


class Simulated(Drawn):
    """A machine that is faster or slower than others, suits some commands better, drifts, and may be lost."""

    def __init__(
        self,
        name: str,
        times: dict[str, float],
        *,
        speed: float = 1.0,
        drift: float = 0.0,
        seed: int = 0,
        ends_after: int | None = None,
    ) -> None:
        super().__init__(self._one, 1000 * seed + sum(name.encode()))
        self.on = name
        self._times = times
        self._speed = speed
        self._drift = drift
        self._ends_after = ends_after

    def _one(self, command: str, rng: random.Random) -> Run:
        if len(self.made) == self._ends_after:
            raise MachineLost(f"{self.on}: connection closed")
        return a_run(self._speed * (self._times[command] + rng.expovariate(20.0)) + self._drift * len(self.made))


def race_on(
    machines: list[Simulated], at_most: str = "", *, db: str | None = None, each: int | None = None, **asked: object
) -> RaceResult:
    objective, baseline = (CANDIDATE, "a") if at_most else ("time", None)
    limits = tuple(read_limits([at_most] if at_most else [], baseline))
    question = Question(objective, limits, baseline, **asked)  # type: ignore[arg-type]
    commands = list(dict.fromkeys(name for machine in machines for name in machine._times))
    conditions = Conditions(timeout=100.0, on=tuple(one.on for one in machines), runs_per_machine=each, seed=1)
    return Race(contestants_of(commands), question, conditions, db=db, runners=machines).run()


def test_every_machine_makes_the_same_runs_of_every_command() -> None:
    machines = [
        Simulated(name, {"a": 1.0, "b": 1.3, "c": 1.6}, speed=speed) for name, speed in (("x", 1.0), ("y", 9.0))
    ]
    outcome = race_on(machines)
    assert (outcome.found, outcome.status.answer) == ("certified", "a")
    for name in "abc":
        made = [run.on for run in outcome.run_log.of(name)]
        # When one of three commands is out, the others have three places in a round of six, on one machine twice.
        assert abs(made.count("x") - made.count("y")) <= len(made) // 3
    assert outcome.plan.blocks is not None
    assert (outcome.plan.blocks.name, outcome.plan.blocks.size) == ("round", 6)
    assert f"after {outcome.status.tests} runs on 2 machines." in verdict(outcome)
    notes = "\n".join(note_lines(outcome))
    assert "The verdict is about the mean over these machines; the runs of each round on all machines count as" in notes
    assert "On y: " in notes
    found = json.loads(as_json(outcome))
    assert set(found["results"][0]["machines"]) == {"x", "y"}
    assert (found["bestarm"]["machines"], found["bestarm"]["claim"]) == (["x", "y"], "the mean over these machines")


def test_shares_of_a_block() -> None:
    def shared(arms: str, *machines: str) -> tuple[dict[str, str], str]:
        tests = [Test(number, arm, "time") for number, arm in enumerate(arms)]
        shares, rest = shares_of(tests, machines)
        return {name: "".join(test.arm for test in share) for name, share in shares.items()}, "".join(
            test.arm for test in rest
        )

    assert shared("abba", "x", "y") == ({"x": "ab", "y": "ba"}, "")
    assert shared("aabbab", "x", "y") == ({"x": "abab", "y": "ab"}, "")
    # A budget that ends within a round leaves runs over, so that no machine makes more of one command than of another.
    assert shared("aba", "x", "y") == ({"x": "ab", "y": ""}, "a")
    assert shared("", "x", "y") == ({"x": "", "y": ""}, "")


SUITING = {"x": {"a": 1.0, "b": 1.6}, "y": {"a": 1.3, "b": 1.0}, "z": {"a": 1.3, "b": 1.0}}
"""On average the two are equal, and on two of three machines b is better, by far more than runs scatter."""


@pytest.mark.parametrize(("count", "allowed"), lengths((4, 2), (60, 10)))
@pytest.mark.parametrize("suits", [False, True])
def test_equal_commands_on_unequal_machines(suits: bool, count: int, allowed: int) -> None:
    """Machines differ in speed by 1 : 3 : 5, drift, and, if `suits`, each suits one of the commands better. Of 4 such
    races, at most 2 may claim a difference: at an error probability of 5% each, more happen with a probability of 5 in
    10,000 (of 60, more than 10: 2)."""
    claims = 0
    for seed in range(count):
        machines = [
            Simulated(
                name, times if suits else {"a": 1.0, "b": 1.0}, speed=1.0 if suits else speed, drift=drift, seed=seed
            )
            for (name, times), speed, drift in zip(SUITING.items(), (1.0, 3.0, 5.0), (0.01, -0.005, 0.02), strict=True)
        ]
        claims += race_on(machines, runs=120).found != "undecided"
    assert claims <= allowed


@pytest.mark.parametrize(("count", "allowed"), lengths((4, 2), (60, 10)))
def test_a_sample_of_machines_counts_each_as_one(count: int, allowed: int) -> None:
    """Ten runs on each of six machines are six values: of 4 races between commands that are equal on average over all
    machines there are, at most 2 may claim a difference (the probability of more is 5 in 10,000; of 60, more
    than 10: 2)."""
    claims = 0
    for seed in range(count):
        rng = random.Random(seed)
        machines = [
            Simulated(name, {"a": 1.0, "b": 1.0 + rng.gauss(0.0, 0.2)}, speed=rng.uniform(1, 5), seed=seed)
            for name in "uvwxyz"
        ]
        outcome = race_on(machines, each=10)
        assert [len(machine.made) for machine in machines] == [20 + 4] * 6
        claims += outcome.found != "undecided"
    assert claims <= allowed
    assert outcome.plan.blocks is not None
    assert (outcome.plan.blocks.name, outcome.status.tests) == ("machine", 120)


def test_a_sample_grows_with_more_machines(tmp_path: Path) -> None:
    db = str(tmp_path / "races.db")
    names = "abcdefghijklmnopqrstuvwxyz"
    some = [Simulated(name, {"a": 1.0, "b": 2.0}) for name in names[:5]]
    outcome = race_on(some, each=2, db=db)
    assert outcome.found == "undecided"
    assert verdict(outcome).startswith("UNDECIDED: every machine was used after 20 runs on 5 machines")
    # Machines that were used make no more runs that count: two of each command say what a pause is.
    again = [Simulated(name, {"a": 1.0, "b": 2.0}) for name in names]
    outcome = race_on(again, each=2, db=db)
    assert [len(machine.made) for machine in again[:6]] == [4] * 5 + [8]
    assert outcome.found == "certified"
    assert "machines like these" in "\n".join(note_lines(outcome))


def test_a_gate_on_machines() -> None:
    times = {"a": 1.0, "b": 1.1}
    machines = [Simulated(name, times, speed=speed) for name, speed in (("x", 1.0), ("y", 4.0))]
    assert race_on(machines, "time=1.5x").found == "certified"
    assert race_on(machines, "time=baseline+10ms").found == "refuted"
    assert race_on(machines, "p50(time)=90s").found == "certified"


@pytest.mark.parametrize("ends_after", [2, 11])
def test_a_lost_machine_is_left_out(ends_after: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    times = {"a": 1.0, "b": 1.2}
    machines = [Simulated("x", times), Simulated("y", times, ends_after=ends_after)]
    db = str(tmp_path / "races.db")
    outcome = race_on(machines, db=db)
    assert (outcome.status.answer, outcome.lost) == ("a", {"y": "y: connection closed"})
    assert "Left out: y: connection closed" in caplog.text
    assert "Left out: y: connection closed" in note_lines(outcome)
    assert json.loads(as_json(outcome))["bestarm"]["lost_machines"] == {"y": "y: connection closed"}
    # What it made in the round in which it was lost does not count, so it made equally many runs of both.
    made = {name: sum(run.on == "y" for run in outcome.run_log.of(name)) for name in "ab"}
    assert made["a"] == made["b"] == (0 if ends_after < 4 else (ends_after - 4) // 2)
    given_up = [event for event in Study.open("a vs b", storage=db).log(last=1000) if event.kind == "dropped"]
    assert {event.detail for event in given_up} <= {"the machine was lost: y: connection closed"}
    assert len(given_up) == (0 if ends_after < 4 else 2)
    with pytest.raises(NotStarted, match="no machine is left: x: connection closed; y: connection closed"):
        race_on([Simulated("x", times, ends_after=7), Simulated("y", times, ends_after=9)])


def test_a_failure_on_one_machine_ends_the_race_and_is_not_forgotten(tmp_path: Path) -> None:
    class Failing(Simulated):
        def _one(self, command: str, rng: random.Random) -> Run:
            return a_run(1.0, status=int(command == "b" and len(self.made) > 6))

    db, times = str(tmp_path / "races.db"), {"a": 1.0, "b": 1.0}
    for machines in ([Simulated("x", times), Failing("y", times)], [Simulated("x", times), Simulated("y", times)]):
        with pytest.raises(MeasurementFailed, match="'b' ended with status 1 on y"):
            race_on(machines, db=db)


def test_how_machines_are_named() -> None:
    [ssh, docker, here] = runners_on(["north", "docker exec -i box", "localhost"])
    assert ssh._reached_by[0] == "ssh"
    assert ssh._reached_by[-1] == "north"
    assert (list(docker._reached_by), list(here._reached_by)) == (["docker", "exec", "-i", "box"], [])
    for wrong, reason in (
        (["-oProxyCommand=x"], "must be a host"),
        ([""], "must be a host"),
        (["a", "a"], "is there twice"),
        (["sh -c '"], "is no command"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            list(runners_on(wrong))


def test_a_command_that_reaches_nothing_says_why() -> None:
    for reached_by, reason in (
        ("sh -c 'echo no route >&2; exit 255' -", "no route"),
        ("sh -c 'exit 3' -", "ended with status 3"),
        ("sh -c true -", "does it need -i, as docker exec does"),
        ("no-such-program there", "no-such-program: No such file or directory"),
    ):
        [runner] = runners_on([reached_by])
        with runner, pytest.raises(MachineLost, match=reason):
            runner.floor()


def test_what_measures_elsewhere_is_what_measures_here(tmp_path: Path) -> None:
    """A greeting of the shell there, and its reading ahead, do no harm."""
    greeting = tmp_path / "greeting"
    greeting.write_text('echo Welcome; exec "$@"\n')
    [runner] = runners_on([f"sh {greeting}"])
    with runner:
        run = runner.run(["sh", "-c", "printf four; exit 7"], 60.0)
        assert (run.output, run.status, run.timed_out) == (4, 7, False)
        assert runner.run([sys.executable, "-c", "import time; time.sleep(60)"], 0.05).timed_out
        with pytest.raises(NotStarted, match="'no-such-program' cannot be started: No such file or directory on sh "):
            runner.run(["no-such-program"], 1.0)
