"""Errors as the service answers them: JSON with the field and the reason, and a status that says whose fault it is."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from bestarm.storage.errors import OutcomeUnknown, StorageError
from bestarm.study.study import AlreadyTold
from bestarm.validation import InvalidInput
from bestarm.web.description import allowed_methods
from bestarm.web.threads import Gone

LONGEST_REASON = 10_000
_INTERNAL = "The service failed at this request; its log says more."

_log = logging.getLogger("bestarm.web")


class Problem(Exception):
    """Ends a request with a status, the field at fault and the reason."""

    def __init__(self, status: int, reason: str, field: str | None = None, **headers: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.field = field
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class NotThere(InvalidInput):
    """The study or test that a request is about does not exist."""


class Taken(InvalidInput):
    """Another study has the name."""


def json_bytes(data: Any) -> bytes:
    """JSON that any parser takes. Infinite numbers are null; halves of characters, which may come in, are replaced."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(item) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(item) for item in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_bytes(data), status, dict(headers or {}), "application/json")


def refusal(problem: Problem) -> Response:
    reason = problem.reason
    if len(reason) > LONGEST_REASON:
        reason = f"{reason[:LONGEST_REASON]}…"
    return json_response({"error": {"field": problem.field, "reason": reason}}, problem.status, problem.headers)


_FIELD = re.compile(r"(?P<field>[a-z_]+(?:\[\d+\]|\.[a-z_]+)*)(?: of '.*?'| \(.*?\))?(?: = |: | is missing| lacks )")


def field_of(sentence: str) -> str | None:
    """The field that a sentence such as "delta = 2: must lie …" is about."""
    found = _FIELD.match(sentence)
    return found["field"] if found else None


def as_problem(error: InvalidInput | StorageError, storage_url: str, prefix: str = "") -> Problem:
    """What a study complained of. Where the database is, is nobody's business."""
    reason = str(error).replace(repr(storage_url), "this service")
    field = field_of(reason)
    if isinstance(error, OutcomeUnknown):
        return Problem(504, reason.removeprefix("storage = this service: "), None)
    if isinstance(error, StorageError) or field == "storage":
        return Problem(503, reason.removeprefix("storage = this service: "), None, Retry_After="1")
    if isinstance(error, NotThere):
        return Problem(404, reason, field)
    status = 409 if isinstance(error, AlreadyTold | Taken) else 422
    return Problem(status, reason, prefix + field if field else None)


_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a known field",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_unicode": "must not contain halves of characters",
    "dict_type": "must be an object",
    "model_attributes_type": "must be an object",
    "model_type": "must be an object",
    "list_type": "must be a list",
}


def _path(location: Iterable[str | int]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def _bad_request(error: RequestValidationError) -> Problem:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return Problem(400, f"the body is not valid JSON: {first['ctx']['error']}")
    source, *rest = first["loc"]
    # Of a value that may be a number or true or false, pydantic names the kind too.
    field = _path(part for part in rest if part not in ("float", "bool")) or None
    words = _WORDS.get(first["type"]) or str(first["msg"]).replace("Input should", "must").replace("String", "must")
    if field is None:
        return Problem(422, f"the {source} {words}")
    return Problem(422, f"{field}{' ' if words.startswith('is ') else ': '}{words}", field)


_PHRASES = {404: "there is nothing at this address", 405: "this address does not take requests of this kind"}


def handle_problems(app: FastAPI, storage_url: str) -> None:
    """Make every exception an answer in JSON."""

    @app.exception_handler(Problem)
    async def _problem(request: Request, error: Problem) -> Response:
        return refusal(error)

    @app.exception_handler(InvalidInput)
    @app.exception_handler(StorageError)
    async def _complaint(request: Request, error: InvalidInput | StorageError) -> Response:
        return refusal(as_problem(error, storage_url))

    @app.exception_handler(Gone)
    async def _gone(request: Request, error: Gone) -> Response:
        # Nobody reads it.
        return Response(status_code=499)

    @app.exception_handler(RequestValidationError)
    async def _validation(request: Request, error: RequestValidationError) -> Response:
        return refusal(_bad_request(error))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        problem = Problem(error.status_code, _PHRASES.get(error.status_code, str(error.detail)))
        problem.headers |= dict(error.headers or {})
        if error.status_code == 405 and (methods := allowed_methods(app, request.url.path)):
            problem.headers["Allow"] = methods
        return refusal(problem)


def fault_words(error: Exception) -> str:
    """What is wrong with a study; of a fault that nobody foresaw only the log says more."""
    if isinstance(error, InvalidInput):
        return str(error)
    _log.error("a study cannot be computed", exc_info=error)
    return _INTERNAL


def unforeseen(error: Exception) -> Response:
    """Of a fault of ours the client learns nothing but that there was one."""
    _log.error("a request failed", exc_info=error)
    return refusal(Problem(500, _INTERNAL))
