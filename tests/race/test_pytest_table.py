"""What the plug-in for pytest shows at the end, and its `benchmark` fixture beside pytest-benchmark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.race.simulated import race, skewed

from bestarm.cli.shared.verdicts import EXITS
from bestarm.race.conclusions import conclusion_of
from bestarm.race.exports import as_json
from bestarm.race.function_benchmark import LEAST, FunctionBenchmark
from bestarm.race.functions import gate
from bestarm.race.history import line_of, read
from bestarm.validation import InvalidInput

GATES = """
import time

def test_passes(bestarm_gate):
    bestarm_gate(lambda: time.sleep(0.001), baseline=lambda: time.sleep(0.03), at_most=1.5)

def test_open(bestarm_gate):
    bestarm_gate(lambda: None, baseline=lambda: None, at_most=1.1, runs=4)
"""

BENCHMARKS = """
import time

import pytest

@pytest.mark.benchmark(group="sums")
def test_called(benchmark):
    assert benchmark(time.sleep, 0.3) is None
    assert benchmark.stats["mean"] > 0.25

def test_rounds(benchmark):
    assert benchmark.pedantic(sum, args=([1, 2],), rounds=3, iterations=2) == 3
"""


def run_pytest(folder: Path, tests: str, *words: str) -> str:
    (folder / "test_speed.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "bestarm.race.pytest_plugin", "-p", "no:cacheprovider"]
    # pytest-benchmark measures nothing in a process of xdist, and would take this for one.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environment = inherited | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"}
    return subprocess.run(
        [*command, "--rootdir", ".", "-rs", "--strict-markers", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def test_gates_have_rows_and_a_history_and_skips_point_at_the_test(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, GATES, "--bestarm-history=gates.jsonl")
    head, passes, still_open = re.findall(r"^(?:test  |test_speed.py::).*$", said, flags=re.MULTILINE)[-3:]
    assert head.split()[:7] == ["test", "min", "mean", "stddev", "median", "max", "rounds"]
    assert re.fullmatch(
        r"test_speed.py::test_passes  .* m?s .* \d+ +0\.\d+x +0[.\d]*x to \d\S*x +1.5x +certified", passes
    )
    assert still_open.endswith("undecided")
    assert re.search(r"^SKIPPED \[1\] test_speed.py:7: UNDECIDED: the budget is spent after 4 runs", said, re.MULTILINE)
    lines, _ = read(tmp_path / "gates.jsonl")
    assert [(line["study"], line["found"]) for line in lines] == [
        ("test_speed.py::test_passes", "certified"),
        ("test_speed.py::test_open", "undecided"),
    ]


def test_a_benchmark_fixture_where_there_is_none(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, BENCHMARKS)
    assert "2 passed" in said, said
    [called] = re.findall(r"^test_speed.py::test_called .*$", said, flags=re.MULTILINE)
    assert called.endswith(f" {LEAST}")
    [rounds] = re.findall(r"^test_speed.py::test_rounds .*$", said, flags=re.MULTILINE)
    assert rounds.endswith(" 3")
    assert "verdict" not in said


@pytest.mark.torture
def test_the_fixture_of_pytest_benchmark_goes_first(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, BENCHMARKS, "-p", "pytest_benchmark.plugin", "--benchmark-max-time=0.1")
    assert "benchmark 'sums': 1 tests" in said
    assert "bestarm: seconds of a call" not in said


def test_a_benchmark_calls_what_it_is_told() -> None:
    reported: list[Any] = []
    benchmark, calls = FunctionBenchmark(reported.append), list[tuple[int, int]]()

    def note(first: int, second: int = 0) -> int:
        calls.append((first, second))
        return len(calls)

    def setup() -> tuple[tuple[int], dict[str, int]]:
        return (len(calls),), {"second": 2}

    assert benchmark.pedantic(note, setup=setup, rounds=3, warmup_rounds=1) == 4
    assert calls == [(0, 2), (1, 2), (2, 2), (3, 2)]
    assert benchmark.pedantic(note, args=(9,), kwargs={"second": 1}, rounds=2, iterations=5) == 14
    assert calls[4:] == [(9, 1)] * 10
    assert [one["rounds"] for one in reported] == [3, 2]
    assert 0.0 <= benchmark.stats["min"] <= benchmark.stats["median"] <= benchmark.stats["max"]
    mistakes: list[dict[str, Any]] = [{"rounds": 0}, {"iterations": 0}, {"setup": setup, "iterations": 2}]
    for wrong in mistakes:
        with pytest.raises(InvalidInput):
            benchmark.pedantic(note, **wrong)


def test_every_door_says_the_same_in_the_same_words() -> None:
    """The command line, the history, and Python: the same names. Each verdict has its exit status."""
    draw = skewed({"old": 0.1, "new": 0.2}, scatter=0.01)
    result = race(draw, ["old", "new"], ["time=1.1x"], baseline="old", is_gate=True)
    exported, concluded = json.loads(as_json(result))["bestarm"], conclusion_of(result)
    assert json.loads(json.dumps(concluded)).items() <= exported.items()
    assert concluded.items() <= line_of(result).items()
    found = gate(lambda: None, 1.0, at_most=1.5, seed=3)
    assert found.to_dict().keys() == concluded.keys()
    said = found.to_dict()
    assert (said["found"], said["runs"], said["seed"]) == (found.found, found.runs, 3)
    assert found.sentence.startswith(said["verdict"])
    [limit] = said["limits_found"]
    assert limit.keys() == concluded["limits_found"][0].keys()
    assert (found.ratio, found.high) == pytest.approx((limit["candidate"] / 1.0, limit["high"] / 1.0))
    assert EXITS == {"certified": 0, "measured": 0, "refuted": 3, "undecided": 4, "void": 5}
