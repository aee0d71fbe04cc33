"""Who asks, and what they may do: by the service's own token, a named token, a browser's session, or none of them."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, TypeVar

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from bestarm.storage.base import Storage
from bestarm.storage.tokens import SERVICE_NAME, Grants, Role, Session, allows, token_digest
from bestarm.validation import NotFound
from bestarm.web.database_health import ANSWER_SECONDS
from bestarm.web.errors import Refusal, no_such_study
from bestarm.web.proxy_identity import ProxyIdentity
from bestarm.web.roles import ANYBODY, Demand
from bestarm.web.sessions import cookie_of, new_cookie, sealed

T = TypeVar("T")

CACHE_SECONDS = 1.0
"""Seconds for which a token's or session's entry in the database is cached."""

_MOST_CACHED = 10_000
CALLER = "bestarm.caller"
"""Where the scope of a request has its caller, once the guard knows it."""

DONE = "bestarm.done"
"""Where it has the holder in whose name something was done, and the numbers of its tests, for the access log."""

Ask = Callable[[Callable[[Storage], object]], Awaitable[object]]
"""Asks the storage something, off the event loop."""

Through = Literal["nothing", "token", "session", "proxy"]
"""How callers show who they are."""


_ALL = Grants("manage")


class Caller(NamedTuple):
    """Who makes a request, and what they may do."""

    name: str | None
    """Who they are: the name of their token, or the user that a proxy names. None without a token."""
    grants: Grants
    through: Through = "nothing"
    key: str | None = None
    """The digest of their token or session, if the database may say that it is over."""
    project: str | None = None
    """The project of the study that the request is about. Not looked up if they have the same role in all."""

    @property
    def role(self) -> Role:
        """Their role where the request leads: in the study's project, or the highest that they have in any."""
        if self.project is None:
            return self.grants.highest
        role = self.grants.role_in(self.project)
        assert role is not None, "those without a role in its project are not admitted to a study"
        return role

    @property
    def is_by_browser(self) -> bool:
        """Whether a browser says who they are, unasked, so that a page of another site could make it send requests."""
        return self.through in ("session", "proxy")

    def check(self, demand: Demand) -> None:
        """Refuse what their role does not allow."""
        if demand.role != ANYBODY:
            where = "" if self.project is None else f" in the project {self.project!r}"
            if demand.everywhere and self.grants.by_project:
                where = " in all projects"
            self._check(self.grants.everywhere if demand.everywhere else self.role, demand.role, where)

    def check_project(self, project: str) -> None:
        """Refuse to put a study into a project in which they may not. It need not have any yet."""
        self._check(self.grants.role_in(project), "manage", f" in the project {project!r}", "project")

    def _check(self, role: Role | None, needed: Role, where: str, field: str | None = None) -> None:
        if role is None or not allows(role, needed):
            reason = f"this needs the role {needed}{where}; {self.name!r} has the role {self.grants}"
            raise Refusal(403, reason, field or (None if self.through == "proxy" else "Authorization"))

    def visible(self, project: str | None = None) -> frozenset[str] | None:
        """The projects that they may read, or of these the one that they ask for; None if that is all of them."""
        visible = self.grants.visible
        if project is None:
            return visible
        return frozenset({project}) if visible is None or project in visible else frozenset()

    def holder(self, given: str | None, address: str) -> str:
        """The name under which they hold tests: their own, perhaps with that of a machine."""
        if not given:
            return f"{self.name or 'somebody'}@{address}"
        if self.name is None or given == self.name:
            return given
        if not given.startswith(f"{self.name}@") or not given.isprintable() or not given[len(self.name) + 1 :].strip():
            reason = f"you are {self.name!r}, so leave it out, or give {self.name!r} or '{self.name}@MACHINE'"
            raise Refusal(422, f"holder = {given!r}: {reason}", "holder")
        return given


ANONYMOUS = Caller(None, _ALL)
"""A caller on this machine, when no token is needed."""


def caller_of(scope: Scope) -> Caller:
    """The caller of a request that has passed the guard."""
    found: Caller = scope[CALLER]
    return found


def who_asks(request: Request, holder: str | None) -> str:
    """The name under which a request is recorded; `holder` is what the request gives."""
    return caller_of(request.scope).holder(holder, request.client.host if request.client else "nowhere")


class Access:
    """Identifies callers by what a proxy says, by their tokens, and browsers by their sessions."""

    def __init__(self, token: str | None, *, named: bool, ask: Ask, proxied: ProxyIdentity | None = None) -> None:
        """`token` is the service's own. With it, or if `named`, those of the database are accepted, too."""
        self._proxied = proxied
        self._takes_tokens = token is not None or named
        self._own = token
        self._own_digest = None if token is None else token_digest(token)
        self.is_open = not self._takes_tokens and proxied is None
        self._ask = ask
        self._known: OrderedDict[str, tuple[float, object]] = OrderedDict()

    async def identify(self, scope: Scope, headers: Headers) -> Caller:
        """The caller who sends these headers."""
        if self.is_open:
            return ANONYMOUS
        if self._proxied is not None:
            if (user := self._proxied.identify(scope, headers)) is not None:
                return Caller(*user, "proxy")
            if not self._takes_tokens:
                raise _unknown(f"this request needs the header {self._proxied.user_header}, from a trusted proxy")
        if "authorization" in headers:
            digest = token_digest(_bearer(headers))
            # Compared in constant time, and by digest so that not even the length shows.
            if self._own_digest is not None and hmac.compare_digest(digest, self._own_digest):
                return Caller(SERVICE_NAME, _ALL, "token")
            return await self._with_token(digest, "token", digest)
        cookie = cookie_of(headers)
        if cookie is None:
            raise _unknown(_WANTED)
        key = token_digest(cookie)
        session = await self._session(key)
        if session is None:
            raise _unknown("this session is over; sign in again")
        if self._own is not None and hmac.compare_digest(session.token, sealed(cookie, self._own)):
            return Caller(SERVICE_NAME, _ALL, "session", key)
        return await self._with_token(session.token, "session", key)

    async def open_session(self, headers: Headers) -> tuple[str, Session]:
        """A session for a caller who presents a token. What the browser keeps, and what the storage does."""
        token, cookie = _bearer(headers), new_cookie()
        is_own = self._own_digest is not None and hmac.compare_digest(token_digest(token), self._own_digest)
        proof = sealed(cookie, token) if is_own else token_digest(token)
        made = await self._ask(lambda storage: storage.open_session(token_digest(cookie), proof))
        assert isinstance(made, Session)
        return cookie, made

    async def end_session(self, caller: Caller) -> None:
        """End the session through which a caller comes."""
        key = caller.key
        if caller.through == "session" and key is not None:
            await self._ask(lambda storage: storage.end_session(key))
            self._known.pop(f"session {key}", None)

    async def admit(self, scope: Scope, study: int, demand: Demand) -> None:
        """Refuse a request about a study that the caller may not make. If they may not read it, there is none."""
        scope[CALLER] = caller = await self.at(caller_of(scope), study)
        caller.check(demand)

    async def at(self, caller: Caller, study: int) -> Caller:
        """The caller as one who asks about a study, with the role that they have in its project. `NotFound` if they may
        not read it, as if there were none."""
        if not caller.grants.by_project:
            return caller
        project = await self._cached(f"study {study}", lambda storage: storage.project_of(study))
        if project is None:
            # The next study that is made may have this number.
            self.forget_project(study)
        if project is None or caller.grants.role_in(project) is None:
            raise no_such_study(study)
        return caller._replace(project=project)

    def forget_project(self, study: int) -> None:
        """A study was moved, or may be made."""
        self._known.pop(f"study {study}", None)

    async def is_still_allowed(self, caller: Caller, study: int | None = None) -> bool:
        """Whether something that a caller was allowed to start, perhaps about one study, may go on."""
        try:
            if study is not None:
                await self.at(caller, study)
            if caller.key is None:
                return True
            if caller.through == "token":
                await self._with_token(caller.key, "token", caller.key)
                return True
            session = await self._session(caller.key)
            if session is not None and caller.name != SERVICE_NAME:
                await self._with_token(session.token, "session", caller.key)
            return session is not None
        except NotFound:
            return False
        except Refusal as refusal:
            # If the database is out of reach, there is no news.
            return refusal.status != 401

    async def _with_token(self, digest: str, through: Through, key: str) -> Caller:
        """The caller with the token of that digest."""
        found = await self._cached(f"token {digest}", lambda storage: storage.find_token(digest))
        if found is None:
            raise _unknown(_WANTED)
        token, now = found
        if fault := token.fault(now):
            raise _unknown(f"the token {token.name!r} {fault}")
        return Caller(token.name, token.grants, through, key)

    async def _session(self, key: str) -> Session | None:
        return await self._cached(f"session {key}", lambda storage: storage.find_session(key))

    async def _cached(self, name: str, ask: Callable[[Storage], T]) -> T:
        """What the storage says, or said a moment ago."""
        now = time.monotonic()
        known = self._known.get(name)
        if known is None or now - known[0] > CACHE_SECONDS:
            # While the database is out of reach, who was known stays known, for the sake of metrics: nothing else can
            # be answered without it. Who was not may have a token since.
            is_stranger = known is None or known[1] is None
            try:
                async with asyncio.timeout(None if is_stranger else ANSWER_SECONDS):
                    known = self._known[name] = now, await self._ask(ask)
            except (Refusal, TimeoutError):
                if known is None or is_stranger:
                    raise
            self._known.move_to_end(name)
            if len(self._known) > _MOST_CACHED:
                self._known.popitem(last=False)
        answer: T = known[1]  # type: ignore[assignment] # it is what `ask` returned under this name
        return answer


_WANTED = "this request needs the header Authorization: Bearer TOKEN, with a token of this service"


def _bearer(headers: Headers) -> str:
    """The token that a caller presents."""
    given = headers.getlist("authorization")
    kind, _, token = (given[0] if len(given) == 1 else "").partition(" ")
    if kind.casefold() != "bearer" or not token.strip():
        raise _unknown(_WANTED)
    return token.strip()


def _unknown(reason: str) -> Refusal:
    return Refusal(401, reason, "Authorization", WWW_Authenticate="Bearer")
