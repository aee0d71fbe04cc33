"""What duels against a baseline cost, and how often they err where the judge prefers the answer shown first.

    python benchmarks/duels.py              # the table of docs/how-to/compare-answers.md
    python benchmarks/duels.py --pairs      # the one of arms that are compared with each other
    python benchmarks/duels.py --runs 100   # a tenth of it

Three arms, 500 items, delta = 0.05. An arm wins, ties or loses on an item; in a share of its comparisons, the judge
names the answer shown first, whatever it says. In the first problem no arm is as good as the baseline, in the second
one is clearly better, and in the third the best two differ by one item in 500.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from typing import Any, Literal

import numpy as np

import bestarm as ba
from bestarm.kernel.state import NONE, Floats
from bestarm.policies import find_policy
from bestarm.policies.setting import to_normal
from bestarm.simulation.engine import Job

ITEMS = 500
DELTA = 0.05
TIES = 0.1
"""The share of items on which two answers are equally good."""

Shown = Literal["first", "at random", "in both orders"]
ORDERS: tuple[Shown, ...] = ("first", "at random", "in both orders")
PROBLEMS = {
    "all worse: 47%, 44%, 40%": ((0.47, 0.44, 0.40), (0.0, 0.1, 0.2)),
    "one better: 60%, 50%, 45%": ((0.60, 0.50, 0.45), (0.0, 0.2)),
    "almost equal: 56.2%, 56%, 40%": ((0.562, 0.56, 0.40), (0.0,)),
}
"""By name: how often each arm wins, and in which shares of comparisons the judge names the first."""


def verdicts(random: np.random.Generator, rates: tuple[float, ...]) -> Floats:
    """[arm, item]: what an arm won on an item. The mean of each arm is what is stated, up to half an item."""
    rows = []
    for rate in rates:
        wins, ties = round((rate - 0.5 * TIES) * ITEMS), round(TIES * ITEMS)
        rows.append(random.permutation(np.repeat([1.0, 0.5, 0.0], [wins, ties, ITEMS - wins - ties])))
    return np.array(rows)


def judged(random: np.random.Generator, truth: Floats, bias: float, shown: Shown) -> Floats:
    """What the judge says, who names the first answer in a share of the comparisons."""

    def when(is_first: Any) -> Floats:
        return np.where(random.uniform(size=truth.shape) < bias, np.where(is_first, 1.0, 0.0), truth)

    if shown == "in both orders":
        return 0.5 * (when(True) + when(False))
    return when(True if shown == "first" else random.uniform(size=truth.shape) < 0.5)


@dataclasses.dataclass(frozen=True)
class Duels(Job):
    """Studies of arms that are compared with a baseline on items."""

    rates: tuple[float, ...] = ()
    bias: float = 0.0
    shown: Shown = "first"

    def world(self, run: int, room: int) -> Floats:
        random = np.random.default_rng((self.seed, run))
        values = judged(random, verdicts(random, self.rates), self.bias, self.shown)
        parts = range(len(self.problem.parts))
        return np.stack([to_normal(self.problem, self.setting, part, values) for part in parts], axis=1)


def job_of(rates: tuple[float, ...], bias: float, shown: Shown) -> Duels:
    arms = [ba.Arm(f"arm {k + 1}", means={"preference": rate}) for k, rate in enumerate(rates)]
    problem = ba.Problem(arms=arms, objective=ba.duel("preference"), baseline="plain", items=ITEMS)
    fields: dict[str, Any] = {"delta": DELTA, "bound": "paper", "seed": 1, "max_tests": 10**9}
    return Duels(problem, find_policy("certify"), rates=rates, bias=bias, shown=shown, **fields)


PAIRS = {
    "the first wins 60% against each, the others half": (((0.5, 0.6, 0.6), (0.4, 0.5, 0.5), (0.4, 0.5, 0.5)), 0),
    "the first wins 51% against each, the others half": (((0.5, 0.51, 0.51), (0.49, 0.5, 0.5), (0.49, 0.5, 0.5)), 0),
    "a circle: each wins 60% against the next": (((0.5, 0.6, 0.4), (0.4, 0.5, 0.6), (0.6, 0.4, 0.5)), NONE),
    "a circle: each wins 51% against the next": (((0.5, 0.51, 0.49), (0.49, 0.5, 0.51), (0.51, 0.49, 0.5)), NONE),
}
"""By name: how often each of three arms wins against each, and the arm that wins against all others."""


@dataclasses.dataclass(frozen=True)
class Pairs(Job):
    """Studies of arms that are compared with each other on items."""

    rates: tuple[tuple[float, ...], ...] = ()

    def world(self, run: int, room: int) -> Floats:
        random = np.random.default_rng((self.seed, run))
        values = np.ones((len(self.rates), len(self.rates), ITEMS))
        for arm, rival in itertools.combinations(range(len(self.rates)), 2):
            values[arm, rival] = verdicts(random, (self.rates[arm][rival],))
            values[rival, arm] = 1.0 - values[arm, rival]
        rivals = [0, *range(len(self.rates))]
        normal = [to_normal(self.problem, self.setting, part, values[:, k]) for part, k in enumerate(rivals)]
        return np.stack(normal, axis=1)


def pairs_of(rates: tuple[tuple[float, ...], ...]) -> Pairs:
    names = [f"arm {k + 1}" for k in range(len(rates))]
    problem = ba.Problem(
        arms=[ba.Arm(name, means={f"against {rival}": 0.5 for rival in names}) for name in names],
        constraints=[ba.at_least(f"against {rival}", 0.5, noise=ba.Bounded(0, 1)) for rival in names],
        goal="any feasible",
        items=ITEMS,
    )
    fields: dict[str, Any] = {"delta": DELTA, "bound": "paper", "seed": 1, "max_tests": 10**9}
    return Pairs(problem, find_policy("certify"), rates=rates, **fields)


def print_pairs(runs: int) -> None:
    print("| three arms | comparisons | wrong |")
    print("| --- | ---: | ---: |")
    for name, (rates, right) in PAIRS.items():
        outcomes = pairs_of(rates).simulate(0, runs).outcomes
        wrong = int((outcomes.answers != right).sum())
        print(f"| {name} | {float(outcomes.tests.mean()):,.0f} | {wrong} of {runs:,} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="What duels against a baseline cost, and how often they err.")
    parser.add_argument("--runs", type=int, default=1_000, help="studies in each row (default: 1,000)")
    parser.add_argument("--pairs", action="store_true", help="arms that are compared with each other instead")
    options = parser.parse_args()
    runs = options.runs
    if options.pairs:
        print_pairs(runs)
        return
    print("| wins of three arms | the judge names the first | the arm is shown | comparisons | wrong |")
    print("| --- | ---: | --- | ---: | ---: |")
    for name, (rates, biases) in PROBLEMS.items():
        right = 0 if rates[0] >= 0.5 else NONE
        for bias in biases:
            for shown in ORDERS if bias else ORDERS[-1:]:
                outcomes = job_of(rates, bias, shown).simulate(0, runs).outcomes
                calls = (2 if shown == "in both orders" else 1) * float(outcomes.tests.mean())
                wrong = int((outcomes.answers != right).sum())
                print(f"| {name} | {bias:.0%} | {shown} | {calls:,.0f} | {wrong} of {runs:,} |", flush=True)


if __name__ == "__main__":
    main()
