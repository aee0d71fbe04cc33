"""A plug-in for pytest: with the fixture `bestarm_gate` a test passes only if a function is certainly quick enough.

Every run of pytest loads this file, so nothing is imported here that takes long.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

STORE = "bestarm-baselines.json"
_ROW = "bestarm_row"
"""The property of a test that has a row of the table, as JSON: reports of other processes carry it here."""
_STORED_BATCHES = 30


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("bestarm", "certified benchmarks (bestarm)")
    group.addoption("--bestarm-runs", type=int, default=1000, metavar="N", help="most measurements of one gate")
    group.addoption("--bestarm-seconds", type=float, default=60.0, metavar="S", help="most seconds of one gate")
    group.addoption(
        "--bestarm-undecided",
        choices=("skip", "fail", "pass"),
        default="skip",
        help="what a test is whose budget is spent before anything is certain, or whose guarantee is void",
    )
    group.addoption(
        "--bestarm-ignore-health",
        action="store_true",
        help="decide tests as if results did not contradict what the guarantee rests on",
    )
    group.addoption("--bestarm-save", action="store_true", help="measure stored baselines again")
    group.addoption("--bestarm-history", metavar="FILE", help="add a line with the verdict of each gate to this file")
    group.addoption("--bestarm-store", default=STORE, metavar="FILE", help=f"where baselines are stored ({STORE})")


def pytest_configure(config: pytest.Config) -> None:
    # Whatever else is called so, such as the fixture of pytest-benchmark, goes first.
    if not any(hasattr(plugin, "benchmark") for plugin in config.pluginmanager.get_plugins()):
        config.pluginmanager.register(OwnBenchmark(), "bestarm-benchmark")
        config.addinivalue_line("markers", "benchmark: for pytest-benchmark; bestarm's own fixture ignores it")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """A skip points at the test, not at this file."""
    outcome = yield
    report = outcome.get_result()
    if isinstance(report.longrepr, tuple) and report.longrepr[0] == __file__:
        path, line, _ = item.reportinfo()
        report.longrepr = (os.fspath(path), (line or 0) + 1, report.longrepr[2])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows = [
        (getattr(report, "start", 0.0), report.nodeid, json.loads(row))
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, row in (getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ())
        if name == _ROW
    ]
    if rows:
        from bestarm.race.pytest_table import table

        rows.sort(key=lambda row: row[0])
        terminalreporter.section("bestarm: seconds of a call, and gates")
        terminalreporter.write_line(table([(name, row) for _, name, row in rows]))


class OwnBenchmark:
    """The fixture for tests that were written for pytest-benchmark, where that is not installed."""

    @pytest.fixture
    def benchmark(self, request: pytest.FixtureRequest) -> Any:
        """Call it as `benchmark(function, *args, **kwargs)`: it returns what the function does, and its figures are in
        the table at the end. `benchmark.pedantic` takes rounds, iterations and a setup."""
        from bestarm.race.function_benchmark import FunctionBenchmark

        return FunctionBenchmark(lambda figures: _note_row(request, figures))


def _note_row(request: pytest.FixtureRequest, row: Mapping[str, Any]) -> None:
    request.node.user_properties.append((_ROW, json.dumps(row)))


@pytest.fixture
def bestarm_gate(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call it as `bestarm_gate(new, baseline=old, at_most=1.05)`: the test passes if it is certain that a call of `new`
    takes at most 1.05 times as long as one of `old`, fails if it is certain that it takes longer, and is skipped if the
    budget is spent before either is certain, or if the measurements contradict what the guarantee rests on.

    With `stored="a name"` in place of `baseline`, the function is compared with what it took when the baseline of that
    name was stored, on the same machine: the first time, or with `--bestarm-save`.
    """

    def measure(
        candidate: Callable[[], Any],
        baseline: Callable[[], Any] | None = None,
        *,
        at_most: float,
        stored: str | None = None,
        delta: float = 0.05,
        runs: int | None = None,
        seconds: float | None = None,
        seed: int | None = None,
    ) -> Any:
        from bestarm.race.function_benchmark import figures_of_times
        from bestarm.race.functions import gate

        options = request.config.option
        if (baseline is None) == (stored is None):
            raise TypeError("bestarm_gate needs either baseline=FUNCTION or stored=NAME")
        limit: Any = baseline
        if stored is not None:
            limit = _stored(Path(request.config.rootpath) / options.bestarm_store, stored, candidate, request)
        found = gate(
            candidate,
            limit,
            at_most=at_most,
            delta=delta,
            runs=options.bestarm_runs if runs is None else runs,
            seconds=options.bestarm_seconds if seconds is None else seconds,
            seed=seed,
        )
        exact = "" if stored is None else " The stored time counts as exact: on a machine with other load it is wrong."
        said = f"{found.sentence}{exact} The order of measurements was drawn with seed={found.seed}."
        request.node.user_properties.append(("bestarm", f"{found.found}: {said}"))
        figures = figures_of_times(found.times) if found.times else {}
        of_gate = {name: getattr(found, name) for name in ("found", "at_most", "ratio", "low", "high")}
        _note_row(request, {**figures, **of_gate})
        if options.bestarm_history is not None:
            from bestarm.race.history import append, line_about

            against = "the function before" if stored is None else f"stored: {stored}"
            line = line_about(found.to_dict(), request.node.nodeid, against, "the function now")
            append(Path(request.config.rootpath) / options.bestarm_history, line)
        decided = found.decided if options.bestarm_ignore_health else found.found
        if decided == "refuted":
            pytest.fail(said, pytrace=False)
        if decided in ("undecided", "void") and options.bestarm_undecided != "pass":
            # Neither a pass nor a failure.
            end = pytest.skip if options.bestarm_undecided == "skip" else pytest.fail
            end(said)
        return found

    return measure


def _stored(file: Path, name: str, candidate: Callable[[], Any], request: pytest.FixtureRequest) -> float:
    """Seconds of a call as they were stored. If there are none, they are measured and stored, and the test ends."""
    from bestarm.race.functions import FunctionRunner

    kept: dict[str, float] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if name in kept and not request.config.option.bestarm_save:
        return kept[name]
    called = FunctionRunner({name: candidate})
    kept[name] = sum(called.run([name], None).time for _ in range(_STORED_BATCHES)) / _STORED_BATCHES
    file.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    pytest.skip(f"the baseline {name!r} is stored: {kept[name]:.4g} s a call; there is nothing to compare it with yet")
