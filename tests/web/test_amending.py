"""Changing a study's plan over HTTP, and through the client."""

from __future__ import annotations

from typing import Any

import httpx
from tests.web.service import new_study, refused

import bestarm as ba
from bestarm.client import Client


def test_a_plan_changes_over_http(service: httpx.Client) -> None:
    study = new_study(service, "amended", reserve=0.2, budget={"tests": 4})

    def act(what: str, key: str = "", **body: Any) -> Any:
        answer = service.post(f"{study}/{what}", json=body, headers={"Idempotency-Key": key} if key else {})
        assert answer.status_code == 200, answer.text
        return answer.json()

    for _ in range(2):  # once, under one key
        assert act("extend", "the first", tests=6) == {"tests": 10.0, "cost": None}
    act("arms/add", arms=["c"], holder="ann")
    # A server that has the study in memory goes by the new plan at once.
    assert {test["arm"] for test in act("ask", n=6)["tests"]} == {"a", "b", "c"}
    assert service.post(f"{study}/add", json={"results": [{"arm": "c", "metric": "gain", "value": 1.0}]}).is_success
    act("arms/retire", arm="a", reason="sold out")
    status = service.get(study).json()
    assert status["arms"][0]["verdict"] == "retired"
    assert status["plan"]["arms"][2] == {"name": "c", "weight": 1.0, "added": 1}
    amended = [(row["holder"], row["detail"]) for row in service.get(f"{study}/log").json() if row["kind"] == "amended"]
    assert amended[1:] == [("ann", "arm added: c"), amended[2]]
    assert amended[2][1] == "arm retired: a (sold out)"
    refused(service.post(f"{study}/extend", json={}), 422, "by how much")
    refused(service.post(f"{study}/extend", json={"tests": 0}), 422, "", "tests")
    refused(service.post(f"{study}/arms/add", json={"arms": ["b"]}), 422, "has this name already")
    refused(service.post(f"{study}/arms/retire", json={"arm": "z"}), 422, "no such arm", "arm")
    closed = new_study(service, "closed")
    refused(service.post(f"{closed}/arms/add", json={"arms": ["c"]}), 422, "keeps no share of delta")
    service.post(f"{closed}/archive", json={})
    refused(service.post(f"{closed}/extend", json={"tests": 1}), 422, "is archived")


def test_a_client_goes_by_the_present_plan(service: httpx.Client) -> None:
    new_study(service, "shared", reserve=0.2, budget={"tests": 4})
    client = Client(str(service.base_url))
    one, other = client.open("shared"), client.open("shared")
    assert one.extend(6) == ba.Budget(tests=10)
    one.add_arms(["c"])
    assert other.arm_number("c") == 2
    other.retire("a", "sold out")
    assert one.status().arms[0].verdict == "retired"
    assert one.plan == other.plan
    assert [event.detail for event in one.log() if event.kind == "amended"][1] == "arm added: c"
    client.close()
