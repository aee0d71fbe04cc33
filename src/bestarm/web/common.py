"""What the routes have in common: the study's number in their path, and the errors that they may answer with."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Path, Request
from fastapi.routing import APIRoute
from pydantic import BeforeValidator, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from bestarm.parsing import Malformed, read_json
from bestarm.storage.keys import LONGEST_KEY, check_key
from bestarm.study.intake.xlsx_file import XLSX
from bestarm.validation import InvalidInput
from bestarm.web import models
from bestarm.web.access import caller_of
from bestarm.web.errors import Refusal
from bestarm.web.roles import ANYBODY, demand


def _digits(text: Any) -> Any:
    # Pydantic reads 1_000 as Python does.
    if isinstance(text, str) and not (text.isascii() and text.removeprefix("-").isdecimal()):
        raise PydanticCustomError("int_parsing", "must be a whole number")
    return text


DIGITS = BeforeValidator(_digits)
"""A whole number in an address: decimal digits only. It comes last, so that its limits are described as such."""

Key = Annotated[int, Path(ge=1, le=2**31 - 1, description="The study's number."), DIGITS]

_KEY: TypeAdapter[int] = TypeAdapter(Key)

_REASONS = {
    400: "The body is not valid JSON.",
    401: "The token is missing or wrong, has been revoked, or has expired.",
    403: "The token's roles do not allow it. Without tokens: the Host is not this machine, or the request comes from "
    "another site.",
    404: "There is no such study or test, or the study is in a project that the token may not read.",
    408: "The body took too long.",
    409: "The test has another outcome, or the name is taken.",
    413: "The body is too large.",
    415: "The body is of the wrong type, or compressed.",
    422: "A value cannot be accepted; the error says which and why.",
    429: "Too many requests.",
    500: "A fault of the service.",
    503: "The database, or the service, cannot do it now; try again.",
    504: "The database was lost before it answered: whether it was done is not known. Repeat under the same key.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": models.Error, "description": _REASONS[status]} for status in sorted(statuses)}


ALWAYS = (401, 403, 429, 500, 503)
READ = errors(*ALWAYS, 404, 422)
CHANGE = errors(*ALWAYS, 400, 404, 408, 409, 413, 415, 422, 504)


def file_of(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """An answer that is a file, of one of these types."""
    forms = {"application/json": {"type": "object"}, XLSX: {"type": "string", "format": "binary"}}
    return {200: {"content": {kind: {"schema": forms.get(kind, {"type": "string"})} for kind in kinds}}}


BACKUP = "application/octet-stream"
_FILES = {"csv": ("text/csv", XLSX), "backup": (BACKUP,)}
"""The types of the files that are sent to a route, by the end of its path."""


class StrictRoute(APIRoute):
    """A route for callers with the role that it needs.

    Its JSON bodies give no field twice, where the last would silently win, and cannot upset the reader.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        needs = demand(self.methods or (), self.path)

        async def strict(request: Request) -> Response:
            if needs.role != ANYBODY:
                caller_of(request.scope).check(needs)
                if (study := _study_in(request)) is not None:
                    await request.app.state.access.admit(request.scope, study, needs)
            if request.method == "POST":
                # A form of another site cannot send these types without permission, so it cannot post through a user's
                # browser.
                wanted = _FILES.get(self.path.rpartition("/")[2], ("application/json",))
                if request.headers.get("content-type", "").split(";")[0].strip().casefold() not in wanted:
                    reason = f"the body must be {' or '.join(wanted)}, and the header Content-Type must say so"
                    raise Refusal(415, reason, "Content-Type")
                if "application/json" in wanted and (body := await request.body()):
                    # The request caches it here.
                    request._json = _read_body(body)
            return await handle(request)

        return strict


def _study_in(request: Request) -> int | None:
    """The number of the study that a request is about. One that cannot be read is refused by the route."""
    try:
        return _KEY.validate_python(request.path_params.get("study"))
    except ValidationError:
        return None


def _read_body(body: bytes) -> Any:
    try:
        return read_json(body)
    except InvalidInput as error:
        said = f"the body is {error}" if isinstance(error, Malformed) else str(error)
        raise Refusal(400, said, kind=error.kind, complaints=error.complaints) from None


def takes_key() -> dict[str, Any]:
    """The part of a route's description about keys: a repeat under the same key is carried out once."""
    description = (
        "A text of the client's making, one for each thing to do. Sent again with the same key, the request is not "
        "done again: its answer is that of the first time."
    )
    schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY}
    header = {"name": "Idempotency-Key", "in": "header", "required": False}
    return {"parameters": [header | {"description": description, "schema": schema}]}


def idempotency_key(request: Request) -> str | None:
    """The key under which a client does something, None if it gives none."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    return check_key(key, "Idempotency-Key")
