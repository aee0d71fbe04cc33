"""The routes that say what studies there are and where they stand, and that make one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.responses import Response

from bestarm import __version__
from bestarm.problem import Plan
from bestarm.storage.base import Archived, StudyRecord
from bestarm.storage.projects import LONGEST_PROJECT, check_project
from bestarm.validation import InvalidInput
from bestarm.web import inputs, models
from bestarm.web.access import Access, caller_of, who_asks
from bestarm.web.actions import add_actions
from bestarm.web.choices import Choices, all_choices
from bestarm.web.common import (
    ALWAYS,
    DIGITS,
    READ,
    Key,
    StrictRoute,
    errors,
    idempotency_key,
    takes_key,
)
from bestarm.web.comparing import add_comparison
from bestarm.web.compression import accepts_gzip
from bestarm.web.downloads import add_downloads
from bestarm.web.errors import json_response, refused
from bestarm.web.events import ListPage, LiveUpdates
from bestarm.web.limits import Limits
from bestarm.web.metrics import Metrics
from bestarm.web.projects import add_projects
from bestarm.web.proxies import root_path_of
from bestarm.web.shared import SharedStudy
from bestarm.web.signing_in import add_signing_in
from bestarm.web.studies import ServedStudies, kind_for
from bestarm.web.wholesale import add_wholesale

InProject = Annotated[str | None, Query(max_length=LONGEST_PROJECT, description="Only those in this project.")]

_EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}


def make_router(
    served: ServedStudies, live: LiveUpdates, limits: Limits, access: Access, metrics: Metrics
) -> APIRouter:
    """All routes under /api."""
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    # Routes are tried in order: those that are used most come first.
    add_actions(router, served, live, limits, metrics)
    _add_reading(router, served, live, access)
    _add_service(router, served, live, access)
    add_signing_in(router, access)
    add_downloads(router, served)
    add_comparison(router, served, access)
    add_projects(router, served, live, access)
    add_wholesale(router, served, live)
    return router


def _add_service(router: APIRouter, served: ServedStudies, live: LiveUpdates, access: Access) -> None:
    @router.get("/health", responses=errors(403, 429, 500), tags=["service"])
    async def get_health() -> models.Health:
        """That the service is there; needs no token."""
        return models.Health(version=__version__, token=not access.is_open)

    @router.get("/choices", response_model=Choices, responses=errors(*ALWAYS), tags=["service"])
    async def get_choices() -> Response:
        """What a plan can be made of here: noises, policies, bounds and orders, with what installed packages add."""
        # The first time, policies are imported.
        return json_response(await served.threads.run("slow", all_choices))

    @router.get(
        "/events",
        responses={**_EVENTS, **errors(*ALWAYS, 422)},
        response_class=StreamingResponse,
        tags=["service"],
    )
    async def all_events(
        request: Request,
        project: InProject = None,
        before: Annotated[
            int | None, Query(ge=1, lt=2**63, description="Of older studies than this one."), DIGITS
        ] = None,
    ) -> Response:
        """Server-sent events: `studies` whenever one of the hundred newest studies is made or changes."""
        caller = caller_of(request.scope)
        page = ListPage(before, caller.visible(project))
        return live.open_stream(page, lambda: access.is_still_allowed(caller))

    @router.get("/studies", response_model=list[models.StudyRow], responses=errors(*ALWAYS, 422), tags=["studies"])
    async def list_studies(
        request: Request,
        project: InProject = None,
        archived: Annotated[Archived, Query(description="List the archived studies too, or only them.")] = "false",
        name: Annotated[str | None, Query(max_length=inputs.LONGEST_NAME, description="Only this one.")] = None,
        contains: Annotated[str, Query(max_length=inputs.LONGEST_NAME, description="Part of the name.")] = "",
        before: Annotated[int | None, Query(ge=1, lt=2**63, description="Only older ones than this."), DIGITS] = None,
        limit: Annotated[int, Query(ge=1, le=1000, description="The largest number to return."), DIGITS] = 100,
    ) -> Response:
        """Studies, the newest first. For more than one page, ask for those before the last one's number."""

        visible = caller_of(request.scope).visible(project)

        def wanted() -> list[StudyRecord]:
            if name is None:
                return served.newest(limit, visible, before=before, archived=archived, contains=contains)
            found = served.storage.find_study(name)
            if found is None or (visible is not None and found.project not in visible):
                return []
            if archived != "true" and (found.archived is None) != (archived == "false"):
                return []
            return [found]

        return json_response(await served.rows(wanted))

    @router.post(
        "/studies",
        response_model=models.StudyRow,
        responses=errors(*ALWAYS, 400, 408, 409, 413, 415, 422, 504),
        status_code=201,
        openapi_extra=takes_key(),
        tags=["studies"],
    )
    async def create_study(body: inputs.NewStudy, request: Request) -> Response:
        """Make a study from a plan. It takes the role manage in its project."""
        caller = caller_of(request.scope)
        project = caller.grants.usual_project if body.project is None else check_project(body.project)
        caller.check_project(project)
        kind = kind_for(len(await request.body()))
        try:
            plan = await served.threads.run(kind, lambda: Plan.from_data(body.plan))
        except InvalidInput as error:
            raise refused(error, served.storage.url, "plan.") from None

        def make() -> SharedStudy:
            named, key = Plan.of(plan, name=body.name), idempotency_key(request)
            seeds, author = (body.seed, body.items_seed), who_asks(request, None)
            return served.new_study(named, *seeds, key, author=author, project=project)

        study = await served.create(kind, make)
        live.nudge(study.record.key)
        snapshot = await served.snapshot(study.record.key)
        location = f"{root_path_of(request.scope)}/api/studies/{study.record.key}"
        return json_response(snapshot.row, 201, {"Location": location})


def _add_reading(router: APIRouter, served: ServedStudies, live: LiveUpdates, access: Access) -> None:
    @router.get(
        "/studies/{study}",
        response_model=models.StudyStatus,
        responses={304: {"description": "Nothing has changed since that version."}, **READ},
        tags=["studies"],
    )
    async def get_status(study: Key, request: Request) -> Response:
        """Where a study stands. Its version is the ETag."""
        snapshot = await served.snapshot(study)
        tag = f'W/"{snapshot.version}"'
        headers = {"ETag": tag, "Vary": "Accept-Encoding"}
        known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
        if tag.removeprefix("W/") in known:
            return Response(status_code=304, headers=headers)
        is_zipped = accepts_gzip(request.headers)
        if is_zipped:
            headers["Content-Encoding"] = "gzip"
        body = await served.made(study, snapshot, "zipped" if is_zipped else "body")
        return Response(body, headers=headers, media_type="application/json")

    @router.get("/studies/{study}/pending", response_model=list[models.PendingTest], responses=READ, tags=["studies"])
    async def get_pending(
        study: Key,
        after: Annotated[int, Query(ge=0, lt=2**63, description="Only tests with a higher number."), DIGITS] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="The largest number to return."), DIGITS] = 1000,
    ) -> Response:
        """The tests whose results are out, and who holds them. For more than one page, ask for those after the last."""

        def rows(one: SharedStudy) -> list[dict[str, Any]]:
            return [one.pending_data(test, row) for test, row in one.pending(after=after, limit=limit)]

        return json_response(await served.record(study, rows))

    @router.get("/studies/{study}/waiting", response_model=list[models.WaitingResult], responses=READ, tags=["studies"])
    async def get_waiting(
        study: Key,
        after: Annotated[int, Query(ge=0, lt=2**63, description="Only tests with a higher number."), DIGITS] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="The largest number to return."), DIGITS] = 1000,
    ) -> Response:
        """The results that are recorded and do not count yet: earlier tests, or others of their block, have none."""
        return json_response(await served.decide(study, lambda one: one.waiting_data(after, limit)))

    @router.get("/studies/{study}/history", response_model=models.Progress, responses=READ, tags=["studies"])
    async def get_history(
        study: Key,
        points: Annotated[int, Query(ge=2, le=5000, description="The largest number to return."), DIGITS] = 500,
    ) -> Response:
        """How tests and cost have grown over time."""
        progress = await served.decide(study, SharedStudy.progress)
        kept = _spread(len(progress.time), points)
        columns: dict[str, list[Any]] = progress._asdict()
        return json_response({name: [column[k] for k in kept] for name, column in columns.items()})

    @router.get("/studies/{study}/forecast", response_model=models.Forecast | None, responses=READ, tags=["studies"])
    async def get_forecast(
        study: Key,
        request: Request,
        runs: Annotated[int | None, Query(ge=1, le=1000, description="How many studies to simulate."), DIGITS] = None,
        seed: Annotated[int, Query(ge=0, lt=2**31, description="Of the simulation, if runs is given."), DIGITS] = 0,
    ) -> Response:
        """How many more tests it will take, by simulation; null if it is done, or not everything has a result yet.

        Unless `runs` is given, what is returned may be some seconds old, or minutes if the simulation takes long:
        `after` says which results it knows.
        """
        shared = await served.study(study)
        outlook = await served.threads.run_while_wanted(
            "forecasts",
            request,
            shared.usual_forecast if runs is None else lambda wanted: shared.forecast_while(wanted, runs, seed),
        )
        return json_response(None if outlook is None else outlook.to_dict())

    @router.get(
        "/studies/{study}/differences",
        response_model=dict[str, models.Difference],
        responses=READ,
        tags=["studies"],
    )
    async def get_differences(
        study: Key,
        arm: Annotated[
            str | None, Query(description="Better than the others by how much? By default the leader.")
        ] = None,
    ) -> Response:
        """By how much, at least and at most, an arm performs better than each other; empty if no arm leads."""
        return json_response(await served.decide(study, lambda one: one.differences(arm)))

    @router.get("/studies/{study}/done", response_model=models.Done, responses=READ, tags=["studies"])
    async def get_done(study: Key) -> Response:
        """Whether the study is done; much less work than its whole status."""
        return json_response({"done": await served.decide(study, lambda one: one.done)})

    @router.get("/studies/{study}/log", response_model=list[models.LogEntry], responses=READ, tags=["studies"])
    async def get_log(
        study: Key,
        last: Annotated[int, Query(ge=1, le=10_000, description="How many events, the newest."), DIGITS] = 100,
    ) -> Response:
        """What happened, the oldest first. For a very long study it may be a few seconds old."""
        shared = await served.study(study)
        events = await served.together(
            study, f"log {last}", lambda: served.do_slowly(study, lambda one: one.recent_log(last))
        )
        return json_response([shared.event_data(event) for event in events])

    @router.get(
        "/studies/{study}/events",
        responses={**_EVENTS, **READ},
        response_class=StreamingResponse,
        tags=["studies"],
    )
    async def study_events(study: Key, request: Request) -> Response:
        """Server-sent events: `change` with the version, state, guarantee, tests and confidence, at once and then
        whenever something changes."""
        await served.study(study)
        caller = caller_of(request.scope)
        return live.open_stream(study, lambda: access.is_still_allowed(caller, study))


def _spread(count: int, points: int) -> list[int]:
    """At most `points` of `count` places, evenly, the last always."""
    if count <= points:
        return list(range(count))
    return [round(k * (count - 1) / (points - 1)) for k in range(points)]
