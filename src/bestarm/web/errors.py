"""Errors as the service answers them: JSON with the field and the reason, and a status that says whose fault it is."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic_core import PydanticSerializationError, to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from bestarm.answer import plain
from bestarm.parsing import read_decimal
from bestarm.storage.errors import NameTaken, OutcomeUnknown, StorageError
from bestarm.study.record.far_values import FarValue
from bestarm.study.study import AlreadyTold
from bestarm.validation import LONGEST_SENTENCE, Complaint, InvalidInput, NotFound
from bestarm.web.inputs import FORM, LARGEST_INTEGER

LONGEST_REASON = 10_000
LONGEST_VALUE = 200
MOST_CHOICES = 100
MOST_COMPLAINTS = 50
"""How much of an error is sent to the client: characters of its texts, choices, and complaints about a request."""

MALFORMED = "malformed"
"""The kind of error of a request that is not as the description has it, whatever studies there are."""

_INTERNAL = "The service failed at this request; its log says more."

_log = logging.getLogger("bestarm.web")


class Refusal(Exception):
    """Ends a request with a status, a reason, and perhaps the field at fault or complaints of several."""

    def __init__(
        self,
        status: int,
        reason: str,
        field: str | None = None,
        *,
        kind: str | None = None,
        complaints: Iterable[Complaint] = (),
        **headers: str,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.field = field
        self.kind = kind or _KINDS.get(status, "invalid")
        self.complaints = tuple(complaints) or (Complaint(reason, field, reason=reason),)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


_KINDS = {
    401: "token wanted",
    403: "forbidden",
    404: "not found",
    408: "too slow",
    413: "too large",
    429: "too many requests",
    500: "fault",
    503: "unavailable",
    504: "outcome unknown",
}
"""The kind of error for a status, where no exception is more specific."""


def json_bytes(data: Any) -> bytes:
    """JSON that any parser takes: infinite numbers become null, and lone surrogates question marks. Data classes are
    objects of their fields."""
    try:
        return to_json(data, inf_nan_mode="null")
    except PydanticSerializationError:
        # It refuses lone surrogates.
        text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_bytes(data), status, dict(headers or {}), "application/json")


def error_response(refusal: Refusal) -> Response:
    detail = {
        "field": refusal.field,
        "reason": _short(refusal.reason),
        "kind": refusal.kind,
        "complaints": [_data(complaint) for complaint in refusal.complaints],
    }
    return json_response({"error": detail}, refusal.status, refusal.headers)


def _short(text: str, longest: int = LONGEST_REASON) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def _data(complaint: Complaint) -> dict[str, Any]:
    """A complaint as it is sent; its value only if it is short and plain."""
    value = complaint.value
    is_short = (
        value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) <= LARGEST_INTEGER)
    )
    is_short = is_short or (isinstance(value, str) and len(value) <= LONGEST_VALUE) or _is_result(value)
    stated = {"value": value} if is_short else {}
    sentence, reason = (_short(text, LONGEST_SENTENCE) for text in (complaint.sentence, complaint.reason))
    choices = list(complaint.choices[:MOST_CHOICES])
    return {"field": complaint.field, "reason": reason, "choices": choices, "sentence": sentence} | stated


def _is_result(value: object) -> bool:
    """Whether it is a result of several metrics."""
    if not isinstance(value, dict) or len(json_bytes(value)) > 10 * LONGEST_VALUE:
        return False
    return all(isinstance(number, bool | int | float) and math.isfinite(number) for number in value.values())


def refused(error: InvalidInput | StorageError, storage_url: str, prefix: str = "") -> Refusal:
    """A study's complaint as an HTTP refusal. Never leak the storage URL."""

    def hidden(text: str) -> str:
        return text.replace(repr(storage_url), "this service")

    said = hidden(str(error)).removeprefix("storage = this service: ")
    if isinstance(error, OutcomeUnknown):
        return Refusal(504, said)
    if isinstance(error, StorageError) or error.field == "storage":
        return Refusal(503, said, Retry_After="1")
    complaints = [
        dataclasses.replace(
            complaint,
            sentence=hidden(complaint.sentence),
            reason=hidden(complaint.reason),
            field=prefix + complaint.field if complaint.field else None,
        )
        for complaint in error.complaints
    ]
    status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 422)
    return Refusal(status, said, complaints[0].field, kind=error.kind, complaints=complaints)


def no_such_study(key: int) -> NotFound:
    """The same for a study that is not there and for one that the caller may not know of."""
    return NotFound("study", key, "no such study in this service")


_STATUSES: dict[type[InvalidInput], int] = {NotFound: 404, AlreadyTold: 409, FarValue: 409, NameTaken: 409}
"""The errors that have a status of their own; the others are 422."""


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
    "string_unicode": "must not contain unpaired surrogates",
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


def _bad_request(error: RequestValidationError) -> Refusal:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return Refusal(400, f"the body is not valid JSON: {first['ctx']['error']}")
    complaints = [_complaint(one) for one in error.errors()[:MOST_COMPLAINTS]]
    said = "; ".join(complaint.sentence for complaint in complaints)
    return Refusal(422, said, complaints[0].field, kind=MALFORMED, complaints=complaints)


def _complaint(error: Any) -> Complaint:
    """One of pydantic's errors about a request, in the user's words."""
    source, *rest = error["loc"]
    field = _path(part for part in rest if not str(part).startswith(FORM)) or None
    words = _WORDS.get(error["type"]) or re.sub(r"^\w+ should", "must", str(error["msg"]))
    if error["type"] == "float_type" and isinstance(error["input"], str):
        # "3,5" is not a number, and the reader of typed numbers says why.
        try:
            read_decimal(error["input"])
        except ValueError as reason:
            words = str(reason)
    if field is None:
        return Complaint(f"the {source} {words}", reason=f"the {source} {words}")
    sentence = f"{field}{' ' if words.startswith('is ') else ': '}{words}"
    return Complaint(sentence, field, error["input"], words)


_PHRASES = {404: "there is nothing at this address", 405: "this address does not take requests of this kind"}


def handle_errors(app: FastAPI, storage_url: str) -> None:
    """Make every exception an answer in JSON."""

    def refusal_of(request: Request, error: Exception) -> Refusal:
        match error:
            case Refusal():
                return error
            case InvalidInput() | StorageError():
                return refused(error, storage_url)
            case RequestValidationError():
                return _bad_request(error)
        assert isinstance(error, HTTPException)
        refusal = Refusal(error.status_code, _PHRASES.get(error.status_code, str(error.detail)))
        refusal.headers |= dict(error.headers or {})
        for template, operations in app.openapi()["paths"].items() if error.status_code == 405 else ():
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), request.url.path):
                refusal.headers["Allow"] = ", ".join(sorted(method.upper() for method in operations))
        return refusal

    async def answer(request: Request, error: Exception) -> Response:
        return error_response(refusal_of(request, error))

    async def disconnected(request: Request, error: Exception) -> Response:
        return Response(status_code=499)

    for kind in (Refusal, InvalidInput, StorageError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answer)
    app.add_exception_handler(ClientDisconnect, disconnected)


def fault_words(error: Exception) -> str:
    """What is wrong with a study. Only the log has the details of an unexpected fault."""
    if isinstance(error, InvalidInput):
        return str(error)
    _log.error("a study cannot be computed", exc_info=error)
    return _INTERNAL


def unexpected_error(error: Exception) -> Response:
    """Tell the client only that the service failed, not why."""
    _log.error("a request failed", exc_info=error)
    return error_response(Refusal(500, _INTERNAL))
