"""The workflow files that the documents show: they are well formed, and what they run exists."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from tests.lengths import cases
from typer.main import get_command

from bestarm.cli.app import app

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / "examples" / "pipelines").glob("*.yml"))
SCHEMA = json.loads((Path(__file__).parent / "workflow.schema.json").read_text(encoding="utf-8"))


def read(file: Path) -> Any:
    # YAML 1.1 takes the key `on` for "true"; the service does not.
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in data.items()}


def test_there_is_one() -> None:
    assert [file.name for file in WORKFLOWS] == ["speed-gate.yml"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_follows_the_schema(file: Path) -> None:
    jsonschema_rs.validator_for(SCHEMA).validate(read(file))


@pytest.mark.parametrize(
    "wrong",
    [
        {"jobs": {}},
        {"on": {"pull-request": {}}},
        {"jobs": {"speed": {"runs-on": "ubuntu-latest", "steps": [{"uses": "actions/checkout"}]}}},
        {"jobs": {"speed": {"runs-on": "ubuntu-latest", "steps": [{"run": "a", "uses": "b/c@v1"}]}}},
        {"jobs": {"speed": {"steps": [{"run": "a"}]}}},
    ],
)
def test_the_schema_refuses(wrong: dict[str, Any]) -> None:
    assert not jsonschema_rs.is_valid(SCHEMA, read(WORKFLOWS[0]) | wrong)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_the_options_exist(file: Path) -> None:
    group: Any = get_command(app)
    lines = re.findall(r"^ *bestarm (\w+) (.*)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert lines
    for command, words in lines:
        known = {name for option in group.commands[command].params for name in option.opts}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", words)) <= known


@cases(1)
@pytest.mark.parametrize(("new", "code", "said"), [("sleep 0", 0, "certified"), ("sleep 0.6", 1, "::error::")])
def test_the_gate_runs_as_written(tmp_path: Path, new: str, code: int, said: str) -> None:
    [script] = [step["run"] for step in read(WORKFLOWS[0])["jobs"]["speed"]["steps"] if step.get("id") == "gate"]
    for folder, seconds in (("new", new), ("old", "sleep 0.2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bench.sh").write_text(seconds)
    program = tmp_path / "bestarm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bestarm "$@"\n')
    program.chmod(0o755)
    summary = tmp_path / "summary.md"
    more = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BENCHMARK": "sh bench.sh", "GITHUB_STEP_SUMMARY": str(summary)}
    ended = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=os.environ | more, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, said in ended.stdout) == (code, True), ended
    assert "| Verdict |" in summary.read_text()
    assert (tmp_path / "gate.json").exists()
