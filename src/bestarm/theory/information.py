"""How much one test tells: divergences between what a stream is and what it would have to be for another answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bestarm.noises.base import NoiseModel
from bestarm.noises.gaussian import Gaussian
from bestarm.problem import Problem

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def divergence(noise: NoiseModel, p: npt.ArrayLike, q: npt.ArrayLike) -> Floats:
    """The Kullback-Leibler divergence of a stream with mean p from one with mean q.

    >>> float(divergence(Gaussian(2.0), 1.0, 3.0))
    0.5
    """
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    # A gap too small gives 0, and one too large infinity. Neither is worth a warning.
    with np.errstate(all="ignore"):
        return noise.divergence(p, q)


def information(noise: NoiseModel, mean: float, c: npt.ArrayLike, spread: Any) -> Floats:
    """How much one test tells against a stream with this true mean and spread having the mean c: see the noise."""
    with np.errstate(all="ignore"):
        return noise.information(mean, np.atleast_1d(np.asarray(c, dtype=float)), spread)


class Truth(NamedTuple):
    """What the true means and spreads say of a problem.

    `best` is the best feasible arm, the first of them when tied, or None. `score` is the objective in normal form.
    `margin` [arm, constraint] is the information per test against the mean being on the other side of its threshold;
    `violated` [arm, constraint] says on which side it is. A mean at its threshold is neither allowed nor violated.
    """

    means: Floats
    score: Floats
    feasible: Flags
    best: int | None
    margin: Floats
    violated: Flags
    noises: tuple[NoiseModel, ...]
    spreads: list[list[Any]]
    """[metric][arm]: as `Problem.true_spreads` has them."""
    uncomputed: str
    """A sentence on why it is not known how much tests tell, or nothing. Then no figure that rests on it is known."""

    @property
    def worse(self) -> Flags:
        """The arms with a worse objective than the best feasible arm."""
        if self.best is None:
            return np.zeros(len(self.score), dtype=bool)
        worse: Flags = self.score < self.score[self.best]
        return worse

    def objective_information(self, arms: npt.ArrayLike, c: npt.ArrayLike) -> Floats:
        """By arm of those named: how much one test of its objective tells against its mean being c."""
        numbers = np.atleast_1d(np.asarray(arms, dtype=int))
        values = np.broadcast_to(np.asarray(c, dtype=float), numbers.shape)
        if self.noises[0].is_family and not any(spread is not None for spread in self.spreads[0]):
            return divergence(self.noises[0], self.means[numbers, 0], values)
        rows = zip(numbers.tolist(), values.tolist(), strict=True)
        return np.array([self.objective_table(arm, value)[0] for arm, value in rows])

    def objective_table(self, arm: int, c: npt.ArrayLike) -> Floats:
        """How much one test of an arm's objective tells against its mean being any of the numbers c."""
        return information(self.noises[0], float(self.means[arm, 0]), c, self.spreads[0][arm])


def truth(problem: Problem, *, sub_gaussian: bool = False) -> Truth:
    """The truth about a problem; with `sub_gaussian`, for a policy that knows only the streams' scales."""
    form, means = problem.normal_form(), problem.true_means()
    noises = problem.noises
    spreads: list[list[Any]] = [[None] * len(means) for _ in noises]
    if sub_gaussian:
        noises = tuple(Gaussian(noise.unit) for noise in noises)
    else:
        spreads = problem.true_spreads()
    # Divergences are taken in the user's terms: a rate below 0 has none, and the direction does not matter to them.
    thresholds = [constraint.limit for constraint in problem.constraints]
    columns = [_margins(noises[k], means[:, k], tau, spreads[k]) for k, tau in enumerate(thresholds, start=1)]
    margin = np.column_stack(columns) if columns else np.zeros((len(means), 0))
    excess = problem.excesses()
    score = means[:, 0] * form.sign[0]
    feasible = np.logical_and.reduce(excess < 0.0, axis=1)
    # Tolerance and slack are ignored: the theory is about finding the best arm itself.
    best = int(np.argmax(np.where(feasible, score, -np.inf))) if feasible.any() else None
    return Truth(
        means=means,
        score=score,
        feasible=feasible,
        best=best,
        margin=margin,
        violated=excess > 0.0,
        noises=noises,
        spreads=spreads,
        uncomputed=_uncomputed(problem, noises, means, margin, spreads),
    )


def _margins(noise: NoiseModel, means: Floats, threshold: float, spreads: list[Any]) -> Floats:
    """By arm: how much a test tells against the mean being on the other side of the threshold."""
    if noise.is_family and not any(spread is not None for spread in spreads):
        return divergence(noise, means, threshold)
    rows = zip(means.tolist(), spreads, strict=True)
    return np.array([information(noise, mean, threshold, spread)[0] for mean, spread in rows])


def beyond_theory(problem: Problem) -> str:
    """Why the theory, which is of tests of one metric each, says nothing about a problem; nothing if it does."""
    if problem.asks != "best":
        return "the theory here is about finding the best feasible arm, and about no other goal"
    if problem.items is not None:
        return "there is no formula here for tests on common items"
    if problem.relative:
        return "there is no formula here for constraints relative to a baseline"
    if len(problem.bundles) < len(problem.parts):
        return "there is no formula here for tests of several metrics at once"
    return ""


def _uncomputed(
    problem: Problem, noises: tuple[NoiseModel, ...], means: Floats, margin: Floats, spreads: list[list[Any]]
) -> str:
    if not_single := beyond_theory(problem):
        return not_single
    # Whether it can be computed does not depend on the mean that it is computed against.
    rows = enumerate(zip(means[:, 0].tolist(), spreads[0], strict=True))
    objective = [bool(np.isnan(information(noises[0], mean, mean, spread)[0])) for _, (mean, spread) in rows]
    unknown = np.column_stack([objective, np.isnan(margin)])
    if not unknown.any():
        return ""
    arm, metric = np.argwhere(unknown)[0].tolist()
    return (
        f"there is no formula here for how much a test of {problem.metrics[metric]!r} tells, if its results scatter as "
        f"the spreads of {problem.arm_names[arm]!r} say"
    )
