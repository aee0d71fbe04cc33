"""A service that gives the answers that a test wants, one after the other."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Sequence

from tests.tools.patience import PATIENCE

from bestarm.client.connection import Connection

HANGS_UP = b""


class Cut(bytes):
    """The beginning of an answer, after which the service hangs up."""


def answer(body: object, status: str = "200 OK", **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *lines, "", ""]).encode() + data


def refusal(reason: str, status: str, **headers: str) -> bytes:
    return answer({"error": {"field": None, "reason": reason}}, status, **headers)


def read_request(sock: socket.socket) -> bytes:
    """A request with its body; nothing if the other side has hung up."""
    heard = b""
    while b"\r\n\r\n" not in heard:
        more = sock.recv(65536)
        if not more:
            return b""
        heard += more
    head, _, body = heard.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body


class Service:
    """Gives prepared answers, in order, whichever connection a request comes on."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self._answers = list(answers)
        self._lock = threading.Lock()
        self.requests: list[bytes] = []
        self.connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.connections.append(sock)
                thread = threading.Thread(target=self._serve, args=[sock])
                self._threads.append(thread)
                thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            while request := read_request(sock):
                with self._lock:
                    self.requests.append(request)
                    said = self._answers.pop(0)
                sock.sendall(said)
                if said == HANGS_UP or isinstance(said, Cut):
                    return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self.connections:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not self._answers, "not every answer was asked for"


Serve = Callable[..., Service]

Connect = Callable[..., Connection]
