"""How much one test tells: divergences between what a stream is and what it would have to be for another answer."""

from __future__ import annotations

from typing import NamedTuple

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


class Truth(NamedTuple):
    """What the true means say of a problem.

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

    @property
    def worse(self) -> Flags:
        """The arms with a worse objective than the best feasible arm."""
        if self.best is None:
            return np.zeros(len(self.score), dtype=bool)
        worse: Flags = self.score < self.score[self.best]
        return worse

    def objective_divergence(self, p: npt.ArrayLike, q: npt.ArrayLike) -> Floats:
        return divergence(self.noises[0], p, q)


def truth(problem: Problem, *, sub_gaussian: bool = False) -> Truth:
    """The truth about a problem; with `sub_gaussian`, for somebody who knows only the streams' scales."""
    form, means = problem.normal_form(), problem.true_means()
    noises = problem.noises
    if sub_gaussian:
        noises = tuple(Gaussian(noise.scale) for noise in noises)
    # Divergences are taken in the user's terms: a rate below 0 has none, and the direction does not matter to them.
    thresholds = [constraint.limit for constraint in problem.constraints]
    columns = [divergence(noises[k], means[:, k], tau) for k, tau in enumerate(thresholds, start=1)]
    margin = np.column_stack(columns) if columns else np.zeros((len(means), 0))
    excess = means[:, 1:] * form.sign[1:] - form.threshold[1:]
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
    )
