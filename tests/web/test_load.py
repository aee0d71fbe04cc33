"""The service under load: 50 clients at once. How fast it is, is measured by `benchmarks/web.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tools.patience import PATIENCE

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "web.py"
ROUNDS = 2


@pytest.mark.torture
def test_no_result_of_50_clients_is_lost_or_doubled() -> None:
    """With fewer clients, the same is in `test_neighbors.py` and in `test_torture.py`."""
    command = [sys.executable, str(BENCHMARK), "--rounds", str(ROUNDS), "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE)
    assert run.returncode == 0, run.stderr[-3000:]
    load = json.loads(run.stdout)["load"]
    # Everyone is answered, every time.
    assert (load["clients"], load["served"], load["requests"]) == (50, 50, 50 * ROUNDS * 2)
    assert load["errors"] == {}
    assert load["acknowledged"] == 50 * ROUNDS * load["at_once"]
    assert load["recorded"] == load["acknowledged"]
    assert (load["lost"], load["told_twice"], load["handed_to_two"], load["unaccounted"]) == (0, 0, 0, 0)


@pytest.mark.torture
def test_load_is_held_by_two_servers() -> None:
    command = [sys.executable, str(BENCHMARK), "--held", "--json", "--seconds", "3", "--servers", "2"]
    few = ["--workers", "6", "--watchers", "20", "--arms", "200"]
    run = subprocess.run([*command, *few], capture_output=True, text=True, timeout=4 * PATIENCE)
    assert run.returncode == 0, run.stderr[-3000:]
    held = json.loads(run.stdout)
    assert (held["errors"], held["watchers_at_the_end"]) == ({}, 20)
    assert held["ask"]["requests"] == held["tell"]["requests"] >= 6
    # Each watcher has seen how things stood, at least.
    assert held["events"] >= 20
    assert len(held["memory_first"]) == len(held["memory_last"]) == 2
