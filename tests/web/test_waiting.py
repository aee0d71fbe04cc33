"""Over HTTP: results that do not count yet, several tests that end for one reason, and whose token it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from tests.web.browser import doses
from tests.web.service import client_at, new_study, refused, tell

import bestarm as ba
from bestarm.client import Client
from bestarm.storage.opening import open_storage
from bestarm.web.server import running


def test_results_that_wait_are_listed_until_they_count(service: httpx.Client, study: str) -> None:
    tests = service.post(f"{study}/ask", json={"n": 4}).json()["tests"]
    assert service.get(f"{study}/waiting").json() == []
    late = tests[1:]
    tell(service, study, *((test["id"], 1.0) for test in late))
    expected = [test | {"values": {test["metric"]: 1.0}} for test in late]
    assert service.get(f"{study}/waiting").json() == expected
    assert service.get(f"{study}/waiting?after=2&limit=1").json() == expected[1:2]
    assert service.get(study).json()["waiting"] == 3
    # A test that is given up has no result to wait.
    service.post(f"{study}/abandon", json={"test": 1, "reason": "spilled"})
    assert service.get(f"{study}/waiting").json() == []


def test_results_of_several_metrics_wait_in_their_wells(service: httpx.Client) -> None:
    noise: dict[str, Any] = {"noise": "symmetric"}
    plan: dict[str, Any] = {
        "objective": {"metric": "gain", "goal": "maximize", **noise},
        "constraints": [{"metric": "harm", "at_most": 0.5, "noise": "bernoulli"}],
        "measurements": [{"metrics": ["gain", "harm"]}],
        "blocks": {"name": "plate", "size": 6},
    }
    study = new_study(service, "wells that wait", **plan)
    tests = service.post(f"{study}/ask", json={"block": True}).json()["tests"]
    value = {"gain": 2.5, "harm": 1.0}
    service.post(f"{study}/tell", json={"results": [{"test": 2, "value": value}]})
    [row] = service.get(f"{study}/waiting").json()
    assert row == tests[1] | {"place": 1, "values": value}
    assert row["item"] == "plate 1 A2"


def test_results_wait_for_the_turn_of_their_items(service: httpx.Client) -> None:
    plan: dict[str, Any] = {
        "objective": {"metric": "right", "goal": "maximize", "noise": "bernoulli"},
        "constraints": [{"metric": "time", "at_most": 9.0, "noise": {"bounded": [0, 10]}}],
        "measurements": [{"metrics": ["right", "time"]}],
        "items": 4,
    }
    study = new_study(service, "items that wait", **plan)
    with Client(str(service.base_url)) as client:
        order = client.open("items that wait")._items
        assert order is not None
        rows = [("a", {"right": 1.0, "time": 2.0}, order.name(place)) for place in (1, 3)]
        client.open("items that wait").add(rows)
        held = client.open("items that wait").status().held
    assert held is not None
    assert (held.results, held.test) == (2, None)
    first, second = service.get(f"{study}/waiting").json()
    assert (first["id"], first["place"], second["place"], second["held"]) == (1, 1, 3, True)
    assert first["values"] == {"right": 1.0, "time": 2.0}
    assert service.get(f"{study}/waiting?after=1").json() == [second]
    tests = service.post(f"{study}/ask", json={"n": 8}).json()["tests"]
    here = next(test for test in tests if (test["arm"], test["item"]) == ("a", order.name(0)))
    said = service.get(study).json()["held"]
    assert (said["test"], f"for test {here['id']} (" in said["words"]) == (here["id"], True)
    service.post(f"{study}/tell", json={"results": [{"test": here["id"], "value": {"right": 0.0, "time": 1.0}}]})
    rows = service.get(f"{study}/waiting").json()
    assert second in rows
    assert first not in rows


def test_several_tests_end_for_one_reason_or_none_does(service: httpx.Client, study: str) -> None:
    service.post(f"{study}/ask", json={"n": 6, "holder": "ann"})
    tell(service, study, (2, 1.0), (4, 1.0))
    refusal = service.post(f"{study}/abandon", json={"tests": [1, 2, 3, 4], "reason": "spilled"})
    refused(refusal, 409, "test = 2 .*has the result 1 already")
    assert [one["value"] for one in refusal.json()["error"]["complaints"]] == [2, 4]
    assert len(service.get(f"{study}/pending").json()) == 4, "nothing was done"
    ends = {"tests": [1, 3, 3], "reason": "spilled", "holder": "bob"}
    assert service.post(f"{study}/abandon", json=ends).json() == {}
    assert [test["id"] for test in service.get(f"{study}/pending").json()] == [5, 6]
    again = {"tests": [5, 6], "reason": "power cut", "holder": "bob"}
    for _ in range(2):
        assert service.post(f"{study}/fail", json=again, headers={"Idempotency-Key": "once"}).json() == {}
    log = service.get(f"{study}/log").json()
    noted = [
        (event["test"], event["detail"], event["holder"]) for event in log if event["kind"] in ("failed", "dropped")
    ]
    assert noted == [(1, "spilled", "bob"), (3, "spilled", "bob"), (5, "power cut", "bob"), (6, "power cut", "bob")]
    refused(service.post(f"{study}/fail", json={"reason": "why"}), 422, "test: give it, or the tests", "test")
    both = {"test": 5, "tests": [6], "reason": "why"}
    refused(service.post(f"{study}/fail", json=both), 422, "test: give it, or the tests", "test")
    refused(
        service.post(f"{study}/fail", json={"tests": [5], "arm": "a", "reason": "why"}),
        422,
        "by their numbers alone",
        "tests",
    )
    refused(service.post(f"{study}/fail", json={"tests": [5, 99], "reason": "why"}), 404, "no such test")


def test_every_result_that_is_there_already_is_named(service: httpx.Client, study: str) -> None:
    service.post(f"{study}/ask", json={"n": 4})
    tell(service, study, (1, 1.0), (3, 1.0))
    refusal = tell(service, study, (1, 0.0), (2, 0.0), (3, 0.0))
    refused(refusal, 409, "has the result 1 already", "test")
    assert [one["value"] for one in refusal.json()["error"]["complaints"]] == [1, 3]


def test_a_named_token_says_whose_it_is(tmp_path: Path) -> None:
    database = str(tmp_path / "names.db")
    ba.Study.create(doses(), name="dose", storage=database)
    storage = open_storage(database)
    token, _ = storage.make_token("Zo\u00eb Ek", "work")
    storage.close()
    with running(database, token="the service's own") as url, client_at(url) as client:
        named = client.get("/api/studies", headers={"Authorization": f"Bearer {token}"})
        assert named.headers["Bestarm-Name"] == "Zo%C3%AB%20Ek"
        shared = client.get("/api/studies", headers={"Authorization": "Bearer the service's own"})
        assert (shared.status_code, shared.headers["Bestarm-Name"]) == (200, "service")
