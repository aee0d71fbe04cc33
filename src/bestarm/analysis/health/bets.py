"""Bets against the assumptions of the guarantee: how much each check bets on a result, and what the bets have won.

A weight is known before its result is. The proofs are in `evidence.py`.
"""

from __future__ import annotations

import abc
import math
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from bestarm.kernel.state import Floats

HORIZONS = (16.0, 48.0, 144.0, 432.0, 1296.0)
"""A drift that is bet on is complete after twice this many results of a stream."""

MOST_WORKERS = 16
"""Only the first workers to appear are compared with the others."""

_MOST_GROUPS = 256
"""Only the last groups of tests to appear are remembered."""

_OWN = 2.0
"""The mean of a group's earlier residuals is drawn toward 0, as if this many more residuals were 0."""

_LARGEST_RESIDUAL = 3.0

Won = dict[str, Floats]
"""By kind of check, the logarithm of what its bets have won: [bet, sign, column, arm], arms with results alone."""


class OrderCheck(NamedTuple):
    """A check of the order of results: its columns of the weights, and the factors by which it bets them."""

    kind: Literal["drift", "dependence", "together", "worker"]
    first: int
    last: int
    bets: Sequence[float]
    signs: Sequence[float] = (1.0, -1.0)
    """With -1, it also bets on the opposite."""


DRIFT = OrderCheck("drift", 0, len(HORIZONS), (0.2, 0.5))
DEPENDENCE = OrderCheck("dependence", DRIFT.last, DRIFT.last + 1, (0.1, 0.25, 0.5))
TOGETHER = OrderCheck("together", DEPENDENCE.last, DEPENDENCE.last + 1, (0.3, 0.6, 1.0), (1.0,))
WORKER = OrderCheck("worker", TOGETHER.last, TOGETHER.last + MOST_WORKERS, (0.2, 0.5, 1.0))
ORDER_CHECKS = (DRIFT, DEPENDENCE, TOGETHER, WORKER)


class Result(NamedTuple):
    """A result as the checks see it."""

    test: int
    arm: int
    value: float
    worker: int
    """-1 if there are too many workers to tell apart."""
    group: float
    """Tests that were asked for, or entered without asking, at the same time are one group."""
    place: int = -1
    """The item's place in the order of items; -1 if there is none, or it is not known."""


class StreamState:
    """What weights depend on: a stream's number of results, its last residual, and each worker's number of results."""

    __slots__ = ("count", "previous", "shares")

    def __init__(self) -> None:
        self.count = 0
        self.previous = 0.0
        self.shares: dict[int, int] = {}


class Weights:
    """The weights of the results of one metric.

    A residual says by how many standard deviations a result lies above those before it. The weights of a drift begin at
    `start`. With `own_groups`, each arm has groups of its own: on common items, results of different arms resemble
    each other though nothing is wrong.
    """

    def __init__(self, *, start: float, own_groups: bool = False) -> None:
        self._start, self._own_groups = start, own_groups
        self._groups: dict[tuple[float, int], tuple[float, int]] = {}
        self._steps = [1.0 / horizon for horizon in HORIZONS]
        self._workers = 1

    def _key(self, result: Result) -> tuple[float, int]:
        return result.group, result.arm if self._own_groups else -1

    def of_next(self, stream: StreamState, result: Result) -> array[float]:
        """The weights of the next result of a stream, by column. They do not depend on its value."""
        n, start = stream.count, self._start
        self._workers = max(self._workers, result.worker + 1)
        found = array("d", [min(n * step, 2.0) + start for step in self._steps])
        found.append(stream.previous)
        total, count = self._groups.get(self._key(result), (0.0, 0))
        found.append(total / (count + _OWN))
        if self._workers > 1 and n:
            # A drift that all workers share cancels out.
            for one in range(self._workers):
                found.append((1.0 if one == result.worker else 0.0) - stream.shares.get(one, 0) / n)
        return found

    def update(self, stream: StreamState, result: Result, residual: float) -> None:
        """Take in how the result came out."""
        residual = min(max(residual, -_LARGEST_RESIDUAL), _LARGEST_RESIDUAL)
        stream.count += 1
        stream.previous = residual
        stream.shares[result.worker] = stream.shares.get(result.worker, 0) + 1
        key = self._key(result)
        total, count = self._groups.pop(key, (0.0, 0))
        self._groups[key] = total + residual, count + 1
        if len(self._groups) > _MOST_GROUPS:
            del self._groups[next(iter(self._groups))]


class Bets(abc.ABC):
    """Bets on the results of a metric.

    `contradicts` says whether they only win if an assumption of the guarantee does not hold.
    """

    _streams: Mapping[int, StreamState]

    def __init__(self, *, start: float = -1.0, own_groups: bool = False, contradicts: bool = True) -> None:
        self._weights = Weights(start=start, own_groups=own_groups)
        self.contradicts = contradicts

    @abc.abstractmethod
    def enter(self, result: Result) -> None:
        """Take in the next result."""

    @property
    def arms(self) -> list[int]:
        """The arms that have results. Of a hundred thousand arms most have none, and nothing was bet on them."""
        return sorted(self._streams)

    @abc.abstractmethod
    def won(self) -> Won:
        """What has been won so far, and on which bets."""


# ------------------------------------------------------------------------------------------------ ranks and scales

DENSE = 4096
RUN = 64
"""In a longer stream, not every result is ranked: after 4,096 results every second run of 64, after 8,192 every fourth,
and so on. Which ones is fixed beforehand, so the ranks are what they would be in a shorter stream."""

_quantile = NormalDist().inv_cdf


def is_ranked(place: int) -> bool:
    """Whether the result at this place in its stream, from 0, is ranked.

    >>> [sum(map(is_ranked, range(start, 2 * start))) for start in (2048, 4096, 8192, 16384)]
    [2048, 2048, 2048, 2048]
    """
    return place < DENSE or (place // RUN) % (1 << (place // DENSE).bit_length()) == 0


def rank_score(ranked: array[float], value: float, draw: float) -> float:
    """Add a value to the sorted results of a stream. Returns its rank as a normal score.

    As long as results are exchangeable, the score is standard normal and independent of those before it: the rank of
    the n-th of exchangeable values is uniform on 1 … n and independent of how the earlier ones are ordered among
    themselves. `draw`, uniform on [0, 1), decides between ties and makes the rank continuous.
    """
    below = bisect_left(ranked, value)
    after = bisect_right(ranked, value, below)
    rank = (below + draw * (after - below + 1)) / (len(ranked) + 1)
    ranked.insert(after, value)
    return _quantile(min(max(rank, 1e-15), 1.0 - 1e-15))


_PRIOR_COUNT = 3.0
"""The variance of all arms counts as much as this many results of the arm itself."""


class Scale:
    """The variance of a metric's results around the mean of their arm, as those before a result show it."""

    __slots__ = ("_arms", "_freedom", "_squares")

    def __init__(self) -> None:
        self._arms: dict[int, tuple[int, float, float]] = {}
        self._squares = 0.0
        self._freedom = 0

    def next(self, arm: int, x: float) -> tuple[float, float]:
        """The variance expected of an arm's next result x, or 0 if too little is known, and how far x lies above the
        mean of those before it, in units in which that has this variance."""
        n, mean, squares = self._arms.get(arm, (0, 0.0, 0.0))
        variance = off = 0.0
        if n:
            off = (x - mean) * math.sqrt(n / (n + 1.0))
            if self._freedom >= _PRIOR_COUNT:
                usual = self._squares / self._freedom
                variance = (squares + _PRIOR_COUNT * usual) / (n - 1.0 + _PRIOR_COUNT)
            self._squares += off * off
            self._freedom += 1
        self._arms[arm] = n + 1, mean + (x - mean) / (n + 1.0), squares + off * off
        return variance, off


# ------------------------------------------------------------------------- bets whose evidence follows from a few sums

_TOO_LARGE = 1.5
"""A variance above this multiple of the stated one is not attributed to chance."""

_PRIOR_OF_DRIFT, _PRIOR = 0.05, 0.01
"""The variance A of how far, in scales, the mean may lie from where the results have it. The weights of a drift do not
cancel out until it is complete."""


class _Sums(StreamState):
    """A stream: the sums of what each result counts, of weights, of their squares, of results, and of weights times
    results."""

    __slots__ = ("counted", "first", "ranked", "results", "weighted", "weights", "weights_squared", "x")

    def __init__(self, first: float) -> None:
        super().__init__()
        self.first = first
        self.counted = self.x = 0.0
        self.weights: list[float] = []
        self.weights_squared: list[float] = []
        self.weighted: list[float] = []
        self.ranked = array("d")
        self.results = 0
        """With those that are not ranked."""

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


def _table(streams: Sequence[_Sums], name: str) -> Floats:
    """[column, stream]: one of the sums."""
    found = np.zeros((ORDER_CHECKS[-1].last, len(streams)))
    for k, stream in enumerate(streams):
        sums = getattr(stream, name)
        found[: len(sums), k] = sums
    return found


def _won(check: OrderCheck, totals: Floats, squares: Floats) -> Floats:
    """[bet, sign, column, arm]: t times the total minus half of t² times the squares."""
    own = slice(check.first, check.last)
    bets = np.array(check.bets).reshape(-1, 1, 1, 1)
    signs = np.array(check.signs).reshape(1, -1, 1, 1)
    found: Floats = bets * signs * totals[own] - 0.5 * bets * bets * squares[own]
    return found


class SubGaussianBets(Bets):
    """Bets on results that are sub-Gaussian with scale `sigma` around their stream's mean, given all before them.

    What is true with one scale is true with a larger one. So where results have scattered more than stated, those that
    follow count less, and scatter is not taken for something else.
    """

    def __init__(self, sigma: float) -> None:
        super().__init__()
        self._inverse = 1.0 / sigma
        self._streams: dict[int, _Sums] = {}
        self._scale = Scale()

    def enter(self, result: Result) -> None:
        stream = self._streams.get(result.arm)
        if stream is None:
            stream = self._streams[result.arm] = _Sums(result.value)
        x = (result.value - stream.first) * self._inverse
        variance, off = self._scale.next(result.arm, x)
        counts = 1.0 if variance < _TOO_LARGE else 1.0 / variance
        stream.add(self._weights.of_next(stream, result), x, counts)
        self._weights.update(stream, result, off * math.sqrt(counts))

    def won(self) -> Won:
        names = ("weights", "weights_squared", "weighted")
        streams = [self._streams[arm] for arm in self.arms]
        weights, squared, weighted = (_table(streams, name) for name in names)
        counted, total = (np.array([getattr(stream, name) for stream in streams]) for name in ("counted", "x"))
        mean = np.divide(weights, counted, out=np.zeros_like(weights), where=counted > 0.0)
        around, centered = np.maximum(squared - weights * mean, 0.0), weighted - total * mean
        found: Won = {}
        for check in ORDER_CHECKS:
            prior = _PRIOR_OF_DRIFT if check is DRIFT else _PRIOR
            found[check.kind] = _won(check, centered, around + mean * mean / prior) - 0.5 * np.log1p(prior * counted)
        return found


class RankBets(Bets):
    """Bets on the ranks of results that are exchangeable within their stream."""

    def __init__(self, draw: Callable[[], float], *, own_groups: bool, contradicts: bool = True) -> None:
        super().__init__(start=0.0, own_groups=own_groups, contradicts=contradicts)
        self._draw = draw
        self._streams: defaultdict[int, _Sums] = defaultdict(lambda: _Sums(0.0))

    def enter(self, result: Result) -> None:
        stream = self._streams[result.arm]
        stream.results += 1
        if not is_ranked(stream.results - 1):
            return
        score = rank_score(stream.ranked, result.value, self._draw())
        if stream.count:
            # The first result has no other to be compared with.
            stream.add(self._weights.of_next(stream, result), score)
        self._weights.update(stream, result, score if stream.count else 0.0)

    def won(self) -> Won:
        streams = [self._streams[arm] for arm in self.arms]
        squared, weighted = (_table(streams, name) for name in ("weights_squared", "weighted"))
        return {check.kind: _won(check, weighted, squared) for check in ORDER_CHECKS}
