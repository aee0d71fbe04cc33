"""An HTTP proxy for tests that loses one request in so many, in every way in which networks lose them.

with FlakyProxy(server.port, random.Random(1), one_in=10) as proxy:
    client = Client(f"http://127.0.0.1:{proxy.port}")
"""

from __future__ import annotations

import contextlib
import random
import re
import socket
import struct
import threading
from collections import Counter
from typing import Literal, get_args

from tests.tools.patience import PATIENCE

Fate = Literal["before the request", "in the request", "before it is passed on", "before the answer", "in the answer"]
"""Where the connection is cut. In the last two cases the server has done what it was told."""

FATES: tuple[Fate, ...] = get_args(Fate)
_PIECE = 65536


class FlakyProxy:
    """Listens on `port` of this machine and passes requests on to `target_port`, one after another on each connection.

    It understands requests and answers that state their length. A context manager.
    """

    def __init__(self, target_port: int, lots: random.Random, one_in: float = 10.0) -> None:
        self._target = target_port
        self._lots = lots
        self._share = 1.0 / one_in
        self._lock = threading.Lock()
        self.lost: Counter[Fate] = Counter()
        """How many connections were cut, and where."""
        self.passed = 0
        """How many requests were answered."""
        self._ends = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, name="flaky proxy", daemon=True).start()

    def __enter__(self) -> FlakyProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        # Wakes who waits for the next connection.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE).close()
        self._listener.close()

    def _listen(self) -> None:
        while not self._ends:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _fate(self) -> Fate | None:
        with self._lock:
            fate = self._lots.choice(FATES) if self._lots.random() < self._share else None
            if fate is None:
                self.passed += 1
            else:
                self.lost[fate] += 1
            return fate

    def _serve(self, client: socket.socket) -> None:
        # The proxy ignores a client that is gone and a service that has ended. The connection that wakes the listener
        # at the end may find no service.
        with (
            contextlib.suppress(OSError),
            client,
            socket.create_connection(("127.0.0.1", self._target), timeout=PATIENCE) as server,
        ):
            client.settimeout(PATIENCE)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while client.recv(1, socket.MSG_PEEK):
                fate = self._fate()
                if fate == "before the request":
                    break
                request = _whole(client)
                if fate == "in the request":
                    server.sendall(request[: len(request) // 2])
                    break
                if fate == "before it is passed on":
                    break
                server.sendall(request)
                answer = _whole(server)
                if fate == "in the answer":
                    client.sendall(answer[: len(answer) // 2])
                    break
                if fate == "before the answer":
                    break
                client.sendall(answer)
            else:
                return
            for end in (client, server):
                # At once, and with a reset, as when a machine in between forgets the connection.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _whole(end: socket.socket) -> bytes:
    """A request or an answer, with its body."""
    heard = b""
    while b"\r\n\r\n" not in heard:
        heard += _more(end)
    head, _, body = heard.partition(b"\r\n\r\n")
    found = re.search(rb"\r\ncontent-length:\s*(\d+)", head, re.IGNORECASE)
    length = int(found[1]) if found else 0
    while len(body) < length:
        more = _more(end)
        heard += more
        body += more
    return heard


def _more(end: socket.socket) -> bytes:
    data = end.recv(_PIECE)
    if not data:
        raise ConnectionResetError("the other side has hung up")
    return data
