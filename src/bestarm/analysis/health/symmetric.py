"""Bets on the side of its mean on which a symmetric result lies, for any scatter and any change of it."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Sequence

import numpy as np

from bestarm.analysis.health.bets import ORDER_CHECKS, Bets, Result, Scale, StreamState, Won, is_ranked
from bestarm.kernel.state import Floats, Ints

_EDGES = (-1.4, -0.6, 0.0, 0.6, 1.4)
"""Where the step function psi steps, in scales from the mean."""

_SCORES = np.array((0.3, 1.0, 1.9))
_LEAN = np.array((-0.4, -0.4, 1.0))
"""psi above the mean, from near to far: for how far results lie off, and for skewness."""

SKEWNESS = (0.3, 0.8)
_MEANS = (0.3, -0.3, 1.0, -1.0)
"""Bets on skewness, and on where the mean is."""

_MAIN = 0.8
"""The share of the stake that a check bets. Half of the rest is kept, and half is bet on where the mean is."""


class _Values(StreamState):
    """A stream: its results relative to the first, the scale that each was expected to have, and their weights."""

    __slots__ = ("columns", "first", "scales", "values", "won")

    def __init__(self, first: float) -> None:
        super().__init__()
        self.first = first
        self.values, self.scales = array("d"), array("d")
        self.columns: list[array[float]] = []
        self.won: tuple[int, Won] = (0, {})
        """How many results were used, and what was won by then."""


class SymmetricBets(Bets):
    """Bets on results that are symmetric around their stream's mean, given all before them.

    With `only_skewness`, nothing else is bet on.
    """

    def __init__(self, *, only_skewness: bool = False, own_groups: bool = False, contradicts: bool = True) -> None:
        super().__init__(own_groups=own_groups, contradicts=contradicts)
        self._checks = () if only_skewness else ORDER_CHECKS
        self._streams: dict[int, _Values] = {}
        self._scale = Scale()

    def enter(self, result: Result) -> None:
        stream = self._streams.get(result.arm)
        if stream is None:
            stream = self._streams[result.arm] = _Values(result.value)
        x, residual = result.value - stream.first, 0.0
        variance, off = self._scale.next(result.arm, x)
        if 0.0 < variance < math.inf:
            residual = off / math.sqrt(variance)
            if is_ranked(stream.count):
                weights = self._weights.of_next(stream, result) if self._checks else array("d")
                while len(stream.columns) < len(weights):
                    stream.columns.append(array("d", bytes(8 * len(stream.values))))
                stream.values.append(x)
                stream.scales.append(math.sqrt(variance))
                for column, weight in zip(stream.columns, weights, strict=True):
                    column.append(weight)
        self._weights.update(stream, result, residual)

    def won(self) -> Won:
        arms = self.arms
        found: Won = {
            check.kind: np.zeros((len(check.bets), len(check.signs), check.last - check.first, len(arms)))
            for check in self._checks
        }
        found["skewness"] = np.zeros((len(SKEWNESS), 2, 1, len(arms)))
        for k, stream in enumerate(self._streams[arm] for arm in arms):
            if len(stream.values) != stream.won[0]:
                stream.won = len(stream.values), self._won(stream)
            for kind, won in stream.won[1].items():
                found[kind][:, :, : won.shape[2], k] = won
        return found

    def _won(self, stream: _Values) -> Won:
        """[bet, sign, column]: what was won in one stream, at the mean at which it is least."""
        x, scale = np.array(stream.values), np.array(stream.scales)
        places = np.concatenate([x + edge * scale for edge in _EDGES])
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] > ordered[:-1]))
        even = np.ones((1, len(x)))
        stakes, scores, parts = [np.multiply.outer(_MEANS, even[0])], [_SCORES] * len(_MEANS), []
        bets: list[tuple[str, Sequence[float], Sequence[float], Floats, Floats]] = [
            ("skewness", SKEWNESS, (1.0, -1.0), even, _LEAN)
        ]
        bets += [
            (check.kind, check.bets, check.signs, np.array(columns), _SCORES)
            for check in self._checks
            if (columns := stream.columns[check.first : check.last])
        ]
        for kind, factors, signs, weights, psi in bets:
            own = np.multiply.outer(np.multiply.outer(factors, signs), weights)
            stakes.append(own.reshape(-1, len(x)))
            scores += [psi] * len(stakes[-1])
            parts.append((kind, own.shape[:3]))
        paths = _paths(np.concatenate(stakes).T, np.array(scores).T, order, starts)
        means = np.logaddexp.reduce(paths[:, : len(_MEANS)], axis=1) - math.log(len(_MEANS))
        rest = np.logaddexp(means, 0.0) + math.log(0.5 * (1.0 - _MAIN))
        least = _least_sum(paths[:, len(_MEANS) :] + math.log(_MAIN), rest[:, None])
        found: Won = {}
        for kind, shape in parts:
            found[kind], least = least[: math.prod(shape)].reshape(shape), least[math.prod(shape) :]
        return found


def _least_sum(logs: Floats, others: Floats) -> Floats:
    """By column, the logarithm of the least sum of two numbers. It is at most twice the least of the larger ones."""
    larger = np.maximum(logs, others)
    rows, columns = np.nonzero(larger <= larger.min(axis=0) + math.log(2.0))
    found = np.full(logs.shape[1], math.inf)
    np.minimum.at(found, columns, np.logaddexp(logs[rows, columns], others[rows, 0]))
    return found


def _paths(stakes: Floats, scores: Floats, order: Ints, starts: Ints) -> Floats:
    """[place, bet]: a lower bound of what each bet wins at each possible mean, from far below the results to far above.

    `stakes` are [result, bet], `scores` are [level, bet]. `order` sorts the places of all steps, and `starts` are where
    another place begins.
    """
    levels = [*scores[::-1], *-scores]
    won = [stakes * level - 0.5 * np.square(stakes * level) for level in levels]
    steps = np.concatenate([after - before for before, after in itertools.pairwise(won)])[order]
    start = won[0].sum(axis=0, keepdims=True)
    if len(starts) == len(order):
        steps[0] += start[0]
        return np.concatenate([start, np.cumsum(steps, axis=0)])
    # Where several step at once, all that fall are taken first: at the very point, any of them may have stepped.
    reached = start + np.cumsum(np.add.reduceat(steps, starts), axis=0)
    before = np.concatenate([start, reached[:-1]])
    return np.concatenate([before + np.add.reduceat(np.minimum(steps, 0.0), starts), reached[-1:]])
