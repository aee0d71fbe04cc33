"""What the service lets a client do, so that none can do harm to the others."""

from __future__ import annotations

import dataclasses

from bestarm.validation import InvalidInput

MEGABYTE = 1_000_000


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds on requests. Bodies are in bytes, times in seconds; `rate` is requests a second from one address."""

    json_body: int = MEGABYTE
    csv_body: int = 16 * MEGABYTE
    csv_lines: int = 200_000
    body_seconds: float = 30.0
    buffered: int = 256 * MEGABYTE
    """All bodies that are being received, together."""
    rate: float = 2000.0
    burst: float = 4000.0
    streams: int = 2000
    """Event streams open at once."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) > 0:
                raise InvalidInput(f"{field.name} = {getattr(self, field.name)!r}: must be a positive number")
