"""The service: every route, who may use it, what it refuses, and that nobody can keep it from the others."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

import httpx
import pytest

import bestarm as ba
from bestarm.storage.errors import StorageError
from bestarm.study.study import Study
from bestarm.testing.patience import PATIENCE
from bestarm.texts import cell
from bestarm.web import downloads, events
from bestarm.web.app import create_app
from bestarm.web.errors import field_of
from bestarm.web.guard import RateLimit, is_loopback
from bestarm.web.limits import Limits
from bestarm.web.server import check_access, running
from bestarm.web.shared import SharedStudy

TOKEN = "correct-horse-battery-staple"
PLAN: dict[str, Any] = {
    "arms": ["a", "b"],
    "objective": {"metric": "gain", "goal": "maximize", "noise": {"gaussian": 0.3}},
    "constraints": [{"metric": "harm", "at_most": 0.5, "noise": "bernoulli", "cost": 3.0}],
}
JSON = {"Content-Type": "application/json"}
CSV = {"Content-Type": "text/csv"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[httpx.Client]:
    """One service for all tests that need nothing special; each makes a study of its own."""
    with running(str(folder / "studies.db")) as url, client_at(url) as client:
        yield client


@pytest.fixture
def study(service: httpx.Client, request: pytest.FixtureRequest) -> str:
    return new_study(service, request.node.name[:150])


def client_at(url: str) -> httpx.Client:
    """It waits for answers however busy the machine is."""
    return httpx.Client(base_url=url, timeout=PATIENCE)


def new_study(service: httpx.Client, name: str, **plan: Any) -> str:
    answer = service.post("/api/studies", json={"plan": PLAN | plan, "name": name})
    assert answer.status_code == 201, answer.text
    return f"/api/studies/{answer.json()['id']}"


def tell(service: httpx.Client, study: str, *results: tuple[int, float]) -> httpx.Response:
    rows = [{"test": test, "value": value} for test, value in results]
    return service.post(f"{study}/tell", json={"results": rows})


def refused(answer: httpx.Response, status: int, reason: str, field: str | None = None) -> None:
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    error = answer.json()["error"]
    assert set(error) == {"field", "reason"}
    assert re.search(reason, error["reason"]), error
    if field is not None:
        assert error["field"] == field
    assert "Traceback" not in answer.text


# ---------------------------------------------------------------------------------------------------- every route


def test_health(service: httpx.Client) -> None:
    assert service.get("/api/health").json() == {"version": ba.__version__, "token": False}


def test_create_and_list(service: httpx.Client) -> None:
    answer = service.post("/api/studies", json={"plan": PLAN, "name": "listed", "seed": 3})
    assert answer.status_code == 201
    row = answer.json()
    assert answer.headers["location"] == f"/api/studies/{row['id']}"
    assert row["state"] == "running"
    assert (row["arms"], row["metrics"], row["objective"], row["delta"]) == (2, 2, "gain", 0.05)
    assert service.get("/api/studies").json()[0] == row
    assert service.get("/api/studies", params={"name": "listed"}).json() == [row]
    assert service.get("/api/studies", params={"name": "other"}).json() == []
    refused(service.post("/api/studies", json={"plan": PLAN, "name": "listed"}), 409, "exists already", "name")


def test_a_study_from_first_ask_to_answer(service: httpx.Client, study: str) -> None:
    values = {("a", "gain"): 0.1, ("b", "gain"): 2.0, ("a", "harm"): 0.0, ("b", "harm"): 0.0}
    versions = set()
    while True:
        asked = service.post(f"{study}/ask", json={"n": 20, "holder": "lab"}).json()
        if asked["done"]:
            break
        assert asked["tests"]
        results = [(test["id"], values[test["arm"], test["metric"]]) for test in asked["tests"]]
        assert tell(service, study, *results).json() == {"told": len(results)}
        versions.add(service.get(study).json()["version"])
    status = service.get(study).json()
    assert len(versions) > 1
    assert (status["state"], status["answer"], status["leader"]) == ("certified", "b", "b")
    assert status["answer_text"].startswith("b: feasible and best, with 95 % confidence")
    assert status["conclusion"]["arm"] == "b"
    assert status["question"] == "Which of 2 arms has the largest mean gain among those with harm below 0.5?"
    assert status["plan"]["objective"]["noise"] == {"gaussian": 0.3}
    assert {arm["verdict"] for arm in status["arms"]} == {"feasible", "worse"}
    assert service.get(f"{study}/done").json() == {"done": True}
    assert service.get(f"{study}/forecast").json() is None
    history = service.get(f"{study}/history", params={"points": 5}).json()
    assert len(history["time"]) <= 5
    assert (history["tests"][-1], history["cost"][-1]) == (status["tests"], status["cost"])


def test_the_smaller_operations(service: httpx.Client, study: str) -> None:
    def act(verb: str, **body: Any) -> Any:
        answer = service.post(f"{study}/{verb}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    act("ask", n=4, holder="me", lease=100.0)
    pending = service.get(f"{study}/pending").json()
    assert [(row["id"], row["holder"], row["attempts"]) for row in pending] == [(k, "me", 1) for k in range(1, 5)]
    assert act("renew", tests=[1, 2, 3, 4], holder="me", lease=9000.0) == {}
    assert service.get(f"{study}/pending").json()[0]["expires"] > pending[0]["expires"] + 8000
    act("release", tests=[1], holder="me")
    act("fail", test=2, reason="broke", holder="me")
    assert [test["id"] for test in act("ask", n=2, holder="you")["tests"]] == [1, 2]
    act("abandon", test=3, reason="spilled", holder="me")
    assert act("tell", results=[{"test": 1, "value": 0.5, "arm": "a", "metric": "gain"}]) == {"told": 1}
    assert act("tell", results=[{"test": 1, "value": 0.5}]) == {"told": 1}
    act("correct", test=1, value=0.75, reason="misread", holder="me")
    assert act("add", results=[{"arm": "b", "metric": "harm", "value": True}], source="book") == {"ids": [5]}
    refused(
        service.post(f"{study}/add", json={"results": [{"arm": "b", "metric": "harm", "value": 1}], "source": "book"}),
        422,
        "has been recorded",
    )
    log = service.get(f"{study}/log").json()
    assert [event["kind"] for event in log if event["kind"] not in ("asked", "told", "given")] == [
        "created",
        "failed",
        "dropped",
        "corrected",
    ]
    [wrong] = [event for event in log if event["kind"] == "corrected"]
    assert (wrong["arm"], wrong["metric"], wrong["value"], wrong["detail"]) == ("a", "gain", 0.75, "misread")
    assert service.get(f"{study}/log", params={"last": 2}).json() == log[-2:]
    act("archive")
    assert service.get(study).json()["archived"] is not None
    refused(tell(service, study, (4, 1.0)), 422, "is archived")
    refused(service.post(f"{study}/ask", json={}), 422, "is archived")
    names = [row["id"] for row in service.get("/api/studies").json()]
    number = int(study.split("/")[-1])
    assert number not in names
    assert number in [row["id"] for row in service.get("/api/studies", params={"archived": "true"}).json()]
    act("archive", undo=True)
    assert tell(service, study, (4, 1.0)).status_code == 200


def test_forecast(service: httpx.Client, study: str) -> None:
    assert service.get(f"{study}/forecast").json() is None
    values = {"gain": 0.5, "harm": 0}
    for test in service.post(f"{study}/ask", json={"n": 4}).json()["tests"]:
        tell(service, study, (test["id"], values[test["metric"]]))
    forecast = service.get(f"{study}/forecast").json()
    assert forecast["runs"] == 100
    assert service.get(f"{study}/forecast", params={"runs": 10, "seed": 1}).json()["runs"] == 10
    refused(service.get(f"{study}/forecast", params={"runs": 10**6}), 422, "must be less", "runs")


def test_csv_and_export(service: httpx.Client, study: str) -> None:
    service.post(f"{study}/ask", json={"n": 2})
    answer = service.post(f"{study}/csv", content="test,value\n1,0.5\n2,1\n", headers=CSV, params={"holder": "lab"})
    assert answer.json() == {"told": 2}
    assert service.post(f"{study}/csv", content="arm,metric,value\nb,gain,0.25\n", headers=CSV).json() == {"told": 1}
    refused(
        service.post(f"{study}/csv", content="arm,metric,value\nz,gain,1\na,harm,7\nb,gain,x\n", headers=CSV),
        422,
        r"(?s)3 lines.*line 2: arm = 'z'.*line 3: value of 'harm' = 7.*line 4: value = 'x'",
    )
    whole = service.get(f"{study}/export")
    assert whole.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(whole.text)))
    assert [(row["test"], row["value"], row["who"]) for row in rows[:2]] == [("1", "0.5", "lab"), ("2", "1.0", "lab")]
    data = service.get(f"{study}/export", params={"format": "json"}).json()
    assert [test["outcomes"][-1]["value"] for test in data["tests"]] == [0.5, 1.0, 0.25]
    refused(service.get(f"{study}/export", params={"format": "xml"}), 422, "must be 'csv' or 'json'", "format")


def test_report(service: httpx.Client, study: str) -> None:
    answer = service.get(f"{study}/report")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"].startswith('attachment; filename="test_report')
    assert "still running" in answer.text


def test_unchanged_status_is_not_sent_again(service: httpx.Client, study: str) -> None:
    first = service.get(study)
    assert first.headers["content-encoding"] == "gzip"
    tag = first.headers["etag"]
    assert tag == f'W/"{first.json()["version"]}"'
    plain = service.get(study, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == first.json()
    for given in (tag, tag.removeprefix("W/"), f'"other", {tag}'):
        same = service.get(study, headers={"If-None-Match": given})
        assert (same.status_code, same.content) == (304, b"")
    service.post(f"{study}/ask", json={})
    assert service.get(study, headers={"If-None-Match": tag}).status_code == 200


def test_pages_hold_no_data_and_files_stay_inside(service: httpx.Client) -> None:
    for page in ("/", "/new", "/studies/1"):
        answer = service.get(page)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["cache-control"] == "no-cache"
    assert service.get("/static/index.html").headers["cache-control"] == "no-cache"
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/nothing", "/nothing"):
        refused(service.get(path), 404, "there is nothing")


# --------------------------------------------------------------------------------------------- who may ask for what


def operations() -> list[tuple[str, str]]:
    paths = create_app(":memory:").openapi()["paths"]
    return [(method, path) for path, found in paths.items() for method in found]


def test_the_description_has_every_route(service: httpx.Client) -> None:
    found = {f"{method} {path.removeprefix('/api')}" for method, path in operations()}
    verbs = ["ask", "tell", "add", "csv", "correct", "fail", "set-aside", "abandon", "release", "renew", "archive"]
    looks = ["pending", "history", "forecast", "done", "log", "export", "report", "events"]
    assert found == {
        "get /health",
        "get /events",
        "get /studies",
        "post /studies",
        "get /studies/{study}",
        *(f"get /studies/{{study}}/{look}" for look in looks),
        *(f"post /studies/{{study}}/{verb}" for verb in verbs),
    }
    description = service.get("/openapi.json").json()
    for path, methods in description["paths"].items():
        for operation in methods.values():
            assert operation["summary"]
            errors = {code: one for code, one in operation["responses"].items() if code[0] in "45"}
            assert errors, path
            for one in errors.values():
                assert one["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[str]:
    with running(str(folder / "guarded.db"), token=TOKEN) as url:
        yield url


@pytest.mark.parametrize(("method", "path"), [*operations(), ("get", "/openapi.json"), ("get", "/api/nothing")])
def test_wrong_and_missing_tokens_are_refused(guarded: str, method: str, path: str) -> None:
    url = guarded + path.replace("{study}", "1")
    headers = CSV if path.endswith("/csv") else JSON
    bad: list[dict[str, str]] = [
        {},
        *({"Authorization": f"Bearer {wrong}"} for wrong in ("wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper())),
        {"Authorization": "Bearer"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": f"token={TOKEN}"},
        {"X-Token": TOKEN},
    ]
    with httpx.Client(timeout=PATIENCE) as client:
        if path == "/api/health":
            assert client.get(url).json()["token"] is True
            return
        for extra in bad:
            answer = client.request(method, url, headers=headers | extra)
            refused(answer, 401, "Authorization: Bearer", "Authorization")
            assert answer.headers["www-authenticate"] == "Bearer"
        refused(client.request(method, url, headers=headers, params={"token": TOKEN}), 401, "Bearer")
        twice = [*headers.items(), ("Authorization", "Bearer wrong"), ("Authorization", f"Bearer {TOKEN}")]
        refused(client.request(method, url, headers=twice), 401, "Bearer")
        if not path.endswith("/events"):
            right = client.request(method, url, headers=headers | {"Authorization": f"Bearer {TOKEN}"})
            assert right.status_code != 401


def test_with_a_token_any_host_may_be_named_unless_some_are_allowed(guarded: str, tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "lab.example", "Origin": "http://elsewhere.example"}
    assert httpx.get(f"{guarded}/api/studies", headers=headers, timeout=PATIENCE).status_code == 200
    with running(str(tmp_path / "x.db"), token=TOKEN, allowed_hosts=["lab.example"]) as url:
        assert httpx.get(f"{url}/api/studies", headers=headers, timeout=PATIENCE).status_code == 200
        refused(
            httpx.get(f"{url}/api/studies", headers=headers | {"Host": "other.example"}, timeout=PATIENCE),
            403,
            "host name",
            "Host",
        )


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80", "[::2]"])
def test_without_a_token_other_host_names_are_refused(service: httpx.Client, host: str) -> None:
    for path in ("/api/studies", "/", "/openapi.json"):
        refused(service.get(path, headers={"Host": host}), 403, "loopback names only", "Host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "127.8.9.1", "[::1]:80"])
def test_loopback_names_are_answered(service: httpx.Client, host: str) -> None:
    assert service.get("/api/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1"])
def test_without_a_token_other_sites_are_refused(service: httpx.Client, study: str, origin: str) -> None:
    refused(service.get(study, headers={"Origin": origin}), 403, "other sites", "Origin")
    refused(service.post(f"{study}/ask", json={}, headers={"Origin": origin}), 403, "other sites")
    refused(service.get(study, headers={"Sec-Fetch-Site": "cross-site"}), 403, "other sites")
    own = f"http://{service.base_url.netloc.decode()}"
    assert service.post(f"{study}/ask", json={}, headers={"Origin": own}).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/api/health", 200), ("/api/studies/999999", 404), ("/nothing", 404), ("/static/index.html", 200)],
)
def test_security_headers_are_on_everything(service: httpx.Client, path: str, status: int) -> None:
    answer = service.get(path)
    assert answer.status_code == status
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers
    if path.startswith("/api"):
        assert answer.headers["cache-control"] == "no-store"


def test_addresses_that_others_can_reach_need_a_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        assert is_loopback(host)
        check_access(host, None)
    for host in ("0.0.0.0", "::", "192.168.1.7", "lab.example", ""):
        with pytest.raises(ba.InvalidInput, match="needs a token"):
            check_access(host, None)
        check_access(host, TOKEN)
    for options in ({"allowed_hosts": ["lab.example"]}, {"proxies": ["127.0.0.1"]}):
        with pytest.raises(ba.InvalidInput, match="needs a token"):
            check_access("127.0.0.1", None, **options)
        check_access("127.0.0.1", TOKEN, **options)
    check_access("127.0.0.1", None, ["localhost"])
    for token in ("short", "with space in it, long", "ungültig-aber-lang-genug"):
        with pytest.raises(ba.InvalidInput, match="token: must have at least 16"):
            check_access("127.0.0.1", token)


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("body", "status", "reason", "field"),
    [
        ("", 422, "the body is missing", None),
        ("{", 400, "not valid JSON", None),
        ("[" * 100_000, 400, "nested too deeply", None),
        (b"\xff\xfe{}", 400, "pars|JSON", None),
        ("[]", 422, "must be an object", None),
        ("null", 422, "is missing|must be an object", None),
        ("{}", 422, "results is missing", "results"),
        ('{"results": 1}', 422, "must be a list", "results"),
        ('{"results": [{"test": 1, "value": NaN}]}', 422, "must be a finite number", "results[0].value"),
        ('{"results": [{"test": 1, "value": -Infinity}]}', 422, "must be a finite number", "results[0].value"),
        ('{"results": [{"test": 1, "value": 1e999}]}', 422, "must be a finite number", "results[0].value"),
        ('{"results": [{"test": 1, "value": "1"}]}', 422, "must be a number", "results[0].value"),
        ('{"results": [{"test": 1.5, "value": 1}]}', 422, "must be a whole number", "results[0].test"),
        ('{"results": [{"test": true, "value": 1}]}', 422, "must be a whole number", "results[0].test"),
        ('{"results": [{"test": 0, "value": 1}]}', 422, "greater than or equal to 1", "results[0].test"),
        ('{"results": [{"test": 1' + "0" * 400 + ', "value": 1}]}', 422, "less than or equal|whole", "results[0].test"),
        ('{"results": [{"test": 1' + "0" * 5000 + ', "value": 1}]}', 400, "too many digits", None),
        ('{"results": [], "extra": 1}', 422, "not a known field", "extra"),
        ('{"results": [], "holder": "' + "x" * 201 + '"}', 422, "at most 200", "holder"),
        ('{"results": [{"test": 7, "value": 1}]}', 404, "test = 7: no such test", "test"),
        ('{"results": [{"test": 1, "value": 1, "arm": "b"}]}', 422, "is 'gain' of 'a' in study", "test"),
    ],
)
def test_bodies_that_cannot_be_accepted(
    service: httpx.Client, body: str | bytes, status: int, reason: str, field: str | None
) -> None:
    names = [row["name"] for row in service.get("/api/studies").json()]
    if "bodies" not in names:
        service.post(f"{new_study(service, 'bodies')}/ask", json={})
    [row] = service.get("/api/studies", params={"name": "bodies"}).json()
    refused(service.post(f"/api/studies/{row['id']}/tell", content=body, headers=JSON), status, reason, field)


@pytest.mark.parametrize(
    ("change", "reason", "field"),
    [
        ({"arms": []}, "at least one arm", "plan.arms"),
        ({"arms": ["a", "a"]}, "has this name already", "plan.arms[1].name"),
        ({"delta": 2}, "strictly between 0 and 1", "plan.delta"),
        ({"delta": 10**400}, "finite number", "plan.delta"),
        ({"policy": "best"}, "no such policy", "policy"),
        ({"bound": "best"}, "no such confidence bound", "bound"),
        ({"color": "red"}, "not a known field", "plan.color"),
        ({"objective": {"metric": "x"}}, "goal is missing", "plan.objective.goal"),
        ({"constraints": [{"metric": "y", "noise": "bernoulli"}]}, "exactly one of at_most", "plan.constraints[0]"),
    ],
)
def test_plans_that_cannot_be_accepted(service: httpx.Client, change: Any, reason: str, field: str) -> None:
    refused(service.post("/api/studies", json={"plan": PLAN | change, "name": "bad"}), 422, reason, field)
    assert service.get("/api/studies", params={"name": "bad"}).json() == []


def test_types_methods_and_addresses(service: httpx.Client, study: str) -> None:
    body = json.dumps({"n": 1})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/csv", ""):
        refused(
            service.post(f"{study}/ask", content=body, headers={"Content-Type": kind}), 415, "must be application/json"
        )
    refused(service.post(f"{study}/csv", content="test,value", headers=JSON), 415, "must be text/csv")
    assert service.post(
        f"{study}/ask", content=body, headers={"Content-Type": "application/json; charset=utf-8"}
    ).is_success
    answer = service.delete("/api/studies")
    refused(answer, 405, "does not take")
    assert answer.headers["allow"] == "GET, POST"
    refused(service.options(study), 405, "does not take")
    refused(service.get("/api/studies/999999"), 404, "no such study", "study")
    for wrong in ("0", "x", "-1", "1e3", str(2**70)):
        refused(service.get(f"/api/studies/{wrong}"), 422, "must be", "study")


HOSTILE = [
    "<script>alert(1)</script>",
    "\"'`--; DROP TABLE bestarm_studies; --",
    "\u202egnp.elif\u202c",
    "{{7*7}}${7*7}%s%n",
    "../../etc/passwd",
    "=cmd|' /C calc'!A0",
    "\u2028\u2029\ufeffx",
    "👩\u200d🔬" * 20,
]
REFUSED = ["x" * 10_000, "a\0b", "a\nb", "\ud800", " ", "", " x"]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_come_back_as_they_are(service: httpx.Client, name: str) -> None:
    plan = {
        "arms": [name, "other"],
        "objective": {"metric": name, "goal": "maximize", "noise": {"gaussian": 1}},
    }
    answer = service.post("/api/studies", json={"plan": plan, "name": name})
    if answer.status_code == 422:
        # Some of these begin or end with what counts as white space.
        refused(answer, 422, "white space|control characters", None)
        return
    assert answer.json()["name"] == name
    study = f"/api/studies/{answer.json()['id']}"
    asked = service.post(f"{study}/ask", json={"holder": name[:200]}).json()
    assert asked["tests"] == [{"id": 1, "arm": name, "metric": name}]
    service.post(f"{study}/fail", json={"test": 1, "reason": name, "holder": name[:200]})
    assert tell(service, study, (1, 0.5)).status_code == 200
    status = service.get(study)
    assert status.headers["content-type"] == "application/json"
    assert status.json()["arms"][0]["name"] == name
    assert service.get("/api/studies", params={"name": name}).json()[0]["name"] == name
    assert name in [event["detail"] for event in service.get(f"{study}/log").json()]
    assert "<script>" not in service.get(f"{study}/report").text
    export = service.get(f"{study}/export")
    assert re.fullmatch(r'attachment; filename="[\w-]+\.csv"', export.headers["content-disposition"])
    assert next(csv.DictReader(io.StringIO(export.text)))["arm"] == cell(name)


@pytest.mark.parametrize("name", REFUSED, ids=range(len(REFUSED)))
def test_names_that_are_none_are_refused(service: httpx.Client, name: str) -> None:
    reason = "must have at most 200|control characters|must not be empty|must not begin"
    for body in (
        {"plan": PLAN, "name": name},
        {"plan": PLAN | {"name": name}},
        {"plan": PLAN | {"arms": ["a", name]}},
    ):
        answer = service.post("/api/studies", content=json.dumps(body), headers=JSON)
        refused(answer, 422, reason)
        assert len(answer.text) < 1000


def test_text_that_cannot_be_stored_does_no_harm(service: httpx.Client, study: str) -> None:
    service.post(f"{study}/ask", json={})
    assert service.post(f"{study}/fail", json={"test": 1, "reason": "nul \0", "holder": "\0"}).status_code == 200
    assert service.get(f"{study}/log").json()[-1]["detail"] == "nul \ufffd"
    body = json.dumps({"test": 1, "reason": "half \ud800"})
    refused(service.post(f"{study}/fail", content=body, headers=JSON), 422, "halves of characters", "reason")


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
    """Send a body in chunks of which nobody said how many there will be, and see that it is cut short."""
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


def test_csv_bombs(service: httpx.Client, study: str) -> None:
    def send(content: bytes, **headers: str) -> httpx.Response:
        answer = service.post(f"{study}/csv", content=content, headers=CSV | headers)
        assert len(answer.content) < 20_000
        return answer

    header = b"arm,metric,value\n"
    refused(send(gzip.compress(header * 1000), **{"Content-Encoding": "gzip"}), 415, "compressed")
    refused(send(header + b"a,gain,1\n" * 200_001), 413, "at most 200,000")
    refused(send(b"\r" * 300_000), 413, "at most 200,000")
    refused(send(header + b"z,gain,1\n" * 199_000), 422, "199,000 lines cannot be accepted")
    refused(send(header + b'"' + b"x" * 15_000_000), 422, "line 2|cannot be read")
    refused(send(header + b"a,gain," + b"9" * 15_000_000), 422, "line 2")
    refused(send(header + b"," * 15_000_000), 422, "no results")
    refused(send(b"," * 15_000_000), 422, "header|empty")
    refused(send(b"\xff\xfe" + header), 422, "UTF-16")
    assert service.get(study).json()["tests"] == 0


def test_a_slow_body_is_given_up_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db"), limits=Limits(body_seconds=5.0)) as url:
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
                    assert b"did not arrive within 5 s" in said
            assert client.get(study).status_code == 200


def test_bodies_under_way_are_bounded_together(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db"), limits=Limits(buffered=100_000)) as url, client_at(url) as client:
        refused(client.post("/api/studies", content=b" " * 200_000, headers=JSON), 503, "too many large bodies")
        # Nothing of it is counted any more.
        new_study(client, "after")


def test_clients_that_do_not_read_keep_nobody_waiting(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    plan = ba.Plan.from_data(PLAN | {"name": "big"})
    one = Study.create(plan, storage=path)
    one.add([("a", "gain", 0.5)] * 30_000)
    study = "/api/studies/1"
    with running(path) as url, client_at(url) as client, contextlib.ExitStack() as closing:
        # A record this long is read by compiled code, and the first time ever that is compiled now.
        assert client.post(f"{study}/ask", json={}).status_code == 200
        deaf = [connected(urlsplit(url).netloc) for _ in range(12)]
        for sock in deaf:
            closing.callback(sock.sock.close)
        for k, sock in enumerate(deaf):
            sock.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            what = ("export", "events", "report")[k % 3]
            sock.sock.sendall(f"GET /api/studies/1/{what} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        # Whoever had to wait for the deaf would wait for ever.
        for _ in range(20):
            assert client.post(f"{study}/ask", json={}).status_code == 200
        assert len(client.get(f"{study}/export").text.splitlines()) == 30_022
        assert len(client.get(f"{study}/export", params={"format": "json"}).json()["tests"]) == 30_021


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
        assert [answer.status_code for answer in answers[:10]] == [200] * 10
        refused(answers[-1], 429, "at most 0.001 a second")
        assert int(answers[-1].headers["retry-after"]) >= 1


def test_faults_are_told_without_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(self: SharedStudy, **_: Any) -> None:
        raise RuntimeError("the secret of line 7")

    def trouble(self: SharedStudy, **_: Any) -> None:
        raise StorageError(f"storage = {path!r}: the disk is full")

    path = str(tmp_path / "x.db")
    with running(path) as url, client_at(url) as client:
        study = new_study(client, "one")
        monkeypatch.setattr(SharedStudy, "pending", fault)
        answer = client.get(f"{study}/pending")
        refused(answer, 500, "The service failed at this request")
        assert "secret" not in answer.text
        assert "content-security-policy" in answer.headers
        monkeypatch.setattr(SharedStudy, "pending", trouble)
        answer = client.get(f"{study}/pending")
        refused(answer, 503, "^the disk is full")
        assert str(tmp_path) not in answer.text
        assert answer.headers["retry-after"] == "1"


def test_an_export_that_fails_is_an_error_and_not_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trouble_at(line: int) -> Callable[[SharedStudy, TextIO], int]:
        def write(study: SharedStudy, out: TextIO) -> int:
            for _ in range(line):
                out.write("x" * 100_000)
            raise StorageError("the disk is full")

        return write

    with running(str(tmp_path / "x.db")) as url, client_at(url) as client:
        study = new_study(client, "one")
        monkeypatch.setattr(downloads, "write_csv", trouble_at(0))
        refused(client.get(f"{study}/export"), 503, "the disk is full")
        monkeypatch.setattr(downloads, "write_csv", trouble_at(20))
        with pytest.raises(httpx.RemoteProtocolError):
            client.get(f"{study}/export")
        assert client.get(study).status_code == 200


@pytest.mark.parametrize(
    ("sentence", "field"),
    [
        ("delta = 2: must lie", "delta"),
        ("arms[0].name = 'x': another", "arms[0].name"),
        ("value of 'harm' = 3: must be 0 or 1", "value"),
        ("test = 1 ('gain' of 'a'): has the result", "test"),
        ("objective.goal is missing", "objective.goal"),
        ("the file: line 2: bad", None),
        ("<script> = 1: x", None),
    ],
)
def test_fields_are_found_in_sentences(sentence: str, field: str | None) -> None:
    assert field_of(sentence) == field


# ---------------------------------------------------------------------------------------------------- live updates


class Stream:
    """Reads a stream of events in a thread."""

    def __init__(self, url: str) -> None:
        self.events: list[tuple[float, str, dict[str, Any]]] = []
        self.comments = 0
        self._client = httpx.Client(timeout=PATIENCE)
        self._context = self._client.stream("GET", url)
        self._response = self._context.__enter__()
        assert self._response.status_code == 200
        assert self._response.headers["content-type"].startswith("text/event-stream")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        kind = ""
        try:
            for line in self._response.iter_lines():
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    self.events.append((time.monotonic(), kind, json.loads(line.removeprefix("data: "))))
                elif line.startswith(":"):
                    self.comments += 1
        except (httpx.HTTPError, httpx.StreamError):
            pass

    def wait(self, wanted: Callable[[list[Any]], bool], seconds: float = PATIENCE) -> None:
        give_up = time.monotonic() + seconds
        while not wanted(self.events):
            assert time.monotonic() < give_up, self.events
            time.sleep(0.02)

    def close(self) -> None:
        # Ends the read in the other thread too.
        network = self._response.extensions["network_stream"].get_extra_info("socket")
        with contextlib.suppress(OSError):
            network.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._context.__exit__(None, None, None)
        self._client.close()


TELL = """
import sys
from bestarm.study.study import Study
Study.open("live", storage=sys.argv[1]).tell(1, 0.5)
"""


def test_results_of_another_process_arrive(database_url: str) -> None:
    with running(database_url) as url, client_at(url) as client:
        study = new_study(client, "live")
        client.post(f"{study}/ask", json={})
        one, everything = Stream(url + study + "/events"), Stream(f"{url}/api/events")
        one.wait(lambda events: len(events) >= 1)
        everything.wait(lambda events: len(events) >= 1)
        assert one.events[0][1] == "change"
        assert one.events[0][2] == {"version": "0.1.0.1", "state": "running", "tests": 0, "confidence": 0.0}
        before = everything.events[-1][2]["version"]
        subprocess.run([sys.executable, "-c", TELL, database_url], check=True)
        one.wait(lambda events: events[-1][2]["tests"] == 1)
        everything.wait(lambda events: events[-1][2]["version"] != before)
        assert everything.events[-1][1] == "studies"
        assert one.events[-1][2]["version"] == client.get(study).json()["version"]
        # Several, because news of what happened before may still be on its way.
        for name in ("second", "third", "fourth"):
            before = everything.events[-1][2]["version"]
            new_study(client, name)
            everything.wait(lambda events, before=before: events[-1][2]["version"] != before)  # type: ignore[misc]
        one.close()
        everything.close()


def test_one_poller_serves_all_streams_and_events_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    look = SharedStudy.snapshot

    def counted(self: SharedStudy) -> Any:
        nonlocal looks
        looks += 1
        return look(self)

    monkeypatch.setattr(SharedStudy, "snapshot", counted)
    monkeypatch.setattr(events, "COMMENT_EVERY", 0.5)
    with running(str(tmp_path / "x.db")) as url, client_at(url) as client:
        study = new_study(client, "watched")
        tests = [test["id"] for test in client.post(f"{study}/ask", json={"n": 4}).json()["tests"]]
        streams = [Stream(url + study + "/events") for _ in range(15)]
        for stream in streams:
            stream.wait(lambda events: len(events) >= 1)
        looks, start = 0, time.monotonic()
        # A change after every answer, until each stream has seen a few of them.
        while min(len(stream.events) for stream in streams) < 6:
            assert time.monotonic() - start < PATIENCE
            tell(client, study, *((test, 1.0) for test in tests))
            client.post(f"{study}/ask", json={"n": 1})
        took = time.monotonic() - start
        # At most two a second, by the service's clock; a busy machine makes fewer.
        assert looks <= 2 * took + 2
        for stream in streams:
            assert len(stream.events) - 1 <= 2 * took + 2
        last = client.get(study).json()["version"]
        for stream in streams:
            stream.wait(lambda events: events[-1][2]["version"] == last)
            stream.wait(lambda _, stream=stream: stream.comments > 0)  # type: ignore[misc]
        for stream in streams:
            stream.close()
        give_up = time.monotonic() + PATIENCE
        while True:
            looks = 0
            time.sleep(1.5)
            if not looks:
                break
            assert time.monotonic() < give_up, "nobody watches, and still it is looked at"


def test_nothing_is_looked_at_while_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes open dashboards cheap; how cheap is measured by `benchmarks/web.py`."""
    looks = 0
    look = SharedStudy.snapshot

    def counted(self: SharedStudy) -> Any:
        nonlocal looks
        looks += 1
        return look(self)

    monkeypatch.setattr(SharedStudy, "snapshot", counted)
    with running(str(tmp_path / "x.db")) as url, client_at(url) as client:
        studies = [new_study(client, f"watched {k}") for k in range(3)]
        for study in studies:
            client.post(f"{study}/ask", json={"n": 4})
        paths = ["/api/events", *(f"{study}/events" for study in studies for _ in range(3))]
        streams = [Stream(url + path) for path in paths]
        for stream in streams:
            stream.wait(lambda events: len(events) >= 1)
        give_up = time.monotonic() + PATIENCE
        while True:
            # Three times as long as it takes to look again.
            looks = 0
            time.sleep(3 * events.EVERY)
            if not looks:
                break
            assert time.monotonic() < give_up, "nothing happens, and still it is looked at"
        tell(client, studies[0], (1, 1.0))
        streams[1].wait(lambda events: events[-1][2]["tests"] == 1)
        assert looks > 0
        for stream in streams:
            stream.close()


def test_event_streams_are_bounded_and_unknown_studies_refused(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db"), limits=Limits(streams=2)) as url, client_at(url) as client:
        refused(client.get("/api/studies/5/events"), 404, "no such study")
        streams = [Stream(f"{url}/api/events") for _ in range(2)]
        refused(client.get("/api/events"), 503, "too many event streams")
        for stream in streams:
            stream.close()


def test_streams_end_when_the_server_stops(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db")) as url:
        stream = Stream(f"{url}/api/events")
        stream.wait(lambda events: len(events) >= 1)
    stream._thread.join(PATIENCE)
    assert not stream._thread.is_alive()
    stream.close()


# ---------------------------------------------------------------------------------------------- several processes


def test_several_servers_on_one_database(database_url: str) -> None:
    with (
        running(database_url) as first_url,
        running(database_url) as second_url,
        client_at(first_url) as first,
        client_at(second_url) as second,
    ):
        study = new_study(first, "shared")
        asked = [first.post(f"{study}/ask", json={"n": 2}).json(), second.post(f"{study}/ask", json={"n": 2}).json()]
        ids = [test["id"] for answer in asked for test in answer["tests"]]
        assert ids == [1, 2, 3, 4]
        assert tell(second, study, (1, 0.5), (2, 1.0)).is_success
        assert tell(first, study, (3, 2.0), (4, 0.0)).is_success
        assert first.get(study).json() == second.get(study).json()
        refused(tell(first, study, (1, 0.6)), 409, "has the result 0.5 already", "test")
        first.post(f"{study}/correct", json={"test": 1, "value": 0.25})
        now = second.get(study).json()
        assert now["arms"][0]["metrics"][0]["mean"] == 0.25
        assert now["version"] == first.get(study).json()["version"]
        second.post(f"{study}/archive", json={})
        assert first.get(study).json()["archived"] is not None
        refused(first.post(f"{study}/ask", json={}), 422, "is archived")


def test_the_command_starts_and_stops_a_service(tmp_path: Path) -> None:
    environment = os.environ | {"BESTARM_TOKEN": TOKEN}
    command = [sys.executable, "-m", "bestarm", "serve", "--db", str(tmp_path / "x.db"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        assert httpx.get(f"{found[0]}/api/studies", timeout=PATIENCE).status_code == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert httpx.get(f"{found[0]}/api/studies", headers=headers, timeout=PATIENCE).json() == []
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""
    environment.pop("BESTARM_TOKEN")
    refusal = subprocess.run([*command, "--host", "0.0.0.0"], capture_output=True, text=True, env=environment)
    assert refusal.returncode == 2
    assert refusal.stderr.startswith("error: host = '0.0.0.0': other machines could reach this address")
    assert refusal.stderr.count("\n") == 1


# ---------------------------------------------------------------------------------------------------- Schemathesis

CONFIGURATION = """
[checks]
# A body that breaks the description may also be too large.
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429]
"""


def test_schemathesis_finds_no_failure(tmp_path: Path) -> None:
    """Everything the description allows, and what it does not, is answered as it says; seeded.

    Not checked is that all data of the right form is accepted: names that are taken, tests that do not exist and values
    outside a metric's range are of the right form too.
    """
    path = str(tmp_path / "x.db")
    one = Study.create(ba.Plan.from_data(PLAN), storage=path)
    for test in one.ask(4):
        one.tell(test, 1.0)
    one.ask(4)
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    serve = [sys.executable, "-m", "bestarm", "serve", "--db", path, "--port", "0"]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            url = re.search(r"http://[\d.:]+", process.stderr.readline())
            assert url
            threading.Thread(target=process.stderr.read, daemon=True).start()
            program = str(Path(sys.executable).with_name("schemathesis"))
            checked = subprocess.run(
                [
                    *(program, "--config-file", str(tmp_path / "schemathesis.toml"), "run", f"{url[0]}/openapi.json"),
                    *("--exclude-path-regex", "events$", "--exclude-checks", "positive_data_acceptance"),
                    *("--phases", "examples,coverage,fuzzing", "--max-examples", "15", "--seed", "1", "--no-color"),
                    *("--generation-database", "none", "--request-timeout", "30"),
                ],
                capture_output=True,
                text=True,
                cwd=tmp_path,
            )
        finally:
            process.terminate()
    assert checked.returncode == 0, checked.stdout[-5000:] + checked.stderr[-2000:]
    cases = re.search(r"(\d+) generated", checked.stdout)
    assert cases
    assert int(cases[1]) > 300, checked.stdout[-2000:]
