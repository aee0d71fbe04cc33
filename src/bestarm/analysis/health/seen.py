"""What has been seen in all streams of a study, and which checks apply to each metric."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from bestarm.analysis.health.bets import DEPENDENCE, SCATTER, SKEWNESS, STEADY, STEP, WORKER
from bestarm.kernel.state import Floats
from bestarm.noises.base import NoiseModel
from bestarm.problem import Problem

MOST_WORKERS = 16
"""So many of those who measure, the first to appear, are compared with the others."""


@dataclasses.dataclass
class Outlier:
    """The first result of a metric that lies too far off, and how many there are."""

    arm: int
    test: int
    value: float
    count: int = 0


class Seen:
    """Peaks of log-evidence by bet, direction (up, down), metric and arm, and what else notes are made of."""

    def __init__(self, problem: Problem, false_alarms: float) -> None:
        self.noises: list[NoiseModel] = [part.noise for part in problem.parts]
        metrics, arms = len(self.noises), len(problem.arms)
        self.arms = arms
        self._shape = (2, metrics, arms)
        self.drift = self._peaks(STEP + STEADY)
        self.dependence = self._peaks(DEPENDENCE)
        self.skewness = self._peaks(SKEWNESS if any(noise.is_symmetric for noise in self.noises) else ())
        self.scatter: Floats = np.zeros((len(SCATTER), 1, metrics, arms))
        self.most_workers = MOST_WORKERS
        self.workers: dict[str, int] = {}
        self.by_worker: list[Floats] = []
        self.counts: Floats = np.zeros((metrics, arms))
        self.squares: Floats = np.zeros((metrics, arms))
        """Results, and their squared deviations from their stream's mean, in units of the stated sigma."""
        self.results = [0] * metrics
        self.low = [math.inf] * metrics
        self.high = [-math.inf] * metrics
        self.outliers: dict[int, Outlier] = {}
        self.unequal: dict[int, tuple[int, int, float, float]] = {}
        """By metric: arm, test, first value and the one that differs."""
        self.log_level = math.log(max(1, sum(map(_tests_of, self.noises))) / false_alarms)
        """Evidence in one check that ever reaches this level is a finding."""
        self.checks = sum(_tests_of(noise) + _others_of(noise) for noise in self.noises)

    def _peaks(self, bets: Sequence[float]) -> Floats:
        return np.zeros((len(bets), *self._shape))

    def worker(self, name: str) -> int:
        """The number of somebody who measures; -1 if there are too many to tell apart."""
        if name not in self.workers:
            known = len(self.by_worker)
            if known < MOST_WORKERS:
                self.by_worker.append(self._peaks(WORKER))
            self.workers[name] = known if known < MOST_WORKERS else -1
        return self.workers[name]


def _tests_of(noise: NoiseModel) -> int:
    """How many checks of a metric can give a false alarm: drift, dependence and workers; scatter and far values where
    sigma is stated; skewness where symmetry is."""
    if noise.is_exact:
        return 0
    return 3 + 2 * (noise.stated_scatter is not None) + noise.is_symmetric


def _others_of(noise: NoiseModel) -> int:
    """How many others there are: whether values are equal, whether sigma or a range is too wide."""
    return int(noise.is_exact or noise.stated_scatter is not None or has_wide_range(noise))


def has_wide_range(noise: NoiseModel) -> bool:
    """Whether the user stated a range that could be narrower."""
    low, high = noise.value_range
    return math.isfinite(high - low) and not noise.is_whole
