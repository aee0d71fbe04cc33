"""Who a caller is, as a trusted proxy says it: behind a login of one's own, such as oauth2-proxy or Authelia."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import Scope

from bestarm.storage.tokens import Grants, check_token_name
from bestarm.validation import InvalidInput
from bestarm.web.errors import Refusal
from bestarm.web.proxies import is_from_proxy

EVERYBODY = "work"
"""The role of all users whom the proxy lets in, unless roles are stated."""

_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")
_OF_CLIENTS = {"authorization", "cookie", "host", "idempotency-key", "origin", "user-agent"}
"""Headers that proxies pass on as they come."""


class ProxyIdentity:
    """The headers in which a proxy names a user and their groups, and the roles that these have.

    `roles` are such as "lab-admins=manage" or "lab=work@lab-a" for those of a group, or "read" for all users.

    >>> identity = ProxyIdentity("X-Forwarded-User", "X-Forwarded-Groups", ["read", "lab=work", "lab=manage@lab-a"])
    >>> str(identity.grants_of(["lab", "staff"])), str(identity.grants_of([]))
    ('work, manage@lab-a', 'read')
    """

    def __init__(self, user_header: str, groups_header: str | None = None, roles: Sequence[str] = ()) -> None:
        self.user_header = _check_header("proxy-user-header", user_header)
        self._groups_header = groups_header and _check_header("proxy-groups-header", groups_header)
        stated = [stated.rpartition("=") for stated in roles] or [("", "", EVERYBODY)]
        self._roles = [(group.strip() if equals else None, role) for group, equals, role in stated]
        for _, role in self._roles:
            Grants.of([role], "proxy-role")
        by_group = [group for group, _ in self._roles if group is not None]
        if (self._groups_header is None) != (not by_group):
            field, reason = ("proxy-role", "needs --proxy-groups-header") if by_group else _NO_GROUPS
            raise InvalidInput(field, roles[0] if by_group else groups_header, reason)

    def grants_of(self, groups: Sequence[str]) -> Grants:
        """What someone in these groups may do, in each project the highest of their roles."""
        return Grants.of(role for group, role in self._roles if group is None or group in groups)

    def identify(self, scope: Scope, headers: Headers) -> tuple[str, Grants] | None:
        """The user and what they may do; None if the request does not name a user."""
        for header in filter(None, (self.user_header, self._groups_header)):
            if header in headers and not is_from_proxy(scope):
                raise Refusal(403, f"the header {header} counts from a trusted proxy only", header)
        if self.user_header not in headers:
            return None
        name = self._read(headers, self.user_header)
        try:
            if name != name.strip() or "," in name:
                raise InvalidInput("name", name, "must be one name")
            check_token_name(name)
        except InvalidInput as error:
            raise Refusal(403, f"the header {self.user_header} names no user: {error}", self.user_header) from None
        groups: list[str] = []
        if self._groups_header is not None and self._groups_header in headers:
            groups = [group.strip() for group in self._read(headers, self._groups_header).split(",")]
        grants = self.grants_of(groups)
        if not str(grants):
            raise Refusal(403, f"{name!r} is in none of the groups that have a role here", self._groups_header)
        return name, grants

    def _read(self, headers: Headers, header: str) -> str:
        """The one value of a header."""
        values = headers.getlist(header)
        try:
            if len(values) == 1:
                return values[0].encode("latin-1").decode()
        except UnicodeDecodeError:
            pass
        raise Refusal(403, f"the header {header} must be there once, as UTF-8", header)


_NO_GROUPS = ("proxy-groups-header", "needs a role for a group, such as --proxy-role lab-admins=manage")


def _check_header(field: str, name: str) -> str:
    if not _HEADER.fullmatch(name):
        raise InvalidInput(field, name, "must be the name of a header, such as X-Forwarded-User")
    if name.lower() in _OF_CLIENTS:
        raise InvalidInput(field, name, "must be a header that only the proxy sets, such as X-Forwarded-User")
    return name
