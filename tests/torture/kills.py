"""Processes killed in the middle of everything that writes.

For each kill, a child is forked from a process that has imported everything and has no database open. The child says
when it is about to write. It is then killed after a time that is spread over the whole length of such a call, or kills
itself after one of its statements, before a commit, or before it can say that it is done.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import sqlalchemy as sa

from tests.torture.deeds import Deed, Facts
from tests.torture.trials import Here, Trials, opened

_SECONDS, _STATEMENTS = 0.005, 8
"""How long a call takes, and how many statements it has, until better numbers are known."""


class _Trap:
    """Kills this process after a number of statements, commits included, counted from when it is set."""

    def __init__(self) -> None:
        self.left = -1
        self.passed = 0

    def __call__(self, *_: object, **__: object) -> None:
        self.passed += 1
        if self.left >= 0:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Died(NamedTuple):
    """What a child was still able to say."""

    facts: Facts | None
    """None if it failed before the call."""
    answered: bool
    seconds: float
    statements: int
    error: str


def _child(trials: Trials, deed: Deed, mark: int, seed: int, statement: int | None, out: int) -> None:
    trap = _Trap()
    for event in ("after_cursor_execute", "commit"):
        sa.event.listen(sa.Engine, event, trap)
    with opened(trials.url) as storage:
        place = Here(storage, trials.name, mark)
        facts = deed.prepare(place, random.Random(seed), mark)
        place.study.request = f"key {mark}"
        os.write(out, f"{json.dumps({'facts': facts})}\n".encode())
        trap.passed, trap.left = 0, -1 if statement is None else statement
        began = time.monotonic()
        deed.do(place, facts)
        seconds = time.monotonic() - began
        statements, trap.left = trap.passed, -1
        os.write(out, f"{json.dumps({'seconds': seconds, 'statements': statements})}\n".encode())
        if statement is not None:
            # As late as possible: it is done, and nobody has heard of it.
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(out, b'{"answered": true}\n')


def _fork(work: Callable[[int], None]) -> tuple[int, int]:
    """A child's id, and where to read what it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(reading)
        work(writing)
    except BaseException:
        os.write(writing, f"{json.dumps({'error': traceback.format_exc()[-600:]})}\n".encode())
    os._exit(0)


def kill_once(trials: Trials, deed: Deed, mark: int, *, after: float | None, statement: int | None) -> Died:
    """Let a child do it, and kill it `after` so many seconds or after a statement. With neither, let it live."""
    seed = trials.rng.getrandbits(32)
    child, reading = _fork(lambda out: _child(trials, deed, mark, seed, statement, out))
    with os.fdopen(reading, "rb") as said:
        lines = [said.readline()]
        if after is not None and lines[0]:
            time.sleep(after)
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines += said.read().splitlines()
    heard: dict[str, Any] = {}
    for line in lines:
        if line.strip():
            heard |= json.loads(line)
    return Died(
        heard.get("facts"),
        "answered" in heard,
        heard.get("seconds", 0.0),
        heard.get("statements", 0),
        heard.get("error", ""),
    )


def run(trials: Trials, kills: int, until: float) -> None:
    """A number of kills, or as many as there is time for."""
    seconds: defaultdict[str, deque[float]] = defaultdict(lambda: deque([_SECONDS], maxlen=9))
    statements: defaultdict[str, int] = defaultdict(lambda: _STATEMENTS)
    while trials.row.goes_on(kills, until):
        deed, mark = trials.next()
        after, statement = None, None
        if trials.rng.random() < 0.5:
            statement = trials.rng.randint(0, statements[deed.name])
        else:
            after = trials.rng.uniform(0.0, 1.2 * statistics.median(seconds[deed.name]))
        died = kill_once(trials, deed, mark, after=after, statement=statement)
        if died.facts is None or died.error:
            trials.row.times += 1
            trials.row.complain("stuck", f"{trials.name}, {deed.name}: {died.error}")
            continue
        if died.statements:
            seconds[deed.name].append(died.seconds)
            statements[deed.name] = died.statements
        trials.settle(deed, died.facts, mark, died.answered)
    trials.finish()
