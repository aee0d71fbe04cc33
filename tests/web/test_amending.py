"""Changing a study's plan over HTTP, and through the client."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
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
        assert act("extend", "the first", tests=6) == {"tests": 10.0, "cost": None, "blocks": None, "hours": None}
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


def test_the_reserve_changes_before_the_first_test(service: httpx.Client) -> None:
    path = new_study(service, "reserved")
    client = Client(str(service.base_url))
    study = client.open("reserved")
    study.set_reserve(0.1)
    assert study.plan.reserve == 0.1
    refused(service.post(f"{path}/reserve", json={"share": 1.5}), 422, "", "share")
    study.add_arms(["later"])
    refused(service.post(f"{path}/reserve", json={"share": 0}), 422, "needs a reserve")
    study.ask(1)
    with pytest.raises(ba.InvalidInput, match="can only be changed before the first test"):
        study.set_reserve(0.2)
    said = [event.detail for event in study.log() if event.kind == "amended"]
    assert said == ["reserve: 0.1 instead of 0", "arm added: later"]
    client.close()


def test_an_arm_joins_a_study_on_items(service: httpx.Client) -> None:
    study = new_study(service, "on items", reserve=0.2, items=20, constraints=[])
    tests = service.post(f"{study}/ask", json={"n": 6}).json()["tests"]
    added = service.post(f"{study}/arms/add", json={"arms": ["c"]})
    assert added.is_success, added.text
    arm = service.get(study).json()["plan"]["arms"][-1]
    assert (arm["name"], arm["added"], arm["since"]) == ("c", 1, len({test["item"] for test in tests}))
    [amended] = [row["detail"] for row in service.get(f"{study}/log").json() if row["kind"] == "amended"]
    assert amended == "arm added: c, when 3 places of the items had been met"
