"""The service under load and at rest, in short; `benchmarks/web.py` does the same for a minute."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "web.py"


@pytest.fixture(scope="module")
def measured() -> Any:
    command = [sys.executable, str(BENCHMARK), "--seconds", "8", "--rest", "5", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


def test_no_result_of_50_clients_is_lost_or_doubled(measured: Any) -> None:
    load = measured["load"]
    assert load["clients"] == 50
    assert load["acknowledged"] >= 500
    assert load["recorded"] == load["acknowledged"]
    assert (load["lost"], load["told_twice"], load["handed_to_two"], load["unaccounted"]) == (0, 0, 0, 0)
    assert load["errors"] == {}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processor time from /proc")
def test_100_open_dashboards_cost_little_when_nothing_happens(measured: Any) -> None:
    assert measured["rest"]["1"] < 0.05
    assert measured["rest"]["100"] < 0.10
