"""Sessions of browsers: a token is presented once, and a cookie that no script can read stands for it.

The cookie is 256 random bits, of which the storage has a digest. So a copy of the database is not enough to take over a
session, and a session ends when it is ended, when its week is over, or when its token is no longer accepted.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from bestarm.storage.tokens import SESSION_SECONDS
from bestarm.web.proxies import root_path_of

COOKIE = "bestarm_session"

BY_SCRIPT = "X-Requested-With"
"""The header that a request must have to change something with a cookie. A page of another site cannot send it."""


def new_cookie() -> str:
    return secrets.token_urlsafe(32)


def cookie_of(headers: Headers) -> str | None:
    """The session's cookie in a request. If there are several, the one for the nearest path comes first."""
    pairs = (part.strip().partition("=") for line in headers.getlist("cookie") for part in line.split(";"))
    return next((value for name, _, value in pairs if name == COOKIE and value), None)


def sealed(cookie: str, token: str) -> str:
    """What a storage keeps in place of the service's own token, which may be short enough to be guessed by a digest."""
    return hmac.new(cookie.encode(), token.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def set_cookie(response: Response, request: Request, cookie: str | None) -> None:
    """Have the browser keep a session's cookie, or with None forget it."""
    response.set_cookie(
        COOKIE,
        cookie or "",
        max_age=int(SESSION_SECONDS) if cookie else 0,
        path=root_path_of(request.scope) or "/",
        # Plain HTTP would not bring it back.
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
