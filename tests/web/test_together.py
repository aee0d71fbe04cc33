"""Tests of several metrics, and of items, over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.web.service import CSV, PLAN, new_study, refused

BOUNDED = {"bounded": [0.0, 10.0]}
TOGETHER: dict[str, Any] = {
    "objective": {"metric": "time", "goal": "minimize", "noise": BOUNDED},
    "constraints": [
        {"metric": "memory", "at_most": 5.0, "noise": BOUNDED},
        {"metric": "time", "at_most": 9.0, "noise": BOUNDED},
        {"metric": "crash", "at_most": 0.5, "noise": "bernoulli"},
    ],
    "measurements": [{"metrics": ["time", "memory"], "cost": 2.0}],
}
ITEMS = ["q1", "q2", "q3", "q4"]
VALUES = {"a": {"time": 4.0, "memory": 2.0, "crash": 0.0}, "b": {"time": 1.0, "memory": 3.0, "crash": 0.0}}


@pytest.fixture
def together(service: httpx.Client, request: pytest.FixtureRequest) -> str:
    return new_study(service, request.node.name[:150], **TOGETHER)


@pytest.fixture
def on_items(service: httpx.Client, request: pytest.FixtureRequest) -> str:
    return new_study(service, request.node.name[:150], **TOGETHER, items=ITEMS)


def act(service: httpx.Client, study: str, verb: str, **body: Any) -> Any:
    answer = service.post(f"{study}/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_from_first_ask_to_answer(service: httpx.Client, on_items: str) -> None:
    seen = set()
    while tests := act(service, on_items, "ask", n=20)["tests"]:
        results = []
        for test in tests:
            seen.add((test["metric"], tuple(test["metrics"])))
            value: Any = {metric: VALUES[test["arm"]][metric] for metric in test["metrics"]}
            # A test of one metric takes both forms.
            is_plain = len(value) == 1 and test["id"] % 2
            results.append({"test": test["id"], "value": value[test["metric"]] if is_plain else value})
            assert test["item"] in ITEMS
        assert act(service, on_items, "tell", results=results) == {"told": len(results)}
    assert seen == {("time + memory", ("time", "memory")), ("crash", ("crash",))}
    status = service.get(on_items).json()
    assert (status["state"], status["answer"]) == ("certified", "b")
    assert status["tests"] <= 16
    assert status["about_tests"] == [
        "One test gives time and memory together, all or none.",
        "Measured alone: crash.",
        "Each arm is measured on the same 4 items, in the same random order; the question is about the mean over these "
        "items.",
    ]
    assert status["measured"] == [
        {"name": "time + memory", "metrics": ["time", "memory"], "places": [0, 1, 2], "cost": 2.0},
        {"name": "crash", "metrics": ["crash"], "places": [3], "cost": 1.0},
    ]
    counted = sum(arm["metrics"][one["places"][0]]["tests"] for arm in status["arms"] for one in status["measured"])
    assert counted == status["tests"]


def test_with_repeats_the_question_is_another(service: httpx.Client) -> None:
    study = new_study(service, "repeats", **TOGETHER, items=3, repeats=True)
    [*_, sentence] = service.get(study).json()["about_tests"]
    assert sentence.endswith("the question is about the mean over all items and over the scatter of each.")
    for test in act(service, study, "ask", n=3)["tests"]:
        assert test["item"] in ("1", "2", "3")


@pytest.mark.parametrize(
    ("value", "reason", "field"),
    [
        ({"time": 1.0}, "lacks 'memory'", "results[1].value"),
        ({}, "lacks 'time' and 'memory'", "results[1].value"),
        ({"time": 1.0, "memory": 2.0, "crash": 0.0}, "and no 'crash'", "results[1].value"),
        (
            {"time": 1.0, "memory": 11.0},
            "value of 'memory' = 11.0: must lie between 0 and 10",
            "results[1].value.memory",
        ),
        (1.0, "must be 'time' and 'memory', by name", "results[1].value"),
        ({"time": 1.0, "memory": "2"}, "must be a number", "results[1].value.memory"),
        ({"time": 1.0, "memory": None}, "must be a number", "results[1].value.memory"),
        ([1.0, 2.0], "must be a number", "results[1].value"),
    ],
)
def test_all_values_or_none(service: httpx.Client, together: str, value: object, reason: str, field: str) -> None:
    """Nor is anything else recorded that came in the same request."""
    tests = act(service, together, "ask", n=4)["tests"]
    single = next(test["id"] for test in tests if test["metric"] == "crash")
    several = next(test["id"] for test in tests if test["metric"] == "time + memory")
    body = {"results": [{"test": single, "value": 1}, {"test": several, "value": value}]}
    refused(service.post(f"{together}/tell", json=body), 422, reason, field)
    assert service.get(together).json()["tests"] == 0
    assert len(service.get(f"{together}/pending").json()) == 4


def test_repeats_have_no_effect_and_corrections_replace_what_they_name(service: httpx.Client, together: str) -> None:
    test = act(service, together, "ask")["tests"][0]
    assert test["metrics"] == ["time", "memory"]
    [pending] = service.get(f"{together}/pending").json()
    assert (pending["metric"], pending["metrics"]) == ("time + memory", ["time", "memory"])
    assert "item" not in pending
    told = {"test": test["id"], "arm": test["arm"], "metric": "time + memory", "value": {"memory": 2, "time": 1}}
    for _ in range(2):
        assert act(service, together, "tell", results=[told]) == {"told": 1}
    other = told | {"value": {"time": 1, "memory": 3}}
    refused(
        service.post(f"{together}/tell", json={"results": [other]}),
        409,
        "has the result time 1, memory 2 already",
        "test",
    )
    wrong = told | {"metric": "time"}
    refused(service.post(f"{together}/tell", json={"results": [wrong]}), 422, "is 'time . memory' of 'a'", "test")
    act(service, together, "correct", test=test["id"], value={"memory": 4.0}, reason="misread")
    log = service.get(f"{together}/log").json()
    assert [event["values"] for event in log[-2:]] == [{"time": 1.0, "memory": 2.0}, {"time": 1.0, "memory": 4.0}]
    assert [event["value"] for event in log[-2:]] == [None, None]
    assert log[-1]["metrics"] == ["time", "memory"]
    status = service.get(together).json()
    assert (status["tests"], status["cost"]) == (1, 2.0)
    assert [metric["mean"] for metric in status["arms"][0]["metrics"]] == [1.0, 4.0, 1.0, None]


def test_results_without_asking(service: httpx.Client, on_items: str) -> None:
    def add(*results: Any, **more: Any) -> httpx.Response:
        return service.post(f"{on_items}/add", json={"results": list(results), **more})

    both = {"arm": "a", "values": {"time": 1.0, "memory": 2.0}}
    alone = {"arm": "a", "metric": "crash", "value": True}
    refused(add(both), 422, "item: is missing", "item")
    refused(add(both | {"item": "q9"}), 422, "no such item", "item")
    refused(add(both | {"item": [1]}), 422, "must be text", "results[0].item")
    refused(add(both | {"item": "q1", "metric": "time"}), 422, "not a known field", "results[0].metric")
    refused(add({"arm": "a", "item": "q1"}), 422, "is missing", "results[0].metric")
    refused(
        add({"arm": "a", "metric": "time", "value": 1, "item": "q1"}), 422, "measured together with 'memory'", "metric"
    )
    refused(add({"arm": "a", "values": {"time": 1.0}, "item": "q1"}), 422, "lacks 'memory'", "value")
    refused(add({"arm": "a", "values": {"time": 1.0, "memory": "x"}}), 422, "number", "results[0].values.memory")
    refused(add(both | {"item": "q1"}, both | {"item": "q1"}), 422, "has been measured on it already", "item")
    assert service.get(on_items).json()["tests"] == 0
    named = both | {"metric": "time + memory", "value": both["values"], "item": "q2"}
    del named["values"]
    rows = [both | {"item": "q1"}, named, alone | {"item": "q1"}]
    key = {"Idempotency-Key": "once"}
    first, again = (service.post(f"{on_items}/add", json={"results": rows}, headers=key) for _ in range(2))
    assert first.json() == again.json() == {"ids": [1, 2, 3]}
    log = service.get(f"{on_items}/log").json()[-3:]
    assert [event["item"] for event in log] == ["q1", "q2", "q1"]
    assert log[0]["place"] == log[2]["place"] != log[1]["place"]


def test_numbered_items(service: httpx.Client) -> None:
    study = new_study(service, "numbered", items=5)
    rows = [{"arm": "a", "metric": "gain", "value": 0.5, "item": item} for item in (3, "4")]
    assert act(service, study, "add", results=rows) == {"ids": [1, 2]}
    refused(service.post(f"{study}/add", json={"results": [rows[0] | {"item": 0}]}), 422, "greater", "results[0].item")
    refused(service.post(f"{study}/add", json={"results": [rows[0] | {"item": 6}]}), 422, "from 1 to 5", "item")
    test = act(service, study, "ask")["tests"][0]
    assert "metrics" not in test
    told = {"test": test["id"], "item": "none of them", "value": 0.5}
    refused(service.post(f"{study}/tell", json={"results": [told]}), 422, "not 'gain' of 'a' on 'none of them'", "test")
    assert act(service, study, "tell", results=[told | {"item": test["item"]}]) == {"told": 1}
    assert service.get(f"{study}/log").json()[-1]["value"] == 0.5


def test_files(service: httpx.Client, on_items: str) -> None:
    test = act(service, on_items, "ask")["tests"][0]
    told = service.post(f"{on_items}/csv", content=f"test,time,memory\n{test['id']},1,2\n", headers=CSV)
    assert told.json() == {"told": 1}
    wide = "arm,time,memory,item\nb,1,2,q1\nb,1,,q2\n"
    refused(service.post(f"{on_items}/csv", content=wide, headers=CSV), 422, "line 3: .*memory")
    assert service.post(f"{on_items}/csv", content=wide.replace("1,,", "1,2,"), headers=CSV).is_success
    assert service.get(on_items).json()["tests"] == 3
    rows = service.get(f"{on_items}/export").text.splitlines()
    assert rows[0].endswith(",item")
    assert len(rows) == 1 + 2 * 3


def test_other_studies_are_shown_as_before(service: httpx.Client, study: str) -> None:
    """Clients that know nothing of measurements and items read exactly these fields."""
    tests = act(service, study, "ask", n=2)["tests"]
    assert [list(test) for test in tests] == [["id", "arm", "metric"]] * 2
    [row, _] = service.get(f"{study}/pending").json()
    assert set(row) == {*("id", "arm", "metric", "holder", "expires", "attempts"), *("since", "due", "aside", "reason")}
    [*_, event] = service.get(f"{study}/log").json()
    assert list(event) == ["time", "kind", "test", "holder", "detail", "arm", "metric", "value"]
    status = service.get(study).json()
    assert "item" not in status["awaited"]
    assert status["about_tests"] == []
    assert not {"measurements", "items", "repeats"} & set(status["plan"])
    refused(
        service.post(f"{study}/add", json={"results": [{"arm": "a", "metric": "gain", "value": 1, "item": "x"}]}),
        422,
        "this study has no items",
        "item",
    )
    for value in ({"gain": 0.5}, 0.5):
        assert act(service, study, "tell", results=[{"test": tests[0]["id"], "value": value}]) == {"told": 1}


def test_a_plan_is_refused_by_name(service: httpx.Client) -> None:
    for more, field in (
        ({"measurements": [{"metrics": ["gain", "pain"]}]}, "plan.measurements[0].metrics[1]"),
        ({"measurements": [{"metrics": []}]}, "plan.measurements[0].metrics"),
        ({"items": 0}, "plan.items"),
        ({"items": ["x", "x"]}, "plan.items[1]"),
        ({"repeats": True}, "plan.repeats"),
    ):
        answer = service.post("/api/studies", json={"plan": PLAN | more, "name": "never"})
        refused(answer, 422, "", field)
