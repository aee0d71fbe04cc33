"""Problems by their means."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import bestarm as ba
from bestarm.noises import Noise

Floats = npt.NDArray[np.float64]
UNIT = ba.Gaussian(1.0)


def problem_of(
    means: Any,
    thresholds: Any = None,
    noises: list[Noise] | None = None,
    costs: Any = None,
    minimizing: bool = False,
    at_least: bool = False,
) -> ba.Problem:
    """A problem from a table [arm, metric] of means; thresholds are ½, noise is normal and costs are 1 unless given."""
    table = np.array(means, dtype=float)
    metrics = [f"metric {k}" for k in range(table.shape[1])]
    thresholds = [0.5] * (table.shape[1] - 1) if thresholds is None else thresholds
    noises = [UNIT] * table.shape[1] if noises is None else noises
    costs = [1.0] * table.shape[1] if costs is None else costs
    objective = (ba.minimize if minimizing else ba.maximize)(metrics[0], noise=noises[0], cost=costs[0])
    limit = ba.at_least if at_least else ba.at_most
    return ba.Problem(
        arms=tuple(ba.Arm(f"arm {i}", dict(zip(metrics, row, strict=True))) for i, row in enumerate(table.tolist())),
        objective=objective,
        constraints=tuple(
            limit(metrics[k], tau, noise=noises[k], cost=costs[k]) for k, tau in enumerate(thresholds, start=1)
        ),
    )


def kl(noise: Noise, p: Any, q: Any) -> Any:
    if isinstance(noise, ba.Bernoulli):
        return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    return (p - q) ** 2 / (2 * noise.unit**2)
