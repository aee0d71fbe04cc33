"""`certify` beside the classical algorithms for the best arm without constraints, as policies of the same simulator.

    python -m benchmarks.classics --runs 500

A table for each problem: mean tests ± one standard error and the share of wrong answers, by δ. No algorithm whose
errors are at most δ takes fewer tests on average than the first row says. What is published was measured by Garivier &
Kaufmann (2016, table 1) at δ = 0.1. Time is that of a processor for a test: deciding on it, and drawing its result.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.classic.kaufmann_koolen import ProvenTrackAndStop
from benchmarks.classic.kl_lucb import KLLUCB, UnprovenKLLUCB
from benchmarks.classic.track_and_stop import EagerTrackAndStop, TrackAndStop

import bestarm as ba
from bestarm.policies.base import Policy
from bestarm.theory.allocation import oracle
from bestarm.theory.bounds import divergence_bound

DELTAS = (0.1, 0.01, 0.001, 0.0001)
TIMED_RUNS = 100


class Contender(NamedTuple):
    """Who takes part, under which name in the tables, and whether its errors are proven to be at most δ."""

    label: str
    policy: str | type[Policy]
    is_proven: bool


CONTENDERS = (
    Contender("Track-and-Stop, usual threshold", TrackAndStop, False),
    Contender("the same, proportions at every test", EagerTrackAndStop, False),
    Contender("KL-LUCB, usual rate", UnprovenKLLUCB, False),
    Contender("Track-and-Stop, proven threshold", ProvenTrackAndStop, True),
    Contender("KL-LUCB, its published rate", KLLUCB, True),
    Contender("**`certify`**", "certify", True),
)


class Classical(NamedTuple):
    """A problem, and what is published about it: mean tests at δ = 0.1, by contender."""

    name: str
    problem: ba.Problem
    published: dict[str | type[Policy], int]


def unconstrained(noise: Any, *means: float) -> ba.Problem:
    arms = [ba.Arm(f"arm {k}", {"reward": mean}) for k, mean in enumerate(means, start=1)]
    return ba.Problem(arms=arms, objective=ba.maximize("reward", noise=noise))


PROBLEMS = (
    Classical(
        "Bernoulli (0.5, 0.45, 0.43, 0.4)",
        unconstrained(ba.Bernoulli(), 0.5, 0.45, 0.43, 0.4),
        {TrackAndStop: 4052, UnprovenKLLUCB: 8437},
    ),
    Classical(
        "Bernoulli (0.3, 0.21, 0.2, 0.19, 0.18)",
        unconstrained(ba.Bernoulli(), 0.3, 0.21, 0.2, 0.19, 0.18),
        {TrackAndStop: 1406, UnprovenKLLUCB: 2716},
    ),
    Classical("Gaussian, σ = 1 (1, 0.85, 0.8, 0.7)", unconstrained(ba.Gaussian(1.0), 1.0, 0.85, 0.8, 0.7), {}),
)


class Cell(NamedTuple):
    """The figures of one contender on one problem at one δ."""

    problem: str
    contender: str
    policy: str
    proven: bool
    delta: float
    runs: int
    mean_tests: float
    se_tests: float
    wrong: int
    unfinished: int
    lower_bound: float
    published: int | None
    seconds_per_test: float

    def __str__(self) -> str:
        left = f", {self.unfinished} unfinished" if self.unfinished else ""
        return f"{self.mean_tests:,.0f} ± {self.se_tests:,.0f} ({100 * self.wrong / self.runs:.2g}%{left})"


def lower_bounds(problem: ba.Problem) -> dict[float, float]:
    """By δ: T* kl(δ, 1 - δ)."""
    characteristic_time = oracle(problem).characteristic_time
    return {delta: divergence_bound(characteristic_time, delta) for delta in DELTAS}


def seconds_per_test(problem: ba.Problem, policy: str | type[Policy], runs: int, seed: int) -> float:
    """Of a processor, whatever else it does meanwhile. The first time is for compiling."""
    for several in (1, runs):
        start = time.process_time()
        found = ba.simulate(
            problem, policy=policy, delta=DELTAS[0], runs=several, seed=seed, workers=1, keep_streams=False
        )
        seconds = time.process_time() - start
    return seconds / float(found.tests.sum())


def cells(
    classical: Classical, contender: Contender, bounds: dict[float, float], runs: int, seed: int
) -> Iterator[Cell]:
    """The figures of one contender on one problem, for each δ."""
    seconds = seconds_per_test(classical.problem, contender.policy, min(runs, TIMED_RUNS), seed)
    for delta in DELTAS:
        found = ba.simulate(
            classical.problem, policy=contender.policy, delta=delta, runs=runs, seed=seed, keep_streams=False
        )
        yield Cell(
            problem=classical.name,
            contender=contender.label,
            policy=found.policy,
            proven=contender.is_proven,
            delta=delta,
            runs=runs,
            mean_tests=found.mean_tests,
            se_tests=found.se_tests,
            wrong=found.wrong,
            unfinished=found.unfinished,
            lower_bound=bounds[delta],
            published=classical.published.get(contender.policy) if delta == DELTAS[0] else None,
            seconds_per_test=seconds,
        )


def table(classical: Classical, runs: int, seed: int) -> Iterator[tuple[str, list[Cell]]]:
    """The lines of a problem's table, each with the figures in it."""
    heads = [classical.name, "proven", *(f"δ = {delta:g}" for delta in DELTAS), "published, δ = 0.1", "µs per test"]
    yield f"| {' | '.join(heads)} |", []
    yield f"| --- | --- |{' ---: |' * (len(heads) - 2)}", []
    bounds = lower_bounds(classical.problem)
    shown = [f"{bounds[delta]:,.0f}" for delta in DELTAS]
    yield f"| *lower bound T\\* kl(δ, 1 − δ)* |  | {' | '.join(shown)} |  |  |", []
    for contender in CONTENDERS:
        row = list(cells(classical, contender, bounds, runs, seed))
        published = "" if row[0].published is None else f"{row[0].published:,}"
        ends = [published, f"{1e6 * row[0].seconds_per_test:.2f}"]
        shown = [contender.label, "yes" if contender.is_proven else "no", *map(str, row), *ends]
        yield f"| {' | '.join(shown)} |", row


def main(words: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=500, help="studies of each contender, problem and δ")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--json", action="store_true", help="print all figures as JSON instead of tables")
    choice = options.parse_args(words)
    found: list[Cell] = []
    for classical in PROBLEMS:
        for line, row in table(classical, choice.runs, choice.seed):
            found += row
            if not choice.json:
                print(line, flush=True)
        if not choice.json:
            print()
    if choice.json:
        print(json.dumps([cell._asdict() for cell in found], indent=2))


if __name__ == "__main__":
    main()
