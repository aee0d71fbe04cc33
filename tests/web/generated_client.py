"""Runs a study with a client that was generated from the description: `python generated_client.py URL`.

The package `generated` must be importable.
"""

from __future__ import annotations

import sys

from generated import Client
from generated.api.studies import create_study, get_status
from generated.api.tests import ask, tell
from generated.models import (
    Ask,
    GaussianNoise,
    NamedNoise,
    NewStudy,
    Plan,
    PlanConstraint,
    PlanObjective,
    PlanObjectiveGoal,
    Result,
    Tell,
)

service = Client(base_url=sys.argv[1])
plan = Plan(
    arms=["small", "large", "unsafe"],
    objective=PlanObjective(metric="gain", goal=PlanObjectiveGoal.MAXIMIZE, noise=GaussianNoise(0.1)),
    constraints=[PlanConstraint(metric="harm", at_most=0.5, noise=NamedNoise.BERNOULLI)],
)
study = create_study.sync(client=service, body=NewStudy(plan=plan, name="by a generated client"))
values: dict[str, dict[str, float]] = {
    "gain": {"small": 0.1, "large": 0.9, "unsafe": 1.9},
    "harm": {"small": 0.0, "large": 0.0, "unsafe": 1.0},
}
while not (asked := ask.sync(study.id, client=service, body=Ask(n=4))).done:
    results = [Result(test=test.id, value=values[test.metric][test.arm]) for test in asked.tests]
    tell.sync(study.id, client=service, body=Tell(results=results))
status = get_status.sync(study.id, client=service)
print(status.answer, status.guarantee, status.conclusion.arm, status.plan.constraints[0].at_most)
