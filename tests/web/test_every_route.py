"""The attacks of docs/security.md on every route of the service, as every kind of caller."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.tools.patience import PATIENCE
from tests.web.service import CSV, FILE, JSON, PLAN, TOKEN, client_at, new_study

from bestarm.problem import Plan
from bestarm.storage.opening import open_storage
from bestarm.storage.tokens import ROLES, Role, allows
from bestarm.web.app import create_app
from bestarm.web.roles import NEEDED
from bestarm.web.server import running
from bestarm.web.studies import LONG_PLAN

ROUTES = sorted(NEEDED)
BAD_BODIES: dict[str, bytes] = {
    "none": b"",
    "cut off": b'{"results": [',
    "deep": b"[" * 100_000,
    "nested": b'{"plan": %s, "results": %s}' % (2 * (b"[" * 300 + b"]" * 300,)),
    "twice": b'{"holder": "a", "holder": "b"}',
    "no object": b"[1, 2, 3]",
    "huge number": b'{"n": 1' + b"0" * 5000 + b"}",
    "not finite": b'{"n": NaN, "lease": Infinity}',
    "no text": b"\xff\xfe\x00",
    "surrogate": b'{"holder": "\\ud800", "reason": "\\ud800"}',
    "workbook": b"PK\x03\x04" + b"\x00" * 100,
}


class Service:
    """A service with a study, and a caller of every kind."""

    def __init__(self, url: str, database: str) -> None:
        self.url = url
        self.client = client_at(url)
        storage = open_storage(database)
        self.callers: dict[str, tuple[Role | None, dict[str, str]]] = {"nobody": (None, {})}
        for role in ROLES:
            bearer = {"Authorization": f"Bearer {storage.make_token(role, role)[0]}"}
            self.callers[role] = role, bearer
            signed_in = httpx.post(f"{url}/api/session", json={}, headers=bearer, timeout=PATIENCE)
            cookie = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0], "X-Requested-With": "test"}
            self.callers[f"{role}, signed in"] = role, cookie
        revoked = {"Authorization": f"Bearer {storage.make_token('gone', 'manage')[0]}"}
        storage.revoke_token("gone")
        storage.close()
        self.callers["revoked"] = None, revoked
        self.client.headers["Authorization"] = f"Bearer {TOKEN}"
        self.study = new_study(self.client, "kept")
        self.client.post(f"{self.study}/ask", json={"n": 3})

    def state(self) -> Any:
        """What an attack must not change."""
        log = self.client.get(f"{self.study}/log").json()
        return log, [row["id"] for row in self.client.get("/api/studies?archived=true").json()]

    def send(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> httpx.Response:
        """The head of the answer, and the whole if it is an error: streams have no end."""
        with httpx.stream(method, self.url + path, headers=headers, content=body, timeout=PATIENCE) as answer:
            if answer.status_code >= 400:
                answer.read()
            return answer


@pytest.fixture(scope="module")
def service_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    database = str(tmp_path_factory.mktemp("all") / "x.db")
    with running(database, token=TOKEN) as url:
        made = Service(url, database)
        yield made
        made.client.close()


def test_every_route_of_the_application_is_walked() -> None:
    app = create_app(":memory:")
    found = {f"{method.upper()} {path}" for path, operations in app.openapi()["paths"].items() for method in operations}
    app.state.live.close()
    assert found == set(ROUTES)


@pytest.mark.parametrize("route", ROUTES)
def test_no_caller_can_harm_by_any_route(service_of_all: Service, route: str) -> None:
    service, needed = service_of_all, NEEDED[route]
    method, path = route.split(" ")
    path = path.replace("/api/studies/{study}", service.study)
    kind = CSV if path.endswith("/csv") else FILE if path.endswith("/backup") else JSON
    before = service.state()
    for name, (role, credentials) in service.callers.items():
        is_allowed = needed == "anybody" or (role is not None and allows(role, needed))
        for what, body in BAD_BODIES.items() if method == "POST" else [("none", b"")]:
            if is_allowed and body == b"" and path.endswith("/session/end"):
                continue
            answer = service.send(method, path, credentials | kind, body)
            told = name, what, answer.status_code
            if not is_allowed:
                assert answer.status_code == (401 if role is None else 403), told
            elif method == "POST":
                assert answer.status_code in (400, 401, 413, 415, 422), told
            if answer.status_code >= 400:
                assert set(json.loads(answer.text)["error"]) == {"field", "reason", "kind", "complaints"}, told
                assert "Traceback" not in answer.text
        if method == "POST":
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            assert service.send(method, path, credentials | form, b"a=b").status_code in (401, 403, 415), name
            other = {"Content-Type": "text/csv" if kind is JSON else "application/json"}
            assert service.send(method, path, credentials | other, b"{}").status_code in (401, 403, 415), name
            zipped = kind | {"Content-Encoding": "gzip"}
            assert service.send(method, path, credentials | zipped, b"{}").status_code in (401, 403, 415), name
        if "Cookie" in credentials:
            for foreign in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
                if needed != "anybody":
                    assert service.send(method, path, credentials | kind | foreign, b"{}").status_code == 403, name
        # The header of a proxy means nothing here.
        if role is None and needed != "anybody":
            claimed = {"X-Forwarded-User": "manage", "X-Forwarded-Groups": "admin", "Remote-User": "manage"}
            assert service.send(method, path, credentials | kind | claimed, b"{}").status_code == 401
    assert service.state() == before


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"])
def test_no_other_method_does_anything(service_of_all: Service, method: str) -> None:
    service = service_of_all
    before = service.state()
    for route in ROUTES:
        path = route.split(" ")[1].replace("/api/studies/{study}", service.study)
        for name, (_, credentials) in service.callers.items():
            answer = service.send(method, path, credentials | JSON | {"X-HTTP-Method-Override": "POST"}, b"")
            assert answer.status_code in (401, 403, 404, 405), (name, path, answer.status_code)
            assert "access-control-allow-origin" not in answer.headers
    assert service.state() == before


def test_large_plans_keep_no_other_study_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read, made and looked at on a thread of their own, however many come at once."""
    read, begun, go_on = Plan.from_data, threading.Event(), threading.Event()

    def read_slowly(data: Any) -> Plan:
        if len(data["arms"]) > 2:
            begun.set()
            assert go_on.wait(PATIENCE)
        return read(data)

    monkeypatch.setattr(Plan, "from_data", read_slowly)
    large = PLAN | {"arms": [f"a{k}" for k in range(LONG_PLAN // 7)]}
    with running(str(tmp_path / "x.db")) as url, client_at(url) as client, ThreadPoolExecutor(9) as pool:
        made = [
            pool.submit(httpx.post, f"{url}/api/studies", json={"plan": large, "name": f"large {k}"}, timeout=PATIENCE)
            for k in range(9)
        ]
        assert begun.wait(PATIENCE)
        study = new_study(client, "small")
        assert client.post(f"{study}/ask", json={}).json()["tests"]
        assert [row["name"] for row in client.get("/api/studies").json()] == ["small"]
        assert not any(one.done() for one in made)
        go_on.set()
        assert {one.result().status_code for one in made} == {201}


def test_a_plan_that_is_sent_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, seen = Plan.from_data, []

    def counted(data: Any) -> Plan:
        seen.append(data)
        return read(data)

    monkeypatch.setattr(Plan, "from_data", counted)
    sent: dict[str, Any] = {"plan": PLAN | {"budget": {"tests": 100}}, "name": "once"}
    key = {"Idempotency-Key": "k"}
    with running(str(tmp_path / "x.db")) as url, client_at(url) as client:

        def allowed() -> Any:
            plan = client.get("/api/studies/1").json()["plan"]
            assert plan["name"] == "once"
            return plan["budget"]["tests"]

        assert client.post("/api/studies", json=sent, headers=key).status_code == 201
        assert allowed() == 100
        assert client.get("/api/studies").json()[0]["state"] == "running"
        assert len(seen) == 1
        # A repeat finds the study as it has become.
        assert client.post("/api/studies/1/extend", json={"tests": 7, "holder": "ann"}).status_code == 200
        assert client.post("/api/studies", json=sent, headers=key).json()["id"] == 1
        assert allowed() == 107
