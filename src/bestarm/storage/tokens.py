"""Named tokens, which identify the service's callers. A storage keeps their digests, never the tokens themselves.

A token is 256 random bits. It cannot be guessed, so a plain digest hides it.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

from bestarm.storage.projects import DEFAULT_PROJECT, check_project
from bestarm.validation import InvalidInput

Role = Literal["read", "work", "manage"]
"""What a caller may do: look; also ask and tell; also make, change and archive studies."""

ROLES: tuple[Role, ...] = get_args(Role)
"""Each allows all that those before it allow."""

LONGEST_TOKEN_NAME = 100
SERVICE_NAME = "service"
"""The name of the token that a service is started with."""

MOST_DAYS = 36_500.0
DAY = 86_400.0


class Token(NamedTuple):
    """What is known of a token."""

    name: str
    role: str
    """The roles that it grants, as `Grants` reads and writes them."""
    digest: str
    created: float
    expires: float | None = None
    revoked: float | None = None

    @property
    def grants(self) -> Grants:
        return Grants.of([self.role])

    def fault(self, now: float) -> str:
        """Why it is no longer accepted; empty if it is."""
        if self.revoked is not None:
            return "has been revoked"
        return "has expired" if self.expires is not None and self.expires <= now else ""


class Session(NamedTuple):
    """A browser that presented a token. What it keeps is a cookie, which cannot be made from this."""

    digest: str
    """Of the cookie."""
    token: str
    """The digest of a named token; of the service's own, a text that takes the cookie and the token to make."""
    created: float
    expires: float


SESSION_SECONDS = 7 * DAY
"""How long a browser need not present its token again."""


def allows(role: Role, needed: Role) -> bool:
    """Whether one role allows what needs another.

    >>> allows("work", "read"), allows("work", "manage")
    (True, False)
    """
    return ROLES.index(role) >= ROLES.index(needed)


class Grants(NamedTuple):
    """The roles that a caller has: one in all projects, and those in single projects.

    >>> grants = Grants.of(["read", "manage@lab-a"])
    >>> grants.role_in("lab-a"), grants.role_in("lab-b"), str(grants)
    ('manage', 'read', 'read, manage@lab-a')
    """

    everywhere: Role | None
    """The role in all projects, those to come included."""
    by_project: Mapping[str, Role] = {}

    @classmethod
    def of(cls, stated: Iterable[str], field: str = "role") -> Grants:
        """Grants as a user states them: ROLE or ROLE@PROJECT, several in a text with commas between them."""
        everywhere: Role | None = None
        by_project: dict[str, Role] = {}
        for word in (part.strip() for text in stated for part in text.split(",")):
            role, at, project = word.partition("@")
            if not at:
                everywhere = _higher(everywhere, _check_role(role, field))
            else:
                check_project(project, field)
                by_project[project] = _higher(by_project.get(project), _check_role(role, field))
        return cls(everywhere, by_project)

    def __str__(self) -> str:
        limited = (f"{role}@{project}" for project, role in sorted(self.by_project.items()))
        return ", ".join([*([self.everywhere] if self.everywhere else []), *limited])

    def role_in(self, project: str) -> Role | None:
        """The role in a project; None if they may not know of it."""
        limited = self.by_project.get(project)
        return self.everywhere if limited is None else _higher(self.everywhere, limited)

    @property
    def highest(self) -> Role:
        """The highest role that they have in any project."""
        return max(filter(None, (self.everywhere, *self.by_project.values())), key=ROLES.index)

    @property
    def visible(self) -> frozenset[str] | None:
        """The projects that they may read; None if that is all of them."""
        return frozenset(self.by_project) if self.everywhere is None else None

    @property
    def usual_project(self) -> str:
        """Where a study goes for which no project is stated: to their only project, or else the default one."""
        return next(iter(self.by_project)) if self.everywhere is None and len(self.by_project) == 1 else DEFAULT_PROJECT


def _higher(one: Role | None, other: Role) -> Role:
    return other if one is None else max(one, other, key=ROLES.index)


def token_digest(token: str) -> str:
    """What is kept of a token, and looked for."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _check_role(role: object, field: str) -> Role:
    """A role as a user gives it."""
    for known in ROLES:
        if role == known:
            return known
    raise InvalidInput(
        field, role, f"must be {', '.join(ROLES[:-1])} or {ROLES[-1]}, or one of them with @PROJECT", ROLES
    )


def check_token_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_TOKEN_NAME or not name.isprintable():
        raise InvalidInput("name", name, f"must be text of 1 to {LONGEST_TOKEN_NAME} printable characters")
    if name == SERVICE_NAME:
        raise InvalidInput("name", name, "is what the token is called that a service is started with; choose another")
    return name


def check_days(days: float | None) -> float | None:
    """How long a token is accepted, in days, as a user gives it; None is forever."""
    if days is not None and not (math.isfinite(days) and 0.0 < days <= MOST_DAYS):
        raise InvalidInput("days", days, f"must be a number above 0 and at most {MOST_DAYS:,.0f}")
    return days


def new_token() -> str:
    """A new random token."""
    return f"bestarm_{secrets.token_urlsafe(32)}"


class TokenKeeper:
    """The part of a storage that keeps tokens and sessions. By default it keeps no tokens, and sessions in memory."""

    url: str
    _sessions: dict[str, Session]

    def make_token(self, name: str, role: str, days: float | None = None, *, by: str = "") -> tuple[str, Token]:
        """A new token, which cannot be had again, and what is kept of it. It expires after `days`, if given.

        `role` is a role in all projects, or ROLE@PROJECT, or several of these with commas between them.
        `by` is who makes it, for the audit.
        """
        raise InvalidInput("storage", self.url, "keeps no tokens; use an SQLite file or a PostgreSQL database")

    def tokens(self) -> list[Token]:
        """All tokens there ever were, the oldest first."""
        return []

    def find_token(self, digest: str) -> tuple[Token, float] | None:
        """The token with that digest, and what time it is by the storage's clock."""
        return None

    def revoke_token(self, name: str, *, by: str = "") -> Token:
        """Have a token refused from now on. Repeating it changes nothing. `by` is who does it, for the audit."""
        raise InvalidInput("name", name, f"no such token in {self.url!r}")

    def open_session(self, digest: str, token: str) -> Session:
        """Keep a session for `SESSION_SECONDS`, and forget those that are over."""
        now = time.time()
        there = {key: one for key, one in vars(self).get("_sessions", {}).items() if one.expires > now}
        made = Session(digest, token, now, now + SESSION_SECONDS)
        self._sessions = there | {digest: made}
        return made

    def find_session(self, digest: str) -> Session | None:
        """The session with that digest, unless it is over."""
        found: Session | None = vars(self).get("_sessions", {}).get(digest)
        return None if found is None or found.expires <= time.time() else found

    def end_session(self, digest: str) -> None:
        """Forget a session. Repeating it changes nothing."""
        vars(self).get("_sessions", {}).pop(digest, None)
