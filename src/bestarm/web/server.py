"""Running the service."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import math
import re
import socket
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import uvicorn
from fastapi import FastAPI

from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput
from bestarm.web.app import create_app
from bestarm.web.database_health import open_when_ready
from bestarm.web.guard import is_loopback
from bestarm.web.limits import Limits
from bestarm.web.protocol import ACCEPTED_AT_ONCE, Connections
from bestarm.web.proxies import TrustedProxies, check_root_path
from bestarm.web.proxy_identity import ProxyIdentity

_HOST_NAME = re.compile(r"[\w.:-]+")
_SHORTEST_TOKEN = 16
_QUEUE = 2048
"""Connections that wait to be accepted."""
_MOST_LINES = 100
_STOP_SECONDS = 10
"""How long a server that stops waits for open requests."""
_MOST_HEAPS = -8
"""The number of this option of glibc's `mallopt`, `M_ARENA_MAX`."""


def check_access(
    host: str,
    token: str | None,
    allowed_hosts: Sequence[str] = (),
    proxies: Sequence[str] = (),
    *,
    tokens: bool = False,
    is_proxied: bool = False,
) -> None:
    """Refuse to serve other machines, directly or through a proxy, without a token or a user that a proxy names."""
    if is_proxied and not proxies:
        reason = "needs --trusted-proxies, the address of the proxy that sets it"
        raise InvalidInput("proxy-user-header", UNSTATED, reason)
    for name in allowed_hosts:
        if not _HOST_NAME.fullmatch(name):
            raise InvalidInput("allow-host", name, "must be a host name or an address, such as lab.example")
    if token is None:
        if tokens or is_proxied:
            return
        needs = "so it needs a token: give --token, set BESTARM_TOKEN, or give --tokens and make some"
        if not is_loopback(host):
            raise InvalidInput("host", host, f"other machines could reach this address, {needs}")
        for name in allowed_hosts:
            if not is_loopback(name):
                raise InvalidInput("allow-host", name, f"is a name for other machines, {needs}")
        if proxies:
            raise InvalidInput("trusted-proxies", proxies[0], f"a proxy lets other machines in, {needs}")
    elif len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            "token",
            UNSTATED,
            f"must have at least {_SHORTEST_TOKEN} characters, letters, digits or signs of ASCII, without spaces",
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket at that address; port 0 is any that is free."""
    if isinstance(port, bool) or not 0 <= port < 2**16:
        raise InvalidInput("port", port, "must be a whole number from 0 to 65,535", shown=quoted(port))
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise InvalidInput("host", host, "is not an address of this machine") from None
    family, kind, protocol, _, address = found[0]
    # With the protocol named, asyncio sends small answers at once; else each would wait 40 ms for an acknowledgment.
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_QUEUE)
    except OSError as error:
        listener.close()
        reason = f"cannot listen there: {error.strerror}"
        raise InvalidInput("host", host, reason, shown=f"{host!r}, port = {port}") from None
    return listener


class Server(uvicorn.Server):
    """Accepts connections a few at a time, and ends event streams before it waits for open requests."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            # Asyncio has made the queue as short as what it accepts in one go.
            listener.listen(_QUEUE)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        assert isinstance(app, FastAPI)
        app.state.live.close()
        await super().shutdown(sockets)


def new_server(app: FastAPI) -> Server:
    """A server for the application."""
    limits: Limits = app.state.limits
    config = uvicorn.Config(
        app,
        http=Connections(limits),  # type: ignore[arg-type] # it is only called
        backlog=ACCEPTED_AT_ONCE,
        log_level="warning",
        access_log=False,
        server_header=False,
        # The application reads them itself: it has to know who the peer is.
        proxy_headers=False,
        timeout_keep_alive=math.ceil(limits.idle_seconds),
        timeout_graceful_shutdown=_STOP_SECONDS,
        ws="none",
    )
    for name in ("uvicorn.error", "asyncio", "bestarm.web"):
        logging.getLogger(name).addFilter(_once_a_minute)
    return Server(config)


@contextlib.contextmanager
def running(
    storage_url: str,
    *,
    port: int = 0,
    token: str | None = None,
    tokens: bool = False,
    allowed_hosts: Sequence[str] = (),
    limits: Limits | None = None,
    access_log: str | None = None,
    proxies: Sequence[str] = (),
    root_path: str = "",
    proxy_identity: ProxyIdentity | None = None,
) -> Iterator[str]:
    """A service inside this process, for notebooks and tests; yields its address. Port 0 is any that is free."""
    app = create_app(
        storage_url,
        token=token,
        tokens=tokens,
        allowed_hosts=allowed_hosts,
        limits=limits,
        access_log=access_log,
        proxies=proxies,
        root_path=root_path,
        proxy_identity=proxy_identity,
    )
    server = new_server(app)
    with listen("127.0.0.1", port) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            # Connections made before it is ready wait in the socket's queue.
            yield f"http://127.0.0.1:{listener.getsockname()[1]}{check_root_path(root_path)}"
        finally:
            server.should_exit = True
            thread.join()


def serve(
    storage_url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    tokens: bool = False,
    allowed_hosts: Sequence[str] = (),
    proxies: Sequence[str] = (),
    limits: Limits | None = None,
    access_log: str | None = None,
    root_path: str = "",
    proxy_identity: ProxyIdentity | None = None,
    wait_seconds: float = 0.0,
) -> None:
    """Serve the studies at `storage_url` until interrupted. If it is out of reach, first wait for it so long."""
    check_access(host, token, allowed_hosts, proxies, tokens=tokens, is_proxied=proxy_identity is not None)
    root_path, _ = check_root_path(root_path), TrustedProxies(proxies)
    # A computing thread gives way to others after this time, in seconds. A request changes threads many times, and
    # would wait that long each time.
    sys.setswitchinterval(0.0005)
    # Looking for garbage stops all threads. A large study has millions of objects, and none of them is garbage.
    gc.set_threshold(10_000, 20, 10)
    _share_heaps()
    storage = open_when_ready(storage_url, wait_seconds)
    with listen(host, port) as listener:
        app = create_app(
            storage,
            token=token,
            tokens=tokens,
            allowed_hosts=allowed_hosts,
            limits=limits,
            access_log=access_log,
            proxies=proxies,
            root_path=root_path,
            proxy_identity=proxy_identity,
        )
        shown = f"[{host}]" if ":" in host else host
        # Standard error, where a program that starts us finds the port it was given.
        print(f"bestarm is serving http://{shown}:{listener.getsockname()[1]}{root_path}/", file=sys.stderr, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            new_server(app).run(sockets=[listener])


def _share_heaps() -> None:
    """Let all threads share two heaps. glibc gives each its own, and what one has freed the others cannot use."""
    with contextlib.suppress(AttributeError, TypeError):  # elsewhere there is no such function
        ctypes.CDLL(None).mallopt(_MOST_HEAPS, 2)


class OnceAMinute(logging.Filter):
    """Keeps loggers from flooding: a line is written once a minute, with the number of repeats left out."""

    def __init__(self) -> None:
        super().__init__()
        self._said: OrderedDict[tuple[object, ...], tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        line = _identity(record)
        now = time.monotonic()
        then, left_out = self._said.pop(line, (-math.inf, 0))
        if now - then < 60.0:
            self._said[line] = then, left_out + 1
            return False
        self._said[line] = now, 0
        if len(self._said) > _MOST_LINES:
            self._said.popitem(last=False)
        if left_out:
            record.msg = f"{record.getMessage()} (and {left_out:,} more like it since then)"
            record.args = ()
        return True


def _identity(record: logging.LogRecord) -> tuple[object, ...]:
    """The message without its numbers: each of a storm of errors may name another descriptor, or another client."""
    error = record.exc_info[1] if record.exc_info else None
    frames = [] if error is None else list(traceback.walk_tb(error.__traceback__))
    place = [(frame.f_code, line) for frame, line in frames[-1:]]
    return record.name, record.levelno, record.msg, type(error), *place


_once_a_minute = OnceAMinute()
