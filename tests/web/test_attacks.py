"""Clients that mean harm, or are broken: none of them can keep the service from the others."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.lengths import cases
from tests.tools.patience import PATIENCE, wait_until
from tests.web.service import TOKEN

from bestarm.web.limits import RESERVE, Limits, room_for_clients
from bestarm.web.server import OnceAMinute, running

BEARER = {"Authorization": f"Bearer {TOKEN}"}
PLAN = {"arms": ["a", "b"], "objective": {"metric": "gain", "goal": "maximize", "noise": {"gaussian": 0.3}}}

DESCRIPTORS = 256
SERVE = """
import resource, runpy, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
sys.argv = ["bestarm", *sys.argv[2:]]
runpy.run_module("bestarm", run_name="__main__")
"""


@pytest.fixture(scope="module")
def crowded(folder: Path) -> Iterator[str]:
    """A service that can have few descriptors; whatever is done to it, it writes few lines."""
    command = [
        sys.executable,
        "-c",
        SERVE,
        str(DESCRIPTORS),
        "serve",
        "--db",
        str(folder / "crowded.db"),
        "--port",
        "0",
    ]
    with subprocess.Popen([*command, "--token", TOKEN], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://[\d.:]+", process.stderr.readline())
        assert found
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
        reader.start()
        try:
            yield found[0]
        finally:
            process.terminate()
            process.wait(PATIENCE)
            reader.join(PATIENCE)
    assert len(lines) < 10, lines[:20]


@contextlib.contextmanager
def connections(url: str, count: int, say: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections, each of which says something and then nothing more."""
    parts = urlsplit(url)
    with contextlib.ExitStack() as closing:
        made = []
        for _ in range(count):
            sock = closing.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE))
            with contextlib.suppress(OSError):
                sock.sendall(say)
            made.append(sock)
        yield made


def is_over(sock: socket.socket) -> bool:
    """Whether the service has ended a connection, after whatever it said."""
    try:
        while sock.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


@cases(1)
@pytest.mark.parametrize("said", [b"", b"GET / HT", b"POST /api/studies HTTP/1.1\r\nHost: x\r\nX-Long: "])
def test_connections_without_a_request_make_room_for_those_with_one(crowded: str, said: bytes) -> None:
    address, name = f"{crowded}/api/studies", f"after {said!r}"
    with connections(crowded, 300, said):
        for _ in range(20):
            # A connection of its own each time.
            found = httpx.get(address, params={"name": name}, headers=BEARER, timeout=PATIENCE)
            assert found.json() == []
        made = httpx.post(address, json={"plan": PLAN, "name": name}, headers=BEARER, timeout=PATIENCE)
        assert made.status_code == 201


@pytest.fixture(scope="module")
def hasty(folder: Path) -> Iterator[str]:
    with running(str(folder / "hasty.db"), limits=Limits(header_seconds=0.5, idle_seconds=0.5)) as url:
        yield url


@cases(2)
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nX-Half: ",
        b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/hea",
        b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
        b"POST /static/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
    ],
)
def test_half_a_request_is_given_up(hasty: str, said: bytes) -> None:
    with connections(hasty, 3, said) as some:
        assert all(map(is_over, some))


def test_a_request_that_comes_byte_by_byte_is_given_up(hasty: str) -> None:
    with connections(hasty, 1) as [sock]:
        with contextlib.suppress(ConnectionError):
            for _ in iter(lambda: sock.send(b"G"), 0):
                threading.Event().wait(0.05)
        assert is_over(sock)


def test_a_client_that_does_not_read_is_disconnected(tmp_path: Path) -> None:
    limits = Limits(unread_seconds=0.5, rate=1e6, burst=1e6)
    request = b"GET /static/vendor/uplot/uPlot.esm.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(str(tmp_path / "x.db"), limits=limits) as url:
        parts = urlsplit(url)
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.settimeout(PATIENCE)
            deaf.connect((parts.hostname, parts.port))

            def is_hung_up_on() -> bool:
                try:
                    deaf.send(request, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return False
                except ConnectionError:
                    return True
                return False

            wait_until(is_hung_up_on)


def test_streams_leave_room_for_everything_else(crowded: str) -> None:
    request = f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    with connections(crowded, 300, request) as streams:
        with httpx.Client(base_url=crowded, headers=BEARER, timeout=PATIENCE) as client:
            for k in range(10):
                answer = client.post("/api/studies", json={"plan": PLAN, "name": f"x{k}"})
                assert answer.status_code == 201, answer.text
        answers = []
        for sock in streams:
            with contextlib.suppress(ConnectionError):
                answers.append(sock.recv(12))
        # The service may still count some streams of the test before.
        most = 2 * (DESCRIPTORS - RESERVE) // 3
        assert most // 2 < answers.count(b"HTTP/1.1 200") <= most
        assert answers.count(b"HTTP/1.1 503") > 0


def test_a_service_that_is_full_says_so(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db"), limits=Limits(connections=3)) as url:
        stream = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        # Two streams are two thirds of the connections; the third connection is one that works.
        with connections(url, 2, stream) as two:
            for sock in two:
                assert sock.recv(12) == b"HTTP/1.1 200"
            begun = (
                b"POST /api/studies HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
            )
            with connections(url, 1, begun) as [sock]:
                assert sock.recv(12) == b"HTTP/1.1 100"
                assert _is_turned_away(url)
            assert httpx.get(f"{url}/api/health", timeout=PATIENCE).status_code == 200


def _is_turned_away(url: str) -> bool:
    try:
        answer = httpx.get(f"{url}/api/health", timeout=PATIENCE)
    except httpx.TransportError:
        # Turned away before the request was sent, which is as good.
        return True
    return answer.status_code == 503 and "too many connections" in answer.json()["error"]["reason"]


@pytest.mark.parametrize("path", ["/", "/csv", "/static/csv", "/nowhere/csv", "/api/health", "/api", "/openapi.json"])
def test_unwanted_bodies_are_not_read(guarded: str, path: str) -> None:
    size = 16_000_000
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()
    with connections(guarded, 20, head) as some:
        for sock in some:
            # Refused before anything of the body has been sent.
            assert sock.recv(12)[:10] == b"HTTP/1.1 4"
            with contextlib.suppress(OSError):
                sock.sendall(b" " * 100_000)
        plan = {"plan": PLAN, "name": path}
        made = httpx.post(f"{guarded}/api/studies", json=plan, headers=BEARER, timeout=PATIENCE)
        assert made.status_code == 201


def test_one_address_cannot_use_all_the_room_for_bodies(tmp_path: Path) -> None:
    begun = (
        f"POST /api/studies HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n" + " " * 59_000
    ).encode()
    limits = Limits(buffered=200_000)
    with running(str(tmp_path / "x.db"), token=TOKEN, limits=limits) as url, connections(url, 3, begun) as some:
        assert any(sock.recv(12) == b"HTTP/1.1 503" for sock in some[-1:])


@pytest.mark.parametrize("origin", ["http://[::1", "http://[bad]", "http://a\u00ff:x", "null", "//", "http://]"])
def test_a_malformed_origin_is_refused(service: httpx.Client, origin: str) -> None:
    answer = service.get("/api/studies", headers=[(b"Origin", origin.encode("latin-1"))])
    assert answer.status_code == 403
    assert answer.json()["error"]["field"] == "Origin"


def test_the_log_does_not_repeat_itself() -> None:
    lines: list[str] = []
    logger = logging.Logger("test")
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    quiet = OnceAMinute()
    logger.addFilter(quiet)
    for k in range(1000):
        logger.warning("no descriptor for %d", k)
        try:
            raise OSError(k)
        except OSError:
            logger.exception("a request failed")
    logger.warning("something else")
    assert lines == ["no descriptor for 0", "a request failed", "something else"]
    for line, (_, left_out) in list(quiet._said.items()):
        quiet._said[line] = float("-inf"), left_out
    logger.warning("no descriptor for %d", 7)
    assert lines[-1] == "no descriptor for 7 (and 999 more like it since then)"


def test_limits_follow_from_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    for soft, room in ((256, 128), (1024, 896), (100, 25), (100_000, 4000)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert room_for_clients(4000) == room
        limits = Limits().within_descriptors()
        assert limits.connections == room
        assert limits.streams == min(2000, 2 * room // 3)
