"""Gates on suites of 60 benchmarks: how often A/A pairs are refuted, and how often slower benchmarks are found.

A run of a simulated program takes 10 or 5 seconds, by a simulated clock. Each benchmark scatters by 0.5 to 3 percent,
and all of a run together by 1 percent more. In a rough world one result of 500 takes 1.2 to 4 times as long. Real ones
are a small program of 12 benchmarks and itself, at most 60 pairs; it reports the least of 40 times. Prints what became
of the gates, with the 95 percent Clopper-Pearson limit of the share with a false verdict.
Run: `python benchmarks/suites.py --real 20`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import beta

from bestarm.race.suites.gate import gate_suite
from bestarm.race.suites.programs import Program
from bestarm.race.suites.readers import Times, suite_of
from bestarm.race.suites.result import SuiteGate

DELTA = 0.05
MINUTES = 15.0
BENCHMARKS = 60
NAMES = [f"benchmark {number:02}" for number in range(1, BENCHMARKS + 1)]
SLOWER = (NAMES[3], NAMES[20], NAMES[41])


class World:
    """Programs that are drawn, and the time that they take."""

    def __init__(self, seed: int, seconds_of_run: float, *, is_rough: bool) -> None:
        self._seconds_of_run = seconds_of_run
        self._random = np.random.default_rng(seed)
        self._is_rough = is_rough
        self._means = 10.0 ** self._random.uniform(-6.0, -1.0, BENCHMARKS)
        self._scatter = self._random.uniform(0.005, 0.03, BENCHMARKS)
        self.seconds = 0.0

    def program(self, factors: dict[str, float]) -> Callable[[float], Times]:
        slower = np.array([factors.get(name, 1.0) for name in NAMES])

        def run(timeout: float) -> Times:
            random = self._random
            together = np.exp(0.01 * random.standard_normal())
            times = self._means * slower * together * np.exp(self._scatter * random.standard_normal(BENCHMARKS))
            if self._is_rough:
                times *= np.where(random.random(BENCHMARKS) < 0.002, random.uniform(1.2, 4.0, BENCHMARKS), 1.0)
            self.seconds += self._seconds_of_run
            return dict(zip(NAMES, times.tolist(), strict=True))

        return run


def simulated(seed: int, slower: dict[str, float], seconds_of_run: float, *, is_rough: bool) -> SuiteGate:
    world = World(seed, seconds_of_run, is_rough=is_rough)
    programs = world.program({}), world.program(slower)
    return gate_suite(*programs, delta=DELTA, minutes=MINUTES, seed=seed, clock=lambda: world.seconds)


def row(title: str, gates: list[SuiteGate], slower: tuple[str, ...]) -> str:
    """What became of gates, where exactly the benchmarks `slower` exceed their limit."""
    refuted = [{one.name for one in gate.of("refuted")} for gate in gates]
    passed = [{one.name for one in gate.of("certified")} for gate in gates]
    wrong = sum(bool(out - {*slower} or {*slower} & ok) for out, ok in zip(refuted, passed, strict=True))
    most = float(beta.ppf(0.95, wrong + 1, len(gates) - wrong)) if wrong < len(gates) else 1.0
    named = sum(out == {*slower} for out in refuted) if slower else sum(gate.found == "certified" for gate in gates)
    void = sum(gate.found == "void" for gate in gates)
    decided = np.mean([len(gate.of("certified", "refuted")) / len(gate.compared) for gate in gates])
    pairs = np.mean([gate.pairs for gate in gates])
    cells = [title, len(gates), wrong, f"{most:.3f}", named, void, f"{decided:.0%}", f"{pairs:.1f}"]
    return f"| {' | '.join(map(str, cells))} |"


REAL = """
import json, time

def least(function, given, calls=20, turns=40):
    took = []
    for _ in range(turns):
        began = time.perf_counter()
        for _ in range(calls):
            function(given)
        took.append((time.perf_counter() - began) / calls)
    return min(took)

values = {size: [(17 * k) % 101 for k in range(size)] for size in (100, 200, 400)}
functions = (sorted, sum, set, tuple)
print(json.dumps({f"{f.__name__} {n}": least(f, given) for n, given in values.items() for f in functions}))
"""


def real(count: int, minutes: float) -> list[SuiteGate]:
    """Gates on a small program and itself: 12 benchmarks in each run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "small.py"
        file.write_text(REAL, encoding="utf-8")
        run = Program(f"{sys.executable} -I -S {file}", suite_of("json")).run
        return [gate_suite(run, run, delta=DELTA, minutes=minutes, pairs=60, seed=seed) for seed in range(count)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gates", type=int, default=200, help="simulated gates of each kind")
    parser.add_argument("--quick", type=int, default=40, help="of each kind where a run takes 5 seconds")
    parser.add_argument("--rough", type=int, default=0, help="of each kind in the rough world")
    parser.add_argument("--real", type=int, default=0, help="gates on a real program")
    parser.add_argument("--minutes", type=float, default=1.0, help="of each gate on a real program")
    options = parser.parse_args()
    print(f"δ = {DELTA:g}, at most 1.05x\n")
    print("| programs | gates | a false verdict | 95% limit | as it is | void | decided | mean pairs |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for words, seconds, is_rough, count in (
        (", 10 s a run", 10.0, False, options.gates),
        (", 5 s a run", 5.0, False, options.quick),
        (", 5 s a run, rough", 5.0, True, options.rough),
    ):
        for what, factor in (("the same", 1.0), ("3 of 60 +10%", 1.1)):
            slower = dict.fromkeys(SLOWER, factor) if factor > 1.0 else {}
            gates = [simulated(seed, slower, seconds, is_rough=is_rough) for seed in range(count)]
            if gates:
                print(row(f"{what}{words}", gates, tuple(slower)), flush=True)
    if options.real:
        print(row("real, the same", real(options.real, options.minutes), ()), flush=True)
