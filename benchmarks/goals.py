"""How many tests other goals than the best arm take, and how often they err where that is hard.

    python benchmarks/goals.py --runs 1000

The first table has mean tests of `certify`, and in brackets their share of what the best arm takes. The second counts
wrong answers on the problems of `hard_goals` in `tests/tools/hard.py`. The third is about every feasible arm: mean
tests, in brackets as a multiple of what no procedure can do without, and which share of the arms is decided after a
tenth, a quarter and half of them. `--only every` prints it. The fourth and the fifth are about gates
(`tests/tools/gates.py`): mean tests under the second rules, and in brackets their share of those under the first; and
wrong answers where the arm is on its limit, or a hair beside it. `--only gates` prints these two.
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

from tests.tools.every import least_tests
from tests.tools.gates import DELTA, NOISES, gate
from tests.tools.hard import hard_goals

INSTANCES = ("exp1-a", "exp1-c", "drug", "exp2-k16")
GOALS: dict[str, dict[str, Any]] = {
    "short list of 2": {"top": 2},
    "short list of 3": {"top": 3},
    "any feasible": {"goal": "any feasible"},
    "every feasible": {"goal": "every feasible"},
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


def print_every(runs: int) -> None:
    parts = (0.1, 0.25, 0.5)
    heads = " | ".join(f"after {100 * part:.0f}%" for part in parts)
    print(f"\n| instance | δ = 0.05 | δ = 10⁻⁴ | {heads} |\n| --- |{' ---: |' * (2 + len(parts))}")
    for instance in INSTANCES:
        plan = dataclasses.replace(ba.instance(instance), goal="every feasible")

        def simulated(delta: float, max_tests: int = 10**8, plan: ba.Problem = plan) -> ba.Simulation:
            return ba.simulate(
                plan, policy="certify", delta=delta, runs=runs, seed=1, max_tests=max_tests, keep_streams=False
            )

        found = {delta: simulated(delta).mean_tests for delta in (0.05, 1e-4)}
        cells = [f"{tests:,.0f} ({tests / least_tests(plan, delta):.2f})" for delta, tests in found.items()]
        for part in parts:
            decided = simulated(0.05, int(part * found[0.05])).sets
            assert decided is not None
            cells.append(f"{100 * (decided != 0).mean():.0f}%")
        print(f"| {instance} | {' | '.join(cells)} |", flush=True)


def print_gates(runs: int) -> None:
    misses = (-0.3, -0.15, -0.08, 0.08, 0.15)
    heads = " | ".join(f"{miss:+g}" for miss in misses)
    print(f"\n| noise, limit, items | {heads} |\n| --- |{' ---: |' * len(misses)}")
    for noise in NOISES:
        for limits, items in (("relative", ""), ("relative", "again"), ("both kinds", "")):
            cells = []
            for miss in misses:
                first, second = (
                    ba.simulate(gate(noise, limits, miss, items, rules=rules, goal=goal), delta=0.05, runs=runs, seed=1)
                    for rules, goal in ((1, "best"), (2, "any feasible"))
                )
                cells.append(f"{second.mean_tests:,.0f} ({second.mean_tests / first.mean_tests:.2f})")
            print(f"| {noise}, {limits}{', items' if items else ''} | {' | '.join(cells)} |", flush=True)


def print_errors_of_gates(runs: int, max_tests: int) -> None:
    misses = (-0.001, 0.0, 0.001)
    print(f"\n| noise, limit, items | {' | '.join(f'{miss:+g}' for miss in misses)} |\n| --- |{' ---: |' * 3}")
    for noise in NOISES:
        for limits, items in (
            ("own, beside a baseline", ""),
            ("relative", ""),
            ("relative", "again"),
            ("both kinds", ""),
        ):
            cells = []
            for miss in misses:
                plan = gate(noise, limits, miss, items)
                found = ba.simulate(plan, delta=DELTA, runs=runs, max_tests=max_tests, seed=1, keep_streams=False)
                limit = float(beta.ppf(0.99, found.wrong + 1, found.runs - found.wrong))
                cells.append(f"{found.error_rate:.4f} [{limit:.4f}]")
            print(f"| {noise}, {limits}{', items' if items else ''} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="studies of each instance (ten times as many if hard)")
    parser.add_argument("--max-tests", type=int, default=1000, help="where studies of hard problems are given up")
    parser.add_argument("--only", choices=["gates", "every"], help="print only these tables")
    options = parser.parse_args()
    if options.only is None:
        print_savings(options.runs)
        print_errors(10 * options.runs, options.max_tests)
    if options.only != "gates":
        print_every(options.runs)
    if options.only != "every":
        print_gates(options.runs)
        print_errors_of_gates(10 * options.runs, options.max_tests)
