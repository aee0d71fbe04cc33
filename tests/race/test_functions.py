"""Gates for functions, and the plug-in for pytest."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bestarm.race import functions
from bestarm.race.functions import FunctionRunner, gate
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
        "assert not {'numpy', 'llvmlite', 'pydantic', 'sqlalchemy', 'rich', 'typer'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_gate_against_stored_seconds() -> None:
    assert gate(lambda: None, 1.0, at_most=1.5).found == "certified"
    refuted = gate(lambda: time.sleep(0.01), 0.0001, at_most=2)
    assert refuted.found == "refuted"
    assert gate(lambda: None, 1.0, at_most=1.5, seed=8).seed == 8
    # What takes longer than four times the limit counts as that.
    assert refuted.mean == pytest.approx(0.0008)


class Machine:
    """A clock, and functions that take a known time by it. The first call of `new` takes long, as if it had to import
    something; and something else runs from time to time."""

    def __init__(self, seed: int = 0, stalls: float = 0.0) -> None:
        self._now = 0.0
        self._rng = random.Random(seed)
        self._stalls = stalls
        self.made: list[str] = []

    def perf_counter(self) -> float:
        return self._now

    def function(self, name: str, seconds: float) -> Callable[[], None]:
        def call() -> None:
            took = seconds if name != "new" or "new" in self.made else 0.02
            if self._rng.random() < self._stalls * took:
                took += self._rng.expovariate(100.0)
            self.made.append(name)
            self._now += took

        return call


def test_functions_are_called_equally_often_and_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(functions, "time", machine)
    called = FunctionRunner({"old": machine.function("old", 1e-4), "new": machine.function("new", 1.2e-4)})
    before = len(machine.made)
    new, old = called.run(["new"], None).time, called.run(["old"], None).time
    assert [new, old] == pytest.approx([1.2e-4, 1e-4])
    # 42 calls of the slower one take 5 ms. There are some more, in 8 turns, and the second of a turn is the first of
    # the next.
    made = machine.made[before:]
    assert made.count("old") == made.count("new") == 56
    assert sorted(len(list(calls)) for _, calls in itertools.groupby(made)) == [7] * 2 + [14] * 7
    # The other's run of the same measurement was kept.
    called.run(["old"], None)
    called.run(["new"], None)
    assert len(machine.made) - before == 2 * len(made)


def test_a_slow_function_is_called_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(functions, "time", machine)
    called = FunctionRunner({"old": machine.function("old", 1e-7), "new": machine.function("new", 1.0)})
    before = len(machine.made)
    assert called.run(["new"], None).time == pytest.approx(1.0)
    assert sorted(machine.made[before:]) == ["new", "old"]


def test_a_busy_machine_certifies_nothing_false(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth more work is never certified to be at most a twentieth more. Each of 3 gates errs with a probability of
    at most 0.01, so by chance the test fails with a probability of at most 0.03."""
    for seed in range(3):
        machine = Machine(seed, stalls=300.0)
        monkeypatch.setattr(functions, "time", machine)
        new, old = machine.function("new", 2.4e-5), machine.function("old", 2e-5)
        assert gate(new, old, at_most=1.05, runs=120, delta=0.01, seed=seed).found != "certified"


@pytest.mark.parametrize("wrong", [{"at_most": 0}, {"at_most": "2"}, {"at_most": 1.1, "seconds": 0}])
def test_mistakes(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        gate(lambda: None, lambda: None, **wrong)
