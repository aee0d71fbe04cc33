"""Who the caller is, and signing in and out with a browser."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from bestarm.web import inputs, models
from bestarm.web.access import Access, caller_of
from bestarm.web.common import ALWAYS, errors
from bestarm.web.errors import Refusal, json_response
from bestarm.web.sessions import set_cookie

_POSTED = errors(*ALWAYS, 400, 408, 413, 415, 422)


def add_signing_in(router: APIRouter, access: Access) -> None:
    """Put the routes into the router."""

    @router.get("/session", response_model=models.Visitor, responses=errors(*ALWAYS), tags=["service"])
    async def get_visitor(request: Request) -> Response:
        """Who you are to this service, and what you may do."""
        return json_response(_visitor(request))

    @router.post("/session", response_model=models.Visitor, responses=_POSTED, tags=["service"])
    async def sign_in(request: Request, body: Annotated[inputs.Empty, Body()]) -> Response:
        """For browsers: exchange the token in the header for a cookie that no script can read.

        It lasts a week, or until the token is revoked or expires.
        """
        if caller_of(request.scope).through != "token":
            raise Refusal(422, "signing in takes the header Authorization: Bearer TOKEN", "Authorization")
        cookie, _ = await access.open_session(request.headers)
        response = json_response(_visitor(request))
        set_cookie(response, request, cookie)
        return response

    @router.post("/session/end", response_model=models.Nothing, responses=_POSTED, tags=["service"])
    async def sign_out(request: Request, body: Annotated[inputs.Empty, Body()]) -> Response:
        """For browsers: end the session, and have the cookie forgotten."""
        await access.end_session(caller_of(request.scope))
        response = json_response({})
        set_cookie(response, request, None)
        return response


def _visitor(request: Request) -> dict[str, str | None]:
    caller = caller_of(request.scope)
    return {"name": caller.name, "role": caller.role, "through": caller.through}
