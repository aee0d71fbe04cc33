"""From a problem in the user's terms to the setting that policies see."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from bestarm.evidence.bounds import find_bound
from bestarm.evidence.ceilings import mixture_table
from bestarm.evidence.streams import BOUNDED, GAUSSIAN, scatter
from bestarm.kernel.state import Floats, Ints, Setting
from bestarm.kernel.tables import tabulate
from bestarm.noises import Gaussian
from bestarm.problem import Constraint, Problem


@functools.lru_cache(maxsize=32)
def _radius_table(bound: str, alpha: float) -> Floats:
    return tabulate(lambda n: find_bound(bound)(n, alpha))


@functools.cache
def _count_tables() -> tuple[Floats, Floats, Floats]:
    return tabulate(lambda n: np.sqrt(2.0 * np.log(n))), tabulate(lambda n: 1.0 / np.sqrt(n)), mixture_table()


def references(problem: Problem, first: float = 0.0) -> Floats:
    """By metric, what values are best kept relative to, so that no digit is lost where it matters.

    It is a Gaussian constraint's threshold, the lower end of a bounded metric's range, and `first`, some value of the
    objective in the user's terms, where the objective is Gaussian.
    """
    found = []
    for part, sign in zip(problem.parts, problem.normal_form().sign.tolist(), strict=True):
        if not isinstance(part.noise, Gaussian):
            low, high = part.noise.range
            found.append(low if sign > 0 else -high)
        else:
            found.append(sign * (part.threshold if isinstance(part, Constraint) else first))
    return np.array(found)


def true_references(problem: Problem) -> Floats:
    """The references of a simulation: the objective's is the first arm's true mean."""
    return references(problem, float(problem.true_means()[0, 0]))


def to_normal(problem: Problem, setting: Setting, metric: Any, value: Any) -> Any:
    """A user's value of a metric in normal form. Takes arrays too."""
    with np.errstate(over="ignore", invalid="ignore"):
        return problem.normal_form().sign[metric] * value - setting.reference[metric]


def to_user(problem: Problem, setting: Setting, metric: Any, value: Any) -> Any:
    """A value in normal form in the user's terms. Takes arrays too."""
    with np.errstate(over="ignore", invalid="ignore"):
        return problem.normal_form().sign[metric] * (value + setting.reference[metric])


def _noise(problem: Problem, reference: Floats) -> tuple[Ints, Floats, Floats]:
    """Kind, low and width of every metric in normal form."""
    kinds, lows, widths = [], [], []
    for metric, (noise, sign) in enumerate(zip(problem.noises, problem.normal_form().sign, strict=True)):
        if isinstance(noise, Gaussian):
            kinds.append(GAUSSIAN)
            lows.append(0.0)
            widths.append(noise.sigma)
        else:
            low, high = noise.range
            kinds.append(BOUNDED)
            lows.append((low if sign > 0 else -high) - reference[metric])
            widths.append(high - low)
    return np.array(kinds), np.array(lows), np.array(widths)


def new_setting(problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Setting:
    """The setting in which `problem` is decided.

    Confidence radii share delta equally among the streams, as in the paper; levels of evidence share it among the arms
    by their weights. Live studies and simulations keep values relative to `references(…)`; without any, a value in
    normal form is the user's value times the metric's sign, which is handier for a policy that is told by hand.
    """
    form = problem.normal_form()
    reference = np.zeros(len(form.sign)) if reference is None else reference.copy()
    # That of the objective, which has no threshold, is never read.
    threshold = np.concatenate([[0.0], form.threshold[1:] - reference[1:]])
    streams = len(problem.arms) * len(problem.metrics)
    root_log, inverse_root, mixture = _count_tables()
    kind, low, width = _noise(problem, reference)
    arm_weights = np.array([arm.weight for arm in problem.arms])
    constraint_weights = np.array([1.0, *(constraint.weight for constraint in problem.constraints)])
    constraint_weights[1:] /= constraint_weights[1:].sum()
    return Setting(
        reference=reference,
        threshold=threshold,
        slack=form.slack,
        log_weight=np.log(constraint_weights),
        sigma=form.sigma,
        inverse_sigma=1.0 / form.sigma,
        cost=form.cost,
        inverse_cost=1.0 / form.cost,
        inverse_scatter=1.0 / np.array([*map(scatter, kind, low, width, threshold)]),
        kind=kind,
        low=low,
        width=width,
        level=-np.log(delta * arm_weights / arm_weights.sum()),
        tolerance=problem.objective.tolerance,
        delta=delta,
        radius=_radius_table(bound, delta / streams),
        root_log=root_log,
        inverse_root=inverse_root,
        mixture=mixture,
    )
