"""What each route needs: the one place that says who may do what."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from bestarm.storage.tokens import Role

ANYBODY: Literal["anybody"] = "anybody"
"""The role of a route that needs no token."""

Needed = Role | Literal["anybody"]

OTHER = "other"
"""The name for requests that match no route."""

_ONE = "/api/studies/{study}"

NEEDED: dict[str, Needed] = {
    "GET /api/health": ANYBODY,
    # To look.
    "GET /api/choices": "read",
    "GET /api/comparison": "read",
    "GET /api/events": "read",
    "GET /metrics": "read",
    "GET /api/studies": "read",
    f"GET {_ONE}": "read",
    f"GET {_ONE}/differences": "read",
    f"GET {_ONE}/done": "read",
    f"GET {_ONE}/events": "read",
    f"GET {_ONE}/export": "read",
    f"GET {_ONE}/forecast": "read",
    f"GET {_ONE}/history": "read",
    f"GET {_ONE}/log": "read",
    f"GET {_ONE}/pending": "read",
    f"GET {_ONE}/report": "read",
    # To measure: everything about tests and their results.
    f"POST {_ONE}/abandon": "work",
    f"POST {_ONE}/add": "work",
    f"POST {_ONE}/ask": "work",
    f"POST {_ONE}/check-far": "work",
    f"POST {_ONE}/correct": "work",
    f"POST {_ONE}/csv": "work",
    f"POST {_ONE}/fail": "work",
    f"POST {_ONE}/release": "work",
    f"POST {_ONE}/renew": "work",
    f"POST {_ONE}/set-aside": "work",
    f"POST {_ONE}/tell": "work",
    # To say what is studied.
    "POST /api/studies": "manage",
    f"POST {_ONE}/archive": "manage",
    f"POST {_ONE}/arms/add": "manage",
    f"POST {_ONE}/arms/retire": "manage",
    f"POST {_ONE}/extend": "manage",
}
"""By method and path. A route that is not here cannot be made."""


def needed(methods: Iterable[str], path: str) -> Needed:
    """What a route needs."""
    [method] = methods
    return NEEDED[f"{method} {path}"]


def likely_needed(method: str, path: str) -> Needed:
    """What a request needs, as far as its address shows: to refuse it before its body is read.

    The route itself checks again. An address that is not known here needs a token of any kind.
    """
    return NEEDED.get(route_name(method, path), "read")


def route_name(method: str, path: str) -> str:
    """The route that a request seems to mean, by its method and path, or "other"."""
    name = f"{method} {re.sub(r'^/api/studies/[^/]+', _ONE, path)}"
    return name if name in NEEDED else OTHER


def is_data(path: str) -> bool:
    """Whether an address serves data. The others are pages and files that need no token."""
    return path in ("/openapi.json", "/metrics", "/api") or path.startswith("/api/")
