"""Bets whose evidence follows from a few sums: on sub-Gaussian results, and on the ranks of exchangeable ones."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping

import numpy as np

from bestarm.analysis.health.scores import Ranks, Scale, is_ranked
from bestarm.analysis.health.weights import CHECKS, DRIFT, Place, Result, Weighed, Weights
from bestarm.kernel.state import Floats

Won = dict[str, Floats]
"""By kind of check, the logarithm of what its bets have won: [bet, sign, column, arm]."""

_MORE = 1.5
"""A variance above this multiple of the stated one is not attributed to chance."""

_PRIOR_OF_DRIFT, _PRIOR = 0.05, 0.01
"""The variance A of how far, in scales, the mean may lie from where the results have it. The weights of a drift do not
cancel out until it is complete."""


class _Sums(Place):
    """A stream: the sums of what each result counts, of weights, of their squares, of results, and of weights times
    results."""

    __slots__ = ("counted", "first", "weighted", "weights", "weights_squared", "x")

    def __init__(self, first: float) -> None:
        super().__init__()
        self.first = first
        self.counted = self.x = 0.0
        self.weights: list[float] = []
        self.weights_squared: list[float] = []
        self.weighted: list[float] = []

    def add(self, weights: array[float], x: float, counts: float = 1.0) -> None:
        all_weights, squared, weighted = self.weights, self.weights_squared, self.weighted
        if len(weights) > len(weighted):
            for column in (all_weights, squared, weighted):
                column.extend([0.0] * (len(weights) - len(column)))
        for k, weight in enumerate(weights):
            if weight:
                share = counts * weight
                all_weights[k] += share
                squared[k] += share * weight
                weighted[k] += share * x
        self.counted += counts
        self.x += counts * x


def _table(streams: Mapping[int, _Sums], arms: int, name: str) -> Floats:
    """[column, arm]: one of the sums."""
    found = np.zeros((CHECKS[-1].last, arms))
    for arm, stream in streams.items():
        sums = getattr(stream, name)
        found[: len(sums), arm] = sums
    return found


def _won(check: Weighed, totals: Floats, squares: Floats) -> Floats:
    """[bet, sign, column, arm]: t times the total minus half of t² times the squares."""
    own = slice(check.first, check.last)
    bets = np.array(check.bets).reshape(-1, 1, 1, 1)
    signs = np.array(check.signs).reshape(1, -1, 1, 1)
    found: Floats = bets * signs * totals[own] - 0.5 * bets * bets * squares[own]
    return found


class SubGaussian:
    """Bets on results that are sub-Gaussian with scale `sigma` around their stream's mean, given all before them.

    What is true with one scale is true with a larger one. So where results have scattered more than stated, those that
    follow count less, and scatter is not taken for something else.
    """

    def __init__(self, arms: int, sigma: float) -> None:
        self._arms, self._inverse = arms, 1.0 / sigma
        self._weights = Weights(start=-1.0)
        self._streams: dict[int, _Sums] = {}
        self._scale = Scale()

    def enter(self, result: Result) -> None:
        stream = self._streams.get(result.arm)
        if stream is None:
            stream = self._streams[result.arm] = _Sums(result.value)
        x = (result.value - stream.first) * self._inverse
        variance, off = self._scale.next(result.arm, x)
        counts = 1.0 if variance < _MORE else 1.0 / variance
        stream.add(self._weights.of_next(stream, result), x, counts)
        self._weights.note(stream, result, off * math.sqrt(counts))

    def won(self) -> Won:
        names = ("weights", "weights_squared", "weighted")
        weights, squared, weighted = (_table(self._streams, self._arms, name) for name in names)
        counted, total = np.zeros(self._arms), np.zeros(self._arms)
        for arm, stream in self._streams.items():
            counted[arm], total[arm] = stream.counted, stream.x
        mean = np.divide(weights, counted, out=np.zeros_like(weights), where=counted > 0.0)
        around, centered = np.maximum(squared - weights * mean, 0.0), weighted - total * mean
        found: Won = {}
        for check in CHECKS:
            prior = _PRIOR_OF_DRIFT if check is DRIFT else _PRIOR
            found[check.kind] = _won(check, centered, around + mean * mean / prior) - 0.5 * np.log1p(prior * counted)
        return found


class _Scored(_Sums):
    """A stream of scores."""

    __slots__ = ("place", "ranks")

    def __init__(self) -> None:
        super().__init__(0.0)
        self.place = 0
        self.ranks = Ranks()


class Ranked:
    """Bets on the ranks of results that are exchangeable within their stream."""

    def __init__(self, arms: int, luck: Callable[[], float], *, own_groups: bool) -> None:
        self._arms, self._luck = arms, luck
        self._weights = Weights(start=0.0, own_groups=own_groups)
        self._streams: dict[int, _Scored] = {}

    def enter(self, result: Result) -> None:
        stream = self._streams.get(result.arm)
        if stream is None:
            stream = self._streams[result.arm] = _Scored()
        stream.place += 1
        if not is_ranked(stream.place - 1):
            return
        score = stream.ranks.score(result.value, self._luck())
        if stream.count:
            # The first result has no other to be compared with.
            stream.add(self._weights.of_next(stream, result), score)
        self._weights.note(stream, result, score if stream.count else 0.0)

    def won(self) -> Won:
        squared, weighted = (_table(self._streams, self._arms, name) for name in ("weights_squared", "weighted"))
        return {check.kind: _won(check, weighted, squared) for check in CHECKS}
