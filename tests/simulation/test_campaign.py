"""Campaigns: the same numbers on every executor, through kills, lost workers and damaged files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lengths import lengths
from tests.program import Ended, bestarm
from tests.tools.patience import PATIENCE, wait_until

import bestarm as ba
from bestarm.simulation.campaign import COLUMNS, Campaign
from bestarm.simulation.executors import open_workers
from bestarm.simulation.record import new_results
from bestarm.simulation.schedule import LostWorkers, Schedule

GRID = ("exp1-a", "exp2-k4", "--policy", "feasible-lucb", "--policy", "racing", "--delta", "0.1", "--delta", "0.01")


def small(runs: int = 12, seed: int = 0) -> Campaign:
    plans = [ba.instance("exp1-a"), ba.instance("exp2-k4")]
    return Campaign.grid(plans, policies=["feasible-lucb", "racing"], deltas=[0.1, 0.01], runs=runs, seed=seed)


def in_a_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, as on a cluster."""
    command = [sys.executable, "-m", "bestarm", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The campaign in one go on threads."""
    folder = tmp_path_factory.mktemp("reference")
    small().run(folder)
    return folder


def test_tables(reference: Path) -> None:
    lines = (reference / "runs.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert len(lines) == 1 + 8 * 12
    assert lines[1].startswith("exp1-a,feasible-lucb,paper,0.1,0,arm 5,")
    summary = (reference / "summary.csv").read_text().splitlines()
    assert summary[0].startswith("instance,policy,bound,delta,runs,seed,mean_tests")
    assert len(summary) == 1 + 8


def test_numbers_are_those_of_simulate(reference: Path) -> None:
    result = small().run(reference)
    direct = ba.simulate(ba.instance("exp2-k4"), policy="racing", delta=0.01, runs=12)
    ours = result.find("exp2-k4", "racing", delta=0.01)
    assert (ours.tests == direct.tests).all()
    assert (ours.answers == direct.answers).all()
    frame = result.frame()
    assert list(frame.columns) == list(COLUMNS)
    assert frame["tests"].sum() == sum(s.tests.sum() for s in result.simulations)


@pytest.mark.parts("pyarrow")
def test_parquet_where_pyarrow_is(reference: Path) -> None:
    import pandas as pd

    table = pd.read_parquet(reference / "runs.parquet")
    assert list(table.columns) == list(COLUMNS)
    assert len(table) == 8 * 12


@pytest.mark.torture
@pytest.mark.parametrize("workers", [1, *lengths(2, 3)])
def test_processes_and_any_number_of_workers(reference: Path, tmp_path: Path, workers: int) -> None:
    executor = "threads" if workers == 1 else "processes"
    small().run(tmp_path, executor=executor, workers=workers)
    assert (tmp_path / "runs.csv").read_text() == (reference / "runs.csv").read_text()


@pytest.fixture
def dask_cluster(tmp_path: Path) -> Iterator[str]:
    """A scheduler and two workers, each a process of its own."""
    address_file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    place = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(address_file)]
    processes = [subprocess.Popen([*dask, "scheduler", "--port", "0", *place], **quiet)]
    try:
        wait_until(address_file.exists, "the Dask scheduler did not start")
        for _ in range(2):
            worker = [*dask, "worker", "--nthreads", "1", "--nworkers", "1", *place]
            processes.append(subprocess.Popen(worker, **quiet))
        yield json.loads(address_file.read_text())["address"]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_dask_cluster(dask_cluster: str, reference: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = in_a_process("campaign", *GRID, "--runs", "12", "--out", str(out), "--executor", f"dask:{dask_cluster}")
    assert result.returncode == 0, result.stderr
    assert (out / "runs.csv").read_text() == (reference / "runs.csv").read_text()


@pytest.mark.parts("ray")
def test_ray(reference: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = in_a_process("campaign", *GRID, "--runs", "12", "--out", str(out), "--executor", "ray:")
    assert result.returncode == 0, result.stderr
    assert (out / "runs.csv").read_text() == (reference / "runs.csv").read_text()


LONG_GRID = ("exp1-b", "exp1-c", "--policy", "racing", "--policy", "feasibility-first", "--runs", "200")


@pytest.fixture(scope="module")
def long_reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that is long enough to be killed, in one go."""
    folder = tmp_path_factory.mktemp("long")
    assert bestarm("campaign", *LONG_GRID, "--out", str(folder)).code == 0
    return folder


DASK, RAY = pytest.mark.parts("distributed"), pytest.mark.parts("ray")
AT_LENGTH = [
    pytest.param(kind, marks=[pytest.mark.torture, *more])
    for kind, *more in (("processes",), ("threads",), ("dask", DASK), ("ray", RAY))
]
"""Long campaigns on workers of every kind. `test_torture.py` kills and resumes many short ones."""


@pytest.mark.parametrize("kind", AT_LENGTH)
def test_killed_half_way_and_resumed(
    tmp_path: Path,
    kind: str,
    long_reference: Path,
    until_written: Callable[..., None],
    request: pytest.FixtureRequest,
) -> None:
    """SIGKILL in the middle; what was on the disk stays, and the end is the same to the last byte.

    What was resumed is killed once more where it starts quickest: how the workers were lost makes no difference to it.
    """
    executor = kind
    if kind == "dask":
        executor = f"dask:{request.getfixturevalue('dask_cluster')}"
    elif kind == "ray":
        executor = "ray:"
    broken = tmp_path / "broken"
    command = [sys.executable, "-m", "bestarm", "campaign", *LONG_GRID, "--out", str(broken), "--executor", executor]
    chunks = broken / "chunks.jsonl"
    kept = b""
    for enough in (2, 4) if kind == "threads" else (3,):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        until_written(chunks, enough, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert chunks.read_bytes().startswith(kept)
        kept = chunks.read_bytes()[: chunks.read_bytes().rfind(b"\n") + 1]
        assert not (broken / "runs.csv").exists()
    if kind == "processes":
        # On threads of this process, which start sooner: who computes the rest makes no difference either.
        resumed = bestarm("campaign", *LONG_GRID, "--out", str(broken))
    else:
        ended = in_a_process(*command[3:])
        resumed = Ended(ended.returncode, ended.stdout, ended.stderr)
    assert resumed.code == 0, resumed.err
    assert chunks.read_bytes().startswith(kept)
    assert (broken / "runs.csv").read_text() == (long_reference / "runs.csv").read_text()


def test_a_finished_campaign_computes_nothing_again(reference: Path) -> None:
    before = (reference / "chunks.jsonl").read_bytes()
    calls: list[tuple[int, int, float | None]] = []
    small().run(reference, progress=lambda *call: calls.append(call))
    assert calls == []
    assert (reference / "chunks.jsonl").read_bytes() == before


def test_more_runs_continue_and_fewer_are_a_part(tmp_path: Path) -> None:
    few = small(runs=3).run(tmp_path)
    many = small(runs=8).run(tmp_path)
    part = small(runs=2).run(tmp_path)
    for one, other, third in zip(few.simulations, many.simulations, part.simulations, strict=True):
        assert (one.tests == other.tests[:3]).all()
        assert (third.tests == other.tests[:2]).all()
    lines = (tmp_path / "chunks.jsonl").read_text().splitlines()
    assert sum(len(json.loads(line[9:])["tests"]) for line in lines) == 8 * 8


def test_a_torn_last_line_is_computed_again(tmp_path: Path) -> None:
    small(runs=3).run(tmp_path)
    table, chunks = (tmp_path / "runs.csv").read_text(), tmp_path / "chunks.jsonl"
    chunks.write_bytes(chunks.read_bytes()[:-25])
    small(runs=3).run(tmp_path)
    assert (tmp_path / "runs.csv").read_text() == table
    small(runs=3).run(tmp_path)


def test_a_damaged_line_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    small(runs=3).run(tmp_path)
    table, chunks = (tmp_path / "runs.csv").read_text(), tmp_path / "chunks.jsonl"
    lines = chunks.read_text().splitlines(keepends=True)
    damaged = "".join([*lines[:4], lines[4].replace('"first"', '"fist"'), *lines[5:]])
    chunks.write_text(damaged)
    result = bestarm("campaign", *GRID, "--runs", "3", "--out", str(tmp_path))
    assert result.code == 2
    assert result.err.strip().endswith("(all other lines are kept)")
    assert f"{chunks}, line 5, is damaged; delete that line" in result.err
    assert chunks.read_text() == damaged
    # Do as the message says.
    chunks.write_text("".join([*lines[:4], *lines[5:]]))
    small(runs=3).run(tmp_path)
    assert (tmp_path / "runs.csv").read_text() == table


def test_a_folder_with_another_campaign_is_refused(tmp_path: Path) -> None:
    small(runs=2).run(tmp_path)
    before = sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir())
    with pytest.raises(ba.InvalidInput, match="holds another campaign \\(its seed differ\\)"):
        small(runs=2, seed=1).run(tmp_path)
    assert sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir()) == before


def test_bad_input_is_one_line_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "campaign.json").write_text("{")
    for arguments, message in [
        (("--out", str(tmp_path / "file")), "cannot be written"),
        (("--out", str(tmp_path / "odd")), "campaign.json is damaged"),
        (("--out", str(tmp_path / "x"), "--executor", "cluster"), "must be threads, processes, dask:ADDRESS or ray:"),
        (("--out", str(tmp_path / "x"), "--executor", "dask:"), "must be threads, processes, dask:ADDRESS or ray:"),
        (("--out", str(tmp_path / "x"), "--policy", "best"), "policy = 'best': no such policy"),
        (("--out", str(tmp_path / "x"), "--runs", "0"), "runs = 0: must be a whole number"),
        (("--out", str(tmp_path / "x"), "--policy", "racing", "--policy", "racing"), "twice"),
        ((), "Missing option '--out'"),
    ]:
        result = bestarm("campaign", "exp1-a", *arguments)
        assert result.code == 2, arguments
        assert message in " ".join(result.err.split())
        assert "Traceback" not in result.err


@pytest.mark.parametrize("kind", [pytest.param("dask", marks=DASK), pytest.param("ray", marks=RAY)])
def test_an_unreachable_scheduler_is_one_line(kind: str, tmp_path: Path) -> None:
    options = ("--runs", "1", "--out", str(tmp_path), "--executor", f"{kind}:127.0.0.1:1")
    result = in_a_process("campaign", "exp1-a", *options)
    assert result.returncode == 2
    assert f"executor = '{kind}:127.0.0.1:1': nothing answers there" in result.stderr
    assert "Traceback" not in result.stderr


class Flaky(Executor):
    """Loses the worker of every third chunk."""

    def __init__(self, always: bool = False) -> None:
        self._threads = ThreadPoolExecutor(2)
        self._count = 0
        self._always = always

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        self._count += 1
        if self._always or self._count % 3 == 0:
            lost: Future[Any] = Future()
            lost.set_exception(ConnectionResetError("worker gone"))
            return lost
        return self._threads.submit(function, *arguments, **options)


def test_a_lost_workers_chunk_is_run_again(reference: Path, tmp_path: Path) -> None:
    small().run(tmp_path, executor=Flaky(), workers=2)
    assert (tmp_path / "runs.csv").read_text() == (reference / "runs.csv").read_text()


def test_workers_that_are_always_lost_are_given_up(tmp_path: Path) -> None:
    with pytest.raises(LostWorkers, match="lost their worker 3 times: worker gone"):
        small(runs=2).run(tmp_path, executor=Flaky(always=True), workers=2)


@pytest.mark.torture
def test_a_killed_process_is_replaced(tmp_path: Path, reference: Path) -> None:
    """A worker process kills itself in its first chunk; the pool is made anew and the chunk run again."""
    campaign = small()
    pool = open_workers("processes", 2)
    victim = pool._executor.submit(os.getpid).result()
    os.kill(victim, signal.SIGKILL)
    try:
        done = list(Schedule(campaign.jobs(), [[(0, 12)]] * 8, pool, 1.0))
    finally:
        pool.close()
    tests = np.zeros((8, 12), np.int64)
    for piece, chunk in done:
        tests[piece.job, piece.first : piece.first + piece.runs] = chunk.outcomes.tests
    expected = [simulation.tests for simulation in campaign.run(reference).simulations]
    assert (tests == np.array(expected)).all()


def test_an_error_in_a_policy_is_not_taken_for_a_lost_worker() -> None:
    class Broken(ba.Policy):
        """Fails."""

        name = "broken"

        def propose(self) -> list[tuple[int, int]] | ba.Stop:
            raise ZeroDivisionError("mistake in the policy")

    with pytest.raises(ZeroDivisionError, match="mistake in the policy"):
        ba.simulate(ba.instance("exp1-a"), policy=Broken, runs=4)


def test_missing_runs_as_spans() -> None:
    results = new_results(10)
    assert results.missing() == [(0, 10)]
    results.done[[0, 1, 5, 9]] = True
    assert results.missing() == [(2, 5), (6, 9)]
    results.done[:] = True
    assert results.missing() == []
