"""Who asked for what, and what became of it: for the access log and the metrics."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bestarm.validation import InvalidInput
from bestarm.web.access import CALLER, DONE, Caller
from bestarm.web.roles import is_data, route_name

HUNG_UP = 499
"""The status of a request if its client left before it was answered."""

LONGEST_PATH = 300
LONGEST_TESTS = 2000

_log = logging.getLogger("bestarm.web")


class LoggedRequest(NamedTuple):
    """One request for data, without headers, query string and body, which may hold secrets."""

    time: float
    """When it came, in seconds since 1970."""
    who: str | None
    role: str | None
    address: str
    method: str
    path: str
    route: str
    """As in the OpenAPI description, or "other"."""
    status: int
    seconds: float
    """Until the end of the answer or of the stream."""
    through: str | None = None
    """How they showed who they are: by a token, a session, a proxy, or nothing."""
    holder: str | None = None
    """The name under which something was recorded."""
    tests: str = ""
    """The numbers of the tests that it was about, such as "1-3, 7"."""


class RequestObserver:
    """ASGI middleware around everything: calls `listeners` with every request for data."""

    def __init__(self, app: ASGIApp, *, listeners: Sequence[Callable[[LoggedRequest], None]]) -> None:
        self._app = app
        self._listeners = listeners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_data(scope["path"]):
            await self._app(scope, receive, send)
            return
        status, now, start = HUNG_UP, time.time(), time.perf_counter()

        async def send_seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_seen)
        finally:
            caller: Caller | None = scope.get(CALLER)
            who, role, through = (None, None, None) if caller is None else (caller.name, caller.role, caller.through)
            holder, tests = scope.get(DONE, (None, ""))
            address, method, path = (scope.get("client") or ("",))[0], scope["method"], scope["path"]
            seconds = time.perf_counter() - start
            route = route_name(method, path)
            logged = LoggedRequest(
                now, who, role, address, method, path, route, status, seconds, through, holder, tests[:LONGEST_TESTS]
            )
            for listen in self._listeners:
                listen(logged)


class AccessLog:
    """Writes requests to a file, or to standard error if that is "-", each as a line of JSON.

    If the file is moved away, a new one is begun: other programs may rotate it.
    """

    def __init__(self, path: str) -> None:
        try:
            self._handler = logging.StreamHandler() if path == "-" else WatchedFileHandler(path, encoding="utf-8")
        except OSError as error:
            raise InvalidInput("access-log", path, f"cannot be written: {error.strerror}") from None
        self._handler.handleError = _report_fault  # type: ignore[method-assign]

    def __call__(self, logged: LoggedRequest) -> None:
        line = logged._asdict() | {
            "time": datetime.fromtimestamp(logged.time, UTC).isoformat(timespec="milliseconds"),
            "path": logged.path[:LONGEST_PATH],
            "seconds": round(logged.seconds, 6),
        }
        del line["route"]
        # Control and non-ASCII characters are escaped: no path can forge a line.
        self._handler.handle(logging.makeLogRecord({"msg": json.dumps(line), "levelno": logging.INFO}))

    def close(self) -> None:
        self._handler.close()


def _report_fault(record: logging.LogRecord) -> None:
    """If a line cannot be written, the service goes on, and its log says so."""
    _log.error("the access log cannot be written: %s", sys.exc_info()[1])
