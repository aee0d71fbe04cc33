"""Campaigns killed while they write a line: everything that was written is read back, and nothing else is missing."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np

from bestarm.simulation.loop import Chunk, Outcomes
from bestarm.simulation.record import Record
from bestarm.simulation.schedule import Done, Piece
from tests.torture.results import Row

RUNS = 100_000
_CELL = "a cell"


def _done(first: int, size: int) -> Done:
    runs = np.arange(first, first + size)
    outcomes = Outcomes(
        runs % 3, runs + 1, (runs * 0.5).astype(np.float64), np.zeros((0, 0, 0), np.int64), np.zeros((0, 0), np.int64)
    )
    return Done(Piece(0, first, size), Chunk(outcomes, 0.01))


def _append(path: Path, out: int, rng: random.Random) -> None:
    record = Record(path, [_CELL], RUNS)
    spans = record.results[_CELL].missing()
    while True:
        first = spans[0][0]
        size = min(rng.choice([1, 50, 2000]), spans[0][1] - first)
        os.write(out, b"begin\n")
        record.append(_CELL, _done(first, size))
        os.write(out, f"{json.dumps([first, size])}\n".encode())
        spans = record.results[_CELL].missing()


def run(row: Row, folder: Path, rng: random.Random, times: int, until: float) -> None:
    """Kill the process that appends; then read everything that was there before."""
    path, written, files = folder / "0.jsonl", [], 0
    while row.goes_on(times, until):
        reading, writing = os.pipe()
        seed = rng.getrandbits(32)
        child = os.fork()
        if not child:
            try:
                os.close(reading)
                _append(path, writing, random.Random(seed))
            finally:
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading, "rb") as said:
            first = said.readline()
            time.sleep(rng.uniform(0.0, 0.01))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            lines = [first, *said.read().splitlines()]
        row.times += 1
        written += [json.loads(line) for line in lines if line.strip() not in (b"begin", b"")]
        try:
            record = Record(path, [_CELL], RUNS)
        except Exception as error:
            row.complain("stuck", f"{type(error).__name__}: {error}")
            record = None
        if record is not None:
            results = record.results[_CELL]
            record.close()
            there = np.flatnonzero(results.done)
            if (results.tests[there] != there + 1).any() or (results.cost[there] != there * 0.5).any():
                row.complain("torn", "other numbers than were written")
            missing = [first for first, size in written if not results.done[first : first + size].all()]
            if missing:
                row.complain("lost", f"runs from {missing[0]} on")
        if record is None or there.size > RUNS // 2:
            files += 1
            path, written = folder / f"{files}.jsonl", []
