"""Which model should screen for breast cancer? Accurate, quick, and missing few cases.

python examples/models/choose.py
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import bestarm as ba

TRAINED_ON = 100
LONGEST = 50.0
"""Milliseconds. A longer prediction counts as this: that is part of what the metric means."""
WARM_UP = 3

MODELS: dict[str, Callable[[int], Any]] = {
    "always the commoner": lambda seed: DummyClassifier(),
    "decision stump": lambda seed: DecisionTreeClassifier(max_depth=1, random_state=seed),
    "decision tree": lambda seed: DecisionTreeClassifier(random_state=seed),
    "naive Bayes": lambda seed: GaussianNB(),
    "25 neighbors": lambda seed: make_pipeline(StandardScaler(), KNeighborsClassifier(25, algorithm="kd_tree")),
    "logistic regression": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "forest of 400 trees": lambda seed: RandomForestClassifier(400, random_state=seed),
}

PROBLEM = ba.Problem(
    arms=list(MODELS),
    objective=ba.maximize("accuracy", noise=ba.Bernoulli(), tolerance=0.03),
    constraints=[
        # A test needs a patient who is known to be ill, and of these there are 212 among 569: it costs that much more.
        ba.at_most("missed cases", 0.15, noise=ba.Bernoulli(), cost=2.7, slack=0.03),
        # No patient's diagnosis is needed for it, a stopwatch will do.
        ba.at_most("latency (ms)", 10.0, noise=ba.Bounded(0, LONGEST), cost=0.1),
    ],
)


class Clinic:
    """The 569 patients of the data set, and chance: unseeded, so that a study that goes on meets new ones."""

    def __init__(self) -> None:
        self.measurements, diagnosis = load_breast_cancer(return_X_y=True)
        self.ill = diagnosis == 0
        self.rng = np.random.default_rng()

    def measure(self, model: str, metric: str) -> float:
        """One fresh test: train on random patients, then try another random one."""
        rows = np.arange(len(self.ill))
        patient = int(self.rng.choice(rows[self.ill] if metric == "missed cases" else rows))
        others = self.rng.choice(np.delete(rows, patient), TRAINED_ON, replace=False)
        trained = MODELS[model](int(self.rng.integers(2**31)))
        trained.fit(self.measurements[others], self.ill[others])
        shown = self.measurements[[patient]]
        if metric == "latency (ms)":
            for _ in range(WARM_UP):
                trained.predict(shown)
            start = time.perf_counter()
            trained.predict(shown)
            return min(1000 * (time.perf_counter() - start), LONGEST)
        called_ill = bool(trained.predict(shown)[0])
        return float(called_ill == self.ill[patient]) if metric == "accuracy" else float(not called_ill)


def main() -> int:
    parser = argparse.ArgumentParser(description="Which model should screen for breast cancer?")
    parser.add_argument("--delta", type=float, default=0.05, help="the probability of a wrong answer (default: 0.05)")
    parser.add_argument("--db", default="models.db", help="where the study is kept (default: models.db)")
    parser.add_argument("--tests", type=int, help="stop after so many tests, certain or not")
    options = parser.parse_args()
    plan = ba.Plan.of(PROBLEM, name="models", delta=options.delta)
    if options.tests is not None:
        plan = dataclasses.replace(plan, budget=ba.Budget(tests=options.tests))
    start, shown = time.monotonic(), time.monotonic()

    def watch(study: ba.Study, running: int) -> None:
        nonlocal shown
        if time.monotonic() - shown > 5:
            shown = time.monotonic()
            status = study.status()
            print(f"{shown - start:4.0f} s, {status.tests:,} tests: {status.headline}", flush=True)

    answer = ba.identify(plan, Clinic().measure, storage=options.db, watch=watch)
    print(f"\n{answer}; {time.monotonic() - start:.0f} s, cost {answer.cost:,.0f}")
    for model, reason in answer.reasons.items():
        print(f"  {model}: {reason}")
    print(f"\nTo look at it in a browser: bestarm serve --db {options.db}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
