"""Which arms a chart shows: all, or the best of very many."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bestarm.analysis.standing.arms import ArmStanding
from bestarm.problem import Plan

MOST_IN_CHART = 60


def charted(plan: Plan, arms: Sequence[ArmStanding], leader: str | None) -> tuple[Sequence[ArmStanding], str]:
    """The arms to show and, if they are not all, a sentence that says which they are."""
    if len(arms) <= MOST_IN_CHART:
        return arms, ""
    sign = 1.0 if plan.objective.goal == "maximize" else -1.0

    def rank(row: ArmStanding) -> tuple[bool, float]:
        mean = row.metrics[0].mean
        return row.name != leader, math.inf if math.isnan(mean) else -sign * mean

    rows = sorted(arms, key=rank)[:MOST_IN_CHART]
    return rows, f"The {MOST_IN_CHART} arms with the best {plan.objective.metric} of {len(arms)}"
