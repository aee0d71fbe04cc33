"""What the service refuses, and how it says so."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import httpx
import pytest
from tests.web.service import JSON, PLAN, client_at, new_study, refused, tell

from bestarm.storage.errors import StorageError
from bestarm.texts import cell
from bestarm.web import downloads
from bestarm.web.server import running
from bestarm.web.shared import SharedStudy


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
        ({"arms": []}, "must name at least one", "plan.arms"),
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
def test_invalid_names_are_refused(service: httpx.Client, name: str) -> None:
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
    refused(service.post(f"{study}/fail", content=body, headers=JSON), 422, "unpaired surrogates", "reason")


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


def test_a_typed_number_is_refused_in_the_words_of_the_reader_of_numbers(service: httpx.Client, study: str) -> None:
    for value, reason in (("3,5", "with a decimal point, as in 3.5"), ("45%", "percent sign"), ("35", "be a number$")):
        answer = service.post(f"{study}/tell", json={"results": [{"test": 1, "value": value}]})
        refused(answer, 422, reason, "results[0].value")
