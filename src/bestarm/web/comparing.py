"""The route that puts several studies side by side."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from bestarm.analysis.standing.arms import Verdict
from bestarm.validation import InvalidInput
from bestarm.web import models
from bestarm.web.access import Access, caller_of
from bestarm.web.common import READ
from bestarm.web.errors import json_response
from bestarm.web.shared import Snapshot
from bestarm.web.studies import ServedStudies

MOST_STUDIES = 12
MOST_ARMS = 12
"""Arms shown of each study: more would not be readable side by side."""


class ComparedArm(BaseModel):
    """An arm of a study: where it stands, and its objective. What is not known or infinite is null."""

    name: str
    verdict: Verdict
    tests: int
    mean: float | None
    low: float | None
    high: float | None


class ComparedStudy(BaseModel):
    """A study beside others: its line in the list of studies, what is asked and what is known, and its first arms.

    `arms` are the answer or the leader, then the arms that can still be the answer, then the others; `further` is how
    many are left out for want of room. `objective` and `goal` say what their means and intervals are of.
    """

    line: models.StudyRow
    question: str
    known: str
    progress: float
    regret_at_most: float | None
    objective: str
    goal: Literal["maximize", "minimize"]
    arms: list[ComparedArm]
    further: int


def add_comparison(router: APIRouter, served: ServedStudies, access: Access) -> None:
    """Put the route into the router."""

    @router.get("/comparison", response_model=list[ComparedStudy], responses=READ, tags=["studies"])
    async def compare_studies(
        request: Request,
        studies: Annotated[
            str,
            Query(
                pattern=r"^[1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*$",
                max_length=10 * MOST_STUDIES,
                description=f"Their numbers, with commas between them; at most {MOST_STUDIES}.",
            ),
        ],
    ) -> Response:
        """Several studies side by side: answer, tests, cost, and the intervals of the arms that matter."""
        keys = list(dict.fromkeys(int(number) for number in studies.split(",")))
        if len(keys) > MOST_STUDIES:
            raise InvalidInput("studies", studies, f"there can be at most {MOST_STUDIES} side by side")
        caller = caller_of(request.scope)
        for key in keys:
            await access.at(caller, key)
        found = await asyncio.gather(*(served.snapshot(key) for key in keys))
        return json_response(await served.threads.run("slow", lambda: [_compared(snapshot) for snapshot in found]))


def _compared(snapshot: Snapshot) -> dict[str, Any]:
    status = snapshot.whole()
    first, possible = {*status["answered"], status["leader"]}, set(status["candidates"])
    # Sorting keeps the user's order among equals.
    arms = sorted(status["arms"], key=lambda arm: (arm.name not in first, arm.name not in possible))
    objective = status["plan"]["objective"]
    return {
        "line": snapshot.row,
        "question": status["question"],
        "known": status["known"],
        "progress": status["progress"],
        "regret_at_most": status["regret_at_most"],
        "objective": objective["metric"],
        "goal": objective["goal"],
        "arms": [
            {name: getattr(arm, name) for name in ("name", "verdict")}
            | {name: getattr(arm.metrics[0], name) for name in ("tests", "mean", "low", "high")}
            for arm in arms[:MOST_ARMS]
        ],
        "further": max(0, len(arms) - MOST_ARMS),
    }
