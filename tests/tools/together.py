"""Simulated metrics that depend on each other: in one measurement, all of them move together, or against each other."""

from __future__ import annotations

import dataclasses

import numpy as np

from bestarm.problem import Plan
from bestarm.problem.measurements import measurement
from bestarm.simulation.engine import Job


def all_in_one(plan: Plan) -> Plan:
    """The same plan, with all metrics measured at once, at a cost of 1."""
    constraints = tuple(dataclasses.replace(constraint, cost=1.0) for constraint in plan.constraints)
    objective = dataclasses.replace(plan.objective, cost=1.0)
    together = (measurement(*plan.measured),)
    return dataclasses.replace(plan, objective=objective, constraints=constraints, measurements=together)


def tie_together(job: Job, *signs: float) -> Job:
    """The same job in a world where every other metric of a test follows from the draw of the first: it is as many
    standard deviations above its mean, times its sign, as the first is. In normal form, so that with a sign of 1 good
    performance comes with violated constraints. For noises of which a draw is mean plus scale times a standard draw."""
    nature = job.nature
    metrics = len(job.problem.parts)
    chosen = np.array([1.0, *(signs * metrics)[: metrics - 1]])
    turn = chosen * nature.gain / nature.gain[0]
    offset = nature.mean - turn * nature.mean[:, :1]
    tied = nature._replace(source=np.zeros(metrics, np.int64), turn=turn, offset=offset)
    job.__dict__["nature"] = tied
    return job
