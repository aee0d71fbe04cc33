"""Watches the results of a study as they come, and says what they contradict."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bestarm.analysis.health.metric import MetricChecks, checks_of, has_wide_range
from bestarm.analysis.health.notes import Health
from bestarm.analysis.health.reading import notes_of
from bestarm.analysis.health.weights import MOST_WORKERS, Result
from bestarm.kernel.state import Floats, Ints
from bestarm.noises.base import NoiseModel
from bestarm.problem import Problem

FALSE_ALARMS = 0.001
"""In how many studies, at most, the checks say "broken" although everything is as stated."""

MOST_PARTS = 256
"""The most small pieces of the record to keep until the next look: each takes more room than its results."""

_PROCESS = re.compile(r"/\d+-\d+$")


def _statements(noise: NoiseModel) -> int:
    """How many checks state what was seen and cannot be wrong: are values equal, is sigma or a range too wide?"""
    return int(noise.is_exact or noise.stated_scatter is not None or has_wide_range(noise))


class Watch:
    """The checks of one study. `extend` takes results in the order in which they count, `health` says what is seen.

    What is seen depends on the results in their order, not on when it is asked for, and evidence only grows: what was
    found once is found again.
    """

    def __init__(self, problem: Problem, *, false_alarms: float = FALSE_ALARMS) -> None:
        self._problem = problem
        noises = problem.noises
        tests = sum(checks_of(problem, noise) for noise in noises)
        log_level = math.log(max(1, tests) / false_alarms)
        # The same numbers every time, so that a study that is opened again is seen as before.
        luck = random.Random(17).random
        self._metrics = [MetricChecks(problem, metric, log_level, luck) for metric in range(len(noises))]
        self._checks = tests + sum(map(_statements, noises))
        self._workers: dict[str, int] = {}
        self._names: list[str] = []
        self._new: list[tuple[Ints, Ints, Ints, Floats, list[int], Floats | Ints, Ints]] = []
        self._health: Health | None = None

    def extend(
        self,
        tests: Ints,
        arms: Ints,
        metrics: Ints,
        values: Floats,
        holders: Sequence[Any] = (),
        issued: Floats | None = None,
        items: Ints | None = None,
    ) -> None:
        """Further results: the test's number, its arm and metric by number, its value and, if known, who measured it,
        when the test was issued, and the place of its item. Tests that were issued at the same time were asked for, or
        entered, together.

        They are only kept until the next look: asking and telling do not wait for the checks. A result without a
        value (NaN) does not count.
        """
        groups = -tests if issued is None or not len(issued) else issued
        places = np.full(len(tests), -1) if items is None or not len(items) else items
        workers = [self._worker(holder) for holder in holders]
        self._new.append((tests, arms, metrics, values, workers, groups, places))
        if len(self._new) > MOST_PARTS:
            self._catch_up()

    def _worker(self, holder: object) -> int:
        """The number of a worker; -1 if there are too many to tell apart."""
        full = str(holder)
        number = self._workers.get(full)
        if number is None:
            # A process that is started anew is the same worker.
            name = _PROCESS.sub("", full)
            if name not in self._names and len(self._names) < MOST_WORKERS:
                self._names.append(name)
            number = self._workers[full] = self._names.index(name) if name in self._names else -1
        return number

    def health(self) -> Health:
        """What the results say."""
        self._catch_up()
        if self._health is None:
            self._health = Health(self._checks, notes_of(self._problem, self._metrics, self._names))
        return self._health

    def _catch_up(self) -> None:
        new, self._new = self._new, []
        for tests, arms, metrics, values, workers, groups, places in new:
            self._health = None
            who = workers or itertools.repeat(0)
            columns = (tests.tolist(), arms.tolist(), values.tolist(), who, groups.tolist(), places.tolist())
            for metric, *result in zip(metrics.tolist(), *columns, strict=False):
                if result[2] == result[2]:
                    self._metrics[metric].enter(Result(*result))
