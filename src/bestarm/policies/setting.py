"""From a problem in the user's terms to the setting that policies see."""

from __future__ import annotations

import functools

import numpy as np

from bestarm.evidence.bounds import find_bound
from bestarm.evidence.ceilings import mixture_table
from bestarm.evidence.streams import BOUNDED, GAUSSIAN, scatter
from bestarm.kernel.state import Floats, Ints, Setting
from bestarm.kernel.tables import tabulate
from bestarm.noise import Gaussian
from bestarm.problem import Problem


@functools.lru_cache(maxsize=32)
def _radius_table(bound: str, alpha: float) -> Floats:
    return tabulate(lambda n: find_bound(bound)(n, alpha))


@functools.cache
def _count_tables() -> tuple[Floats, Floats, Floats]:
    return tabulate(lambda n: np.sqrt(2.0 * np.log(n))), tabulate(lambda n: 1.0 / np.sqrt(n)), mixture_table()


def _noise(problem: Problem) -> tuple[Ints, Floats, Floats]:
    """Kind, low and width of every metric in normal form."""
    kinds, lows, widths = [], [], []
    for noise, sign in zip(problem.noises, problem.normal_form().sign, strict=True):
        if isinstance(noise, Gaussian):
            kinds.append(GAUSSIAN)
            lows.append(0.0)
            widths.append(noise.sigma)
        else:
            low, high = noise.range
            kinds.append(BOUNDED)
            lows.append(low if sign > 0 else -high)
            widths.append(high - low)
    return np.array(kinds), np.array(lows), np.array(widths)


def new_setting(problem: Problem, delta: float, bound: str) -> Setting:
    """The setting in which `problem` is decided.

    Confidence radii share delta equally among the streams, as in the paper; levels of evidence share it among the arms
    by their weights.
    """
    form = problem.normal_form()
    streams = len(problem.arms) * len(problem.metrics)
    root_log, inverse_root, mixture = _count_tables()
    kind, low, width = _noise(problem)
    arm_weights = np.array([arm.weight for arm in problem.arms])
    constraint_weights = np.array([1.0, *(constraint.weight for constraint in problem.constraints)])
    constraint_weights[1:] /= constraint_weights[1:].sum()
    return Setting(
        threshold=form.threshold,
        slack=form.slack,
        log_weight=np.log(constraint_weights),
        sigma=form.sigma,
        inverse_sigma=1.0 / form.sigma,
        cost=form.cost,
        inverse_cost=1.0 / form.cost,
        inverse_scatter=1.0 / np.array([*map(scatter, kind, low, width, form.threshold)]),
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
