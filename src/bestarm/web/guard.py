"""What every request passes before it reaches a route: who may ask, how often, and how large a body may be."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bestarm.web.access import CALLER, Access
from bestarm.web.errors import Refusal, error_response, unexpected_error
from bestarm.web.limits import Limits
from bestarm.web.protocol import answering
from bestarm.web.roles import ANYBODY, PROBES, is_data, likely_demand
from bestarm.web.sessions import BY_SCRIPT

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
ROLE_HEADER = "Bestarm-Role"
"""The header that says what the caller may do, so that a page offers only that."""
NAME_HEADER = "Bestarm-Name"
"""The header that says who the caller is, in percent encoding, so that a page need not ask for a name."""
_MOST_ADDRESSES = 10_000
_BACKUP = "/api/backup"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class RateLimit:
    """A token bucket for each of the most recent addresses."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = max(burst, 1.0)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, address: str, now: float) -> float:
        """Take one request of `address` out of its bucket; if it is empty, how many seconds to wait."""
        left, then = self._buckets.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        taken = left >= 1.0
        self._buckets[address] = (left - taken, now)
        if len(self._buckets) > _MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (1.0 - left) / self._rate


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, access: Access, allowed_hosts: Sequence[str], limits: Limits) -> None:
        self._app = app
        self._access = access
        self._hosts = {host.casefold() for host in allowed_hosts}
        self._limits = limits
        self._rate = RateLimit(limits.rate, limits.burst)
        self._buffered: Counter[str] = Counter()
        """Bytes of bodies that are being received or worked on, by the sender's address."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with answering(scope) as has_room:
            await self._answer(scope, receive, send, has_room=has_room)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, *, has_room: bool) -> None:
        started = has_rest = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                # A browser asks about the dashboard's page every time, so that an upgrade is seen at once.
                headers.setdefault(
                    "Cache-Control", "no-store" if is_data(scope["path"]) or scope["path"] in PROBES else "no-cache"
                )
                if caller := scope.get(CALLER):
                    headers[ROLE_HEADER] = caller.role
                    if caller.name:
                        headers[NAME_HEADER] = quote(caller.name, safe="")
                if has_rest:
                    headers["Connection"] = "close"
            await send(message)

        held = 0

        def hold(size: int) -> None:
            nonlocal held
            self._hold(_address(scope), size)
            held += size

        try:
            headers = Headers(scope=scope)
            if not has_room:
                raise Refusal(503, "too many connections are open; try again later", None, Retry_After="5")
            # A probe that is refused would have the service restarted.
            if scope["path"] not in PROBES:
                self._check_rate(scope)
                self._check_host(headers)
            await self._check_caller(scope, headers)
            self._check_site(scope, headers)
            if scope["method"] == "POST" and scope["path"].startswith("/api/") and scope["path"] != "/api/health":
                # The route for backups may answer before it has read all of one.
                receive, has_rest = await self._body(scope, headers, receive, hold), scope["path"] == _BACKUP
            elif headers.get("transfer-encoding") or headers.get("content-length", "0") != "0":
                # No route here takes a body, so the rest of it is not read.
                receive, has_rest = _replayed(b"", receive), True
            await self._app(scope, receive, send_guarded)
        except Refusal as refusal:
            # The rest of a refused body is not read.
            refusal.headers["Connection"] = "close"
            await error_response(refusal)(scope, receive, send_guarded)
        except asyncio.CancelledError:
            # The server stops, and has waited long enough.
            if not started:
                await error_response(_cut_short(scope["method"]))(scope, receive, send_guarded)
        except Exception as error:
            response = unexpected_error(error)
            if not started:
                await response(scope, receive, send_guarded)
        finally:
            self._hold(_address(scope), -held)

    # ----------------------------------------------------------------------------------------------- who may ask

    def _check_rate(self, scope: Scope) -> None:
        wait = self._rate.wait(_address(scope), time.monotonic())
        if wait:
            reason = f"too many requests: at most {self._limits.rate:g} a second are answered"
            raise Refusal(429, reason, None, Retry_After=str(max(1, math.ceil(wait))))

    def _check_host(self, headers: Headers) -> None:
        """Without a token, no site may point its own name here."""
        name = _host_name(headers.get("host", ""))
        if self._hosts:
            if name not in self._hosts and not (self._access.is_open and is_loopback(name)):
                reason = f"this service does not answer under the host name {name[:255]!r}; --allow-host allows one"
                raise Refusal(403, reason, "Host")
        elif self._access.is_open and not is_loopback(name):
            raise Refusal(403, "without a token this service answers under loopback names only", "Host")

    async def _check_caller(self, scope: Scope, headers: Headers) -> None:
        demand = likely_demand(scope["method"], scope["path"])
        if not is_data(scope["path"]) or demand.role == ANYBODY:
            return
        scope[CALLER] = caller = await self._access.identify(scope, headers)
        caller.check(demand)

    def _check_site(self, scope: Scope, headers: Headers) -> None:
        """Where the browser alone says who asks, a page of another site must not get here through it."""
        caller = scope.get(CALLER)
        is_by_browser = caller is not None and caller.is_by_browser
        if not is_data(scope["path"]) or not (self._access.is_open or is_by_browser):
            return
        origin, fetched = headers.get("origin"), headers.get("sec-fetch-site")
        is_other = origin is not None and _site(origin) != headers.get("host", "").casefold()
        # Browsers know this best: a proxy may have changed the port in Host. They do not say it over plain HTTP.
        if is_by_browser and fetched is not None:
            is_other = fetched not in ("same-origin", "none")
        if is_other or fetched == "cross-site":
            raise Refusal(403, "requests from other sites are refused", "Origin")
        if is_by_browser and scope["method"] not in ("GET", "HEAD") and BY_SCRIPT not in headers:
            reason = f"a change by a user whom a browser signs in takes the header {BY_SCRIPT}, with any value"
            raise Refusal(403, reason, BY_SCRIPT)

    # -------------------------------------------------------------------------------------------------- the body

    def _hold(self, address: str, size: int) -> None:
        """Count bytes of a body in, or out again if `size` is negative."""
        if size > 0:
            share = self._limits.buffered // 2
            if self._buffered.total() + size > self._limits.buffered or self._buffered[address] + size > share:
                raise Refusal(503, "too many large bodies at once; try again", None, Retry_After="1")
        self._buffered[address] += size
        if not self._buffered[address]:
            del self._buffered[address]

    async def _body(self, scope: Scope, headers: Headers, receive: Receive, hold: Callable[[int], None]) -> Receive:
        """The body within its limits, so that a slow or endless one does not block others. The route gets it as a
        whole, but a backup as it comes, to write it to a file."""
        limits, path, size, more = self._limits, scope["path"], 0, True
        is_backup = path == _BACKUP
        limit = limits.backup_body if is_backup else limits.csv_body if path.endswith("/csv") else limits.json_body
        if headers.get("content-encoding", "identity").casefold() != "identity":
            raise Refusal(415, "compressed bodies are not accepted", "Content-Encoding", Accept_Encoding="identity")
        too_large = Refusal(413, f"the body is too large: at most {limit:,} bytes are accepted")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 15 or int(length) > limit:
            raise too_large

        async def next_piece() -> Message:
            nonlocal size, more
            message = await receive()
            size += len(message.get("body", b""))
            if size > limit:
                raise too_large
            more = message.get("more_body", False)
            return message

        async def piece_in_time() -> Message:
            if not more:
                return await receive()
            async with self._in_time():
                return await next_piece()

        if is_backup:
            return piece_in_time
        body = bytearray()
        async with self._in_time():
            while more:
                message = await next_piece()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "the connection ended before the body did")
                chunk = message.get("body", b"")
                hold(len(chunk))
                body += chunk
        return _replayed(bytes(body), receive)

    @contextlib.asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        seconds = self._limits.body_seconds
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {seconds:g} s") from None


def _cut_short(method: str) -> Refusal:
    reason, is_harmless = "the service was stopped before this was answered", method in ("GET", "HEAD")
    status, more = (503, "") if is_harmless else (504, "; whether it was recorded is not known")
    return Refusal(status, reason + more, None, Connection="close", Retry_After="1")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Yields the whole body in one message, and then only the end of the connection."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        if whole:
            return whole.pop()
        while (message := await receive())["type"] != "http.disconnect":
            pass
        return message

    return replay


def _address(scope: Scope) -> str:
    """The client's address, if known."""
    return (scope.get("client") or ("",))[0]


def _site(origin: str) -> str | None:
    """The host and port in an Origin header; None if it is not an address."""
    try:
        return urlsplit(origin).netloc.casefold()
    except ValueError:
        return None


def _host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    host = host.strip().casefold()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
