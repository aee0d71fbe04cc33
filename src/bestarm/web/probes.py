"""What those who run the service ask it: whether it lives, and whether it can work."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from bestarm.web import models
from bestarm.web.common import StrictRoute, errors
from bestarm.web.database_health import DatabaseHealth
from bestarm.web.errors import Refusal, json_response


def probes_router(health: DatabaseHealth) -> APIRouter:
    """The routes, where probes expect them."""
    router = APIRouter(route_class=StrictRoute)

    @router.get("/livez", response_model=models.Probe, responses=errors(429, 500, 503), tags=["service"])
    async def alive() -> Response:
        """Whether this process answers; it does not ask the database. If not, restart it."""
        return json_response({"status": "alive"})

    @router.get("/readyz", response_model=models.Probe, responses=errors(429, 500, 503), tags=["service"])
    async def ready() -> Response:
        """Whether requests can be sent here: the database answers, and has the tables of this version."""
        if fault := await health.fault():
            raise Refusal(503, fault, "storage", Retry_After="1")
        return json_response({"status": "ready"})

    return router
