"""Records of results for the tests of the health checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import bestarm as ba
from bestarm.analysis.health.notes import Health
from bestarm.analysis.health.watch import FALSE_ALARMS, Watch
from bestarm.kernel.state import Floats, Ints
from bestarm.noises.base import NoiseModel


class Balanced(ba.Gaussian):
    """A noise that states symmetry and no scatter."""

    is_symmetric = True

    @property
    def stated_scatter(self) -> float | None:
        return None


class Same(ba.Gaussian):
    """A noise that states that results do not vary."""

    is_exact = True


def problem_of(arms: int, noise: NoiseModel | None = None, constraints: int = 0) -> ba.Problem:
    noise = ba.Gaussian(1.0) if noise is None else noise
    return ba.Problem(
        arms=[f"arm {k}" for k in range(arms)],
        objective=ba.maximize("yield", noise=noise),
        constraints=[ba.at_most(f"waste {k}", 0.5, noise=noise) for k in range(constraints)],
    )


def health_of(
    problem: ba.Problem,
    arms: Ints,
    values: Floats,
    *,
    metrics: Ints | None = None,
    holders: Sequence[str] = (),
    false_alarms: float = FALSE_ALARMS,
    plates: int | None = None,
) -> Health:
    """What the checks say of results of these arms, in this order; so many that follow each other are on one plate."""
    watch = Watch(problem, false_alarms=false_alarms)
    metrics = np.zeros(len(arms), np.int64) if metrics is None else metrics
    issued = None if plates is None else np.floor(np.arange(float(len(arms))) / plates)
    watch.extend(np.arange(1, len(arms) + 1), arms, metrics, values, holders, issued)
    return watch.health()


def in_turn(arms: int, of_each: int) -> tuple[Ints, Floats]:
    """The arms in turn, and how much of the study is over at each result."""
    total = arms * of_each
    return np.arange(total) % arms, np.arange(total) / total


def kinds(health: Health) -> set[str]:
    return {note.kind for note in health.notes}
