"""`bestarm forecast`: how many tests a study will take."""

from __future__ import annotations

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
from bestarm.cli.shared.show import literal, print_json, rows_table

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
    from bestarm.simulation.forecast import forecast_rows, forecast_title, forecast_words

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
    console.print(rows_table(forecast_title(result), forecast_rows(result)))
    console.print(_streams(result))
    console.print(forecast_words(result), highlight=False)
    if files:
        console.print(f"Plot: {', '.join(literal(str(file)) for file in files)}", highlight=False, soft_wrap=True)


def _checked(plot: Path) -> Path:
    """A stem for the chart's files. Errors are raised now, not after the simulation."""
    from bestarm.analysis.charts.drawing import require_plots
    from bestarm.validation import InvalidInput

    if not plot.name or plot.is_dir():
        raise InvalidInput("plot", str(plot), "must be a file to write, such as forecast.png, not a folder")
    if not plot.parent.is_dir():
        raise InvalidInput("plot", str(plot), f"the folder {str(plot.parent)!r} does not exist")
    require_plots()
    # Any other suffix is part of the name.
    return plot if plot.suffix in (".png", ".svg", ".csv") else plot.with_name(f"{plot.name}.png")


def _drawn(result: Forecast, stem: Path) -> list[Path]:
    from bestarm.analysis.charts.drawing import save
    from bestarm.analysis.charts.forecast_chart import forecast_chart
    from bestarm.validation import InvalidInput

    try:
        return save(forecast_chart(result), stem)
    except OSError as error:
        raise InvalidInput("plot", str(stem), f"cannot be written: {error.strerror or error}") from error


def _streams(result: Forecast) -> Table:
    from bestarm.simulation.forecast import stream_heads, stream_rows

    table = Table(title="Mean tests by arm and metric", title_justify="left")
    for k, head in enumerate(stream_heads(result)):
        table.add_column(literal(head), justify="right" if k else "left")
    *arms, together = stream_rows(result)
    for row in arms:
        table.add_row(*map(literal, row))
    table.add_section()
    table.add_row(*map(literal, together))
    return table
