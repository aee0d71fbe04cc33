"""Several processes on one study, of which one is killed now and then, until the study has its answer.

They are forked by a separate process that has imported everything, so a kill costs only milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import bestarm as ba
from bestarm.storage.opening import open_storage
from tests.torture.seen import replayed

ROOT = Path(__file__).parents[2]
"""Where `python -m` finds the package `tests`."""

DELTA = 1e-6
"""Each study may err with this probability. A run makes a few dozen studies, so it fails for this reason at most once
in 10,000 runs."""

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


def acknowledge(file: int, study: str, test: ba.Test, value: float) -> None:
    """Write down that a result is safe, in a file that outlives this process."""
    os.write(file, f"{json.dumps([study, test.id, value])}\n".encode())


def _work(url: str, name: str, file: int, rng: random.Random) -> None:
    """Ask and tell, sometimes singly and sometimes in batches; now and then fail or give back."""
    study = ba.Study.open(name, storage=url)
    while not study.done:
        tests = study.ask(rng.randint(1, 4), lease=0.3)
        if not tests:
            time.sleep(0.02)
        kind = rng.random()
        if kind < 0.1 and tests:
            study.fail(tests.pop(), "exit status 1")
        elif kind < 0.2 and tests:
            study.release([tests.pop()])
        results = [(test, measure(name, test)) for test in tests]
        # A worker that is slower than its lease may find that somebody else has the test.
        if kind < 0.4:
            with contextlib.suppress(ba.AlreadyTold):
                study.tell_many(results)
                for test, value in results:
                    acknowledge(file, name, test, value)
        else:
            for test, value in results:
                with contextlib.suppress(ba.AlreadyTold):
                    study.tell(test, value)
                    acknowledge(file, name, test, value)


def _tell_for_others(url: str, name: str, file: int, rng: random.Random) -> None:
    """Tell whatever is pending, whoever holds it."""
    study = ba.Study.open(name, storage=url)
    while not study.done:
        for test, _ in study.pending():
            value = measure(name, test)
            study.tell(test, value)
            acknowledge(file, name, test, value)
        time.sleep(rng.uniform(0, 0.1))


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


def kill_and_kill(url: str, acknowledged: str, kills: int, seed: int = 5, seconds: float = float("inf")) -> None:
    """Work on one study after another with processes that are killed, until there were enough kills."""
    rng = random.Random(seed)
    file = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    until = time.monotonic() + seconds
    killed = finished = failed = studies = 0
    while killed < kills and time.monotonic() < until:
        studies += 1
        name, policy = f"study {studies}", POLICIES[(studies - 1) % len(POLICIES)]
        study = ba.Study.create(problem(), name=name, delta=DELTA, policy=policy, storage=url, seed=0)
        study.storage.close()
        alive: list[int] = []
        done = False
        while alive or not done:
            while not done and len(alive) < 4:
                role = _tell_for_others if rng.random() < 0.2 else _work
                alive.append(_fork(role, url, name, file, rng.getrandbits(32)))
            time.sleep(rng.uniform(0, 0.05))
            if killed < kills and not done and time.monotonic() < until:
                os.kill(rng.choice(alive), signal.SIGKILL)
            for child in list(alive):
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    alive.remove(child)
                    killed += os.WIFSIGNALED(status)
                    finished += status == 0
                    failed += os.WIFEXITED(status) and status != 0
                    done = done or os.WIFEXITED(status)
    print(json.dumps({"killed": killed, "finished": finished, "failed": failed, "studies": studies}))


class Outcome(NamedTuple):
    """How it went; `wrong` says what is wrong, by kind."""

    killed: int
    finished: int
    studies: int
    acknowledged: int
    wrong: list[tuple[str, str]]


def run(url: str, acknowledged: Path, kills: int, *, seed: int = 5, seconds: float = 1e9, patience: float) -> Outcome:
    """Kill in a separate process, then check that every acknowledged result is there once, and check the answers."""
    ended = subprocess.run(
        [sys.executable, "-m", __name__, url, str(acknowledged), str(kills), str(seed), str(seconds)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )
    if ended.returncode:
        return Outcome(0, 0, 0, 0, [("stuck", ended.stderr)])
    counts = json.loads(ended.stdout)
    lines = [json.loads(line) for line in acknowledged.read_text().splitlines()]
    wrong = [("stuck", ended.stderr)] * counts["failed"] + _wrong(url, lines)
    return Outcome(counts["killed"], counts["finished"], counts["studies"], len(lines), wrong)


def _wrong(url: str, lines: list[tuple[str, int, float]]) -> list[tuple[str, str]]:
    told = {(name, test): value for name, test, value in lines}
    wrong: list[tuple[str, str]] = []
    storage = open_storage(url)
    for record in storage.studies():
        study = ba.Study(storage, record)
        history = list(storage.history(record.key))
        if [row.id for row in history] != list(range(1, len(history) + 1)):
            wrong.append(("stuck", f"{record.name}: the tests are not numbered from 1 on"))
        for row in history:
            test = ba.Test(row.id, study.plan.arm_names[row.arm], study.plan.metrics[row.metric])
            values = [outcome.value for outcome in row.outcomes]
            if len(values) > 1:
                wrong.append(("twice", f"{record.name}, test {row.id}: {values}"))
            right = measure(record.name, test)
            if values and (values[0] != right or told.pop((record.name, row.id), right) != right):
                wrong.append(("lost", f"{record.name}, test {row.id}: has {values}"))
        answer, stop = study.answer, replayed(storage, study).stop
        if answer is None or answer.arm != "safe" or stop is None or stop.arm != 0:
            wrong.append(("stuck", f"{record.name}: the answer is {answer}, by its record {stop}"))
    storage.close()
    wrong += [("lost", f"{name}, test {test}: has no result") for name, test in told]
    if "://" not in url:
        with contextlib.closing(sqlite3.connect(url)) as file:
            for check in ("integrity_check", "foreign_key_check"):
                found = file.execute(f"PRAGMA {check}").fetchall()
                wrong += [("stuck", f"{check}: {found[0]}")] if found not in ([], [("ok",)]) else []
    return wrong


if __name__ == "__main__":
    kill_and_kill(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
