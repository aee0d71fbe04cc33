"""Which assistant is best, when judges are expensive? THE JUDGES AND ASSISTANTS HERE ARE SIMULATED.

python examples/judges/judges.py
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import bestarm as ba


class Assistant(NamedTuple):
    """What the simulation knows and the study does not: this assistant's true means."""

    quality: float
    violations: float
    cents: float


ASSISTANTS = {
    "small, short prompt": Assistant(quality=5.2, violations=0.010, cents=0.10),
    "small, long prompt": Assistant(quality=6.1, violations=0.012, cents=0.25),
    "small, with examples": Assistant(quality=6.9, violations=0.015, cents=0.60),
    "large, short prompt": Assistant(quality=7.2, violations=0.110, cents=0.90),
    "large, long prompt": Assistant(quality=7.9, violations=0.012, cents=1.30),
    "large, with examples": Assistant(quality=8.3, violations=0.011, cents=3.20),
}

PROBLEM = ba.Plan(
    name="assistants",
    delta=0.05,
    arms=list(ASSISTANTS),
    # A careful reader's score from 0 to 10 costs 80 cents; 0.3 points are not worth another week.
    objective=ba.maximize("quality", noise=ba.Bounded(0, 10), cost=80, tolerance=0.3),
    constraints=[
        # A quick check for forbidden content costs 10 cents.
        ba.at_most("violation", 0.05, noise=ba.Bernoulli(), cost=10, slack=0.01),
        # What a call costs is on the bill; the call itself must be paid. Calls are cut off at 10 cents.
        ba.at_most("cents per call", 2.0, noise=ba.Bounded(0, 10), cost=2),
    ],
)


class SimulatedJudges:
    """Judges who scatter as people and programs do. Replace this by calls of your own judges."""

    def __init__(self, seconds: float) -> None:
        # Unseeded: a study that goes on after a stop must hear new verdicts, and not the same again.
        self.lots = np.random.default_rng()
        self.seconds = seconds
        self.lock = threading.Lock()

    def measure(self, assistant: str, metric: str) -> float:
        """One question to the assistant, one verdict on its reply."""
        time.sleep(self.seconds)
        truth = ASSISTANTS[assistant]
        with self.lock:
            if metric == "violation":
                return float(self.lots.random() < truth.violations)
            if metric == "cents per call":
                # Long replies are rare and expensive.
                return min(10.0, float(self.lots.gamma(4.0, truth.cents / 4.0)))
            # Whole points, from a judge whose opinions scatter by about two of them.
            share = self.lots.beta(4 * truth.quality / 10, 4 * (1 - truth.quality / 10))
            return float(np.floor(10 * share + self.lots.random()))


def guessed(plan: ba.Plan) -> ba.Plan:
    """The plan with guesses for a forecast: ranges of 3 % to either side of the truth; and how much verdicts scatter,
    about two points, and half the price of a call."""
    return dataclasses.replace(
        plan,
        arms=tuple(
            ba.Arm(
                name,
                means={m: (0.97 * mean, 1.03 * mean) for m, mean in zip(plan.metrics, truth, strict=True)},
                spreads={"quality": 2.0, "cents per call": truth.cents / 2},
            )
            for name, truth in ASSISTANTS.items()
        ),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Which assistant is best? (simulated judges)")
    parser.add_argument("--delta", type=float, default=PROBLEM.delta, help="the probability of a wrong answer")
    parser.add_argument("--seconds", type=float, default=0.05, help="how long a simulated judge thinks (default: 0.05)")
    parser.add_argument("--workers", type=int, default=8, help="judges at work at the same time (default: 8)")
    parser.add_argument("--db", type=Path, default=Path("judges.db"), help="where the study is kept")
    options = parser.parse_args()
    print("The judges and the assistants of this example are simulated.")
    plan = ba.Plan.of(PROBLEM, delta=options.delta)

    # Before the first paid verdict: what would it take if things are as we guess?
    outlook = ba.forecast(guessed(plan), runs=200, seed=1)
    print(f"Forecast from guesses: about {outlook.median_tests:,.0f} tests, {outlook.mean_cost / 100:,.0f} dollars")

    start = time.monotonic()
    judges = SimulatedJudges(options.seconds)
    answer = ba.identify(plan, judges.measure, storage=options.db, workers=options.workers)
    print(f"{answer}; {time.monotonic() - start:.0f} s, {answer.cost / 100:,.2f} dollars")
    for assistant, reason in answer.reasons.items():
        print(f"  {assistant}: {reason}")
    print(f"To look at it in a browser: bestarm serve --db {options.db}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
