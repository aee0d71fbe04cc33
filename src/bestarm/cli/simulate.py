"""`bestarm simulate`, `theory`, `forecast`, `campaign` and `paper`: what studies cost, without making a test."""

from __future__ import annotations

import dataclasses
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bestarm.cli.shared.arguments import AsJson, Delta
from bestarm.cli.shared.command import command
from bestarm.cli.shared.opening import load_plan
from bestarm.cli.shared.show import literal, print_json, rows_table
from bestarm.errors import InvalidInput

if TYPE_CHECKING:
    from bestarm.policies.base import Policy
    from bestarm.simulation.forecast import Forecast
    from bestarm.theory import Theory

MaxTests = Annotated[int, typer.Option(help="Tests after which a run is given up as unfinished.")]


@dataclasses.dataclass(frozen=True)
class Computing:
    """The options that say how simulations are computed."""

    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same runs.")] = 0
    executor: Annotated[
        str | None, typer.Option(help="Where to compute: threads (default), processes, dask:ADDRESS or ray:ADDRESS.")
    ] = None
    workers: Annotated[int | None, typer.Option(help="Threads or processes; all cores by default.")] = None
    device: Annotated[
        str, typer.Option(help="cpu, cuda (a CUDA card), or auto: a card if there is one and the job is large.")
    ] = "cpu"


@dataclasses.dataclass(frozen=True)
class Simulating:
    """The options that say what is simulated of one plan."""

    bound: Annotated[str | None, typer.Option(help="Confidence bound: paper, lil or mixture.")] = None
    delta: Delta = None
    runs: Annotated[int, typer.Option(help="How many studies to simulate.")] = 1000
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter of the policy; may be given several times."),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The same as `simulate` and `forecast` take them."""
        given = vars(self).copy()
        given["options"] = _options(given.pop("option"))
        return given


def _options(texts: list[str] | None) -> dict[str, Any] | None:
    """The parameters of a policy, or None if none is given."""
    from bestarm.parsing import read_parameter

    options: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput("option", text, "must be written as NAME=VALUE")
        if name in options:
            raise InvalidInput("option", text, f"{name} is given twice")
        options[name] = read_parameter(value)
    return options or None


@command(place=10)
def simulate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INSTANCE|FILE", help="A built-in instance (exp1-a, drug, …) or a study file with means."
        ),
    ],
    policy: Annotated[
        str | None, typer.Option(help="Policy, by name or as FILE.py:CLASS; the study's own by default.")
    ] = None,
    *,
    simulating: Simulating,
    max_tests: MaxTests = 10**9,
    checkpoints: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Also print what the runs would answer after so many tests: error, regret."),
    ] = None,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Simulate many studies and count tests and errors."""
    from bestarm.cli.shared.simulations import progress_bar, runs_progress
    from bestarm.simulation import simulate as simulator

    plan = load_plan(source)
    with progress_bar() as bar:
        result = simulator.simulate(
            plan,
            policy=None if policy is None else _chosen_policy(policy),
            max_tests=max_tests,
            keep_streams=False,
            checkpoints=None if checkpoints is None else _whole_numbers("checkpoints", checkpoints),
            progress=runs_progress(bar, simulating.runs),
            **simulating.arguments(),
            **vars(computing),
        )
    if as_json:
        print_json(result.summary())
    else:
        Console().print(rows_table(simulator.simulation_title(result), simulator.simulation_rows(result)))


def _whole_numbers(field: str, text: str) -> list[int]:
    """Numbers with commas between them."""
    from bestarm.parsing import read_whole

    try:
        return [read_whole(part) for part in text.split(",")]
    except ValueError as error:
        raise InvalidInput(field, text, f"{error}, or several with commas between them, as in 200,400,800") from None


def _chosen_policy(text: str) -> str | type[Policy]:
    """A policy's name, or the class that FILE.py:CLASS names."""
    from bestarm.policies.from_file import load_policy, names_a_file

    return load_policy(text) if names_a_file(text) else text


@command(place=20)
def theory(
    source: Annotated[str, typer.Argument(metavar="INSTANCE|FILE", help="A built-in instance or a study file.")],
    delta: Delta = None,
    as_json: AsJson = False,
) -> None:
    """How hard a problem is: complexity terms, lower and upper bounds, the best allocation of tests."""
    from bestarm.theory import analyze

    plan = load_plan(source)
    if delta is not None:
        plan = dataclasses.replace(plan, delta=delta)
    result = analyze(plan, plan.delta)
    if as_json:
        print_json(result.summary())
        return
    console = Console()
    rows = [
        ("answer", "no feasible arm" if result.answer is None else result.answer),
        ("delta", f"{plan.delta:g}"),
        ("H, the paper's complexity", _number(result.H)),
        ("tests any method needs (Theorem 1)", _number(result.lower_bound)),
        ("tests Algorithm 1 may need (Theorem 2)", _number(result.upper_bound)),
        ("T*, cost per unit of log(1/delta)", _number(result.characteristic_time)),
        ("cost any method needs, T* kl(delta, 1 - delta)", _number(result.kl_bound)),
    ]
    console.print(rows_table(f"{plan.name}: what it costs to know", rows))
    console.print(_hardness(result))
    console.print(_allocation(result))
    for note in result.not_computed:
        console.print(literal(note), highlight=False, soft_wrap=True)


def _hardness(theory: Theory) -> Table:
    table = Table(title="How hard the arms are", title_justify="left")
    table.add_column("arm")
    for heading in ("feasible", "set"):
        table.add_column(heading, justify="center")
    for heading in ("theta", "phi", "H"):
        table.add_column(heading, justify="right")
    for arm in theory.arms:
        sizes = (_number(arm.theta), _number(arm.phi), _number(arm.H))
        table.add_row(literal(arm.name), "yes" if arm.feasible else "no", arm.set, *sizes)
    return table


def _allocation(theory: Theory) -> Table:
    table = Table(title="How an oracle spreads its tests, in %", title_justify="left")
    table.add_column("arm")
    for metric in theory.metrics:
        table.add_column(literal(metric), justify="right")
    for arm, shares in zip(theory.arms, theory.allocation, strict=True):
        cells = ("–" if math.isnan(share) or share == 0.0 else f"{100 * share:.2f}" for share in shares)
        table.add_row(literal(arm.name), *cells)
    return table


def _number(number: float) -> str:
    if math.isnan(number):
        return "not computed"
    if math.isinf(number):
        return "infinite"
    return f"{number:,.0f}" if number >= 10_000 else f"{number:,.4g}"


@command(place=30)
def forecast(
    source: Annotated[
        str, typer.Argument(metavar="INSTANCE|FILE", help="A study file with guessed means or ranges of them.")
    ],
    policy: Annotated[str | None, typer.Option(help="Policy, by name; the study's own by default.")] = None,
    *,
    simulating: Simulating,
    max_tests: MaxTests = 10**8,
    computing: Computing,
    plot: Annotated[Path | None, typer.Option(help="Write a plot here (.png; SVG, PDF and data beside it).")] = None,
    as_json: AsJson = False,
) -> None:
    """How many tests a study will take and what it will cost, from guessed means."""
    from bestarm.cli.shared.simulations import progress_bar, runs_progress
    from bestarm.simulation import forecast as forecaster

    plan = load_plan(source)
    stem = None if plot is None else _checked(plot)
    with progress_bar() as bar:
        result = forecaster.forecast(
            plan,
            policy=policy,
            max_tests=max_tests,
            progress=runs_progress(bar, simulating.runs),
            **simulating.arguments(),
            **vars(computing),
        )
    files = [] if stem is None else _drawn(result, stem)
    if as_json:
        print_json(result.summary())
        return
    console = Console()
    console.print(rows_table(forecaster.forecast_title(result), forecaster.forecast_rows(result)))
    streams = Table(title=literal(forecaster.stream_title(result)), title_justify="left")
    for k, head in enumerate(forecaster.stream_heads(result)):
        streams.add_column(literal(head), justify="right" if k else "left")
    *arms, together = forecaster.stream_rows(result)
    for row in arms:
        streams.add_row(*map(literal, row))
    streams.add_section()
    streams.add_row(*map(literal, together))
    console.print(streams)
    console.print(forecaster.forecast_words(result), highlight=False)
    if files:
        console.print(f"Plot: {', '.join(literal(str(file)) for file in files)}", highlight=False, soft_wrap=True)


def _checked(plot: Path) -> Path:
    """A stem for the chart's files. Errors are raised now, not after the simulation."""
    from bestarm.analysis.charts.drawing import require_plots

    if not plot.name or plot.is_dir():
        raise InvalidInput("plot", str(plot), "must be a file to write, such as forecast.png, not a folder")
    if not plot.parent.is_dir():
        raise InvalidInput("plot", str(plot), f"the folder {str(plot.parent)!r} does not exist")
    require_plots()
    # Any other suffix is part of the name.
    return plot if plot.suffix in (".png", ".svg", ".pdf", ".csv") else plot.with_name(f"{plot.name}.png")


def _drawn(result: Forecast, stem: Path) -> list[Path]:
    from bestarm.analysis.charts.drawing import save
    from bestarm.analysis.charts.forecast_chart import forecast_chart

    try:
        return save(forecast_chart(result), stem)
    except OSError as error:
        raise InvalidInput("plot", str(stem), f"cannot be written: {error.strerror or error}") from error


@command(place=40)
def campaign(
    sources: Annotated[list[str], typer.Argument(metavar="INSTANCE|FILE...", help="Instances or study files.")],
    out: Annotated[Path, typer.Option(help="Folder for results; an interrupted campaign there continues.")],
    policy: Annotated[
        list[str] | None, typer.Option(help="Policy, or FILE.py:CLASS; may be given several times.")
    ] = None,
    bound: Annotated[list[str] | None, typer.Option(help="Confidence bound; may be given several times.")] = None,
    delta: Annotated[list[float] | None, typer.Option(help="Delta; may be given several times.")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each combination.")] = 1000,
    max_tests: MaxTests = 10**9,
    *,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Simulate every combination of instances, policies, bounds and deltas; interrupted, it continues."""
    from bestarm.cli.shared.simulations import campaign_progress, campaign_table, progress_bar
    from bestarm.simulation.campaign import Campaign

    plans = [load_plan(source) for source in sources]
    how = vars(computing).copy()
    grid = Campaign.grid(
        plans,
        policies=[_chosen_policy(text) for text in policy or []] or list(dict.fromkeys(plan.policy for plan in plans)),
        bounds=bound,
        deltas=delta,
        runs=runs,
        seed=how.pop("seed"),
        max_tests=max_tests,
    )
    with progress_bar() as bar:
        result = grid.run(out, progress=campaign_progress(bar, "campaign"), **how)
    if as_json:
        print_json(result.summary())
    else:
        console = Console()
        console.print(campaign_table(result))
        console.print(literal(f"Every run is in {out / 'runs.csv'}, this table in {out / 'summary.csv'}."))


@command(place=50)
def paper(
    experiment: Annotated[str, typer.Argument(help="table1, figure2, drug, bounds or all.")],
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and the page.")] = Path("reproduction"),
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A policy in addition to the paper's five: certify, or FILE.py:CLASS; several times."),
    ] = None,
    runs: Annotated[int, typer.Option(help="Runs of each simulation.")] = 100,
    with_performance_first: Annotated[
        bool, typer.Option("--with-performance-first", help="Run performance-first on drug too (hours).")
    ] = False,
    *,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper's tables and figures, beside its own figures and the theory."""
    from bestarm.cli.shared.simulations import campaign_progress, campaign_table, progress_bar
    from bestarm.paper.reproduce import reproduce

    start = time.monotonic()
    with progress_bar() as bar:
        results = reproduce(
            experiment,
            out,
            runs=runs,
            slow_drug_policies=with_performance_first,
            policies=[_chosen_policy(text) for text in policy or []],
            progress=lambda name: campaign_progress(bar, name),
            **vars(computing),
        )
    if as_json:
        print_json({name: result.summary() for name, result in results.items()})
        return
    console = Console()
    for name, result in results.items():
        table = campaign_table(result)
        table.title, table.title_justify = name, "left"
        console.print(table)
    console.print(literal(f"Page: {out / 'paper.html'}") + f" (and paper.md), after {time.monotonic() - start:.0f} s.")
