"""Forms get their choices from the service: what there is here, with what installed packages add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.installed import install
from tests.noises.bernstein import Bernstein
from tests.tools.patience import PATIENCE

from bestarm.noises import noise_choices
from bestarm.noises.registry import all_noises
from bestarm.policies import all_policies
from bestarm.validation import LEAST, MOST
from bestarm.web import choices
from bestarm.web.app import create_app
from bestarm.web.description import describe
from bestarm.web.server import running


def install_policy(folder: Path, name: str) -> None:
    """A package with a policy of that name, as if it were installed in `folder`."""
    code = (
        "from bestarm.policies.racing import Racing\n\n\nclass Mine(Racing):\n"
        f'    """Test whatever comes to mind. And more."""\n\n    name = "{name}"\n'
    )
    install(folder, f"[bestarm.policies]\n{name} = another_policy:Mine\n", another_policy=code)


def test_what_there_is_to_choose(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db")) as url:
        data = httpx.get(f"{url}/api/choices", timeout=PATIENCE).raise_for_status().json()
    choices.Choices.model_validate(data)
    assert data["noises"] == noise_choices()
    assert {one["name"] for one in data["policies"]} == set(all_policies())
    assert all(one["sentence"].endswith(".") for part in ("policies", "bounds", "orders") for one in data[part])
    defaults = data["defaults"]
    for part in ("policy", "bound", "order"):
        plural = {"policy": "policies"}.get(part, f"{part}s")
        assert defaults[part] in {one["name"] for one in data[plural]}
    assert data["policies"][0]["name"] == defaults["policy"]


def test_every_choice_makes_a_study(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db")) as url, httpx.Client(base_url=url, timeout=PATIENCE) as client:
        data = client.get("/api/choices").json()

        def create(name: str, noise: Any = "bernoulli", **plan: str) -> None:
            objective = {"metric": "x", "goal": "maximize", "noise": noise}
            constraint = {"metric": "y", "at_most": 0.5, "noise": noise}
            if name == "noise quantile":
                objective["noise"] = "symmetric"
            if name == "noise duel":
                plan["baseline"] = "what they are compared with"
            whole = {"arms": ["a", "b"], "objective": objective, "constraints": [constraint], **plan}
            body = {"plan": whole, "name": name}
            answer = client.post("/api/studies", json=body)
            assert answer.status_code == 201, answer.text

        for one in data["noises"]:
            numbers = [number.get("default") or 10.0 * k for k, number in enumerate(one["numbers"])]
            stated: Any = numbers[0] if len(numbers) == 1 else numbers
            create(f"noise {one['name']}", {one["name"]: stated} if numbers else one["name"])
        for part, choices in (("policy", data["policies"]), ("bound", data["bounds"]), ("order", data["orders"])):
            for one in choices:
                create(f"{part} {one['name']}", **{part: one["name"]})


def test_plug_ins_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_policy(tmp_path, "on-a-whim")
    monkeypatch.syspath_prepend(tmp_path)
    policies = choices.all_choices()["policies"]
    assert {"name": "on-a-whim", "label": "on-a-whim", "sentence": "Test whatever comes to mind."} in policies
    assert policies[0]["label"] == "certify (recommended)"
    assert "feasible-lucb (Algorithm 1 of the paper)" in [one["label"] for one in policies]


def test_the_description_lists_the_noises_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    known = all_noises()
    monkeypatch.setattr("bestarm.noises.all_noises", lambda: {**known, "bernstein": Bernstein})
    noise = describe(create_app(":memory:"))["components"]["schemas"]["PlanNoise"]
    forms = [one.get("properties") or one["enum"] for one in noise["oneOf"]]
    assert forms[0] == ["symmetric", "bernoulli", "duel", "exact"]
    number = {"type": "number", "minimum": -MOST, "maximum": MOST}
    numbers = {"type": "array", "items": number, "minItems": 2, "maxItems": 2}
    assert {"bernstein": numbers} in forms
    assert {"gaussian": {"type": "number", "minimum": LEAST, "maximum": MOST}} in forms
