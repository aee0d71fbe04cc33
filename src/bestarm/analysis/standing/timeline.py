"""How tests and cost grew over time, in a limited number of points, however many results there are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bestarm.kernel.state import Floats, Ints


class Progress(NamedTuple):
    """Times (seconds since 1970) and, up to each, the number of results and what they cost."""

    time: list[float]
    tests: list[int]
    cost: list[float]


class Timeline:
    """Keeps the time of every result up to `most` of them, then of every second, every fourth and so on."""

    def __init__(self, costs: Floats, most: int = 500) -> None:
        self._costs = costs
        """[arm, test]"""
        self._most = most
        self._every = 1
        self._kept: list[tuple[float, int, float]] = []
        self._last = (0.0, 0, 0.0)

    def extend(self, told: Floats, arms: Ints, metrics: Ints, values: Floats) -> None:
        """Add results. Those without a value do not count."""
        counted = ~np.isnan(values)
        if not counted.any():
            return
        # They are in the order of issue, so a result may have an earlier time than the one before.
        times = np.maximum(np.maximum.accumulate(told[counted]), self._last[0])
        cost = self._last[2] + np.cumsum(self._costs[arms[counted], metrics[counted]])
        tests = self._last[1] + 1 + np.arange(len(times))
        self._last = (float(times[-1]), int(tests[-1]), float(cost[-1]))
        keep = tests % self._every == 0
        self._kept += zip(times[keep].tolist(), tests[keep].tolist(), cost[keep].tolist(), strict=True)
        while len(self._kept) > self._most:
            self._every *= 2
            self._kept = [point for point in self._kept if point[1] % self._every == 0]

    def add_cost(self, cost: float) -> None:
        """Count a cost that came with no result of its own."""
        time, tests, before = self._last
        self._last = (time, tests, before + cost)

    @property
    def total(self) -> tuple[int, float]:
        """All results so far, and what they cost."""
        return self._last[1:]

    def progress(self) -> Progress:
        points = list(self._kept)
        if self._last[1] and (not points or points[-1] != self._last):
            points.append(self._last)
        times, tests, cost = zip(*points, strict=True) if points else ((), (), ())
        return Progress(list(times), list(tests), list(cost))
