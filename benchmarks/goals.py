"""How many tests other goals than the best arm take, and how often they err where that is hard.

    python benchmarks/goals.py --runs 1000

The first table has mean tests of `certify`, and in brackets their share of what the best arm takes. The second counts
wrong answers on the problems of `hard_goals` in `tests/tools/hard.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from scipy.stats import beta

import bestarm as ba

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests` is found, wherever this is run

from tests.tools.hard import hard_goals

INSTANCES = ("exp1-a", "exp1-c", "drug", "exp2-k16")
GOALS: dict[str, dict[str, Any]] = {
    "short list of 2": {"top": 2},
    "short list of 3": {"top": 3},
    "any feasible": {"goal": "any feasible"},
    "top 2": {"goal": "top", "top": 2},
}


def mean_tests(instance: str, runs: int, **goal: Any) -> ba.Simulation:
    plan = dataclasses.replace(ba.instance(instance), **goal)
    return ba.simulate(plan, policy="certify", runs=runs, seed=1, keep_streams=False)


def print_savings(runs: int) -> None:
    print(f"| instance | best arm | {' | '.join(GOALS)} |\n| --- |{' ---: |' * (1 + len(GOALS))}")
    for instance in INSTANCES:
        best = mean_tests(instance, runs)
        cells = [f"{best.mean_tests:,.0f}"]
        for goal in GOALS.values():
            found = mean_tests(instance, runs, **goal)
            cells.append(f"{found.mean_tests:,.0f} ({found.mean_tests / best.mean_tests:.2f})")
        print(f"| {instance} | {' | '.join(cells)} |", flush=True)


def print_errors(runs: int, max_tests: int) -> None:
    deltas = (0.2, 0.05)
    heads = " | ".join(f"δ = {delta}: errors [99% limit] | ended" for delta in deltas)
    print(f"\n| problem | {heads} |\n| --- |{' ---: | ---: |' * len(deltas)}")
    for plan in hard_goals():
        cells = []
        for delta in deltas:
            found = ba.simulate(
                plan, policy="certify", delta=delta, runs=runs, max_tests=max_tests, seed=1, keep_streams=False
            )
            limit = float(beta.ppf(0.99, found.wrong + 1, found.runs - found.wrong))
            cells += [f"{found.error_rate:.5f} [{limit:.5f}]", f"{100 * (1 - found.unfinished / runs):.0f}%"]
        print(f"| {plan.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="studies of each instance (ten times as many if hard)")
    parser.add_argument("--max-tests", type=int, default=1000, help="where studies of hard problems are given up")
    options = parser.parse_args()
    print_savings(options.runs)
    print_errors(10 * options.runs, options.max_tests)
