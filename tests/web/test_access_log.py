"""The access log and the metrics: every request for data is accounted for, and nothing secret with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.tools.patience import wait_until
from tests.web.service import PLAN, TOKEN, client_at, new_study, tell

import bestarm as ba
from bestarm.storage.opening import open_storage
from bestarm.web.access_log import AccessLog, LoggedRequest
from bestarm.web.server import running

BEARER = {"Authorization": f"Bearer {TOKEN}"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_request_for_data_is_logged_and_no_secret_is(tmp_path: Path) -> None:
    log, database = tmp_path / "access.log", str(tmp_path / "x.db")
    with running(database, token=TOKEN, access_log=str(log)) as url, client_at(url) as client:
        client.headers.update(BEARER)
        study = new_study(client, "secret name")
        storage = open_storage(database)
        token, _ = storage.make_token('ann "x" µ', "read")
        storage.close()
        client.headers["Authorization"] = f"Bearer {token}"
        client.get("/api/studies", params={"token": TOKEN, "name": "secret name"})
        client.post(f"{study}/ask", json={"holder": "secret holder"})
        client.headers["Authorization"] = "Bearer wrong-guess-of-a-token"
        client.get(study)
        client.get("/api/health")
        client.get("/api/no%0A%22{thing}/" + "x" * 500)
        client.get("/")
        client.get("/static/icon.svg")
    found = lines(log)
    assert [(line["who"], line["role"], line["method"], line["path"], line["status"]) for line in found[:5]] == [
        ("service", "manage", "POST", "/api/studies", 201),
        ('ann "x" µ', "read", "GET", "/api/studies", 200),
        ('ann "x" µ', "read", "POST", f"{study}/ask", 403),
        (None, None, "GET", study, 401),
        (None, None, "GET", "/api/health", 200),
    ]
    [strange] = found[5:]
    assert strange["path"].startswith('/api/no\n"{thing}/xxx')
    assert len(strange["path"]) == 300
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\d\+00:00", line["time"]) for line in found)
    assert all(line["address"] == "127.0.0.1" and line["seconds"] > 0 for line in found)
    text = log.read_text(encoding="utf-8")
    for secret in (TOKEN, token, "wrong-guess", "secret name", "secret holder"):
        assert secret not in text


def test_a_moved_log_is_started_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logged = LoggedRequest(1.0, "ann", "read", "::1", "GET", "/api/studies", "GET /api/studies", 200, 0.5)
    log = AccessLog(str(tmp_path / "a.log"))
    log(logged)
    (tmp_path / "a.log").rename(tmp_path / "b.log")
    log(logged)
    log.close()
    assert lines(tmp_path / "a.log") == lines(tmp_path / "b.log")
    said = AccessLog("-")
    said(logged)
    assert json.loads(capsys.readouterr().err)["who"] == "ann"
    with pytest.raises(ba.InvalidInput, match=r"access-log = .*: cannot be written: Is a directory"):
        AccessLog(str(tmp_path))


def read_metrics(client: httpx.Client) -> dict[tuple[str, ...], float]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels) if name != "process")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_metrics_count_requests_results_and_studies(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db")) as url, client_at(url) as client:
        study = new_study(client, "one")
        new_study(client, "two")
        put_away = new_study(client, "three")
        client.post(f"{put_away}/archive", json={})
        tests = [test["id"] for test in client.post(f"{study}/ask", json={"n": 4, "days": 1}).json()["tests"]]
        tell(client, study, (tests[0], 1.0), (tests[1], 0.0))
        added = [{"arm": "a", "metric": "gain", "value": 1.0}]
        client.post(f"{study}/add", json={"results": added})
        client.post(
            f"{study}/csv", content="arm,metric,value\na,gain,1\nb,gain,2\n", headers={"Content-Type": "text/csv"}
        )
        client.get("/api/studies/99999999999999")
        client.get("/api/nothing")
        found: dict[tuple[str, ...], float] = {}

        def counted() -> bool:
            nonlocal found
            found = read_metrics(client)
            return found["bestarm_studies", "running"] == 2.0

        # What takes long to compute is there the next time.
        wait_until(counted)
        assert found["bestarm_requests_total", "POST /api/studies", "201"] == 3
        assert found["bestarm_requests_total", "POST /api/studies/{study}/ask", "200"] == 1
        assert found["bestarm_requests_total", "GET /api/studies/{study}", "422"] == 1
        assert found["bestarm_requests_total", "other", "404"] == 1
        assert found["bestarm_request_seconds_count", "POST /api/studies/{study}/tell"] == 1
        assert found[("bestarm_results_told_total",)] == 5
        assert found["bestarm_studies", "archived"] == 1
        assert found["bestarm_studies", "not known"] == 0
        assert found[("bestarm_tests_pending",)] == 2
        assert found[("bestarm_event_streams",)] == 0
        assert "three" not in client.get("/metrics").text


def test_a_finished_study_is_counted_as_such(tmp_path: Path) -> None:
    database = str(tmp_path / "x.db")
    one = ba.Study.create(ba.Plan.from_data(PLAN | {"budget": {"tests": 2}}), name="x", storage=database)
    for test in one.ask(2):
        one.tell(test, 0.0)
    with running(database) as url, client_at(url) as client:
        wait_until(lambda: read_metrics(client)["bestarm_studies", "budget_spent"] == 1.0)
