"""Bodies and addresses that cannot be read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from tests.outside import DEEP, HUGE, PLAN


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    from bestarm.web.app import create_app

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient

        with TestClient(create_app(":memory:"), base_url="http://localhost", raise_server_exceptions=False) as client:
            made = client.post("/api/studies", json={"plan": PLAN.to_data()})
            assert made.status_code == 201, made.text
            yield client


ROUTES = ["ask", "tell", "add", "correct", "fail", "abandon", "set-aside", "release", "renew", "archive"]


@pytest.mark.parametrize("route", ["/api/studies", *(f"/api/studies/1/{name}" for name in ROUTES)])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[" * DEEP, "the body is not valid JSON: is nested too deeply"),
        (b'{"n": ' + HUGE.encode() + b"}", "the body is not valid JSON: a number in it has too many digits"),
        (b'{"n": 1, "n": 2}', "n is given twice"),
        (b'{"plan": {"arms": [{"name": "a", "name": "b"}]}}', "name is given twice"),
        (b"{", "the body is not valid JSON: Expecting property name"),
        (b"\xff", "the body is not valid JSON: is not UTF-8"),
    ],
    ids=["deep", "huge", "twice", "twice inside", "broken", "bytes"],
)
def test_a_body_that_cannot_be_read(client: Any, route: str, body: bytes, reason: str) -> None:
    answer = client.post(route, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 404)
    assert answer.status_code == 400 or route.endswith(("set-aside", "correct"))
    if answer.status_code == 400:
        assert answer.json()["error"]["reason"].startswith(reason)


@pytest.mark.parametrize("number", [2**63, 10**30, -(2**63) - 1, 10**4000, 1.5, "1", True, None])
@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("ask", {"n": 0}),
        ("ask", {"n": 1, "lease": 0}),
        ("ask", {"n": 1, "days": 0}),
        ("tell", {"results": [{"test": 0, "value": 1.0}]}),
        ("add", {"results": [{"arm": "a", "metric": "p", "value": 1.0}], "ends": [0]}),
        ("fail", {"test": 0}),
        ("abandon", {"test": 0}),
        ("release", {"tests": [0], "holder": "h"}),
        ("renew", {"tests": [0], "holder": "h", "lease": 5}),
    ],
    ids=str,
)
def test_whole_numbers_of_any_size_in_a_body(client: Any, route: str, body: dict[str, Any], number: Any) -> None:
    """In the place of each 0: refused by name, or, where anything like it may be meant, accepted."""

    def put(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: put(item) for key, item in data.items()}
        return [put(item) for item in data] if isinstance(data, list) else number if data == 0 else data

    answer = client.post(f"/api/studies/1/{route}", json=put(body))
    assert answer.status_code < 500, answer.text
    may_be = route == "ask" and (number is None or ("n" in body and body["n"] == 1 and number == 1.5))
    assert answer.status_code in ((200, 422) if may_be else (422,)), answer.text


@pytest.mark.parametrize("number", ["9223372036854775808", "1" * 5000, "-1", "1_0", "１", "1.5", "", "nan"])
@pytest.mark.parametrize("path", ["log?last=", "history?points=", "forecast?runs=", "forecast?seed=", ""])
def test_whole_numbers_of_any_size_in_an_address(client: Any, path: str, number: str) -> None:
    answer = client.get(f"/api/studies/1/{path}{number}" if path else f"/api/studies/{number}")
    assert answer.status_code in (422, *((200, 404, 307) if not path and not number else ())), answer.text
