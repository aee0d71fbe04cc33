"""What a problem costs any algorithm, and what it costs Algorithm 1, computed from its true means."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from bestarm.answer import finite, plain
from bestarm.problem import Plan, Problem
from bestarm.theory.allocation import oracle
from bestarm.theory.bounds import divergence_bound, lower_bound, upper_bound
from bestarm.theory.complexity import ArmSet, complexity
from bestarm.theory.information import Floats, beyond_theory, truth

__all__ = ["ArmTheory", "Theory", "analyze"]


@dataclasses.dataclass(frozen=True)
class ArmTheory:
    """How hard one arm is: `theta` for its feasibility, `phi` for its performance, `H` for what its `set` asks for."""

    name: str
    feasible: bool
    theta: float
    phi: float
    set: ArmSet
    H: float


@dataclasses.dataclass(frozen=True, eq=False)
class Theory:
    """What a problem costs: bounds on expected tests, and the characteristic time and `kl_bound` on expected cost.

    `answer` is None when no arm is feasible. `allocation` [arm, metric] is the oracle's share of each stream.
    """

    answer: str | None
    H: float
    lower_bound: float
    upper_bound: float
    upper_bound_epochs: float
    characteristic_time: float
    kl_bound: float
    arms: tuple[ArmTheory, ...]
    allocation: Floats
    metrics: tuple[str, ...]
    not_computed: tuple[str, ...] = ()
    """Sentences on what is not known, and why: figures that are NaN."""

    def summary(self) -> dict[str, Any]:
        """Plain data for JSON; what is infinite, or undefined because of it, or not computed, is None."""
        return {
            "answer": "none" if self.answer is None else self.answer,
            "H": finite(self.H),
            "lower_bound": finite(self.lower_bound),
            "upper_bound": finite(self.upper_bound),
            "characteristic_time": finite(self.characteristic_time),
            "kl_bound": finite(self.kl_bound),
            "arms": plain(self.arms),
            "allocation": {
                arm.name: plain(dict(zip(self.metrics, row.tolist(), strict=True)))
                for arm, row in zip(self.arms, self.allocation, strict=True)
            },
            "not_computed": list(self.not_computed),
        }


def analyze(problem: Problem, delta: float) -> Theory:
    """The bounds on what `problem`, whose true means must be known, costs when wrong answers have probability `delta`.

    >>> from bestarm import Arm, Gaussian, Problem, maximize
    >>> arms = (Arm("a", {"yield": 1.0}), Arm("b", {"yield": 0.0}))
    >>> theory = analyze(Problem(arms=arms, objective=maximize("yield", noise=Gaussian(1.0))), delta=0.1)
    >>> theory.answer, theory.H, round(theory.characteristic_time, 9), theory.allocation.round(9).tolist()
    ('a', 2.0, 8.0, [[0.5], [0.5]])
    """
    delta = dataclasses.replace(Plan.of(problem), delta=delta).delta
    facts = truth(problem)
    sizes, best = complexity(facts), oracle(problem)
    if facts.uncomputed:
        nothing = np.full(len(problem.arms), np.nan)
        sizes = sizes._replace(theta=nothing, phi=nothing, arms=nothing)
    names, notes = problem.arm_names, []
    if facts.uncomputed:
        notes.append(f"Not computed: H, Theorem 1, T* and the oracle's tests, because {facts.uncomputed}.")
    tests = epochs = math.nan
    if reason := beyond_theory(problem):
        notes.append(f"Not computed: Theorem 2, because {reason}.")
    elif unscaled := [part.metric for part in problem.parts if part.noise.needs_spread]:
        notes.append(
            "Not computed: Theorem 2, because Algorithm 1 has to know how much results scatter at most, and nothing is "
            f"stated of {unscaled[0]!r}."
        )
    else:
        ceiling = upper_bound(problem, delta)
        tests, epochs = ceiling.tests, ceiling.epochs
    return Theory(
        answer=None if facts.best is None else names[facts.best],
        H=sizes.total,
        lower_bound=lower_bound(sizes.total, delta),
        upper_bound=tests,
        upper_bound_epochs=epochs,
        characteristic_time=best.characteristic_time,
        kl_bound=divergence_bound(best.characteristic_time, delta),
        arms=tuple(
            ArmTheory(name, bool(facts.feasible[k]), float(sizes.theta[k]), float(sizes.phi[k]), way, float(own))
            for k, (name, way, own) in enumerate(zip(names, sizes.sets, sizes.arms, strict=True))
        ),
        allocation=best.allocation,
        metrics=problem.metrics,
        not_computed=tuple(notes),
    )
