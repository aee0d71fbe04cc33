"""Limits on what a client may do, so that no client can harm the others."""

from __future__ import annotations

import dataclasses

from bestarm.validation import InvalidInput
from bestarm.web.descriptors import room_for_clients

MEGABYTE = 1_000_000


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds on requests. Bodies are in bytes, times in seconds; `rate` is requests a second from one address."""

    json_body: int = MEGABYTE
    csv_body: int = 16 * MEGABYTE
    csv_lines: int = 200_000
    body_seconds: float = 30.0
    buffered: int = 256 * MEGABYTE
    """All bodies being received, together; one address may use half of it."""
    rate: float = 2000.0
    burst: float = 4000.0
    streams: int = 2000
    """Event streams open at once, as far as there are descriptors for them."""
    connections: int = 4000
    """Connections open at once, as far as there are descriptors for them."""
    header_seconds: float = 10.0
    """For a request to arrive, from its first byte or the beginning of the connection to the end of its headers."""
    idle_seconds: float = 30.0
    """From an answer to the first byte of the next request."""
    unread_seconds: float = 60.0
    """For a client to go on reading what it was sent."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) > 0:
                raise InvalidInput(field.name, getattr(self, field.name), "must be a positive number")

    def within_descriptors(self) -> Limits:
        """These limits, as far as the system lets this process have so many connections open.

        Streams leave a third of the connections for everything else.
        """
        connections = room_for_clients(self.connections)
        return dataclasses.replace(
            self, connections=connections, streams=min(self.streams, max(1, 2 * connections // 3))
        )
