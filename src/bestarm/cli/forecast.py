"""`bestarm forecast`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bestarm.analysis.chart import Chart, Panel, Series
from bestarm.analysis.drawing import require_plots, save
from bestarm.cli.app import print_json
from bestarm.cli.progress import progress_bar, runs_progress
from bestarm.cli.show import literal
from bestarm.kernel.state import Ints
from bestarm.plan import Plan
from bestarm.simulation.forecast import Forecast, forecast
from bestarm.validation import InvalidInput

_MOST_TICKS = 8


def run(
    plan: Plan,
    policy: str | None,
    bound: str | None,
    delta: float | None,
    runs: int,
    seed: int,
    max_tests: int,
    executor: str | None,
    workers: int | None,
    device: str,
    plot: Path | None,
    as_json: bool,
) -> None:
    stem = None if plot is None else _checked(plot)
    with progress_bar() as bar:
        result = forecast(
            plan,
            policy=policy,
            bound=bound,
            delta=delta,
            runs=runs,
            seed=seed,
            max_tests=max_tests,
            executor=executor,
            workers=workers,
            device=device,
            progress=runs_progress(bar, runs),
        )
    files = [] if stem is None else _drawn(result, stem)
    if as_json:
        print_json(result.summary())
        return
    console = Console()
    console.print(_figures(result))
    console.print(_streams(result))
    console.print(_in_words(result), highlight=False)
    if files:
        console.print(f"Plot: {', '.join(literal(str(file)) for file in files)}", highlight=False, soft_wrap=True)


def _checked(plot: Path) -> Path:
    """A stem for the chart's files. Complains now, not after the simulation."""
    if not plot.name or plot.is_dir():
        raise InvalidInput("plot", str(plot), "must be a file to write, such as forecast.png, not a folder")
    if not plot.parent.is_dir():
        raise InvalidInput("plot", str(plot), f"the folder {str(plot.parent)!r} does not exist")
    require_plots()
    # Whatever else follows a dot belongs to the name.
    return plot if plot.suffix in (".png", ".svg", ".csv") else plot.with_name(f"{plot.name}.png")


def _drawn(result: Forecast, stem: Path) -> list[Path]:
    try:
        return save(forecast_chart(result), stem)
    except OSError as error:
        raise InvalidInput("plot", str(stem), f"cannot be written: {error.strerror or error}") from error


def _in_words(result: Forecast) -> str:
    typical, most = _within(result, 0.5), _within(result, 0.9)
    words = f"Half of such studies end within {typical} tests, 9 in 10 within {most}."
    if result.unfinished:
        words += (
            f" {result.unfinished:,} of {result.runs:,} had no answer after {_limit(result)} and were given up, "
            "as happens near a tie or a threshold. They count as ended there, so the means are too low."
        )
    return words


def _within(result: Forecast, share: float) -> str:
    """The tests within which this share of the studies, a half or nine tenths, end."""
    tests = result.median_tests if share == 0.5 else result.p90_tests
    return f"{tests:,.0f}" if result.finished.mean() >= share else f"more than {tests:,.0f}"


def _limit(result: Forecast) -> str:
    tests, cost = f"{result.max_tests:,} tests", result.plan.max_cost
    return tests if math.isinf(cost) else f"{tests} or at a cost of {cost:,g}"


def _figures(result: Forecast) -> Table:
    table = Table(title=f"{literal(result.plan.name)}: what it will take", show_header=False, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    worlds = "means as given" if result.worlds == 1 else f"{result.worlds} draws of means"
    table.add_row("simulated studies", f"{result.runs:,} (seed {result.seed}), {worlds}")
    table.add_row("policy, delta, bound", f"{literal(result.policy)}, {result.delta:g}, {literal(result.plan.bound)}")
    table.add_row("tests: mean", f"{result.mean_tests:,.0f}")
    table.add_row("tests: half of the studies, 9 in 10", f"{_within(result, 0.5)}, {_within(result, 0.9)}")
    table.add_row("cost: mean", f"{result.mean_cost:,.0f}")
    table.add_row("cost: half of the studies, 9 in 10", f"{result.median_cost:,.0f}, {result.p90_cost:,.0f}")
    table.add_row("tests anyone needs (Theorem 1)", _number(result.lower_bound))
    table.add_row("tests, if their number is fixed", _number(result.fixed_sample_tests))
    if result.unfinished:
        table.add_row("unfinished", f"{result.unfinished:,} (stopped after {_limit(result)})")
    answers = sorted(result.answers.items(), key=lambda item: -item[1])
    for k, (answer, share) in enumerate(answers):
        name = "no feasible arm" if answer == "none" else literal(answer)
        table.add_row("answers" if k == 0 else "", f"{name}: {100 * share:.3g} %")
    table.add_row("wrong answers", f"{100 * result.error_rate:.3g} %")
    return table


def _streams(result: Forecast) -> Table:
    table = Table(title="Mean tests by arm and metric", title_justify="left")
    table.add_column("arm")
    for metric in (*map(literal, result.plan.metrics), "all"):
        table.add_column(metric, justify="right")
    for name, tests in zip(result.plan.arm_names, result.per_stream, strict=True):
        table.add_row(literal(name), *(f"{number:,.0f}" for number in (*tests, tests.sum())))
    table.add_section()
    table.add_row("all", *(f"{number:,.0f}" for number in (*result.per_metric.values(), result.mean_tests)))
    return table


def _number(number: float) -> str:
    return "infinite" if math.isinf(number) else f"{number:,.0f}"


def forecast_chart(result: Forecast) -> Chart:
    """How many studies are done after so many tests, and what the tests are spent on."""
    per_metric = result.per_metric
    only = next(iter(per_metric)) if len(per_metric) == 1 else None
    return Chart(
        title=f"{result.plan.name}: forecast",
        panels=(
            _done_panel(result),
            Panel(
                title="Tests per metric" if only is None else f"Tests of {only}",
                x_label="metric" if only is None else "",
                y_label="mean tests",
                series=(Series("mean tests", tuple(per_metric), tuple(per_metric.values())),),
                bars=True,
            ),
        ),
    )


def _done_panel(result: Forecast) -> Panel:
    finished = result.tests[result.finished]
    seen = finished if len(finished) else result.tests
    low, high = int(seen.min()), int(seen.max())
    decades = high >= 10 * low
    # Few points: every one gets a marker, and on a logarithmic axis a label.
    at = _round_numbers(low, high) if decades else _quantiles(seen)
    share = [100.0 * int(np.count_nonzero(finished <= tests)) / result.runs for tests in at]
    return Panel(
        title="When studies are done",
        x_label="tests",
        y_label="studies done, %",
        series=(Series("studies done", tuple(map(float, at)), tuple(share)),),
        log_x=decades,
    )


def _quantiles(numbers: Ints) -> list[int]:
    """The least and the largest number and 19 between them, less repetitions."""
    spread: list[int] = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, 21), method="higher")).tolist()
    return spread


def _round_numbers(low: int, high: int) -> list[int]:
    """1, 2, 5, 10, … from `low` or below to `high` or above, or fewer between powers of ten if too many to label."""
    for digits in ((1, 2, 5), (1, 3), (1,)):
        every = [digit * 10**power for power in range(len(str(low)) - 1, len(str(high)) + 1) for digit in digits]
        first = max(k for k, number in enumerate(every) if number <= low)
        last = min(k for k, number in enumerate(every) if number >= high)
        if last - first < _MOST_TICKS:
            break
    return every[first : last + 1]
