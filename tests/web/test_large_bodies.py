"""Large, slow and unread: no client can block the others."""

from __future__ import annotations

import contextlib
import gzip
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.lengths import lengths
from tests.tools.patience import PATIENCE
from tests.web.service import CSV, JSON, PLAN, client_at, new_study, refused

import bestarm as ba
from bestarm.study.study import Study
from bestarm.web.guard import RateLimit
from bestarm.web.limits import Limits
from bestarm.web.roles import PROBES
from bestarm.web.server import running


def test_bodies_that_are_too_large(service: httpx.Client, study: str) -> None:
    large = b" " * 1_000_001
    refused(service.post(f"{study}/tell", content=large, headers=JSON), 413, "at most 1,000,000 bytes")
    pieces = (b" " * 1000 for _ in range(100_000))
    refused_while_sending(service, f"{study}/tell", JSON, pieces, "at most 1,000,000 bytes")
    pieces = (b"a,b,1\n" * 1000 for _ in range(100_000))
    refused_while_sending(service, f"{study}/csv", CSV, pieces, "at most 16,000,000 bytes")
    refused(service.post(f"{study}/csv", content=b"x" * 16_000_001, headers=CSV), 413, "at most 16,000,000 bytes")


def refused_while_sending(
    service: httpx.Client, path: str, headers: dict[str, str], pieces: Iterator[bytes], reason: str
) -> None:
    """Send a body in chunks without a stated length, and see that it is cut short."""
    with connected(service.base_url.netloc.decode()) as (sock, answer):
        head = [f"POST {path} HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked"]
        sock.sendall("\r\n".join([*head, *(f"{k}: {v}" for k, v in headers.items()), "", ""]).encode())
        sent = 0
        try:
            for piece in pieces:
                sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                sent += len(piece)
        except OSError:
            pass
        assert sent < 40_000_000
        try:
            said = answer()
        except ConnectionResetError:
            # The service hung up on a body that it had refused; its answer may be lost on the way.
            return
        if said:
            assert b" 413 " in said.split(b"\r\n")[0]
            assert reason.encode() in said


class connected:  # noqa: N801
    """A plain connection, and a function that reads what comes until the other side hangs up or is silent."""

    def __init__(self, netloc: str) -> None:
        host, port = netloc.split(":")
        self.sock = socket.create_connection((host, int(port)), timeout=PATIENCE)

    def __enter__(self) -> tuple[socket.socket, Callable[[], bytes]]:
        def answer() -> bytes:
            said = b""
            while b"}" not in said and (piece := self.sock.recv(65536)):
                said += piece
            return said

        return self.sock, answer

    def __exit__(self, *_: object) -> None:
        self.sock.close()


@pytest.mark.parametrize("lines", lengths(20_000, Limits().csv_lines))
def test_csv_bombs(tmp_path: Path, lines: int) -> None:
    """As large as the limits allow. In the long form they are those that a service has unless told otherwise."""
    room = 80 * lines
    limits = Limits(csv_lines=lines, csv_body=room)
    with running(str(tmp_path / "x.db"), limits=limits) as url, client_at(url) as service:
        study = new_study(service, "bombed")

        def send(content: bytes, **headers: str) -> httpx.Response:
            answer = service.post(f"{study}/csv", content=content, headers=CSV | headers)
            assert len(answer.content) < 20_000
            return answer

        header = b"arm,metric,value\n"
        large = room - 1000
        refused(send(gzip.compress(header * 1000), **{"Content-Encoding": "gzip"}), 415, "compressed")
        refused(send(header + b"a,gain,1\n" * (lines + 1)), 413, f"at most {lines:,}")
        refused(send(b"\r" * (lines + lines // 2)), 413, f"at most {lines:,}")
        refused(send(header + b"z,gain,1\n" * (lines - 1000)), 422, f"{lines - 1000:,} lines cannot be accepted")
        refused(send(header + b'"' + b"x" * large), 422, "line 2|cannot be read")
        refused(send(header + b"a,gain," + b"9" * large), 422, "line 2")
        refused(send(header + b"," * large), 422, "no results")
        refused(send(b"," * large), 422, "header|empty")
        refused(send(b"\xff\xfe" + header), 422, "UTF-16")
        assert service.get(study).json()["tests"] == 0


@pytest.mark.torture
def test_a_slow_body_is_given_up_and_does_not_block_others(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db"), limits=Limits(body_seconds=2.0)) as url:
        netloc = urlsplit(url).netloc
        slow = [connected(netloc) for _ in range(60)]
        for one in slow:
            one.sock.sendall(b'POST /api/studies HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"plan"')
        with client_at(url) as client:
            study = new_study(client, "quick")
            for _ in range(20):
                assert client.post(f"{study}/ask", json={}).status_code == 200
            for one in slow:
                with one as (_, answer):
                    said = answer()
                    assert b" 408 " in said.split(b"\r\n")[0]
                    assert b"did not arrive within 2 s" in said
            assert client.get(study).status_code == 200


def test_bodies_under_way_are_bounded_together(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db"), limits=Limits(buffered=100_000)) as url, client_at(url) as client:
        refused(client.post("/api/studies", content=b" " * 200_000, headers=JSON), 503, "too many large bodies")
        # Nothing of it is counted any more.
        new_study(client, "after")


@pytest.mark.torture
def test_clients_that_do_not_read_do_not_block_others(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    # More than what the system keeps for those who do not read.
    count, arm = 10_000, "a" * 200
    one = Study.create(ba.Plan.from_data(PLAN | {"name": "big", "arms": [arm, "b"]}), storage=path)
    one.add([(arm, "gain", 0.5)] * count)
    study = "/api/studies/1"
    with running(path) as url, client_at(url) as client, contextlib.ExitStack() as closing:
        # A record this long is read by compiled code, and the first time ever that is compiled now.
        assert client.post(f"{study}/ask", json={}).status_code == 200
        for k in range(12):
            deaf = closing.enter_context(socket.socket())
            # Before there is a connection: afterward it would have the usual room.
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((urlsplit(url).hostname, urlsplit(url).port))
            what = ("export", "events", "report")[k % 3]
            deaf.sendall(f"GET /api/studies/1/{what} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        # Waiting for a client that does not read would take forever.
        for _ in range(20):
            assert client.post(f"{study}/ask", json={}).status_code == 200
        assert len(client.get(f"{study}/export").text.splitlines()) == count + 22
        assert len(client.get(f"{study}/export", params={"format": "json"}).json()["tests"]) == count + 21


def test_rates_are_limited_by_address(tmp_path: Path) -> None:
    limit = RateLimit(10.0, 5.0)
    assert [limit.wait("a", 0.0) > 0 for _ in range(7)] == [False] * 5 + [True] * 2
    assert limit.wait("b", 0.0) == 0
    assert limit.wait("a", 0.1) == 0
    assert limit.wait("a", 0.1) == pytest.approx(0.1)
    assert [limit.wait("a", 100.0) > 0 for _ in range(6)] == [False] * 5 + [True]
    # So slow a rate that no further request is allowed however long these take.
    with running(str(tmp_path / "x.db"), limits=Limits(rate=0.001, burst=10.0)) as url:
        with client_at(url) as client:
            answers = [client.get("/api/health") for _ in range(15)]
            # A probe that is refused would have the service restarted.
            assert [client.get(probe).status_code for probe in PROBES for _ in range(15)] == [200] * 30
        assert [answer.status_code for answer in answers[:10]] == [200] * 10
        refused(answers[-1], 429, "at most 0.001 a second")
        assert int(answers[-1].headers["retry-after"]) >= 1
