"""How often gates and races are wrong, and how many runs they take. Times are drawn; no command is run.

`python benchmarks/race_errors.py --count 200` prints every table; `--only NAME` prints one. A verdict is *plain* if it
makes no exception for pauses. It is false if what it says of the means is not so. One with an exception is false if
that is not so without the pauses of the command that it favors; whether these are rarer than it says is counted apart.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bestarm.race.contestants import contestants_of
from bestarm.race.exports import as_json
from bestarm.race.limits import read_limits
from bestarm.race.plans import CANDIDATE, Question
from bestarm.race.race import Conditions, Race
from bestarm.race.runs import Run, Runner
from bestarm.study import Study
from bestarm.study.record.decider import Decider

DELTA = 0.05
Draw = Callable[[random.Random], float]


def normal(rng: random.Random) -> float:
    return rng.gauss(1.0, 0.02)


def lognormal(rng: random.Random) -> float:
    return math.exp(rng.gauss(-0.005, 0.1))


def heavy(rng: random.Random) -> float:
    """t with 3 degrees of freedom, which is symmetric: its scatter is 3.5%, and far values are common."""
    return max(1.0 + 0.02 * rng.gauss(0.0, 1.0) / math.sqrt(rng.gammavariate(1.5, 2.0) / 3.0), 0.0)


NOISES: dict[str, Draw] = {"normal, 2%": normal, "lognormal, 10%": lognormal, "t(3), 3.5%": heavy}


@dataclass(frozen=True)
class Command:
    """Times around `mean` seconds, longer by `pause` seconds in a share `rate` of runs."""

    noise: Draw = normal
    mean: float = 1.0
    rate: float = 0.0
    pause: float = 12.0
    output: int = 100

    @property
    def true_mean(self) -> float:
        return self.mean + self.rate * self.pause

    def draw(self, rng: random.Random) -> Run:
        time = self.mean * self.noise(rng)
        if rng.random() < self.rate:
            time += self.pause
        return Run(time, 0.0, 0.0, 2e7, self.output, 0, False, "")


class Drawn(Runner):
    """Draws a run instead of making it."""

    def __init__(self, commands: dict[str, Command], seed: int) -> None:
        super().__init__()
        self._commands = commands
        self._rng = random.Random(seed)

    def floor(self) -> float:
        return 2e6

    def run(self, words: list[str], timeout: float | None) -> Run:
        return self._commands[words[-1]].draw(self._rng)


class Quick(Race):
    """Decides in memory and records all runs at the end: a study records each run at once, which takes far longer than
    to draw it. Decisions are the same."""

    def _rounds(self, study: Study, watch: object) -> None:
        plan, timeout = study.plan, self._timeout or math.inf
        decider = Decider(plan, study.record.seed)
        policy, ends = decider.policy, []
        told: list[tuple[str, dict[str, float], str]] = []
        while decider.stop is None and len(told) < plan.max_tests:
            rows, values = [], []
            for arm, lead in decider.next_round()[: plan.max_tests - len(told)]:
                name = plan.arm_names[arm]
                [run] = self._machines.each(functools.partial(self._commands.run, name, timeout)).values()
                self._run_log.add(len(told) + 1, name, run)
                found = {metric: self._counting.value(name, metric, run) for metric in plan.yields[lead]}
                place = sum(one[0] == name for one in told)
                told.append((name, found, "1"))
                for _, part in policy.results_of(arm, lead):
                    rows.append((arm, part, place))
                    values.append(found[plan.parts[part].metric])
            flags = np.array([0] * (len(rows) - 1) + [1], np.int8)
            normal = decider._normal(np.array([row[1] for row in rows]), np.array(values), enter=True)
            decider._take(policy.advance(np.array(rows), normal, flags))
            ends.append(len(told) - 1)
        given = [
            (name, *next(iter(found.items())), item) if len(found) == 1 else (name, found, item)
            for name, found, item in told
        ]
        study.add(given, ends=ends)


def outcome(
    commands: dict[str, Command], at_most: Sequence[str], seed: int, runs: int, *, is_gate: bool, **asked: object
) -> dict[str, object]:
    """What a race exports as JSON."""
    baseline = "old" if "old" in commands else None
    limits = tuple(read_limits(at_most, baseline))
    question = Question(CANDIDATE if is_gate else "time", limits, baseline, delta=DELTA, runs=runs, **asked)  # type: ignore[arg-type]
    conditions = Conditions(timeout=20.0, minutes=600.0, seed=seed)
    race = Quick(contestants_of(list(commands)), question, conditions, runners=[Drawn(commands, seed)])
    found: dict[str, object] = json.loads(as_json(race.run()))
    return found


@dataclass
class Tally:
    """What gates or races of one kind came to."""

    found: Counter[str] = field(default_factory=Counter)
    runs: list[int] = field(default_factory=list)
    bounds: list[int] = field(default_factory=list)

    def add(self, found: str, runs: int, *, is_plain: bool, is_false: bool, bound: int | None, is_rare: bool) -> None:
        self.runs.append(runs)
        kind = found if found == "undecided" else f"{found} {'plainly' if is_plain else 'but for pauses'}"
        self.found[kind] += 1
        if bound is not None:
            self.bounds.append(bound)
            self.found["false: pauses"] += not is_rare
        if found != "undecided":
            self.found["false"] += is_false

    def cells(self) -> str:
        kinds = ("certified plainly", "certified but for pauses", "refuted plainly", "refuted but for pauses")
        shown = [self.found[kind] for kind in (*kinds, "undecided", "false", "false: pauses")]
        bound = f"{statistics.median(self.bounds):,.0f}" if self.bounds else "–"
        return " | ".join([*map(str, shown), bound, f"{statistics.fmean(self.runs):.1f}"])


HEADER = (
    "| {} | certified | … but for pauses | refuted | … but for pauses | undecided | false | false claim on pauses | "
    "median N | mean runs |"
)


def gates(
    name: str, old: Command, new: Command, at_most: Sequence[str], count: int, runs: int, factor: float, **asked: object
) -> None:
    """Gates of `new` against `old`. The first limit is on time, so many times the baseline."""
    tally = Tally()
    for seed in range(count):
        data = outcome({"old": old, "new": new}, at_most, seed, runs, is_gate=True, **asked)
        about: dict[str, object] = data["bestarm"]  # type: ignore[assignment]
        found, bound = str(about["found"]), about.get("pauses_rarer_than")
        is_plain = bound is None and "pauses" not in str(about["verdict"])
        passes = found == "certified"
        favored = new if passes else old
        new_mean = new.mean if passes and not is_plain else new.true_mean
        old_mean = old.mean if not passes and not is_plain else old.true_mean
        gap = new_mean - factor * old_mean
        # A mean on the limit is false either way.
        is_false = gap > -1e-9 if passes else gap < 1e-9
        is_rare = bound is None or favored.rate < 1 / int(str(bound))
        tally.add(
            found,
            int(str(about["runs"])),
            is_plain=is_plain,
            is_false=is_false,
            bound=None if bound is None else int(str(bound)),
            is_rare=is_rare,
        )
    print(f"| {name} | {tally.cells()} |", flush=True)


def races(name: str, commands: dict[str, Command], count: int, runs: int) -> None:
    tally = Tally()
    for seed in range(count):
        about: dict[str, object] = outcome(commands, [], seed, runs, is_gate=False)["bestarm"]  # type: ignore[assignment]
        found, bound = str(about["found"]), about.get("pauses_rarer_than")
        is_plain = bound is None and "pauses" not in str(about["verdict"])
        answer = about["answer"]
        means = {one: of.mean if one == answer and not is_plain else of.true_mean for one, of in commands.items()}
        is_false = answer is not None and any(
            means[str(answer)] > mean - 1e-9 for one, mean in means.items() if one != answer
        )
        is_rare = bound is None or answer is None or commands[str(answer)].rate < 1 / int(str(bound))
        tally.add(
            found,
            int(str(about["runs"])),
            is_plain=is_plain,
            is_false=is_false,
            bound=None if bound is None else int(str(bound)),
            is_rare=is_rare,
        )
    print(f"| {name} | {tally.cells()} |", flush=True)


def head(title: str, first: str) -> None:
    print(f"\n{title}\n\n{HEADER.format(first)}\n|{' --- |'}{' ---: |' * 9}")


def pauses(count: int) -> None:
    head("Gates at 1.05x: the candidate is as quick, but pauses", "pauses of the candidate")
    for rate, pause in ((0.01, 12.0), (0.05, 12.0), (0.2, 12.0), (0.002, 12.0), (0.01, 3.0), (0.1, 1.5), (0.06, 0.95)):
        new = Command(rate=rate, pause=pause)
        gates(f"{pause:g} s in {100 * rate:g}%", Command(), new, ["time=1.05x"], count, 300, 1.05)
    head("The baseline pauses", "pauses of the baseline; the candidate without them")
    for mean in (1.0, 1.1):
        old = Command(rate=0.01)
        gates(f"12 s in 1%; {mean:g} s", old, Command(mean=mean), ["time=1.05x"], count, 300, 1.05)
    head("Both pause alike", "pauses of both")
    for rate in (0.01, 0.05, 0.2):
        both = Command(rate=rate)
        gates(f"12 s in {100 * rate:g}%", both, both, ["time=1.05x"], count, 300, 1.05)


def quiet(count: int) -> None:
    head("Gates at 1.05x: the candidate is as quick, and nothing pauses", "noise")
    for name, noise in NOISES.items():
        gates(name, Command(noise), Command(noise), ["time=1.05x"], count, 600, 1.05)


def limited(count: int) -> None:
    head("Gates at 1.05x and pauses=1%", "pauses of the candidate")
    for rate in (0.0, 0.002, 0.01):
        new = Command(rate=rate)
        gates(f"12 s in {100 * rate:g}%", Command(), new, ["time=1.05x", "pauses=1%"], count, 2000, 1.05)


def equal_gates(count: int) -> None:
    head("A/A gates at 1.00x, at most 60 runs: whatever is said is false", "noise; pauses of both")
    for name, noise in NOISES.items():
        for rate in (0.0, 0.05):
            both = Command(noise, rate=rate)
            gates(f"{name}; {100 * rate:g}%", both, both, ["time=1.00x"], count, 60, 1.0)


def equal_races(count: int) -> None:
    head("A/A races of two, at most 60 runs: whatever is said is false", "noise; pauses of both")
    for name, noise in NOISES.items():
        for rate in (0.0, 0.05):
            both = Command(noise, rate=rate)
            races(f"{name}; {100 * rate:g}%", {"a": both, "b": both}, count, 60)


def constant(count: int) -> None:
    """Runs that gates and races take where nothing varies, or one command is hopeless."""
    print("\nWhat never varies, and what is hopeless\n\n| question | mean runs | found |\n| --- | ---: | --- |")
    large = Command(output=715_049)
    questions: dict[str, tuple[dict[str, Command], list[str]]] = {
        "output 715,049 B, at most 700 kB": ({"old": Command(), "new": large}, ["output=700kB"]),
        "output 100 B, at most 700 kB": ({"old": Command(), "new": Command()}, ["output=700kB"]),
        "output 715,049 B, at most 1.05x of 100 B": ({"old": Command(), "new": large}, ["output=1.05x"]),
        "output 100 B, at most 1.05x of 100 B": ({"old": Command(), "new": Command()}, ["output=1.05x"]),
        "output 100 B, at most 1.00x of 100 B": ({"old": Command(), "new": Command()}, ["output=1.00x"]),
    }
    for name, (commands, at_most) in questions.items():
        found = [outcome(commands, at_most, seed, 400, is_gate=True)["bestarm"] for seed in range(count)]
        runs = statistics.fmean(one["runs"] for one in found)  # type: ignore[index]
        print(f"| {name} | {runs:.1f} | {dict(Counter(one['found'] for one in found))} |", flush=True)  # type: ignore[index]
    tools = {"zstd": Command(mean=0.5), "gzip": Command(mean=0.9), "xz": Command(mean=6.7)}
    for at_most in ([], ["memory=500MB"]):
        taken: Counter[str] = Counter()
        for seed in range(count):
            results = outcome(tools, at_most, seed, 400, is_gate=False)["results"]
            for one in results:  # type: ignore[attr-defined]
                taken[one["name"]] += len(one["times"])
        runs_of = ", ".join(f"{name} {taken[name] / count:.1f}" for name in tools)
        print(f"| three compressors {' '.join(at_most)} | {sum(taken.values()) / count:.1f} | {runs_of} |", flush=True)


def ratios(count: int) -> None:
    """How often the interval of the ratio misses it, when gates end."""
    print("\nThe interval of the ratio at the end of gates at 1.05x, at most 300 runs\n")
    print("| times | true ratio | gates | the lower end is too high | the upper end is too low | mean width |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, noise in NOISES.items():
        for ratio in (0.9, 1.0, 1.05, 1.2):
            commands = {"old": Command(noise), "new": Command(noise, ratio)}
            ends = []
            for seed in range(count):
                about: dict[str, Any] = outcome(commands, ["time=1.05x"], seed, 300, is_gate=True)["bestarm"]  # type: ignore[assignment]
                [limit] = about["limits_found"]
                ends.append((limit["low"] or 0.0, math.inf if limit["high"] is None else limit["high"]))
            misses = sum(low > ratio for low, _ in ends), sum(high < ratio for _, high in ends)
            widths = [high - low for low, high in ends if high < math.inf]
            width = f"{statistics.fmean(widths):.3f}" if widths else "–"
            print(f"| {name} | {ratio:g} | {count} | {misses[0]} | {misses[1]} | {width} |", flush=True)


TABLES = {
    "ratios": ratios,
    "quiet": quiet,
    "pauses": pauses,
    "limited": limited,
    "equal-gates": equal_gates,
    "equal-races": equal_races,
    "constant": constant,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="gates or races of each kind")
    parser.add_argument("--only", choices=TABLES, nargs="+", default=list(TABLES))
    told = parser.parse_args()
    for name in told.only:
        TABLES[name](told.count)


if __name__ == "__main__":
    main()
