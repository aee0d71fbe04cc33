"""One stream: what the checks keep of its results, and the evidence in them."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from bestarm.analysis.health.bets import DEPENDENCE, SKEWNESS, STEADY, STEP, TREND, WORKER, Bets, SquareBets
from bestarm.analysis.health.evidence import log_outlier_limit
from bestarm.analysis.health.scores import Ranks, is_ranked, skewness
from bestarm.analysis.health.seen import Outlier, Seen

EVERY = 8
"""Bets are looked at after each of a stream's first 16 results, and then after every eighth: to look less often is
always valid."""

BLOCK = 8
"""Results in a block whose skewness is taken."""


class Stream:
    """The results of one metric of one arm, as the checks see them. What they show is written into `seen`."""

    __slots__ = (
        *("_arm", "_block", "_by_worker", "_count", "_dependence", "_first", "_kept", "_kept_mean", "_kept_squares"),
        *("_mean", "_metric", "_previous", "_ranks", "_scatter", "_seen", "_shares", "_sigma", "_skewness"),
        *("_squares", "_steady", "_step"),
    )

    def __init__(self, seen: Seen, arm: int, metric: int) -> None:
        self._seen, self._arm, self._metric = seen, arm, metric
        self._sigma = seen.noises[metric].stated_scatter
        self._count = 0
        self._first = 0.0
        # In units of sigma: the mean and squares of all results, and of those that are not too far off.
        self._mean = self._squares = 0.0
        self._kept = 0
        self._kept_mean = self._kept_squares = 0.0
        self._scatter = SquareBets()
        self._ranks = Ranks()
        self._previous: tuple[int, float] = (-2, 0.0)
        self._step, self._steady, self._dependence = Bets(STEP), Bets(STEADY), Bets(DEPENDENCE)
        self._skewness = Bets(SKEWNESS)
        self._by_worker: dict[int, Bets] = {}
        self._shares: dict[int, int] = {}
        self._block = array("d")

    def enter(self, test: int, value: float, worker: int, luck: Callable[[], float]) -> None:
        """Take in the next result."""
        noise, place = self._seen.noises[self._metric], self._count
        self._count += 1
        if place == 0:
            self._first = value
        if noise.is_exact:
            if value != self._first:
                self._seen.unequal.setdefault(self._metric, (self._arm, test, self._first, value))
            return
        seen, metric = self._seen, self._metric
        seen.results[metric] += 1
        if value < seen.low[metric]:
            seen.low[metric] = value
        if value > seen.high[metric]:
            seen.high[metric] = value
        if self._sigma is not None:
            self._check_scatter(test, value, self._sigma)
        if noise.is_symmetric:
            self._check_skewness(value)
        if is_ranked(place):
            self._check_order(place, self._ranks.score(value, luck()), worker)

    def _check_scatter(self, test: int, value: float, sigma: float) -> None:
        """Is this result too far from those before? Do all of them scatter too much?"""
        seen, metric, arm, count = self._seen, self._metric, self._arm, self._count
        x = (value - self._first) / sigma
        off = x - self._mean
        self._mean += off / count
        self._squares += off * (x - self._mean)
        # The mean of n results before scatters by 1 / sqrt(n). Half a square below 5 is never too far.
        half_square = 0.5 * off * off * (count - 1) / count
        if half_square > 5.0 and half_square > log_outlier_limit(seen.arms, count) + seen.log_level:
            seen.outliers.setdefault(metric, Outlier(arm, test, value)).count += 1
        else:
            # A few typing errors are not scatter. To leave large squares out makes the evidence smaller.
            self._kept += 1
            off = x - self._kept_mean
            self._kept_mean += off / self._kept
            self._kept_squares += off * (x - self._kept_mean)
        seen.counts[metric, arm], seen.squares[metric, arm] = count, self._squares
        if count <= 2 * EVERY or count % EVERY == 0:
            self._scatter.note(count, self._kept_squares, seen.scatter, metric, arm)

    def _check_skewness(self, value: float) -> None:
        self._block.append(value)
        if len(self._block) == BLOCK:
            score = skewness(self._block)
            del self._block[:]
            self._skewness.add(score, score * score)
            self._skewness.note(self._seen.skewness, self._metric, self._arm)

    def _check_order(self, place: int, score: float, worker: int) -> None:
        """The first result has no other to be compared with."""
        seen, metric, arm = self._seen, self._metric, self._arm
        if place:
            self._step.add(score, 1.0)
            weight = place / TREND
            self._steady.add(weight * score, weight * weight)
            before, previous = self._previous
            if before == place - 1:
                self._dependence.add(previous * score, previous * previous)
            if place < 2 * EVERY or place % EVERY == EVERY - 1:
                self._step.note(seen.drift, metric, arm)
                self._steady.note(seen.drift, metric, arm, len(STEP))
                self._dependence.note(seen.dependence, metric, arm)
            if len(seen.by_worker) > 1:
                self._check_worker(score, worker)
        self._previous = (place, score)
        self._shares[worker] = self._shares.get(worker, 0) + 1

    def _check_worker(self, score: float, worker: int) -> None:
        """Are the results of one who measures larger than those of the others? A drift that all share cancels out."""
        seen, ranked = self._seen, sum(self._shares.values())
        for one in range(len(seen.by_worker)):
            share = self._shares.get(one, 0) / ranked
            weight = (1.0 if one == worker else 0.0) - share
            if weight == 0.0:
                continue
            sums = self._by_worker.get(one)
            if sums is None:
                sums = self._by_worker[one] = Bets(WORKER)
            sums.add(weight * score, weight * weight)
            if one == worker:
                sums.note(seen.by_worker[one], self._metric, self._arm)
