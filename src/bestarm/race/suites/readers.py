"""What programs of benchmarks write: pytest-benchmark, criterion, google-benchmark, `go test -bench` and Bencher Metric
Format.

A reader returns the time of each benchmark in seconds, for what one run of the program wrote. Where a run measured a
benchmark several times, its median counts.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bestarm.parsing import Malformed, read_json, read_text
from bestarm.race.limits import TIMES
from bestarm.validation import UNSTATED, InvalidInput

Times = dict[str, float]
"""By benchmark: seconds."""

OUTPUT = "{output}"
"""In a command or a variable: the file or folder that the program is to write to."""


@dataclasses.dataclass(frozen=True)
class Suite:
    """A kind of program: what to call it, how it learns where to write, and how that is read."""

    name: str
    read: Callable[[Path], Times]
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Variables of its environment that say where to write. Without any, what it prints is read."""
    is_added: bool = False
    """Whether a variable goes on with options after those that the user has in it."""
    is_folder: bool = False
    """Whether it writes several files, into a folder."""


def suite_of(name: str) -> Suite:
    """The suite of this name.

    >>> suite_of("go").name
    'go'
    """
    if name not in SUITES:
        raise InvalidInput("--suite", name, f"must be one of {', '.join(SUITES)}", tuple(SUITES))
    return SUITES[name]


def _bad(path: Path, reason: str) -> InvalidInput:
    """What to raise for a file. Those that have no name of the program's own are just its output."""
    return InvalidInput("output", path.name if path.suffix else UNSTATED, reason)


def _json(path: Path) -> Any:
    try:
        return read_json(read_text(path, encoding="utf-8-sig"))
    except Malformed as error:
        raise _bad(path, f"is {error}") from None


def _rows(path: Path, program: str) -> list[dict[str, Any]]:
    """The list of benchmarks in a JSON file of one of two programs."""
    data = _json(path)
    rows = data.get("benchmarks") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _bad(path, f"is not what {program} writes: it has no list of benchmarks")
    return rows


def _pytest(path: Path) -> Times:
    """By full name. The statistics are of the rounds of one run."""
    return _unique(path, ((row["fullname"], row["stats"]["median"]) for row in _rows(path, "pytest-benchmark")))


def _google(path: Path) -> Times:
    """Repetitions count with their median. Aggregates count where a run reports nothing else."""
    runs: dict[str, list[float]] = {}
    medians: dict[str, float] = {}
    for row in _rows(path, "google-benchmark"):
        if row.get("error_occurred"):
            raise _bad(path, f"{row['name']} failed: {row.get('error_message')}")
        name = row.get("run_name", row["name"])
        if row.get("skipped") or ("aggregate_name" in row and row["aggregate_name"] != "median"):
            continue
        seconds = row["real_time"] * TIMES[row["time_unit"]]
        if "aggregate_name" in row:
            medians[name] = seconds
        else:
            runs.setdefault(name, []).append(seconds)
    return medians | _medians(runs)


def _criterion(folder: Path) -> Times:
    """The estimated median of each benchmark; without estimates, that of its samples."""
    found = sorted({path.parent for name in ("estimates.json", "sample.json") for path in folder.rglob(f"new/{name}")})
    return _unique(folder, ((_criterion_name(new, folder), _criterion_time(new)) for new in found))


def _criterion_name(new: Path, folder: Path) -> str:
    about = new / "benchmark.json"
    return str(_json(about)["full_id"]) if about.exists() else str(new.parent.relative_to(folder))


def _criterion_time(new: Path) -> float:
    estimates = new / "estimates.json"
    if estimates.exists():
        return float(_json(estimates)["median"]["point_estimate"]) * 1e-9
    samples = _json(new / "sample.json")
    times = [float(time) / float(count) for time, count in zip(samples["times"], samples["iters"], strict=True)]
    return statistics.median(times) * 1e-9


_GO = re.compile(r"(?P<name>Benchmark\S*)\s+[0-9]+\s.*?(?P<ns>[0-9.e+]+) ns/op.*")
_PACKAGE = re.compile(r"pkg: (\S+)")


def _go(path: Path) -> Times:
    """Where there are several packages, the name of a benchmark begins with that of its package."""
    found: dict[tuple[str, str], list[float]] = {}
    package = ""
    for line in read_text(path, errors="replace").splitlines():
        if named := _PACKAGE.fullmatch(line.strip()):
            package = named[1]
        elif row := _GO.fullmatch(line.strip()):
            found.setdefault((package, row["name"]), []).append(float(row["ns"]) * 1e-9)
    has_several = len({package for package, _ in found}) > 1
    return _medians({f"{package}.{name}" if has_several else name: runs for (package, name), runs in found.items()})


_LATENCY = "latency"


def _bencher(path: Path) -> Times:
    """The measure `latency`, in nanoseconds, or a number of seconds."""
    data = _json(path)
    if not isinstance(data, dict):
        raise _bad(path, "must be a JSON object with an entry for each benchmark")
    return dict(_bencher_times(path, data))


def _bencher_times(path: Path, data: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, measures in data.items():
        if not isinstance(measures, dict):
            yield name, measures
        elif _LATENCY in measures:
            yield name, measures[_LATENCY]["value"] * 1e-9
        else:
            reason = f"{name} has no measure {_LATENCY}, only {', '.join(measures) or 'none'}; only times are compared"
            raise _bad(path, reason)


def _medians(runs: Mapping[str, list[float]]) -> Times:
    return {name: statistics.median(values) for name, values in runs.items()}


def _unique(path: Path, rows: Iterator[tuple[str, float]]) -> Times:
    found: Times = {}
    for name, value in rows:
        if name in found:
            raise _bad(path, f"has two benchmarks called {name}; give each a name of its own")
        found[name] = value
    return found


def read(suite: Suite, path: Path) -> Times:
    """The time of each benchmark, checked."""
    try:
        found = suite.read(path)
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise _bad(path, f"is not what the suite {suite.name} writes: {type(error).__name__} {error}") from None
    if not found:
        raise InvalidInput("output", UNSTATED, f"has no benchmark of the suite {suite.name}")
    for name, seconds in found.items():
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 1e-15 < seconds < 1e9:
            raise InvalidInput(name, seconds, "must be a positive number: the time of a benchmark")
    return {name: float(seconds) for name, seconds in found.items()}


SUITES = {
    suite.name: suite
    for suite in (
        Suite("pytest", _pytest, {"PYTEST_ADDOPTS": f"--benchmark-json={OUTPUT}"}, is_added=True),
        Suite("criterion", _criterion, {"CRITERION_HOME": OUTPUT}, is_folder=True),
        Suite("google-benchmark", _google, {"BENCHMARK_OUT": OUTPUT, "BENCHMARK_OUT_FORMAT": "json"}),
        Suite("go", _go),
        Suite("json", _bencher),
    )
}
"""By the name that `--suite` takes."""
