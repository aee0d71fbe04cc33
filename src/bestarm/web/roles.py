"""What each route needs: the one place that says who may do what."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from bestarm.storage.tokens import Role

ANYBODY: Literal["anybody"] = "anybody"
"""The role of a route that needs no token."""

Needed = Role | Literal["anybody"]

OTHER = "other"
"""The name for requests that match no route."""

PROBES = ("/livez", "/readyz")
"""What those who run the service ask, under whatever host name and without a token."""

_ONE = "/api/studies/{study}"
_LOOK_AT_ALL = ("/api/choices", "/api/comparison", "/api/events", "/api/projects", "/api/session", "/api/studies", _ONE)
_LOOK_AT_ONE = (
    *("backup", "differences", "done", "events", "export", "forecast", "history", "log", "pending", "report", "sheet"),
    "waiting",
)
_MEASURE = ("abandon", "add", "ask", "check-far", "correct", "csv", "fail", "release", "renew", "set-aside", "tell")
_MANAGE = ("archive", "arms/add", "arms/retire", "delete", "extend", "move", "reserve")

NEEDED: dict[str, Needed] = {
    "GET /api/health": ANYBODY,
    **dict.fromkeys((f"GET {path}" for path in PROBES), ANYBODY),
    **dict.fromkeys((f"GET {path}" for path in _LOOK_AT_ALL), "read"),
    **dict.fromkeys((f"GET {_ONE}/{name}" for name in _LOOK_AT_ONE), "read"),
    **dict.fromkeys((f"POST {_ONE}/{name}" for name in _MEASURE), "work"),
    **dict.fromkeys((f"POST {_ONE}/{name}" for name in _MANAGE), "manage"),
    "GET /metrics": "read",
    "POST /api/studies": "manage",
    **dict.fromkeys(("GET /api/audit", "GET /api/backup", "POST /api/backup"), "manage"),
    # Signing in and out changes no study.
    "POST /api/session": "read",
    "POST /api/session/end": "read",
}
"""By method and path. A route that is not here cannot be made."""

BY_PROJECT = frozenset(
    {
        *(f"GET {path}" for path in _LOOK_AT_ALL),
        *("POST /api/studies", "POST /api/session", "POST /api/session/end"),
        *(name for name in NEEDED if _ONE in name),
    }
)
"""The routes for which the role in one project is enough. Each shows and changes only what is in the caller's projects.

A route that is not here concerns all studies, and takes the role in all projects.
"""

PAGES = ("/", "/new", "/reference", "/compare", "/studies/{study}")
"""The addresses of the dashboard's one page, which shows what its address says."""

OWN_NAMES = frozenset(path.split("/")[1] for path in (*(key.split()[1] for key in NEEDED), *PAGES)) | {
    "assets",
    "openapi.json",
    "static",
}
"""The first parts of all addresses of the service."""


class Demand(NamedTuple):
    """The role that a route needs, and whether in all projects."""

    role: Needed
    everywhere: bool = False


def demand(methods: Iterable[str], path: str) -> Demand:
    """What a route needs."""
    [method] = methods
    name = f"{method} {path}"
    return Demand(NEEDED[name], name not in BY_PROJECT)


def likely_demand(method: str, path: str) -> Demand:
    """What a request needs, judged by its address, so that it can be refused before its body is read.

    The route itself checks again. An address that is not known here needs a token of any kind.
    """
    name = route_name(method, path)
    return Demand("read") if name == OTHER else Demand(NEEDED[name], name not in BY_PROJECT)


def route_name(method: str, path: str) -> str:
    """The route that a request seems to mean, by its method and path, or "other"."""
    name = f"{method} {re.sub(r'^/api/studies/[^/]+', _ONE, path)}"
    return name if name in NEEDED else OTHER


def is_data(path: str) -> bool:
    """Whether an address serves data. The others are pages and files that need no token."""
    return path in ("/openapi.json", "/metrics", "/api") or path.startswith("/api/")
