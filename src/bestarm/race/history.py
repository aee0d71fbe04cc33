"""The verdicts of gates over time: a file to which each gate adds a line of JSON, and what is read from it.

A line has the words and figures that `--export-json` has of the same gate. Nothing is claimed about how lines differ.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import bestarm
from bestarm.parsing import read_text
from bestarm.race.conclusions import conclusion_of
from bestarm.race.limits_found import LimitFound
from bestarm.race.result import Found, RaceResult
from bestarm.validation import InvalidInput

Line = dict[str, Any]

COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA")
"""Where pipelines say which commit they are about."""
NO_CLAIM = (
    "Each line is a verdict about two programs, measured in turns on one machine. Nothing is claimed about how lines "
    "differ: machines differ, and no probability of error covers a trend."
)
_FIGURES = ("at_most", "candidate", "baseline", "ratio", "low", "high")
_NEEDED = {"time": str, "study": str, "found": str, "limits_found": list}


def line_of(result: RaceResult) -> Line:
    """What the history keeps of a gate."""
    baseline, candidate = result.contestants
    # Where a race starts over, its studies are numbered.
    study = re.sub(r" \(\d+\)$", "", result.plan.name)
    machine = ", ".join(filter(None, result.machines))
    return line_about(conclusion_of(result), study, baseline.command, candidate.command, machine)


def line_about(conclusion: Mapping[str, Any], study: str, baseline: str, candidate: str, machine: str = "") -> Line:
    """The same, of any gate."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": machine or platform.node(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "study": study,
        "baseline": baseline,
        "candidate": candidate,
        **conclusion,
        "version": bestarm.__version__,
    }


def _commit() -> str | None:
    for name in COMMITS:
        if os.environ.get(name):
            return os.environ[name]
    with contextlib.suppress(OSError):
        said = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        return said.stdout.strip() or None
    return None


def check(path: Path) -> None:
    """Raise an error if no line can be added, before anything is measured."""
    with _opened(path):
        pass


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line: all of it or nothing, also where several gates do so at once."""
    data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
    with _opened(path) as file, _alone(file):
        before = file.seek(0, os.SEEK_END)
        if before and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
            data = b"\n" + data  # after a line that was cut off
        try:
            if file.write(data) < len(data):
                raise OSError(None, "no room")
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[io.FileIO]:
    try:
        with path.open("ab+", buffering=0) as file:
            yield file
    except OSError as error:
        raise InvalidInput("--history", str(path), f"cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def _alone(file: io.FileIO) -> Iterator[None]:
    """Keep other gates from adding a line meanwhile, where the system has such locks. Where it has none, a line is
    still written at once."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def read(path: Path) -> tuple[list[Line], int]:
    """The lines, the oldest first, and how many cannot be read, since they were cut off or are something else."""
    try:
        texts = read_text(path, errors="replace").splitlines()
    except OSError as error:
        raise InvalidInput("FILE", str(path), f"cannot be read: {error.strerror or error}") from None
    found = [line for text in texts if text.strip() for line in [_line_in(text)]]
    lines = [line for line in found if line is not None]
    if found and not lines:
        raise InvalidInput("FILE", str(path), "has no line that --history of a gate wrote")
    return lines, len(found) - len(lines)


def _line_in(text: str) -> Line | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_one = isinstance(line, dict) and all(isinstance(line.get(name), kind) for name, kind in _NEEDED.items())
    return line if is_one and line["found"] in get_args(Found) and all(map(_is_limit, line["limits_found"])) else None


def _is_limit(limit: Any) -> bool:
    is_known = isinstance(limit, dict) and all(
        isinstance(limit.get(name), str) for name in ("limit", "metric", "verdict")
    )
    return (
        is_known
        and isinstance(limit.get("is_relative"), bool)
        and all(isinstance(limit.get(name, ""), int | float | None) for name in _FIGURES)
    )


def limit_in(limit: Mapping[str, Any]) -> LimitFound:
    """A limit as a line has it. What later versions may add is left out."""
    names = [field.name for field in dataclasses.fields(LimitFound)]
    return LimitFound(**{name: limit[name] for name in names if name in limit})


def by_limit(lines: Sequence[Line]) -> dict[tuple[str, str], list[tuple[Line, Line]]]:
    """By study and limit: each line, and what it says of the limit."""
    found: dict[tuple[str, str], list[tuple[Line, Line]]] = {}
    for line in lines:
        for limit in line["limits_found"]:
            found.setdefault((line["study"], limit["limit"]), []).append((line, limit))
    return found


def figure_of(limit: Mapping[str, Any]) -> float | None:
    """What is followed over time: the ratio if a limit is a multiple of the baseline, else what was measured."""
    found = limit_in(limit)
    return found.ratio if found.is_multiple else found.candidate


def verdict_on(line: Line, limit: Line) -> str:
    """What a gate found of one of its limits: it "holds", is "violated" or "open", or all of the gate is "void"."""
    found: str = "void" if line["found"] == "void" else limit["verdict"]
    return found


def as_otava(lines: Sequence[Line]) -> str:
    """A table for Apache Otava: a column for each limit of the newest line that any line has a figure of, and a row for
    each line that has all of them. All lines must be of one study."""
    if len({line["study"] for line in lines}) > 1:
        raise InvalidInput("--otava", "several studies", "takes one study a file; choose it with --study")
    found = [{limit["limit"]: figure_of(limit) for limit in line["limits_found"]} for line in lines]
    columns = [name for name in found[-1] if any(one.get(name) is not None for one in found)] if found else []
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(["time", "commit", *columns])
    for line, figures in zip(lines, found, strict=True):
        cells = [figures.get(column) for column in columns]
        # Every cell must be a number there.
        if None not in cells:
            writer.writerow([line["time"], line.get("commit") or "", *cells])
    return rows.getvalue()


def as_bencher(lines: Sequence[Line]) -> str:
    """The latest line of each study in the Bencher Metric Format."""
    latest = {line["study"]: line for line in lines}
    found = {
        study: {limit["limit"]: values for limit in line["limits_found"] if (values := _bencher_values(limit))}
        for study, line in latest.items()
    }
    return json.dumps({study: measures for study, measures in found.items() if measures}, indent=2, ensure_ascii=False)


def _bencher_values(limit: Mapping[str, Any]) -> dict[str, float]:
    figures = {"value": figure_of(limit), "lower_value": limit["low"], "upper_value": limit["high"]}
    return {} if figures["value"] is None else {name: at for name, at in figures.items() if at is not None}
