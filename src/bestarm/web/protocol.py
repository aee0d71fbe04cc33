"""Limits on how long a connection may keep the server waiting.

Uvicorn waits forever for a request that does not come, or not whole, and for a client that does not read: 300 silent
connections use up 256 descriptors and lock out all others. Here each wait has a limit. When there is no room for a new
connection, the one that has been waiting longest is closed, so that clients who send requests are served.

This stands around uvicorn's protocol. It sees what asyncio tells a protocol, and the application says when it has a
request (`answering`); uvicorn's own attributes are not used.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, Literal

from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from bestarm.web.limits import Limits

ACCEPTED_AT_ONCE = 32
"""Connections that asyncio accepts in one go, before any of them can be ended."""

Wait = Literal["header_seconds", "idle_seconds", "unread_seconds"]
"""The limits on how long a connection waits for its client."""

_KEY = "connection"
"""Where a request's scope has the connection on which it came."""


class Connections:
    """The connections of one server. Called as uvicorn calls a protocol, it makes another one."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: set[ClientConnection] = set()
        self._waiting: dict[ClientConnection, None] = {}
        """Those that do nothing but wait for their client, the longest first."""

    def __call__(self, *, app_state: dict[str, Any], **options: Any) -> ClientConnection:
        connection = ClientConnection(self)
        connection.inner = H11Protocol(app_state={**app_state, _KEY: connection}, **options)
        return connection

    def __contains__(self, connection: ClientConnection) -> bool:
        return connection in self._open

    def enter(self, connection: ClientConnection) -> None:
        """Let a connection in. If no other one waits and can make room for it, its request will be refused."""
        if len(self._open) >= self.limits.connections:
            if self._waiting:
                next(iter(self._waiting)).hang_up()
            else:
                connection.is_excess = True
        self._open.add(connection)

    def leave(self, connection: ClientConnection) -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def note(self, connection: ClientConnection, *, waits: bool) -> None:
        """Whether a connection does nothing but wait for its client."""
        if not waits:
            self._waiting.pop(connection, None)
        elif connection in self._open:
            self._waiting.setdefault(connection)


@contextlib.contextmanager
def answering(scope: Scope) -> Iterator[bool]:
    """While a request is being answered, its connection is not one that waits. Yields whether there is room for it."""
    connection: ClientConnection | None = scope.get("state", {}).get(_KEY)
    if connection is None:
        yield True
        return
    connection.begin_request()
    try:
        yield not connection.is_excess
    finally:
        connection.end_request()


class ClientConnection(asyncio.Protocol):
    """A connection that uvicorn serves, with limits on how long it waits for its client."""

    inner: asyncio.Protocol

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self.is_excess = False
        """Whether it came when there was no room for it."""
        self._requests = 0
        """How many are being answered: two if one begins before the one before it is cleaned up."""
        self._stalled = False
        self._timers: dict[Wait, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.enter(self)
        self._start("header_seconds")
        self._note()
        self.inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.leave(self)
        self._stop("header_seconds", "idle_seconds", "unread_seconds")
        self.inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._requests:
            # The rest of the request has to come in time, however often a little of it comes.
            self._start("header_seconds")
            self._stop("idle_seconds")
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def begin_request(self) -> None:
        self._requests += 1
        self._stop("header_seconds", "idle_seconds")
        self._note()

    def end_request(self) -> None:
        self._requests -= 1
        if not self._requests and self in self._connections:
            # Uvicorn's own limit ends with the next byte, which may have come already.
            self._start("idle_seconds")
        self._note()

    def pause_writing(self) -> None:
        self._stalled = True
        self._start("unread_seconds")
        self._note()
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self._stalled = False
        self._stop("unread_seconds")
        self._note()
        self.inner.resume_writing()

    def hang_up(self) -> None:
        """End it at once. `close` would wait until everything has been read."""
        self._connections.leave(self)
        if self._transport is not None:
            self._transport.abort()

    def _start(self, wait: Wait) -> None:
        """Hang up when this limit is over. Started twice, it counts from the first time."""
        if wait not in self._timers:
            seconds = getattr(self._connections.limits, wait)
            self._timers[wait] = asyncio.get_running_loop().call_later(seconds, self.hang_up)

    def _stop(self, *waits: Wait) -> None:
        for wait in waits:
            if wait in self._timers:
                self._timers.pop(wait).cancel()

    def _note(self) -> None:
        self._connections.note(self, waits=not self._requests or self._stalled)
