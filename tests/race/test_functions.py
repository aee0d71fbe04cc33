"""Gates for functions, and the plug-in for pytest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bestarm.race.functions import batch, gate
from bestarm.validation import InvalidInput

TESTS = """
import time

def quick():
    time.sleep(0.001)

def slow():
    time.sleep(0.02)

def test_certified(bestarm_gate):
    assert bestarm_gate(quick, baseline=slow, at_most=1.1).found == "certified"

def test_refuted(bestarm_gate):
    bestarm_gate(slow, baseline=quick, at_most=1.1)

def test_undecided(bestarm_gate):
    bestarm_gate(quick, baseline=quick, at_most=1.1, runs=4)

def test_stored(bestarm_gate):
    bestarm_gate(quick, stored="quick", at_most=20)

def test_storing(bestarm_gate):
    bestarm_gate(quick, stored="fresh", at_most=20)

def test_misused(bestarm_gate):
    bestarm_gate(quick, at_most=1.1)
"""


def run_pytest(folder: Path, *words: str) -> dict[str, tuple[str, str]]:
    """By test: how it ended, and what it said."""
    (folder / "test_speed.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "bestarm.race.pytest_plugin", "-p", "no:cacheprovider"]
    written = folder / "results.xml"
    words = ("--rootdir", ".", f"--junitxml={written}", *words)
    # Other plug-ins take seconds to load.
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run([*command, *words], cwd=folder, env=environment, stdout=subprocess.PIPE, check=False)
    found = {}
    for case in ElementTree.parse(written).iter("testcase"):
        [how, said] = next(
            ([one.tag, one.get("message", "")] for one in case if one.tag != "properties"), ["passed", ""]
        )
        found[case.get("name", "")] = (how, said)
    return found


def test_the_plugin_passes_fails_and_skips(tmp_path: Path) -> None:
    store = tmp_path / "bestarm-baselines.json"
    store.write_text('{"quick": 0.005}')
    found = run_pytest(tmp_path)
    assert found["test_certified"] == ("passed", "")
    assert found["test_refuted"][0] == "failure"
    assert "REFUTED: the candidate does not meet every limit" in found["test_refuted"][1]
    assert "The order of measurements was drawn with seed=" in found["test_refuted"][1]
    assert found["test_misused"][0] == "failure"
    assert found["test_undecided"][0] == "skipped"
    assert "UNDECIDED: the budget is spent after 4 runs" in found["test_undecided"][1]
    assert found["test_stored"][0] == "passed"
    assert found["test_storing"][0] == "skipped"
    assert "the baseline 'fresh' is stored" in found["test_storing"][1]
    assert json.loads(store.read_text())["fresh"] > 0.001


@pytest.mark.torture
def test_undecided_may_fail(tmp_path: Path) -> None:
    assert run_pytest(tmp_path, "--bestarm-undecided=fail", "-k", "undecided")["test_undecided"][0] == "failure"


def test_the_plugin_loads_nothing_heavy() -> None:
    script = (
        "import sys, bestarm.race.pytest_plugin\n"
        "assert not {'numpy', 'numba', 'pydantic', 'sqlalchemy', 'rich', 'typer'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_gate_against_stored_seconds() -> None:
    assert gate(lambda: None, 1.0, at_most=1.5).found == "certified"
    refuted = gate(lambda: time.sleep(0.01), 0.0001, at_most=2)
    assert refuted.found == "refuted"
    assert gate(lambda: None, 1.0, at_most=1.5, seed=8).seed == 8
    # What takes longer than four times the limit counts as that.
    assert refuted.mean == pytest.approx(0.0008)


def test_quick_functions_are_called_in_batches() -> None:
    calls: list[int] = []
    batch(lambda: calls.append(1), 17)
    assert len(calls) == 17


@pytest.mark.parametrize("wrong", [{"at_most": 0}, {"at_most": "2"}, {"at_most": 1.1, "seconds": 0}])
def test_mistakes(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        gate(lambda: None, lambda: None, **wrong)
