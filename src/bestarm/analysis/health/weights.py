"""How much each check bets on a result: weights that are known before the result is."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal, NamedTuple

OrderKind = Literal["drift", "dependence", "together", "worker"]

HORIZONS = (16.0, 48.0, 144.0, 432.0, 1296.0)
"""A drift that is bet on is complete after twice this many results of a stream."""

MOST_WORKERS = 16
"""This many workers, the first to appear, are compared with the others."""

_MOST_GROUPS = 256
"""This many groups of tests, the last to appear, are remembered."""

_OWN = 2.0
"""The mean of a group's earlier residuals is drawn toward 0, as if this many more residuals were 0."""

_FARTHEST = 3.0
"""A residual beyond this counts as this."""


class Weighed(NamedTuple):
    """A check by weights: which columns of the weights are its own, and the factors by which it bets them."""

    kind: OrderKind
    first: int
    last: int
    bets: Sequence[float]
    signs: Sequence[float] = (1.0, -1.0)
    """With -1, it also bets on the opposite."""


DRIFT = Weighed("drift", 0, len(HORIZONS), (0.2, 0.5))
DEPENDENCE = Weighed("dependence", DRIFT.last, DRIFT.last + 1, (0.1, 0.25, 0.5))
TOGETHER = Weighed("together", DEPENDENCE.last, DEPENDENCE.last + 1, (0.3, 0.6, 1.0), (1.0,))
WORKER = Weighed("worker", TOGETHER.last, TOGETHER.last + MOST_WORKERS, (0.2, 0.5, 1.0))
CHECKS = (DRIFT, DEPENDENCE, TOGETHER, WORKER)


class Result(NamedTuple):
    """A result as the checks see it."""

    test: int
    arm: int
    value: float
    worker: int
    """-1 if there are too many workers to tell apart."""
    group: float
    """What was asked for at once has the same group. So has what was entered at once without asking."""
    place: int = -1
    """The item's place in the order of items; -1 if there is none, or it is not known."""


class Place:
    """Where a stream stands: the number of its results, its last residual, and each worker's number of results."""

    __slots__ = ("count", "previous", "shares")

    def __init__(self) -> None:
        self.count = 0
        self.previous = 0.0
        self.shares: dict[int, int] = {}


class Weights:
    """The weights of the results of one metric.

    A residual says by how many standard deviations a result lies above those before it. The weights of a drift begin at
    `start`. With `own_groups`, a group is what one arm has in it: on common items, results of different arms resemble
    each other though nothing is wrong.
    """

    def __init__(self, *, start: float, own_groups: bool = False) -> None:
        self._start, self._own_groups = start, own_groups
        self._groups: dict[tuple[float, int], tuple[float, int]] = {}
        self._steps = [1.0 / horizon for horizon in HORIZONS]
        self._workers = 1

    def _key(self, result: Result) -> tuple[float, int]:
        return result.group, result.arm if self._own_groups else -1

    def of_next(self, place: Place, result: Result) -> array[float]:
        """The weights of the next result of a stream, by column. They do not depend on its value."""
        n, start = place.count, self._start
        self._workers = max(self._workers, result.worker + 1)
        found = array("d", [min(n * step, 2.0) + start for step in self._steps])
        found.append(place.previous)
        total, count = self._groups.get(self._key(result), (0.0, 0))
        found.append(total / (count + _OWN))
        if self._workers > 1 and n:
            # A drift that all workers share cancels out.
            for one in range(self._workers):
                found.append((1.0 if one == result.worker else 0.0) - place.shares.get(one, 0) / n)
        return found

    def note(self, place: Place, result: Result, residual: float) -> None:
        """Take in how the result came out."""
        residual = min(max(residual, -_FARTHEST), _FARTHEST)
        place.count += 1
        place.previous = residual
        place.shares[result.worker] = place.shares.get(result.worker, 0) + 1
        key = self._key(result)
        total, count = self._groups.pop(key, (0.0, 0))
        self._groups[key] = total + residual, count + 1
        if len(self._groups) > _MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
