"""A service in tests: a small plan, and the requests that most tests make."""

from __future__ import annotations

import re
from typing import Any

import httpx
from tests.tools.patience import PATIENCE

TOKEN = "correct-horse-battery-staple"
PLAN: dict[str, Any] = {
    "arms": ["a", "b"],
    "objective": {"metric": "gain", "goal": "maximize", "noise": {"gaussian": 0.3}},
    "constraints": [{"metric": "harm", "at_most": 0.5, "noise": "bernoulli", "cost": 3.0}],
}
JSON = {"Content-Type": "application/json"}
CSV = {"Content-Type": "text/csv"}
FILE = {"Content-Type": "application/octet-stream"}


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
    assert set(error) == {"field", "reason", "kind", "complaints"}
    assert re.search(reason, error["reason"]), error
    if field is not None:
        assert error["field"] == field
    assert "Traceback" not in answer.text
