"""Compressed answers, for clients that take them."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

SMALLEST = 1000
"""Bytes of an answer from which on it is compressed."""

_OWN_SITE = ("same-origin", "none", "")


def accepts_gzip(headers: Headers) -> bool:
    """Whether a client takes gzip.

    >>> accepts_gzip(Headers({"accept-encoding": "br, gzip"})), accepts_gzip(Headers({"accept-encoding": "gzip;q=0"}))
    (True, False)
    """
    return bool(re.search(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))", headers.get("accept-encoding", "")))


class Compression:
    """ASGI middleware that compresses large answers.

    Event streams are sent as they are. So is what a browser asks for in the name of another site: such a site could
    choose part of an answer, and learn from its compressed length what the rest is like (BREACH).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._zipping = GZipMiddleware(app, minimum_size=SMALLEST, compresslevel=3)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_own = headers.get("sec-fetch-site", "") in _OWN_SITE
        if accepts_gzip(headers) and is_own and not scope["path"].endswith("/events"):
            await self._zipping(scope, receive, send)
            return
        # In place: routes note in the scope, for the guard and the access log, who asked and what they did.
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        await self._app(scope, receive, send)
