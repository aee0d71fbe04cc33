"""`bestarm forecast`: how many tests a study will take."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from bestarm.cli.shared.arguments import (
    AsJson,
    BoundName,
    Delta,
    Device,
    Executor,
    MaxTests,
    PolicyName,
    Runs,
    Seed,
    Workers,
)
from bestarm.cli.shared.command import command
from bestarm.cli.shared.opening import load_plan
from bestarm.cli.shared.show import literal, print_json

if TYPE_CHECKING:
    from bestarm.simulation.forecast import Forecast


@command(place=30)
def forecast(
    source: Annotated[
        str, typer.Argument(metavar="INSTANCE|FILE", help="A study file with guessed means or ranges of them.")
    ],
    policy: PolicyName = None,
    bound: BoundName = None,
    delta: Delta = None,
    runs: Runs = 1000,
    seed: Seed = 0,
    max_tests: MaxTests = 10**8,
    executor: Executor = None,
    workers: Workers = None,
    device: Device = "cpu",
    plot: Annotated[Path | None, typer.Option(help="Write a plot here (.png; SVG and data beside it).")] = None,
    as_json: AsJson = False,
) -> None:
    """How many tests a study will take and what it will cost, from guessed means."""
    from bestarm.cli.shared.progress import progress_bar, runs_progress
    from bestarm.simulation import forecast as forecaster

    plan = load_plan(source)
    stem = None if plot is None else _checked(plot)
    with progress_bar() as bar:
        result = forecaster.forecast(
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
    """A stem for the chart's files. Errors are raised now, not after the simulation."""
    from bestarm.analysis.drawing import require_plots
    from bestarm.validation import InvalidInput

    if not plot.name or plot.is_dir():
        raise InvalidInput("plot", str(plot), "must be a file to write, such as forecast.png, not a folder")
    if not plot.parent.is_dir():
        raise InvalidInput("plot", str(plot), f"the folder {str(plot.parent)!r} does not exist")
    require_plots()
    # Any other suffix is part of the name.
    return plot if plot.suffix in (".png", ".svg", ".csv") else plot.with_name(f"{plot.name}.png")


def _drawn(result: Forecast, stem: Path) -> list[Path]:
    from bestarm.analysis.drawing import save
    from bestarm.analysis.forecast_chart import forecast_chart
    from bestarm.validation import InvalidInput

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
    if math.isnan(result.lower_bound):
        words += " What anyone needs is not computed; `bestarm theory` says why."
    return words


def _within(result: Forecast, share: float) -> str:
    """Within how many tests this share of the studies, a half or nine tenths, ends."""
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
    if math.isnan(number):
        return "not computed"
    return "infinite" if math.isinf(number) else f"{number:,.0f}"
