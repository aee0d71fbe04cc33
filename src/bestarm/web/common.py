"""What the routes have in common: the study's number in their path, and the errors that they may answer with."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request

from bestarm.web import models
from bestarm.web.problems import Problem

Key = Annotated[int, Path(ge=1, le=2**31 - 1, description="The study's number.")]

_REASONS = {
    400: "The body is not valid JSON.",
    401: "The token is missing or wrong.",
    403: "Without a token: the Host is not this machine, or the request comes from another site.",
    404: "There is no such study or test.",
    408: "The body took too long.",
    409: "The test has another outcome, or the name is taken.",
    413: "The body is too large.",
    415: "The body is of the wrong type, or compressed.",
    422: "A value cannot be accepted; the error says which and why.",
    429: "Too many requests.",
    500: "A fault of the service.",
    503: "The database, or the service, cannot do it now; try again.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": models.Error, "description": _REASONS[status]} for status in sorted(statuses)}


ALWAYS = (401, 403, 429, 500, 503)
READ = errors(*ALWAYS, 404, 422)
CHANGE = errors(*ALWAYS, 400, 404, 408, 409, 413, 415, 422)


async def check_type(request: Request) -> None:
    """A form of another site cannot send these types unasked, so a browser's user cannot be made to post."""
    if request.method == "POST":
        wanted = "text/csv" if request.url.path.endswith("/csv") else "application/json"
        if request.headers.get("content-type", "").split(";")[0].strip().casefold() != wanted:
            raise Problem(415, f"the body must be {wanted}, and the header Content-Type must say so", "Content-Type")
