"""Where a database is: reading its address, and showing it without anything secret that it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from bestarm.validation import UNSTATED, InvalidInput

_SHOWN = {
    *("answer_timeout", "application_name", "channel_binding", "client_encoding", "connect_timeout", "gssencmode"),
    *("host", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "port"),
    *("sslmode", "target_session_attrs", "tcp_user_timeout"),
}
"""Options of a URL that hold no secret. Any other option may hold one, or part of one."""

_LIKE_A_SERVER = re.compile(
    r"\s*postgres\w*(\+\w+)?:|.*\bpass\w*\s*=|.*\bsslpassword\s*=|[^/\\]*:[^/\\]*@", re.IGNORECASE | re.DOTALL
)
"""Looks like a path but is not: a URL without its slashes or scheme, or an address in another program's style."""


def read_address(url: str) -> sa.URL:
    """The address that a path or URL stands for. Otherwise `InvalidInput`, which repeats nothing secret."""
    if "://" not in url:
        if _LIKE_A_SERVER.match(url):
            raise InvalidInput(
                "storage",
                UNSTATED,
                "reads like the address of a server and is not one; write postgresql://user@host/database",
            )
        return sa.URL.create("sqlite", database=url)
    scheme, _, rest = url.partition("://")
    if scheme.lower() in ("http", "https"):
        reason = "is the address of a service, and this needs the database itself: run it where the service runs, "
        reason += "with the address that `bestarm serve --db` has"
        raise InvalidInput("storage", UNSTATED, reason)
    try:
        address = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidInput(
            "storage", UNSTATED, "must be a path or a URL such as postgresql://user@host/database"
        ) from None
    backend = address.get_backend_name()
    if backend == "sqlite":
        return sa.URL.create("sqlite", database=address.database or ":memory:")
    if backend not in ("postgresql", "postgres"):
        said = f"{scheme}://…" if re.fullmatch(r"[A-Za-z][\w+.-]{0,30}", scheme) else UNSTATED
        raise InvalidInput("storage", said, "must be a path, sqlite:///PATH or postgresql://…", shown=str(said))
    if _is_torn(address, rest):
        raise InvalidInput(
            "storage", UNSTATED, "has an @ too many; within a user or a password write it as %40, and / as %2F"
        )
    return address.set(drivername="postgresql+psycopg")


def _is_torn(address: sa.URL, rest: str) -> bool:
    """Whether part of a password may have been read as part of what follows it, and would be shown."""
    if address.password is not None:
        return rest.count("@") > 1
    if address.username is not None:
        return False
    return "@" in rest.partition("?")[0] or ("@" in rest and ":" in str(address.database))


def shown_address(url: str) -> str:
    """The address without anything secret. An unreadable address is not shown at all."""
    try:
        address = read_address(url)
    except InvalidInput:
        return "…"
    return url if "://" not in url else shown(address)


def shown(address: sa.URL) -> str:
    """The address without its password, and without options that could hold one."""
    kept: dict[str, Any] = {name: value for name, value in address.query.items() if name in _SHOWN}
    # As it is typed, and as programs such as pg_dump take it: without the name of the driver.
    text = address.set(drivername=address.get_backend_name(), query=kept).render_as_string(hide_password=True)
    if len(kept) == len(address.query):
        return text
    return f"{text}{'&' if kept else '?'}***"


def secrets_of(address: sa.URL) -> Iterator[str]:
    """What must not be shown, wherever it turns up."""
    if address.password:
        yield str(address.password)
    for name, values in address.query.items():
        if name not in _SHOWN:
            yield from (name, *([values] if isinstance(values, str) else values))
