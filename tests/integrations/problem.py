"""What is handed over in these tests: two metrics, and their true means."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import bestarm as ba
from bestarm.integrations.shortlist import Tried

LATENCY = ba.minimize("latency", noise=ba.Gaussian(1.0), tolerance=0.5)
CRASHES = ba.at_most("crash rate", 0.2, noise=ba.Bernoulli())


def tried(number: int, value: float, *violations: float, **params: Any) -> Tried:
    return Tried(number, params or {"x": number}, value, violations)


def truth(params: Mapping[str, Any], metric: str) -> float:
    """Larger caches are quicker, until they crash."""
    if metric == "latency":
        return 12.0 - float(params["cache"]) - (1.0 if params["codec"] == "lz4" else 0.0)
    return 0.02 if params["cache"] <= 7 else 0.6


class Bench:
    """One fresh, noisy measurement."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def __call__(self, params: Mapping[str, Any], metric: str) -> float:
        mean = truth(params, metric)
        return self.rng.gauss(mean, 1.0) if metric == "latency" else float(self.rng.random() < mean)
