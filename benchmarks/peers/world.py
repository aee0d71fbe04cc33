"""What the tuners measure: the means of some measurements of one arm, and how uncertain they are."""

from __future__ import annotations

import math

import numpy as np
from benchmarks.peers.problems import Floats, measure

from bestarm.noises.bernoulli import Bernoulli
from bestarm.problem import Plan


class World:
    """Gives the means of some fresh measurements of an arm."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan, self.rng = plan, np.random.default_rng(seed)

    def measure(self, arm: int, repeats: int) -> Floats:
        found: Floats = measure(self.plan, repeats, 1, self.rng)[0, arm]
        return found


def standard_errors(plan: Plan, means: Floats, n: int) -> list[float]:
    """Of the means of `n` measurements, by metric; that of a rate is estimated from it, never as nought."""
    rates = (means * n + 1.0) / (n + 2.0)
    return [
        math.sqrt(rate * (1.0 - rate) / n) if isinstance(noise, Bernoulli) else noise.unit / math.sqrt(n)
        for noise, rate in zip(plan.noises, rates, strict=True)
    ]


def shape(plan: Plan, tests: int, trials: int) -> tuple[int, int]:
    """How many trials, and measurements of each metric in a trial, make so many tests."""
    trials = max(1, min(trials, tests // len(plan.metrics)))
    return trials, max(1, tests // (trials * len(plan.metrics)))
