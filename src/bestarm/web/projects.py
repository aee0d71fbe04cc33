"""The routes about projects: which there are, and moving a study to another."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from bestarm.storage.projects import DEFAULT_PROJECT, check_project
from bestarm.validation import NotFound
from bestarm.web import inputs, models
from bestarm.web.access import Access, caller_of, who_asks
from bestarm.web.common import ALWAYS, CHANGE, Key, errors
from bestarm.web.errors import json_response, no_such_study
from bestarm.web.events import LiveUpdates
from bestarm.web.studies import ServedStudies


def add_projects(router: APIRouter, served: ServedStudies, live: LiveUpdates, access: Access) -> None:
    """Put the routes into the router."""

    @router.get("/projects", response_model=list[models.Project], responses=errors(*ALWAYS), tags=["projects"])
    async def list_projects(request: Request) -> Response:
        """The projects that the caller may see, by name: those with studies, those that their roles name, and the
        default one."""
        grants = caller_of(request.scope).grants
        counts = await served.do(served.storage.projects)
        names = {DEFAULT_PROJECT, *grants.by_project, *counts}
        rows = []
        for name in sorted(names):
            if (role := grants.role_in(name)) is not None:
                there, archived = counts.get(name, (0, 0))
                rows.append({"name": name, "role": role, "studies": there, "archived": archived})
        return json_response(rows)

    @router.post("/studies/{study}/move", response_model=models.Nothing, responses=CHANGE, tags=["projects"])
    async def move(study: Key, body: Annotated[inputs.Move, Body()], request: Request) -> Response:
        """Put the study into another project. It takes the role manage in both."""
        caller, holder = caller_of(request.scope), who_asks(request, None)
        caller.check_project(check_project(body.project))
        try:
            await served.do(lambda: served.storage.move(study, body.project, holder, within=caller.project))
        except NotFound:
            raise no_such_study(study) from None
        access.forget_project(study)
        live.nudge(study)
        return json_response({})
