"""Who asks, and what they may do: the service's own token, named tokens of the database, or no token at all."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import Scope

from bestarm.storage.tokens import SERVICE_NAME, Role, Token, allows, token_digest
from bestarm.web.errors import Refusal
from bestarm.web.roles import ANYBODY, Needed

CACHE_SECONDS = 1.0
"""Seconds for which a token's entry in the database is cached."""

_MOST_CACHED = 10_000
CALLER = "bestarm.caller"
"""Where the scope of a request has its caller, once the guard knows it."""

Find = Callable[[str], Awaitable[tuple[Token, float] | None]]


class Caller(NamedTuple):
    """Who makes a request, and what they may do."""

    name: str | None
    """The name of their token. None without one."""
    role: Role
    digest: str | None = None
    """The digest of their token, if it is one of the database's."""

    def check(self, needed: Needed) -> None:
        """Refuse what the role does not allow."""
        if needed != ANYBODY and not allows(self.role, needed):
            reason = f"this needs a token with the role {needed}; {self.name!r} has the role {self.role}"
            raise Refusal(403, reason, "Authorization")


SERVICE = Caller(SERVICE_NAME, "manage")
"""The caller with the token that the service was started with."""

ANONYMOUS = Caller(None, "manage")
"""A caller on this machine, when no token is needed."""


def caller_of(scope: Scope) -> Caller:
    """The caller of a request that has passed the guard."""
    found: Caller = scope[CALLER]
    return found


class Access:
    """Identifies callers by their tokens."""

    def __init__(self, token: str | None, *, named: bool, find: Find) -> None:
        """`token` is the service's own. With it, or if `named`, those of the database are accepted, too."""
        self._own = None if token is None else token_digest(token)
        self.is_open = token is None and not named
        self._find = find
        self._known: OrderedDict[str, tuple[float, Token | None, str]] = OrderedDict()

    async def identify(self, headers: Headers) -> Caller:
        """The caller who sends these headers."""
        if self.is_open:
            return ANONYMOUS
        given = headers.getlist("authorization")
        kind, _, token = (given[0] if len(given) == 1 else "").partition(" ")
        if kind.casefold() == "bearer" and token.strip():
            # Compared in constant time, and by digest so that not even the length shows.
            digest = token_digest(token.strip())
            if self._own is not None and hmac.compare_digest(digest, self._own):
                return SERVICE
            found, fault = await self._look_up(digest)
            if fault:
                raise _unknown(f"the token {found.name!r} {fault}" if found else fault)
            if found is not None:
                return Caller(found.name, found.role, digest)
        raise _unknown("this request needs the header Authorization: Bearer TOKEN, with a token of this service")

    async def is_still_allowed(self, caller: Caller) -> bool:
        """Whether something that a caller was allowed to start may go on."""
        if caller.digest is None:
            return True
        try:
            return not (await self._look_up(caller.digest))[1]
        except Refusal:
            # The database is out of reach, so there is no news either.
            return True

    async def _look_up(self, digest: str) -> tuple[Token | None, str]:
        """The token with that digest, and why it is not accepted."""
        now = time.monotonic()
        known = self._known.get(digest)
        if known is None or now - known[0] > CACHE_SECONDS:
            found = await self._find(digest)
            token, fault = (None, "") if found is None else (found[0], found[0].fault(found[1]))
            known = self._known[digest] = now, token, fault
            self._known.move_to_end(digest)
            if len(self._known) > _MOST_CACHED:
                self._known.popitem(last=False)
        return known[1:]


def _unknown(reason: str) -> Refusal:
    return Refusal(401, reason, "Authorization", WWW_Authenticate="Bearer")
