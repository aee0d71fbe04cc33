"""Nothing acknowledged is lost: processes killed at random moments, disks that fill up, servers that stop."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import bestarm as ba
from bestarm.study.decider import Decider
from bestarm.study.storage import StorageError, open_storage
from bestarm.testing.patience import PATIENCE
from bestarm.testing.postgres import PostgresServer, StopMode

KILLS = 200
DELTA = 1e-6
"""Each study may err with this probability, and a crash test makes some tens of studies: it fails for that reason once
in 10,000 runs at most."""

POLICIES = ("certify", "feasible-lucb")
MEANS = {"safe": (1.0, -1.0), "bold": (2.0, 1.0), "poor": (0.0, -1.0)}


def problem() -> ba.Problem:
    """Its answer is "safe"."""
    return ba.Problem(
        arms=tuple(ba.Arm(name, {"gain": gain, "risk": risk}) for name, (gain, risk) in MEANS.items()),
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("risk", 0.0, noise=ba.Gaussian(1.0)),),
    )


def measure(study: str, test: ba.Test) -> float:
    """The same value whoever measures it, so that the record can be checked."""
    noise = np.random.default_rng([*study.encode(), test.id]).normal()
    return MEANS[test.arm][("gain", "risk").index(test.metric)] + float(noise)


# --------------------------------------------------------------------------------- processes that are killed
# They run in a process of their own, which has everything imported and forks them: a kill then costs milliseconds.


def _acknowledge(file: int, study: str, test: ba.Test, value: float) -> None:
    os.write(file, f"{json.dumps([study, test.id, value])}\n".encode())


def _work(url: str, name: str, file: int, lots: random.Random) -> None:
    """Ask and tell, now alone, now in batches; sometimes fail or give back."""
    study = ba.Study.open(name, storage=url)
    while not study.done:
        tests = study.ask(lots.randint(1, 4), lease=0.3)
        if not tests:
            time.sleep(0.005)
        kind = lots.random()
        if kind < 0.1 and tests:
            study.fail(tests.pop(), "exit status 1")
        elif kind < 0.2 and tests:
            study.release([tests.pop()])
        results = [(test, measure(name, test)) for test in tests]
        # Who is slower than the lease may find that somebody else has the test.
        if kind < 0.4:
            with contextlib.suppress(ba.AlreadyTold):
                study.tell_many(results)
                for test, value in results:
                    _acknowledge(file, name, test, value)
        else:
            for test, value in results:
                with contextlib.suppress(ba.AlreadyTold):
                    study.tell(test, value)
                    _acknowledge(file, name, test, value)


def _tell_for_others(url: str, name: str, file: int, lots: random.Random) -> None:
    """Tell whatever is pending, whoever holds it."""
    study = ba.Study.open(name, storage=url)
    while not study.done:
        for test, _ in study.pending():
            value = measure(name, test)
            study.tell(test, value)
            _acknowledge(file, name, test, value)
        time.sleep(lots.uniform(0, 0.03))


def _fork(work: Callable[[str, str, int, random.Random], None], url: str, name: str, file: int, seed: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work(url, name, file, random.Random(seed))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def kill_and_kill(url: str, acknowledged: str, kills: int) -> None:
    """Studies one after the other, worked on by processes that are killed, until there were enough kills."""
    lots = random.Random(5)
    file = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    killed = finished = failed = studies = 0
    while killed < kills:
        studies += 1
        name, policy = f"study {studies}", POLICIES[studies % 2]
        study = ba.Study.create(problem(), name=name, delta=DELTA, policy=policy, storage=url)
        study.storage.close()
        alive: list[int] = []
        done = False
        while alive or not done:
            while not done and len(alive) < 4:
                role = _tell_for_others if lots.random() < 0.2 else _work
                alive.append(_fork(role, url, name, file, lots.getrandbits(32)))
            time.sleep(lots.uniform(0, 0.05))
            if killed < kills and not done:
                os.kill(lots.choice(alive), signal.SIGKILL)
            for child in list(alive):
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    alive.remove(child)
                    killed += os.WIFSIGNALED(status)
                    finished += status == 0
                    failed += os.WIFEXITED(status) and status != 0
                    done = done or os.WIFEXITED(status)
    print(json.dumps({"killed": killed, "finished": finished, "failed": failed, "studies": studies}))


def test_killed_processes_lose_nothing(database_url: str, tmp_path: Path) -> None:
    acknowledged = tmp_path / "acknowledged"
    began = time.monotonic()
    run = subprocess.run(
        [sys.executable, __file__, database_url, str(acknowledged), str(KILLS)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 0, run.stderr
    counts = json.loads(run.stdout)
    assert counts["killed"] >= KILLS
    assert counts["failed"] == 0, run.stderr
    assert counts["finished"] >= counts["studies"]
    lines = [json.loads(line) for line in acknowledged.read_text().splitlines()]
    print(f"{counts}, {len(lines)} acknowledged results in {time.monotonic() - began:.1f} s")
    assert len(lines) > 10 * counts["studies"]
    told = {(name, test): value for name, test, value in lines}
    storage = open_storage(database_url)
    recorded = 0
    for record in storage.studies():
        study = ba.Study(storage, record)
        history = list(storage.history(record.key))
        assert [row.id for row in history] == list(range(1, len(history) + 1))
        for row in history:
            assert len(row.outcomes) <= 1
            test = ba.Test(row.id, study.plan.arm_names[row.arm], study.plan.metrics[row.metric])
            for outcome in row.outcomes:
                assert outcome.value == measure(record.name, test)
                assert told.pop((record.name, row.id), outcome.value) == outcome.value
                recorded += 1
        answer = study.answer
        assert answer is not None
        assert answer.arm == "safe"
        decider = Decider(study.plan, record.seed)
        for part in storage.entries(record.key, 0):
            decider.enter(part)
        assert decider.stop == (0,)
    assert not told, f"{len(told)} acknowledged results are lost, such as {next(iter(told))}"
    assert recorded >= len({(name, test) for name, test, _ in lines})
    storage.close()
    if "://" not in database_url:
        file = sqlite3.connect(database_url)
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert file.execute("PRAGMA foreign_key_check").fetchall() == []
        file.close()


# ---------------------------------------------------------------------------------------------- full disks


def fill_up(path: str, acknowledged: str) -> None:
    """Tell results until the disk is full, then free space, and go on with the same study to its end."""
    study = ba.Study.create(problem(), delta=DELTA, policy="certify", storage=path)
    file = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    ballast = Path(path).with_name("ballast")
    errors: list[str] = []
    while not study.done:
        if not errors and ballast.exists():
            with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as heap:
                heap.write(b"x" * 20_000)
        try:
            tests = study.ask(3, lease=0.001)
            for test in tests:
                value = measure(study.name, test)
                study.tell(test, value)
                _acknowledge(file, study.name, test, value)
        except StorageError as error:
            errors.append(str(error))
            if len(errors) == 3:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                ballast.unlink(missing_ok=True)
    assert study.answer is not None
    print(json.dumps({"errors": errors, "answer": study.answer.arm}))
    study.storage.close()


def _check_after_filling(run: subprocess.CompletedProcess[str], path: Path, acknowledged: Path, words: str) -> None:
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["answer"] == "safe"
    assert len(result["errors"]) == 3
    for error in result["errors"]:
        assert words in error
        assert "nothing acknowledged is lost" in error
        assert "\n" not in error
    lines = [json.loads(line) for line in acknowledged.read_text().splitlines()]
    assert lines
    study = ba.Study.open("study", storage=path)
    for _, test, value in lines:
        found = study.storage.test(study.record.key, test)
        assert found is not None
        assert found[1] is not None
        assert found[1].value == value
    file = sqlite3.connect(path)
    assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    file.close()
    study.storage.close()


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """A limit on the size of files stands for a quota."""
    path, acknowledged = tmp_path / "studies.db", tmp_path / "acknowledged"
    run = subprocess.run(
        [sys.executable, __file__, "limit", str(path), str(acknowledged)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    _check_after_filling(run, path, acknowledged, "disk")


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """On a file system of 16 MB, mounted where only the child sees it, and nearly filled by something else."""
    mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    script = 'mount -t tmpfs -o size=16m none "$1" && shift && "$@"'
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    kept.mkdir()
    if not shutil.which("unshare") or subprocess.run([*mounted, script, "sh", disk, "true"]).returncode:
        pytest.skip("this machine does not let us mount a small file system")
    acknowledged = tmp_path / "acknowledged"
    worker = [sys.executable, __file__, "full", str(disk / "studies.db"), str(acknowledged), str(kept)]
    run = subprocess.run([*mounted, script, "sh", disk, *worker], capture_output=True, text=True, timeout=PATIENCE)
    _check_after_filling(run, kept / "studies.db", acknowledged, "the disk is full")


# ------------------------------------------------------------------------------------- servers that stop


@pytest.fixture
def own_server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """One to stop and start: a server with few databases, which recovers soon."""
    server = PostgresServer(postgres_server.programs)
    yield server
    server.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_stops_and_starts(own_server: PostgresServer, mode: StopMode) -> None:
    """The same objects go on, in mid-ask and mid-tell, and nothing acknowledged is lost."""
    url = own_server.new_database()
    study = ba.Study.create(problem(), delta=DELTA, policy="certify", storage=url)
    told: dict[int, float] = {}
    stops = 0
    while not study.done:
        tests = study.ask(5, lease=0.001)
        if stops < 4 and len(told) > 20 * stops:
            stops += 1
            own_server.stop(mode)
            attempts: list[Callable[[], object]] = [
                functools.partial(study.tell, tests[0], measure(study.name, tests[0])),
                functools.partial(study.tell_many, [(tests[0], 0.0)]),
                lambda: study.ask(1),
                lambda: study.done,
                lambda: ba.Study.open(study.name, storage=url),
            ]
            for attempt in attempts:
                with pytest.raises(StorageError) as caught:
                    attempt()
                assert "the database server" in str(caught.value)
                assert "\n" not in str(caught.value)
                assert "only-for-tests" not in str(caught.value)
            own_server.start()
        for test in tests:
            told[test.id] = measure(study.name, test)
            study.tell(test, told[test.id])
    assert stops == 4
    assert study.answer is not None
    assert study.answer.arm == "safe"
    fresh = ba.Study.open(study.name, storage=url)
    for number, value in told.items():
        found = fresh.storage.test(fresh.record.key, number)
        assert found is not None
        assert found[1] is not None
        assert found[1].value == value
    study.storage.close()
    fresh.storage.close()


def test_a_server_that_stops_within_a_transaction(own_server: PostgresServer) -> None:
    """An ask that was cut off leaves no trace."""
    url = own_server.new_database()
    study = ba.Study.create(problem(), delta=DELTA, storage=url)
    storage, key = study.storage, study.record.key

    def plan(count: int) -> list[list[tuple[int, int]]]:
        own_server.stop("immediate")
        return [[(0, 0)]]

    with pytest.raises(StorageError, match="the database server stopped"):
        storage.hand_out(key, 1, "ann", 100.0, 0, plan)
    own_server.start()
    assert storage.issued(key) == 0
    assert [test.id for test in study.ask(2)] == [1, 2]
    storage.close()


if __name__ == "__main__":
    if sys.argv[1] in ("limit", "full"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        path = Path(sys.argv[2])
        if sys.argv[1] == "limit":
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, hard))
        else:
            path.with_name("ballast").write_bytes(b"x" * 15_500_000)
        fill_up(str(path), sys.argv[3])
        if sys.argv[1] == "full":
            # The small file system ends with this process; a closed database is one file.
            shutil.copy(path, sys.argv[4])
    else:
        kill_and_kill(sys.argv[1], sys.argv[2], int(sys.argv[3]))
