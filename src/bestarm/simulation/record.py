"""A campaign's results on disk: an append-only file of chunks, each line guarded by a checksum.

A line is complete or it does not count: a campaign that was killed while writing one loses only that chunk, and
computes it again.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bestarm.kernel.state import Floats, Ints
from bestarm.parsing import read_json
from bestarm.simulation.schedule import Done, Span
from bestarm.validation import InvalidInput

MOST_RUNS = 10**9
"""The most runs in one cell of a campaign."""


class CellResults(NamedTuple):
    """The runs of one cell; `done` says which of them have been computed."""

    answers: Ints
    tests: Ints
    cost: Floats
    done: np.ndarray[Any, np.dtype[np.bool_]]

    def missing(self) -> list[Span]:
        """The runs that have not been computed, as spans."""
        edges = np.flatnonzero(np.diff(np.concatenate([[True], self.done, [True]]).astype(np.int8)))
        return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def new_results(runs: int) -> CellResults:
    return CellResults(np.zeros(runs, np.int64), np.zeros(runs, np.int64), np.zeros(runs), np.zeros(runs, np.bool_))


def _line(cell: str, done: Done) -> str:
    outcomes = done.chunk.outcomes
    data = json.dumps(
        {
            "cell": cell,
            "first": done.piece.first,
            "answers": outcomes.answers.tolist(),
            "tests": outcomes.tests.tolist(),
            "cost": outcomes.cost.tolist(),
            "seconds": done.chunk.seconds,
        }
    )
    return f"{zlib.crc32(data.encode()):08x} {data}\n"


def _parse(line: bytes) -> dict[str, Any]:
    checksum, _, data = line.partition(b" ")
    if int(checksum, 16) != zlib.crc32(data):
        raise ValueError("checksum")
    chunk = read_json(data)
    if not isinstance(chunk, dict):
        raise ValueError("no table of fields")
    return chunk


class Record:
    """The file of chunks. Opening it reads its contents and cuts off an incomplete last line."""

    def __init__(self, path: Path, cells: Sequence[str], runs: int) -> None:
        self._path = path
        self.results = {cell: new_results(runs) for cell in cells}
        self.seconds = dict.fromkeys(cells, 0.0)
        self._read()
        self._file = path.open("ab")

    def _read(self) -> None:
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        complete = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:complete].splitlines(), start=1):
            try:
                chunk = _parse(line)
                self._enter(chunk)
            except (ValueError, KeyError, TypeError, OverflowError):
                raise InvalidInput(
                    f"{self._path}, line {number}, is damaged; delete that line and its runs will be computed again "
                    "(all other lines are kept)"
                ) from None
        if complete < len(content):
            with self._path.open("r+b") as file:
                file.truncate(complete)

    def _enter(self, chunk: dict[str, Any]) -> None:
        results = self.results.get(chunk["cell"])
        if results is None:
            raise ValueError("cell")
        first, runs = chunk["first"], len(results.answers)
        if type(first) is not int or not 0 <= first < MOST_RUNS:
            raise ValueError("first")
        columns = [chunk[name] for name in ("answers", "tests", "cost")]
        if len({len(column) for column in columns}) != 1 or not all(isinstance(column, list) for column in columns):
            raise ValueError("columns")
        answers, tests = ([int(x) for x in column if type(x) is int] for column in columns[:2])
        cost = [float(x) for x in columns[2] if type(x) in (int, float)]
        if not len(answers) == len(tests) == len(cost) == len(columns[0]):
            raise ValueError("numbers")
        seconds = float(chunk["seconds"])
        if not (all(map(math.isfinite, cost)) and math.isfinite(seconds) and seconds >= 0.0):
            raise ValueError("numbers")
        # A campaign of fewer runs than an earlier one in the same folder uses the first of them.
        part = slice(first, max(first, min(first + len(answers), runs)))
        size = part.stop - part.start
        # Convert before entering anything: a line counts as a whole or not at all.
        new = np.array(answers[:size], np.int64), np.array(tests[:size], np.int64), np.array(cost[:size])
        results.answers[part], results.tests[part], results.cost[part] = new
        results.done[part] = True
        self.seconds[chunk["cell"]] += seconds

    def append(self, cell: str, done: Done) -> None:
        """Save a chunk. When this returns, it is on disk."""
        line = _line(cell, done)
        self._file.write(line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._enter(_parse(line.rstrip("\n").encode()))

    def close(self) -> None:
        self._file.close()
