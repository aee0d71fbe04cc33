"""A client and a service between which the line is cut: what is sent again counts once, and what cannot be known is
said to be so."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.tools.patience import PATIENCE
from tests.tools.postgres import PostgresServer
from tests.tools.proxy import Proxy

import bestarm as ba
from bestarm.client import Client, RemoteStudy
from bestarm.storage.errors import OutcomeUnknown, StorageError
from bestarm.web.server import running

PLAN = ba.Plan(
    arms=["a", "b"],
    objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
    name="mine",
    budget=ba.Budget(tests=1000),
    reserve=0.2,
)


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return str(tmp_path / "studies.db")


@pytest.fixture
def service(storage: str) -> Iterator[str]:
    with running(storage) as url:
        yield url


@pytest.fixture
def proxy(service: str) -> Iterator[Proxy]:
    with Proxy(urlsplit(service).port or 0) as proxy:
        yield proxy


@pytest.fixture
def study(proxy: Proxy) -> Iterator[RemoteStudy]:
    with Client(f"http://127.0.0.1:{proxy.port}") as client:
        happened = proxy.cut_after(b"POST /api/studies ")
        made = client.create(PLAN)
        assert happened.is_set()
        yield made


def log(study: RemoteStudy) -> list[str]:
    return [event.kind for event in study.log()]


def test_what_is_sent_again_counts_once(study: RemoteStudy, proxy: Proxy) -> None:
    for body in (b"/add", b"/add"):
        happened = proxy.cut_after(body)
        study.add([("a", "gain", 1.0)])
        assert happened.is_set()
    assert study.status().tests == 2
    happened = proxy.cut_after(b"/ask")
    first, second = study.ask(2)
    assert happened.is_set()
    assert [test.id for test, _ in study.pending()] == [first.id, second.id]
    acts: list[tuple[bytes, Callable[[], object]]] = [
        (b"/tell", lambda: study.tell(first, 1.0)),
        (b"/fail", lambda: study.fail(second, "power")),
        (b"/correct", lambda: study.correct(first, 2.0, "misread")),
        (b"/extend", lambda: study.extend(10)),
        (b"/arms/add", lambda: study.add_arms(["later"])),
        (b"/arms/retire", lambda: study.retire("later")),
        (b"/archive", study.archive),
        (b"/archive", lambda: study.archive(undo=True)),
    ]
    for path, act in acts:
        happened = proxy.cut_after(path)
        act()
        assert happened.is_set(), path
    assert log(study)[-8:] == ["told", "failed", "corrected", *(3 * ["amended"]), "archived", "restored"]
    assert study.plan.max_tests == 1010
    assert study.status().tests == 3


def test_unknown_outcomes_are_reported(study: RemoteStudy, proxy: Proxy) -> None:
    proxy.cut_after(b"/add", refuse=True)
    with pytest.raises(OutcomeUnknown, match=r"whether this was recorded is not known; repeat it with key='") as caught:
        study.add([("a", "gain", 1.0)])
    proxy.resume()
    assert study.add([("a", "gain", 1.0)], key=caught.value.key) == [1]
    assert study.status().tests == 1
    proxy.cut_after(b"/ask", refuse=True)
    with pytest.raises(OutcomeUnknown):
        study.ask(1)
    proxy.resume()
    [test] = study.ask(1)
    assert [waiting.id for waiting, _ in study.pending()] == [test.id]
    proxy.cut_after(b"/tell", refuse=True)
    with pytest.raises(OutcomeUnknown, match="it is safe to repeat"):
        study.tell(test, 1.0)
    proxy.resume()
    study.tell(test, 1.0)
    proxy.cut(refuse=True)
    with pytest.raises(StorageError):
        study.status()
    proxy.resume()


def test_a_service_that_does_not_answer(study: RemoteStudy, proxy: Proxy) -> None:
    """Only what goes unanswered is sent with little patience: on a busy machine any other answer may take long too."""
    with Client(f"http://127.0.0.1:{proxy.port}", timeout=1.0) as client:
        impatient = RemoteStudy(client._connection, study.id, study.plan, holder=study.holder)
        proxy.silence_after(b"/add")
        with pytest.raises(OutcomeUnknown, match="did not answer in time; whether this was recorded") as caught:
            impatient.add([("a", "gain", 1.0)])
    assert study.add([("a", "gain", 1.0)], key=caught.value.key) == [1]


def post(service: str, path: str, data: bytes, kind: str, key: str | None) -> tuple[int, Any]:
    headers = {"Content-Type": kind} | ({} if key is None else {"Idempotency-Key": key})
    request = urllib.request.Request(f"{service}/api/studies{path}", data, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_keys_of_other_programs(service: str, study: RemoteStudy) -> None:
    def send(path: str, body: object, key: str | None = None) -> tuple[int, Any]:
        return post(service, path, json.dumps(body).encode(), "application/json", key)

    one = {"results": [{"arm": "a", "metric": "gain", "value": 1}]}
    two = {"results": [{"arm": "a", "metric": "gain", "value": 2}]}
    path = f"/{study.id}/add"
    assert send(path, one, "k1") == (200, {"ids": [1]})
    assert send(path, one, "k1") == (200, {"ids": [1]})
    assert send(path, one, "k2") == (200, {"ids": [2]})
    assert send(path, one) == (200, {"ids": [3]})
    status, answer = send(path, two, "k1")
    assert status == 422
    assert "something else" in answer["error"]["reason"]
    status, answer = send(path, one, "x" * 201)
    assert (status, answer["error"]["field"]) == (422, "Idempotency-Key")
    sheet = b"arm,metric,value\na,gain,1\nb,gain,2\n"
    assert post(service, f"/{study.id}/csv", sheet, "text/csv", "k3") == (200, {"told": 2})
    assert post(service, f"/{study.id}/csv", sheet, "text/csv", "k3") == (200, {"told": 2})
    status, answer = post(service, f"/{study.id}/csv", sheet, "text/csv", "k4")
    assert status == 422
    assert "in this study already" in answer["error"]["reason"]
    new = {"plan": PLAN.to_data(), "name": "other"}
    assert send("", new, "k1")[1]["id"] == send("", new, "k1")[1]["id"]
    assert send("", new, "k2")[0] == 409
    assert study.status().tests == 5


def test_a_service_whose_database_is_lost(postgres_server: PostgresServer) -> None:
    address = postgres_server.new_database()
    with Proxy(postgres_server.port) as proxy:
        url = address.rpartition("@")[0] + f"@127.0.0.1:{proxy.port}/{address.rpartition('/')[2]}"
        with running(url) as service, Client(service) as client:
            study = client.create(PLAN)
            proxy.cut_after(b"bestarm_requests (", refuse=True)
            with pytest.raises(StorageError):
                study.add([("a", "gain", 1.0)])
            proxy.resume()
            proxy.cut_after(b"COMMIT", refuse=True)
            with pytest.raises(OutcomeUnknown, match="whether this was recorded is not known") as caught:
                study.add([("a", "gain", 1.0)])
            assert caught.value.key is not None
            assert caught.value.key in str(caught.value)
            proxy.resume()
            assert study.add([("a", "gain", 1.0)], key=caught.value.key) == [1]
            assert study.status().tests == 1


def test_threads_that_ask_at_once_never_share_a_key(study: RemoteStudy) -> None:
    study.add([("a", "gain", 0.0), ("b", "gain", 0.0)])
    with ThreadPoolExecutor(8) as pool:
        asked = [test.id for tests in pool.map(lambda _: study.ask(1, days=1), range(24)) for test in tests]
    assert len(asked) == len(set(asked))
