"""Which peers are trusted proxies, and what they say of a request: the client's address and the path's prefix."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from bestarm.validation import InvalidInput
from bestarm.web.errors import Refusal, error_response
from bestarm.web.roles import OWN_NAMES

_FROM_PROXY = "bestarm.from_proxy"
_ROOT_PATH = "bestarm.root_path"
_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~-]+")
_LONGEST_PREFIX = 200


class TrustedProxies:
    """The addresses of proxies whose headers count. `stated` are addresses and networks, one or several in a text.

    >>> proxies = TrustedProxies(["10.0.0.0/8,::1"])
    >>> "10.1.2.3" in proxies, "::ffff:10.1.2.3" in proxies, "192.168.1.1" in proxies, "" in proxies
    (True, True, False, False)
    """

    def __init__(self, stated: Sequence[str] = ()) -> None:
        names = [name.strip() for text in stated for name in text.split(",")]
        self._networks = [_network(name) for name in names]

    def __contains__(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(plain_address(address))
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    def __iter__(self) -> Iterator[str]:
        return map(str, self._networks)


def _network(name: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(name)
    except ValueError:
        reason = "must be an address or a network, such as 127.0.0.1 or 10.0.0.0/8"
        raise InvalidInput("trusted-proxies", name, reason) from None


def plain_address(address: str) -> str:
    """The address, as IPv4 if it came to a socket that takes both.

    >>> plain_address("::ffff:10.1.2.3")
    '10.1.2.3'
    """
    return address[len("::ffff:") :] if address.startswith("::ffff:") and "." in address else address


def is_from_proxy(scope: Scope) -> bool:
    """Whether a trusted proxy passed on this request, so that its headers say who asks."""
    return bool(scope.get(_FROM_PROXY))


def root_path_of(scope: Scope) -> str:
    """The path under which clients find the service, such as "/bestarm"; empty if it has a host of its own."""
    return str(scope.get(_ROOT_PATH, ""))


def check_root_path(path: str, field: str = "root-path") -> str:
    """The path without its last slash.

    >>> check_root_path("/tools/bestarm/")
    '/tools/bestarm'
    """
    whole = path.rstrip("/")
    first, *segments = whole.split("/")
    if first or len(path) > _LONGEST_PREFIX or not all(_SEGMENT.fullmatch(segment) for segment in segments):
        reason = "must begin with / and have letters, digits, and - . _ ~ between slashes, such as /bestarm"
        raise InvalidInput(field, path, reason)
    if segments and segments[0] in OWN_NAMES:
        raise InvalidInput(field, path, f"must not begin with /{segments[0]}, an address of the service itself")
    return whole


class ProxyHeaders:
    """ASGI middleware around everything: believes trusted proxies, and takes the prefix off the path.

    Proxies may have removed the prefix already, or pass the path on as it is.
    """

    def __init__(self, app: ASGIApp, *, proxies: TrustedProxies, root_path: str = "") -> None:
        self._app = app
        # It takes the client's address and scheme from X-Forwarded-For and X-Forwarded-Proto.
        self._forwarded = ProxyHeadersMiddleware(app, list(proxies))  # type: ignore[arg-type] # starlette's types
        self._proxies = proxies
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        address, port = scope.get("client") or ("", 0)
        scope["client"] = plain_address(address), port
        root_path = self._root_path
        scope[_FROM_PROXY] = is_trusted = address in self._proxies
        if is_trusted and (said := Headers(scope=scope).getlist("x-forwarded-prefix")):
            try:
                root_path = check_root_path(", ".join(said), "X-Forwarded-Prefix")
            except InvalidInput as error:
                await error_response(Refusal(400, str(error), error.field))(scope, receive, send)
                return
        scope[_ROOT_PATH] = root_path
        if root_path and (scope["path"] + "/").startswith(root_path + "/"):
            scope["path"] = scope["path"][len(root_path) :] or "/"
        await self._forwarded(scope, receive, send)  # type: ignore[arg-type] # the same
