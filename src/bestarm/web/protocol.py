"""Connections that cannot be kept for nothing.

Uvicorn waits forever for a request that does not come, or not whole, and for a client that does not read. Here each
has its time, there are only so many connections, and when there is no room left for a new one, the one that has been
waiting longest makes room: a client that sends requests is served even if many others only hold connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from bestarm.web.limits import Limits

ACCEPTED_AT_ONCE = 32
"""Connections that asyncio accepts in one go, before any of them can be turned away."""

_FULL = b'{"error":{"field":null,"reason":"too many connections are open; try again later"}}'
_TURNED_AWAY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_FULL), _FULL)
)


class Room:
    """The connections of one server: how many there are, and which of them do nothing."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: set[ClientConnection] = set()
        self._waiting: OrderedDict[ClientConnection, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._inside)

    def enter(self, connection: ClientConnection) -> bool:
        """Let a connection in, if need be instead of the one that has been waiting longest."""
        if len(self._inside) >= self._most:
            if not self._waiting:
                return False
            idle, _ = self._waiting.popitem(last=False)
            self._inside.discard(idle)
            idle.transport.abort()
        self._inside.add(connection)
        return True

    def leave(self, connection: ClientConnection) -> None:
        self._inside.discard(connection)
        self._waiting.pop(connection, None)

    def note(self, connection: ClientConnection, *, waits: bool) -> None:
        """Whether a connection does nothing but wait for its client."""
        if not waits:
            self._waiting.pop(connection, None)
        elif connection in self._inside:
            self._waiting.setdefault(connection)


class _Timer:
    """Does something after a time, unless it is stopped before. Started twice, it goes by the first time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, act: Callable[[], None]) -> None:
        self._loop, self._seconds, self._act = loop, seconds, act
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._act)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class ClientConnection(H11Protocol):
    """A connection of uvicorn's, with limits on how long it waits for its client."""

    def __init__(self, *arguments: Any, room: Room, limits: Limits, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._room = room
        self._limits = limits
        self._turned_away = False
        self._stalled = False
        self._request_due = _Timer(self.loop, limits.header_seconds, self._hang_up)
        self._read_due = _Timer(self.loop, limits.unread_seconds, self._hang_up)

    @property
    def _is_idle(self) -> bool:
        """Whether no request of the client is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        if not self._room.enter(self):
            self._turned_away = True
            transport.write(_TURNED_AWAY)
            transport.close()
            return
        _let_the_system_notice_dead_clients(transport, self._limits.unread_seconds)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.leave(self)
        self._request_due.stop()
        self._read_due.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._turned_away:
            return
        super().data_received(data)
        if self._is_idle:
            # The rest of the request has to come in time, however often a little of it comes.
            self._expect_request()
        else:
            self._request_due.stop()
            self._note()

    def _expect_request(self) -> None:
        self._request_due.start()
        self._note()

    def on_response_complete(self) -> None:
        self._request_due.stop()
        # Sets uvicorn's own limit on the time until the next request begins.
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = True
        self._read_due.start()
        self._note()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled = False
        self._read_due.stop()
        self._note()

    def _note(self) -> None:
        self._room.note(self, waits=self._is_idle or self._stalled)

    def _hang_up(self) -> None:
        # Not `close`, which waits until everything has been read.
        self.transport.abort()


def _let_the_system_notice_dead_clients(transport: asyncio.Transport, seconds: float) -> None:
    """A client that vanished without a word acknowledges nothing; the system then ends the connection."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))
