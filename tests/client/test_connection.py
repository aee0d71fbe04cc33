"""Requests to a service, over sockets whose other end is written out line by line."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from tests.client.scripted import HANGS_UP, Connect, Cut, Serve, answer, read_request, refusal
from tests.tools.patience import PATIENCE
from tests.tools.ports import reserve_port

import bestarm as ba
from bestarm.client.connection import MOST_ATTEMPTS, Connection, Unanswered
from bestarm.storage.errors import OutcomeUnknown, StorageError

pytestmark = pytest.mark.usefixtures("pauses")

# ------------------------------------------------------------------------------------------------------ what is sent


def test_what_a_request_says(serve: Serve, connect: Connect) -> None:
    service = serve(answer([1]), answer({"done": True}), answer({}), answer({}))
    there = connect(f"{service.url}/lab/", "secret-token")
    assert there.url == f"{service.url}/lab"
    assert there.get("/api/studies", {"name": "ä & b", "limit": 2}) == [1]
    assert there.post("/api/studies/1/ask", {"count": 2}, key="k1") == {"done": True}
    assert there.post_csv("/api/studies/1/csv", b"a,b\n", key="k2") == {}
    assert there.get("/api/studies/1", tag="v7") == {}
    heads = [request.partition(b"\r\n\r\n")[0].decode().split("\r\n") for request in service.requests]
    assert [head[0] for head in heads] == [
        "GET /lab/api/studies?name=%C3%A4+%26+b&limit=2 HTTP/1.1",
        "POST /lab/api/studies/1/ask HTTP/1.1",
        "POST /lab/api/studies/1/csv HTTP/1.1",
        "GET /lab/api/studies/1 HTTP/1.1",
    ]
    said = [{name.casefold(): text for name, _, text in (line.partition(": ") for line in head[1:])} for head in heads]
    assert all(one["authorization"] == "Bearer secret-token" for one in said)
    assert all(one["accept-encoding"] == "gzip" for one in said)
    assert [one.get("idempotency-key") for one in said] == [None, "k1", "k2", None]
    assert [one.get("content-type") for one in said] == [None, "application/json", "text/csv", None]
    assert said[3]["if-none-match"] == 'W/"v7"'
    assert service.requests[2].endswith(b"\r\n\r\na,b\n")
    assert len(service.connections) == 1, "requests one after the other share a connection"


def test_the_environment_does_not_redirect_requests(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert connect(serve(answer("here")).url).get("/x") == "here"


def test_what_json_cannot_carry_is_not_sent(connect: Connect) -> None:
    for body in ({"value": float("nan")}, {"value": object()}):
        with pytest.raises(ba.InvalidInput, match="request: cannot be written as JSON"):
            connect("http://127.0.0.1:1").post("/x", body)


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:8000", "ftp://host", "http://", "http://host:x", "http://host:99999", "http://user@host"),
        *("http://host?x", "http://host/#x", "http://a\nb", ""),
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ba.InvalidInput, match="must be the address of a service"):
        Connection(url, None, 1.0)


def test_secrets_in_a_wrong_address_are_not_shown() -> None:
    for url in ("http://me:hunter2@host", "http://host/?token=hunter2", "http://me:hun#hunter2@host"):
        with pytest.raises(ba.InvalidInput) as refused:
            Connection(url, None, 1.0)
        assert "hunter2" not in str(refused.value)
    with pytest.raises(ba.InvalidInput, match="token: must be printable ASCII") as refused:
        Connection("http://host", "hunter2\n", 1.0)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ba.InvalidInput, match="must be a positive number of seconds"):
        Connection("http://host", None, 0.0)


# --------------------------------------------------------------------------------------------------- what is answered


def test_answers_are_read(serve: Serve, connect: Connect) -> None:
    packed = gzip.compress(json.dumps(["ä"] * 100).encode())
    service = serve(answer(packed, Content_Encoding="gzip"), answer(b"", "304 Not Modified"))
    there = connect(service.url)
    assert there.get("/x") == ["ä"] * 100
    assert there.get("/x", tag="v1") is None


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        (answer(b"hello"), StorageError, "answered with status 200 and not as bestarm does"),
        (answer(b"", "500 Fault"), StorageError, "answered with status 500 and not as bestarm does"),
        (answer(b"", "301 Moved", Location="/y"), StorageError, "answered with status 301"),
        (refusal("is full", "503 Service Unavailable"), StorageError, "is full"),
        (refusal("too slow", "408 Request Timeout"), StorageError, "too slow"),
        (refusal("who knows", "504 Gateway Timeout"), OutcomeUnknown, "who knows"),
        (refusal("no such study", "404 Not Found"), ba.InvalidInput, "no such study"),
    ],
)
def test_refusals(serve: Serve, connect: Connect, said: bytes, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        connect(serve(said).url).post("/x", {}, key="k")
    assert type(raised.value) is error
    if isinstance(raised.value, OutcomeUnknown):
        assert raised.value.key == "k"


def test_a_service_that_is_asked_too_often_is_asked_again(serve: Serve, connect: Connect, pauses: list[float]) -> None:
    busy = [refusal("too many", "429 Too Many Requests", Retry_After=wait) for wait in ("3", "Wed, 1 Jan 2031")]
    assert connect(serve(*busy, answer("at last")).url).get("/x") == "at last"
    assert pauses == [3.0, 1.0]
    with pytest.raises(StorageError, match="too many"):
        connect(serve(busy[0]).url, timeout=2.0).get("/x")


# ---------------------------------------------------------------------------------------------- connections that break


def test_a_request_whose_connection_breaks_is_sent_again_with_the_same_key(
    serve: Serve, connect: Connect, pauses: list[float]
) -> None:
    whole = answer("recorded")
    service = serve(HANGS_UP, Cut(whole[:10]), Cut(whole[:-4]), whole)
    assert connect(service.url).post("/x", {"value": 1}, key="k") == "recorded"
    assert len(set(service.requests)) == 1
    assert b"Idempotency-Key: k\r\n" in service.requests[0]
    assert pauses == pytest.approx([0.0, 0.05, 0.15])


def test_attempts_come_to_an_end(serve: Serve, connect: Connect, pauses: list[float]) -> None:
    service = serve(*[HANGS_UP] * 2 * MOST_ATTEMPTS)
    there = connect(service.url)
    with pytest.raises(StorageError, match=r"the connection failed") as reading:
        there.get("/x")
    assert not isinstance(reading.value, OutcomeUnknown)
    assert pauses == pytest.approx([0.0, 0.05, 0.15, 0.35, 0.75])
    with pytest.raises(Unanswered, match=r"the connection failed.*; whether this was recorded is not known"):
        there.post("/x", {}, key="k")
    assert len(service.requests) == 2 * MOST_ATTEMPTS


@pytest.mark.parametrize(
    ("said", "attempts", "words"),
    [
        (answer(b"<html>", "502 Bad Gateway"), MOST_ATTEMPTS, "a proxy answered with status 502"),
        (answer(b"", "503 Service Unavailable"), MOST_ATTEMPTS, "a proxy answered with status 503"),
        (answer(b"<html>", "504 Gateway Timeout"), 1, "did not answer in time"),
    ],
)
def test_what_a_proxy_answers_leaves_open_what_the_service_did(
    serve: Serve, connect: Connect, said: bytes, attempts: int, words: str
) -> None:
    service = serve(*[said] * 2 * attempts, *[said] * (attempts - 1), answer("recorded"))
    there = connect(service.url)
    with pytest.raises(StorageError, match=words) as reading:
        there.get("/x")
    assert not isinstance(reading.value, OutcomeUnknown)
    with pytest.raises(Unanswered, match=f"{words}.*; whether this was recorded is not known"):
        there.post("/x", {}, key="k")
    assert there.post("/x", {}, key="k") == "recorded"
    assert all(b"Idempotency-Key: k\r\n" in request for request in service.requests[attempts:])


def test_a_file_that_is_sent_again_is_sent_whole(serve: Serve, connect: Connect) -> None:
    service = serve(refusal("too many", "429 Too Many Requests", Retry_After="1"), answer("restored"))
    assert connect(service.url).post_file("/x", io.BytesIO(b"a backup\n"), {}) == "restored"
    assert service.requests[0] == service.requests[1]
    assert b"a backup\n" in service.requests[0]


def test_a_service_that_is_silent(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = connect(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.1)
        with pytest.raises(StorageError, match="did not answer in time"):
            there.get("/x")
        with pytest.raises(Unanswered, match="did not answer in time; whether this was recorded is not known"):
            there.post("/x", {}, key="k")


def test_a_service_that_is_not_there(connect: Connect, pauses: list[float]) -> None:
    with contextlib.closing(reserve_port()) as nobody:
        there = connect(f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(StorageError, match="cannot be reached; is it running"):
            there.get("/x")
        with pytest.raises(StorageError, match="cannot be reached; is it running") as raised:
            there.post("/x", {}, key="k")
        assert not isinstance(raised.value, OutcomeUnknown), "nothing was sent"
    assert pauses == []


def test_a_service_that_is_gone_after_a_break_may_have_recorded_it(connect: Connect) -> None:
    with contextlib.closing(reserve_port()) as reserved:
        there = connect(f"http://127.0.0.1:{reserved.getsockname()[1]}")
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(reserved.getsockname())
        listener.listen()

        def hang_up() -> None:
            sock, _ = listener.accept()
            read_request(sock)
            listener.close()
            sock.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(Unanswered, match=r"the connection failed.*not known"):
            there.post("/x", {}, key="k")
        thread.join(PATIENCE)


def test_a_service_without_tls_at_an_https_address(connect: Connect, pauses: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk_plainly() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(65536)
                sock.sendall(answer("hello"))

        thread = threading.Thread(target=talk_plainly)
        thread.start()
        there = connect(f"https://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(StorageError, match=r"the connection failed: .*SSL") as raised:
            there.post("/x", {}, key="k")
        assert not isinstance(raised.value, OutcomeUnknown), "nothing was sent"
        thread.join(PATIENCE)
    assert pauses == []


def test_certificates_are_checked(monkeypatch: pytest.MonkeyPatch, connect: Connect) -> None:
    found: list[ssl.SSLContext] = []
    plain = httpx.Client

    def made(**options: Any) -> httpx.Client | None:
        # Heartbeats of other tests may need clients, too.
        if options["base_url"].scheme != "https":
            return plain(**options)
        found.append(options["verify"])
        return None

    monkeypatch.setattr(httpx, "Client", made)
    for url in ("https://host", "HTTPS://host", "HttpS://host:8443/lab"):
        connect(url)._new_client()
    assert [(context.verify_mode, context.check_hostname) for context in found] == 3 * [(ssl.CERT_REQUIRED, True)]


# ------------------------------------------------------------------------------------- threads, processes and closing


def test_threads_share_connections(serve: Serve, connect: Connect) -> None:
    service = serve(*[answer(k) for k in range(200)])
    there = connect(service.url)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: there.get("/x"), range(200)))
    assert sorted(found) == list(range(200))
    assert len(service.connections) <= 8


def test_a_child_process_has_connections_of_its_own(serve: Serve, connect: Connect) -> None:
    service = serve(answer("parent"), answer("child"), answer("parent again"))
    there = connect(service.url)
    assert there.get("/x") == "parent"
    child = os.fork()
    if not child:
        os._exit(0 if there.get("/x") == "child" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert there.get("/x") == "parent again"
    assert len(service.connections) == 2


def test_a_request_that_outlasts_its_client_leaves_no_connection(serve: Serve, connect: Connect) -> None:
    """As a heartbeat may."""
    service = serve(answer(1), answer(2), answer(3))
    there = connect(service.url)
    with there._client():
        assert there.get("/x") == 1
        there.close()
        # A request is under way, and nothing is closed in the middle of it.
        assert there.get("/x") == 2
        assert len(service.connections) == 1
    assert there._http is None
    assert there.get("/x") == 3
    assert there._http is None
    assert len(service.connections) == 2
