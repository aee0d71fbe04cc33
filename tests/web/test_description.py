"""The OpenAPI description, as programs read it that make clients of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.parts import find_client_generator
from tests.tools.patience import PATIENCE

from bestarm.web.app import create_app
from bestarm.web.roles import NEEDED
from bestarm.web.server import running


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    return create_app(":memory:").openapi()


def parts(data: Any) -> Iterator[dict[str, Any]]:
    """All objects inside."""
    for part in data.values() if isinstance(data, dict) else data:
        if isinstance(part, dict):
            yield part
        if isinstance(part, dict | list):
            yield from parts(part)


def test_operations_have_short_names(description: dict[str, Any]) -> None:
    names = [operation["operationId"] for path in description["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(NEEDED)
    assert {"create_study", "ask", "tell", "get_status", "list_studies"} < set(names)
    assert all(name.isidentifier() and len(name) < 20 for name in names)


def test_limits_are_those_of_json_schema(description: dict[str, Any]) -> None:
    assert not any({"ge", "le", "gt", "lt"} & part.keys() for part in parts(description))
    [study] = [one for one in description["paths"]["/api/studies/{study}"]["get"]["parameters"] if one["in"] == "path"]
    assert (study["schema"]["minimum"], study["schema"]["maximum"]) == (1, 2**31 - 1)
    plan = description["components"]["schemas"]["Plan"]["properties"]
    assert (plan["top"]["minimum"], plan["top"]["maximum"]) == (1, 1000)


def test_schemas_have_names_of_their_own(description: dict[str, Any]) -> None:
    """A generator makes a class of each that has a title."""
    schemas = description["components"]["schemas"]
    assert len({schema["title"] for schema in schemas.values()}) == len(schemas)
    reference = {"$ref": "#/components/schemas/Plan"}
    assert schemas["NewStudy"]["properties"]["plan"] == schemas["StudyStatus"]["properties"]["plan"] == reference


@pytest.mark.parts("openapi-python-client")
def test_a_generated_client_runs_a_study(tmp_path: Path) -> None:
    """It makes a study, asks, tells and reads the answer, and every part of its types is as the service sends it."""
    generator = find_client_generator()
    assert generator is not None
    with running(str(tmp_path / "x.db")) as url:
        (tmp_path / "generator.yaml").write_text("post_hooks: []\n")
        description = httpx.get(f"{url}/openapi.json", timeout=PATIENCE).text
        (tmp_path / "openapi.json").write_text(description, encoding="utf-8")
        command = [generator, "generate", "--path", "openapi.json", "--meta", "none", "--output-path"]
        made = subprocess.run(
            [*command, tmp_path / "generated", "--config", tmp_path / "generator.yaml"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
        )
        assert made.returncode == 0, made.stdout
        # Files of results are neither JSON nor a form, which is all that this generator knows.
        left_out = [line for line in made.stdout.splitlines() if line.startswith("WARNING")]
        assert [line.split(" within")[0] for line in left_out] == ["WARNING parsing POST /api/studies/{study}/csv"]
        used = subprocess.run(
            [Path(generator).resolve().with_name("python"), Path(__file__).with_name("generated_client.py"), url],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(tmp_path)},
        )
    assert used.stdout == "large holds large 0.5\n", used.stdout + used.stderr
