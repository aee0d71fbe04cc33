"""The paper's complexity of a problem: θ, φ, the sets I and W, and H (its equations for θ_i, φ_i and H)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from bestarm.theory.information import Floats, Truth

ArmSet = Literal["best", "I", "W"]


class Complexity(NamedTuple):
    """By arm: how hard it is to tell its feasibility (θ) and its performance (φ), and which way is easier.

    `sets` says "best" for i*, "I" for arms to be found infeasible and "W" for arms to be found worse.
    """

    theta: Floats
    phi: Floats
    sets: tuple[ArmSet, ...]
    arms: Floats

    @property
    def total(self) -> float:
        """H, the sum of the arms' complexities."""
        return float(self.arms.sum())

    def members(self, way: ArmSet) -> list[int]:
        return [arm for arm, its_way in enumerate(self.sets) if its_way == way]


def _inverse(information: Floats) -> Floats:
    """A gap's complexity, 1 / (2 · information): the gap in units of σ to the power of -2 when noise is Gaussian."""
    with np.errstate(divide="ignore", over="ignore"):
        complexity: Floats = 1.0 / (2.0 * information)
        return complexity


def complexity(truth: Truth) -> Complexity:
    """The complexity terms of a problem; a gap of zero makes them infinite."""
    theta, phi = _feasibility(truth), _performance(truth)
    sets = tuple(_set_of(truth, arm, theta, phi) for arm in range(len(theta)))
    by_way = {"best": theta + phi, "I": theta, "W": phi}
    return Complexity(theta, phi, sets, np.array([by_way[way][arm] for arm, way in enumerate(sets)]))


def _feasibility(truth: Truth) -> Floats:
    """θ: every constraint of a feasible arm must be checked, but one violated constraint excludes an arm."""
    every = _inverse(truth.margin)
    easiest = np.where(truth.violated, every, np.inf).min(axis=1, initial=np.inf)
    theta: Floats = np.where(truth.feasible, every.sum(axis=1), easiest)
    return theta


def _performance(truth: Truth) -> Floats:
    """φ: infinite for arms that performance cannot exclude, and 0 for a best arm without feasible rivals."""
    phi = np.full(len(truth.score), np.inf)
    if truth.best is None:
        return phi
    objective, best = truth.means[:, 0], truth.best
    gaps = _inverse(truth.objective_information(np.arange(len(phi)), objective[best]))
    # Two arms with the same value that never varies are both best.
    worse = truth.score <= truth.score[best] if truth.noises[0].is_exact else truth.worse
    phi[worse] = gaps[worse]
    rivals = truth.feasible.copy()
    rivals[best] = False
    phi[best] = 0.0
    if rivals.any():
        second = np.flatnonzero(rivals)[np.argmax(truth.score[rivals])]
        phi[best] = _inverse(truth.objective_information(best, objective[second]))[0]
    return phi


def _set_of(truth: Truth, arm: int, theta: Floats, phi: Floats) -> ArmSet:
    if arm == truth.best:
        return "best"
    if truth.feasible[arm]:
        return "W"
    if truth.worse[arm] and theta[arm] >= phi[arm]:
        return "W"
    return "I"
