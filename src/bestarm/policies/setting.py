"""From a problem in the user's terms to the setting that policies see."""

from __future__ import annotations

import functools

import numpy as np

from bestarm.evidence.bounds import find_bound
from bestarm.kernel.state import Floats, Setting
from bestarm.kernel.tables import tabulate
from bestarm.problem import Problem


@functools.lru_cache(maxsize=32)
def _radius_table(bound: str, alpha: float) -> Floats:
    return tabulate(lambda n: find_bound(bound)(n, alpha))


@functools.cache
def _count_tables() -> tuple[Floats, Floats]:
    return tabulate(lambda n: np.sqrt(2.0 * np.log(n))), tabulate(lambda n: 1.0 / np.sqrt(n))


def new_setting(problem: Problem, delta: float, bound: str) -> Setting:
    """The setting in which `problem` is decided, with delta shared equally among the streams as in the paper."""
    form = problem.normal_form()
    streams = len(problem.arms) * len(problem.metrics)
    root_log, inverse_root = _count_tables()
    return Setting(
        threshold=form.threshold,
        sigma=form.sigma,
        inverse_sigma=1.0 / form.sigma,
        cost=form.cost,
        delta=delta,
        radius=_radius_table(bound, delta / streams),
        root_log=root_log,
        inverse_root=inverse_root,
    )
