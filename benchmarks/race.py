"""`bestarm race` beside hyperfine: runs, minutes and wrong answers on commands that are a known amount of work apart.

`python benchmarks/race.py` prints the table of pairs. hyperfine makes as many runs of each as fit into the seconds that
the race took. `--busy 2` adds two processes that work and rest by turns; how busy the machine is otherwise is printed.
`--compressors FILE` prints the table of compressors. hyperfine must be on the path, or be named with `--hyperfine`.
`--simulated 20` draws the times, and takes no hyperfine. Nor do `--functions 60`, gates for functions on a simulated
busy machine, and `--launchers 1000`, the cost of starting `true`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

COMPRESSORS = ("gzip -6 -c {file}", "zstd -3 -c {file}", "xz -1 -c {file}")


@dataclass
class Tally:
    """What one program came to on pairs of one kind."""

    pairs: int = 0
    right: int = 0
    wrong: int = 0
    """The slower command is named, or a difference where there is none."""
    undecided: int = 0
    runs: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, is_right: bool | None, runs: int, seconds: float) -> None:
        self.pairs += 1
        self.right += is_right is True
        self.wrong += is_right is False
        self.undecided += is_right is None
        self.runs.append(runs)
        self.seconds.append(seconds)

    def cells(self) -> list[str]:
        mean = f"{statistics.fmean(self.runs):,.0f}", f"{statistics.fmean(self.seconds):.1f}"
        return [*mean, *(f"{count} of {self.pairs}" for count in (self.right, self.wrong, self.undecided))]


def spin(turns: int) -> str:
    """A command that does a known amount of work."""
    return f"{sys.executable} -I -S -c 'for _ in range({turns}): pass'"


def hyperfine(program: str, commands: list[str], more: list[str]) -> tuple[dict[str, list[float]], float]:
    """Times by command, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        began = time.monotonic()
        words = [program, "--style", "none", "--export-json", str(out), "--warmup", "1", *more, *commands]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took = time.monotonic() - began
        return {result["command"]: result["times"] for result in json.loads(out.read_text())["results"]}, took


def race(commands: list[str], minutes: float, more: list[str]) -> tuple[dict[str, object], int, float]:
    """What `bestarm race` says, its runs, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        began = time.monotonic()
        words = [sys.executable, "-m", "bestarm", "race", *commands, "--minutes", str(minutes), *more]
        subprocess.run([*words, "--export-json", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took = time.monotonic() - began
        data = json.loads(out.read_text())
        return data, data["bestarm"]["runs"], took


def by_welch(times: dict[str, list[float]]) -> str | None:
    """The command with the smaller mean, if Welch's t-test finds a difference at 5%, as hyperfine's script does."""
    from scipy.stats import ttest_ind

    (one, first), (other, second) = times.items()
    if not ttest_ind(first, second, equal_var=False).pvalue < 0.05:
        return None
    return one if statistics.fmean(first) < statistics.fmean(second) else other


_FEW = 5
"""Runs of each command that show how many fit into a time."""
_BUSY = """
import random, time
while True:
    until = time.perf_counter() + random.uniform(0.0, 0.5)
    while time.perf_counter() < until:
        pass
    time.sleep(random.uniform(0.0, 0.5))
"""


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many other processes, which work half of the time, in turns of up to half a second."""
    started = [subprocess.Popen([sys.executable, "-I", "-S", "-c", _BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def compare(
    program: str, turns: int, percents: list[float], pairs: range, minutes: float, others: int
) -> Iterator[dict[str, Any]]:
    """Pairs of commands, by both programs in about the same time."""
    for percent, pair in itertools.product(percents, pairs):
        quick, slow = spin(turns), spin(math.ceil(turns * (1 + percent / 100)))
        if quick == slow:
            slow += " "  # the same work under another name
        truth = quick if percent else None
        # Neither program may profit from which command comes first.
        commands = [quick, slow] if pair % 2 else [slow, quick]
        with busy(others):
            data, runs, took = race(commands, minutes, ["--seed", str(pair), "--name", "a", "--name", "b"])
            about: dict[str, Any] = data["bestarm"]  # type: ignore[assignment]
            load = os.getloadavg()[0]
            # As many runs of each command as take about as long, by a few that do not count.
            _, few = hyperfine(program, commands, ["--runs", str(_FEW)])
            each = round(took * (_FEW + 1) / few) - 1
            times, other = hyperfine(program, commands, ["--runs", str(max(each, 2))])
        smaller = min(times, key=lambda command: statistics.fmean(times[command]))
        answer = {"a": commands[0], "b": commands[1], None: None}[about["answer"]]
        named = {"hyperfine, smaller mean": smaller, "hyperfine, t-test": by_welch(times), "bestarm race": answer}
        count = sum(map(len, times.values()))
        yield {
            "percent": percent,
            "pair": pair,
            "right": {name: None if of is None else of == truth for name, of in named.items()},
            "runs": dict(zip(named, (count, count, runs), strict=True)),
            "seconds": dict(zip(named, (other, other, took), strict=True)),
            "load": load,
            "found": about["found"],
        }


def table(lines: list[dict[str, Any]]) -> None:
    """What both programs came to, by how far the commands are apart."""
    loads = [line["load"] for line in lines]
    print(f"load average {min(loads):.1f} to {max(loads):.1f}, {statistics.fmean(loads):.1f} on average\n")
    print("| apart | program | mean runs | mean seconds | right | wrong | undecided |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for percent in sorted({line["percent"] for line in lines}):
        some = [line for line in lines if line["percent"] == percent]
        for name in some[0]["right"]:
            tally = Tally()
            for line in some:
                tally.add(line["right"][name], line["runs"][name], line["seconds"][name])
            print(f"| {f'{percent:g}%' if percent else 'equal'} | {name} | {' | '.join(tally.cells())} |")


def simulated(races: int, scatter: float) -> None:
    """Runs that a race takes, by what is assumed: times are drawn, skewed, around 1 s, with a timeout of 3 s."""
    from bestarm.race.contestants import contestants_of
    from bestarm.race.plans import ASSUMED, Question
    from bestarm.race.race import Conditions, Race
    from bestarm.race.runs import Run, Runner

    class Drawn(Runner):
        def __init__(self, seed: int, means: dict[str, float]) -> None:
            super().__init__()
            self._lots = random.Random(seed)
            self._means = means

        def floor(self) -> float:
            return 2e6

        def run(self, words: list[str], timeout: float | None) -> Run:
            drawn = self._means[words[-1]] + self._lots.expovariate(1 / scatter) - scatter
            return Run(drawn, 0.0, 0.0, 0.0, 0, 0, False, "")

    print("| apart | assumed | races | mean runs | right | wrong | undecided |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for percent, assumed in itertools.product((0.0, 1.0, 3.0, 10.0), ASSUMED):
        tally = Tally()
        for seed in range(races):
            question = Question(assumed=assumed, runs=None if percent else 300)
            runner = Drawn(seed, {"a": 1.0, "b": 1 + percent / 100})
            outcome = Race(
                contestants_of(["a", "b"]), question, Conditions(timeout=3.0, minutes=60, seed=0), runners=[runner]
            ).run()
            answer, truth = outcome.status.answer, "a" if percent else None
            tally.add(None if answer is None else answer == truth, outcome.status.tests, 0.0)
        runs, _, *counts = tally.cells()
        apart = f"{percent:g}%" if percent else "equal, at most 300 runs"
        print(f"| {apart} | {assumed} | {races} | {runs} | {' | '.join(counts)} |", flush=True)


class Busy:
    """A clock and functions that advance it, on a machine that is busy: so many times a second something else runs for
    10 ms. The first call after a look at the clock takes twice as long, the first of all 30 times."""

    WORK, STALL = 20e-6, 0.01

    def __init__(self, seed: int, stalls: float) -> None:
        self._stalls = stalls
        self._lots = random.Random(seed)
        self._now = 0.0
        self._is_cold = True
        self._calls = {"old": 0, "new": 0}
        self.in_a_row = {"old": 0, "new": 0}

    def perf_counter(self) -> float:
        for name, calls in self._calls.items():
            self.in_a_row[name] = calls or self.in_a_row[name]
            self._calls[name] = 0
        self._is_cold = True
        self._now += 1e-7
        return self._now

    def function(self, name: str, work: float) -> Callable[[], None]:
        def call() -> None:
            took = work * (30.0 if not (self._calls[name] or self.in_a_row[name]) else 1.0 + self._is_cold)
            self._is_cold = False
            self._calls[name] += 1
            if self._lots.random() < self._stalls * took:
                took += self._lots.expovariate(1.0 / self.STALL)
            self._now += took

        return call


def functions(gates: int) -> None:
    """Gates for functions on a busy machine: how often batches are unequal, and wrong verdicts."""
    from bestarm.race import functions as racing

    print(
        "| the new function does | pauses / s | gates | unequal batches | certified | refuted | undecided | mean runs |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for stalls, percent in itertools.product((300, 3), (0, 20)):
        found = {"certified": 0, "refuted": 0, "undecided": 0}
        runs, unequal = [], 0
        for seed in range(gates):
            busy = Busy(seed, stalls)
            old, new = busy.function("old", busy.WORK), busy.function("new", busy.WORK * (1 + percent / 100))
            with mock.patch.object(racing, "time", busy):
                gate = racing.gate(new, old, at_most=1.05, runs=100, seed=seed)
            found[gate.found] += 1
            runs.append(gate.runs)
            sizes = busy.in_a_row.values()
            unequal += max(sizes) > 4 * min(sizes)
        cells = [f"{percent}% more work", str(stalls), str(gates), *map(str, [unequal, *found.values()])]
        print(f"| {' | '.join(cells)} | {statistics.fmean(runs):,.0f} |", flush=True)


_LAUNCHERS = """
import statistics, sys
sys.path.insert(0, sys.argv[1])
import runner
ways = {"from a small shell": runner._can_start_from_shell, "from Python": lambda: False}
runs = {way: [] for way in ways}
for _ in range(int(sys.argv[2])):
    for way, runner._can_start_from_shell in ways.items():
        runs[way].append(runner.run(["true"], None))
rows = {
    way: [
        1e3 * statistics.median(run["time"] for run in made),
        1e3 * statistics.fmean(run["user"] + run["system"] for run in made),
        max(run["memory"] for run in made) / 1e6,
    ]
    for way, made in runs.items()
}
rows["ratio"] = [small / large for small, large in zip(*rows.values())]
print("| `true` is started | median time [ms] | mean user and system time [ms] | most memory [MB] |")
print("| --- | ---: | ---: | ---: |")
for way, row in rows.items():
    print("|", way, "|", " | ".join(f"{number:.2f}" for number in row), "|")
"""


def launchers(runs: int) -> None:
    """What a run of `true` seems to need, by how it is started."""
    from bestarm.race import runner

    folder = str(Path(runner.__file__).parent)
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LAUNCHERS, folder, str(runs)], stdin=subprocess.DEVNULL, check=True
    )


def compressors(program: str, file: str) -> None:
    commands = [command.format(file=file) for command in COMPRESSORS]
    times, took = hyperfine(program, commands, [])
    data, runs, ours = race(commands, 5.0, ["--at-most", "memory=500MB", "--at-most", "failures=10%"])
    results: list[dict[str, float]] = data["results"]  # type: ignore[assignment]
    print("| command | hyperfine, mean | runs | `bestarm race`, mean | runs | verdict |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for command, result in zip(commands, results, strict=True):
        cells = [f"{1e3 * statistics.fmean(times[command]):.1f} ms", f"{len(times[command])}"]
        cells += [f"{1e3 * result['mean']:.1f} ms", f"{len(result['times'])}", f"{result['verdict']}"]  # type: ignore[arg-type]
        print(f"| `{command.replace(file, 'FILE')}` | {' | '.join(cells)} |")
    about: dict[str, str] = data["bestarm"]  # type: ignore[assignment]
    print(f"\n{about['verdict']} hyperfine took {took:.0f} s, `bestarm race` {ours:.0f} s for {runs} runs.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hyperfine", default="hyperfine", help="the program")
    parser.add_argument("--turns", type=int, default=1_500_000, help="of the loop that a command makes")
    parser.add_argument(
        "--percent", type=float, nargs="+", default=[0.0, 1.0, 2.0, 5.0, 10.0], help="how far commands are apart"
    )
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="the number of the first pair")
    parser.add_argument("--minutes", type=float, default=0.5, help="the budget of a race")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="so many other processes that work and rest")
    parser.add_argument("--record", metavar="FILE", help="add a line of JSON for each pair")
    parser.add_argument("--table", metavar="FILE", nargs="+", help="print the table of pairs that were recorded")
    parser.add_argument("--compressors", metavar="FILE", help="race compressors on this file instead")
    parser.add_argument("--simulated", metavar="RACES", type=int, help="draw the times of so many races of each kind")
    parser.add_argument(
        "--functions", metavar="GATES", type=int, help="gates for functions on a simulated busy machine"
    )
    parser.add_argument("--launchers", metavar="RUNS", type=int, help="what it costs to start `true`, in both ways")
    parser.add_argument("--scatter", type=float, default=0.02, help="of drawn times, relative to their mean")
    told = parser.parse_args()
    if told.simulated:
        simulated(told.simulated, told.scatter)
    elif told.functions:
        functions(told.functions)
    elif told.launchers:
        launchers(told.launchers)
    elif told.compressors:
        compressors(told.hyperfine, told.compressors)
    elif told.table:
        table([json.loads(line) for file in told.table for line in Path(file).read_text().splitlines()])
    else:
        lines = []
        pairs = range(told.first, told.first + told.pairs)
        for line in compare(told.hyperfine, told.turns, told.percent, pairs, told.minutes, told.busy):
            lines.append(line)
            print(json.dumps(line), file=sys.stderr, flush=True)
            if told.record is not None:
                with open(told.record, "a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
        print(f"{told.pairs} pairs each, at most {60 * told.minutes:.0f} s a race, {told.busy} processes beside them,")
        print(f"{os.cpu_count()} cores", end="; ")
        table(lines)


if __name__ == "__main__":
    main()
