"""Is every policy really δ-correct, and how near to the bounds? A table by policy, problem and δ, from a CUDA card.

    python benchmarks/delta_table.py --out docs/delta-table.md

Each cell makes a million runs, or as many as fit into `--seconds`. A run that has no answer within the limit of tests
is not an error. The limit in brackets is the exact (Clopper-Pearson) 99% upper limit of the error probability.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import bestarm as ba
from bestarm.policies import all_policies, find_policy
from bestarm.problem import Plan
from bestarm.simulation.cuda.card import CardSchedule
from bestarm.simulation.engine import Job
from bestarm.simulation.loop import Chunk
from bestarm.simulation.simulate import Simulation

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests` is found, wherever this is run

from tests.tools.hard import hard_problems

DELTAS = (0.2, 0.1, 0.05, 0.01)
PAPER = ("exp1-a", "exp1-b", "exp1-c", "drug", "drug-bernoulli")
FIRST_RUNS = 20_000
GROWTH = 10


@dataclasses.dataclass(frozen=True)
class Row:
    """One policy on one problem at one delta."""

    problem: str
    policy: str
    delta: float
    runs: int
    wrong: int
    unfinished: int
    mean_tests: float
    max_tests: int
    lower_bound: float
    characteristic_time: float

    @property
    def limit(self) -> float:
        from scipy.stats import beta

        return 1.0 if self.wrong == self.runs else float(beta.ppf(0.99, self.wrong + 1, self.runs - self.wrong))


def plans(hard_max_tests: int, paper_max_tests: int) -> list[tuple[Plan, int]]:
    hard = [(plan, hard_max_tests) for plan in hard_problems()]
    return [(ba.instance(name), paper_max_tests) for name in PAPER] + hard


def job_of(plan: Plan, policy: str, delta: float, max_tests: int) -> Job:
    return Job.of(Plan.of(plan, delta=delta), find_policy(policy), seed=2026, max_tests=max_tests)


def simulated(job: Job, plan: Plan, seconds: float, most: int) -> Simulation:
    """As many runs as fit, in pieces that grow as long as the last tells that there is time."""
    chunks: list[Chunk] = []
    runs, spent, piece = 0, 0.0, FIRST_RUNS
    while GROWTH * piece > runs:
        new = [done.chunk for done in CardSchedule([job], [[(runs, runs + piece)]])]
        took = sum(chunk.seconds for chunk in new)
        chunks, runs, spent = chunks + new, runs + piece, spent + took
        in_time = max(0.0, seconds - spent) * piece / took
        piece = int(min(most - runs, GROWTH * piece, in_time))
    answers, tests, cost = (np.concatenate([chunk.outcomes[k] for chunk in chunks]) for k in range(3))
    return Simulation(plan, job.policy.name, job.seed, job.max_tests, answers, tests, cost, None, spent)


def rows(work: Sequence[tuple[Plan, int]], policies: Sequence[str], seconds: float, most: int) -> Iterator[Row]:
    theories = {(plan.name, delta): ba.analyze(plan, delta) for plan, _ in work for delta in DELTAS}
    for policy in policies:
        for plan, max_tests in work:
            for delta in DELTAS:
                done = simulated(job_of(plan, policy, delta, max_tests), plan, seconds, most)
                theory = theories[plan.name, delta]
                yield Row(
                    *(plan.name, policy, delta, done.runs, done.wrong, done.unfinished, done.mean_tests, max_tests),
                    *(theory.lower_bound, theory.characteristic_time),
                )


def _compile(work: tuple[Plan, str, int]) -> None:
    plan, policy, max_tests = work
    CardSchedule([job_of(plan, policy, 0.1, max_tests)], [[(0, 10**6)]]).compile()


def compile_all(work: Sequence[tuple[Plan, int]], policies: Sequence[str]) -> None:
    """Compile for every shape and noise of a problem, side by side; what is compiled is kept on the disk."""
    shapes = {(len(plan.arms), *map(type, plan.noises)): (plan, max_tests) for plan, max_tests in work}
    tasks = [(plan, policy, max_tests) for policy in policies for plan, max_tests in shapes.values()]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(_compile, tasks))


def table(found: Sequence[Row]) -> list[str]:
    """Markdown: a row for each problem and policy, columns by delta."""
    heading = ["problem", "policy", *(f"δ = {delta:g}" for delta in DELTAS)]
    lines = [f"| {' | '.join(heading)} |", f"| --- | --- |{' ---: |' * len(DELTAS)}"]
    by_key = {(row.problem, row.policy, row.delta): row for row in found}
    problems, policies = (dict.fromkeys(getattr(row, name) for row in found) for name in ("problem", "policy"))
    for problem, policy in itertools.product(problems, policies):
        cells = [
            _cell(by_key[problem, policy, delta]) if (problem, policy, delta) in by_key else "–" for delta in DELTAS
        ]
        lines.append(f"| {problem} | {policy} | {' | '.join(cells)} |")
    return lines


def _cell(row: Row) -> str:
    ended = 1.0 - row.unfinished / row.runs
    error = f"{row.wrong / row.runs:.2g} [{row.limit:.2g}]{'' if row.limit <= row.delta else ' **above δ**'}"
    tests = f"ended {100 * ended:.3g}%"
    if ended > 0.999 and math.isfinite(row.lower_bound):
        ideal = row.characteristic_time * math.log(1.0 / row.delta)
        tests = f"{row.mean_tests / row.lower_bound:.1f}, {row.mean_tests / ideal:.1f}"
    return f"{error}; {tests}; {row.runs / 1000:,.0f} k"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=1_000_000, help="runs of each cell at most")
    options.add_argument("--seconds", type=float, default=2.0, help="for each cell, about")
    options.add_argument("--hard-max-tests", type=int, default=1_000)
    options.add_argument("--paper-max-tests", type=int, default=2_000_000)
    options.add_argument("--policy", action="append", choices=sorted(all_policies()))
    options.add_argument("--problem", action="append", help="a problem by name; all of them without this option")
    options.add_argument("--compile", action="store_true", help="compile everything first, on all cores")
    options.add_argument("--out", type=Path, help="file for the table")
    options.add_argument("--raw", type=Path, help="file for the figures, a line of JSON each")
    options.add_argument("--from", dest="source", type=Path, help="make the table from such a file")
    choice = options.parse_args()
    if choice.source is not None:
        found = [Row(**json.loads(line)) for line in choice.source.read_text(encoding="utf-8").splitlines()]
    else:
        work = plans(choice.hard_max_tests, choice.paper_max_tests)
        if choice.problem:
            work = [(plan, most) for plan, most in work if plan.name in choice.problem]
        policies = choice.policy or list(all_policies())
        if choice.compile:
            compile_all(work, policies)
        found = []
        for row in rows(work, policies, choice.seconds, choice.runs):
            found.append(row)
            print(_cell(row), row.problem, row.policy, row.delta, flush=True)
            if choice.raw is not None:
                with choice.raw.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(dataclasses.asdict(row)) + "\n")
    lines = table(found)
    if choice.out is not None:
        choice.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(0 if all(row.limit <= row.delta for row in found) else 1)


if __name__ == "__main__":
    main()
