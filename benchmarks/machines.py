"""Races on several machines, with runs that are drawn: how often they are wrong, and how many rounds they take.

    python benchmarks/machines.py --count 200

`docs/how-to/race-on-machines.md` has the tables.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from bestarm.race.contestants import contestants_of
from bestarm.race.plans import Question
from bestarm.race.race import Conditions, Race
from bestarm.race.result import RaceResult
from bestarm.race.runs import Run, Runner

Times = Mapping[str, float]

UNEQUAL = [{"a": 1.0, "b": 1.0}, {"a": 3.0, "b": 3.0}, {"a": 5.0, "b": 5.0}]
"""Machines of different speed, on each of which both commands take the same time."""
SUITING = [{"a": 1.0, "b": 1.6}, {"a": 1.3, "b": 1.0}, {"a": 1.3, "b": 1.0}]
"""On average over these machines both take the same time, but each machine suits one of them."""
_SCATTER = 0.05


class Drawn(Runner):
    """A machine. Given several, it is one after the other: a new one for each run of a command."""

    def __init__(self, name: str, machines: Sequence[Times], drift: float, seed: str) -> None:
        super().__init__(name)
        self._machines = machines
        self._drift = drift
        self._rng = random.Random(seed)
        self._made: Counter[str] = Counter()

    def floor(self) -> float:
        return 2e6

    def run(self, words: list[str], timeout: float | None) -> Run:
        command = words[-1]
        mean = self._machines[self._made[command] % len(self._machines)][command]
        self._made[command] += 1
        time = mean * (1.0 + self._rng.expovariate(1.0 / _SCATTER)) + self._drift * self._made.total()
        return Run(time, time, 0.0, 2e7, 0, 0, False, "")


def race(runners: Sequence[Runner], runs: int, seed: int, each: int | None = None) -> RaceResult:
    on = tuple(runner.on for runner in runners if runner.on)
    conditions = Conditions(timeout=1000.0, minutes=60.0, seed=seed, on=on, runs_per_machine=each)
    return Race(contestants_of(["a", "b"]), Question(runs=runs), conditions, runners=runners).run()


def at_once(machines: Sequence[Times], seed: int, drift: float = 0.0) -> list[Runner]:
    return [Drawn(f"machine {k}", [times], drift * k, f"{seed} {k}") for k, times in enumerate(machines, start=1)]


def table(heading: str, *rows: Sequence[object]) -> None:
    columns = heading.split(" | ")
    print(f"| {heading} |\n| --- |{' ---: |' * (len(columns) - 1)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    print()


def errors(count: int) -> None:
    """Equal commands: every claim is wrong."""
    ways: dict[str, Callable[[Sequence[Times], int], Sequence[Runner]]] = {
        "a round on all machines is a block": lambda machines, seed: at_once(machines, seed, drift=0.001),
        "a round on one machine, in turn, is a pair": lambda machines, seed: [Drawn("", machines, 0.001, f"{seed}")],
    }
    rows = []
    for name, runners in ways.items():
        # As the study has it, before what pauses may withhold.
        wrong = [
            sum(race(runners(machines, seed), 120, seed).status.answer is not None for seed in range(count))
            for machines in (UNEQUAL, SUITING)
        ]
        rows.append((name, *(f"{number} of {count}" for number in wrong)))
    sampled = 0
    for seed in range(count):
        rng = random.Random(seed)
        machines = [{"a": speed, "b": speed * (1.0 + rng.gauss(0.0, 0.1))} for speed in (1.0, 3.0, 5.0) * 4]
        sampled += race(at_once(machines, seed), 10_000, seed, each=5).status.answer is not None
    rows.append(("`--runs-per-machine 5`, twelve machines", "", f"{sampled} of {count}"))
    table("equal commands, called different | speeds differ | each machine suits one of them", *rows)


def rounds(count: int) -> None:
    """How long it takes until the better one is certified."""
    rows = []
    for apart in (0.02, 0.05, 0.5):
        for machines in (1, 2, 4, 8):
            times = [{"a": speed, "b": speed * (1.0 + apart)} for speed in (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4)]
            found = [race(at_once(times[:machines], seed), 4000, seed) for seed in range(count)]
            right = sum(one.status.answer == "a" for one in found)
            runs = statistics.fmean(one.status.tests for one in found)
            rows.append((f"{apart:.0%}", machines, f"{right} of {count}", f"{runs:.0f}", f"{runs / 2 / machines:.0f}"))
    table("apart | machines | right | runs | rounds", *rows)
    sizes: list[Sequence[object]] = []
    for machines in (6, 8, 10, 12, 15, 20):
        sample = [{"a": 1.0 + 0.1 * k, "b": 1.5 + 0.1 * k} for k in range(machines)]
        found = [race(at_once(sample, seed), 4000, seed, each=5) for seed in range(count)]
        sizes.append((machines, f"{sum(one.status.answer == 'a' for one in found)} of {count}"))
    table("machines of a sample, five runs each, far apart | certified", *sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="races of each kind")
    count = parser.parse_args().count
    errors(count)
    rounds(max(1, count // 10))


if __name__ == "__main__":
    main()
