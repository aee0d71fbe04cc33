"""The service: every route, and several services on one database."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.program import bestarm
from tests.tools.patience import PATIENCE, wait_until
from tests.web.service import CSV, PLAN, TOKEN, client_at, new_study, refused, tell

import bestarm as ba
from bestarm.study.record import seeds
from bestarm.web.server import running


def test_health(service: httpx.Client) -> None:
    assert service.get("/api/health").json() == {"version": ba.__version__, "token": False}


def test_create_and_list(service: httpx.Client) -> None:
    answer = service.post("/api/studies", json={"plan": PLAN, "name": "listed", "seed": 3})
    assert answer.status_code == 201
    row = answer.json()
    assert answer.headers["location"] == f"/api/studies/{row['id']}"
    assert row["state"] == "running"
    assert (row["arms"], row["metrics"], row["objective"], row["delta"]) == (2, 2, "gain", 0.05)
    # On a busy machine, a list comes before all of its lines are computed.
    wait_until(lambda: service.get("/api/studies").json()[0] == row)
    assert service.get("/api/studies", params={"name": "listed"}).json() == [row]
    assert service.get("/api/studies", params={"name": "other"}).json() == []
    refused(service.post("/api/studies", json={"plan": PLAN, "name": "listed"}), 409, "exists already", "name")


def test_seeds_are_drawn_unless_they_are_stated(service: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "fresh_seed", iter(range(11, 20)).__next__)
    on_items = PLAN | {"items": 40}
    cases: list[tuple[dict[str, Any], dict[str, int], tuple[int, int | None]]] = [
        (PLAN, {}, (11, None)),
        (on_items, {}, (13, 12)),
        (on_items, {"seed": 3}, (3, 14)),
        (on_items, {"items_seed": 4}, (15, 4)),
    ]
    for k, (plan, stated, expected) in enumerate(cases):
        body = {"plan": plan, "name": f"drawn {k}", **stated}
        made = service.post("/api/studies", json=body, headers={"Idempotency-Key": f"key {k}"}).json()
        status = service.get(f"/api/studies/{made['id']}").json()
        assert (status["seed"], status["items_seed"]) == expected
    # A repeat finds the study, with the seeds that were drawn first.
    again = service.post("/api/studies", json=body, headers={"Idempotency-Key": f"key {k}"}).json()
    status = service.get(f"/api/studies/{again['id']}").json()
    assert (status["id"], status["seed"], status["items_seed"]) == (made["id"], 15, 4)
    body = {"plan": PLAN, "name": "none", "items_seed": 4}
    refused(service.post("/api/studies", json=body), 422, "this study has no items", "items_seed")
    for wrong in (-1, 2**53, 1.5, "1"):
        refused(service.post("/api/studies", json=body | {"items_seed": wrong}), 422, "", "items_seed")


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
    assert status["answer_text"].startswith("b: feasible and best, with 95% confidence")
    assert status["conclusion"]["arm"] == "b"
    assert status["question"] == "Which of 2 arms has the largest mean gain among those with harm at most 0.5?"
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
    early = service.get(f"{study}/forecast").json()
    assert (early["state"], early["median_tests"], early["answers"]) == ("too early", None, {})
    assert (early["after"], early["basis"]) == (4, service.get(study).json()["basis"])
    for _ in range(6):
        for test in service.post(f"{study}/ask", json={"n": 4}).json()["tests"]:
            tell(service, study, (test["id"], values[test["metric"]]))
    forecast = service.get(f"{study}/forecast", params={"runs": 10, "seed": 1}).json()
    assert (forecast["runs"], forecast["state"], forecast["after"]) == (10, "simulated", 28)
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
    for page in ("/", "/new", "/compare", "/reference", "/studies/1"):
        answer = service.get(page)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["cache-control"] == "no-cache"
    assert service.get("/static/index.html").headers["cache-control"] == "no-cache"
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/nothing", "/nothing"):
        refused(service.get(path), 404, "there is nothing")


@pytest.mark.torture
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
        first.post(f"{study}/correct", json={"test": 1, "value": 0.25, "reason": "misread"})
        now = second.get(study).json()
        assert now["arms"][0]["metrics"][0]["mean"] == 0.25
        assert now["version"] == first.get(study).json()["version"]
        second.post(f"{study}/archive", json={})
        assert first.get(study).json()["archived"] is not None
        refused(first.post(f"{study}/ask", json={}), 422, "is archived")


def test_the_command_starts_and_stops_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.delenv("BESTARM_TOKEN", raising=False)
    refusal = bestarm(*command[3:], "--host", "0.0.0.0")
    assert refusal.code == 2
    assert refusal.err.startswith("error: host = '0.0.0.0': other machines could reach this address")
    assert refusal.err.count("\n") == 1
