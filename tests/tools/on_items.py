"""Studies with items for tests. Each has a constraint of every noise, so that all of them run one compiled program."""

from __future__ import annotations

import dataclasses

from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.exact import Exact
from bestarm.noises.gaussian import Gaussian
from bestarm.noises.symmetric import Symmetric
from bestarm.problem import Arm, Plan, at_most
from bestarm.problem.measurements import measurement

EASY = {"rate": 0.0, "load": -9.0, "time": -9.0, "size": 1.0}
"""Means of the further constraints, which every arm keeps by far."""


def with_every_noise(plan: Plan, *, together: bool = True) -> Plan:
    """The same plan with four more constraints, one of each kind of noise, that are measured with the rest."""
    more = (
        at_most("rate", 0.9, noise=Bernoulli()),
        at_most("load", 9.0, noise=Gaussian(1.0)),
        at_most("time", 9.0, noise=Symmetric()),
        at_most("size", 3.0, noise=Exact()),
    )
    arms: list[Arm] = []
    for arm in plan.arms:
        means = None if arm.means is None else {**arm.means, **EASY}
        spreads = None if arm.means is None else {**(arm.spreads or {}), "time": 1.0}
        arms.append(dataclasses.replace(arm, means=means, spreads=spreads))
    constraints = (*plan.constraints, *more)
    metrics = dict.fromkeys([plan.objective.metric, *(constraint.metric for constraint in constraints)])
    measurements = (measurement(*metrics),) if together else plan.measurements
    return dataclasses.replace(plan, arms=tuple(arms), constraints=constraints, measurements=measurements)
