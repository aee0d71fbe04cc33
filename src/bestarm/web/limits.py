"""Limits on what a client may do, so that no client can harm the others."""

from __future__ import annotations

import contextlib
import dataclasses

from bestarm.validation import InvalidInput

MEGABYTE = 1_000_000

RESERVE = 128
"""Descriptors that are not for clients: the database, temporary and static files, and connections just accepted."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds on requests. Bodies are in bytes, times in seconds; `rate` is requests a second from one address."""

    json_body: int = MEGABYTE
    csv_body: int = 16 * MEGABYTE
    csv_lines: int = 200_000
    backup_body: int = 500 * MEGABYTE
    """It goes through a temporary file, one at a time."""
    body_seconds: float = 30.0
    """For a whole body, or for the next part of a backup."""
    buffered: int = 256 * MEGABYTE
    """All bodies being received, together; one address may use half of it."""
    rate: float = 2000.0
    burst: float = 4000.0
    streams: int = 2000
    """Event streams open at once, if there are descriptors for them."""
    connections: int = 4000
    """Connections open at once, if there are descriptors for them."""
    header_seconds: float = 10.0
    """For a request to arrive, from its first byte or the beginning of the connection to the end of its headers."""
    idle_seconds: float = 30.0
    """From an answer to the first byte of the next request."""
    unread_seconds: float = 60.0
    """For a client to go on reading what it was sent."""

    def __post_init__(self) -> None:
        for name, number in dataclasses.asdict(self).items():
            if not number > 0:
                raise InvalidInput(name, number, "must be a positive number")

    def within_descriptors(self) -> Limits:
        """These limits, lowered if this process may not open that many connections.

        Streams leave a third of the connections for everything else.
        """
        connections = room_for_clients(self.connections)
        return dataclasses.replace(
            self, connections=connections, streams=min(self.streams, max(1, 2 * connections // 3))
        )


def room_for_clients(wanted: int) -> int:
    """How many connections can be open at once, `wanted` at most."""
    there = _descriptors(wanted + RESERVE)
    return min(wanted, max(there - RESERVE, there // 4, 1))


def _descriptors(wanted: int) -> int:
    """How many files and connections this process may have open, after asking the system for `wanted`."""
    try:
        import resource
    except ImportError:  # not a Unix
        return 1024
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(soft, wanted)
