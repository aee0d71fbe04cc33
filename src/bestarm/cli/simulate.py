"""`bestarm simulate`: many studies of one plan."""

from __future__ import annotations

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
    from bestarm.simulation.simulate import Simulation


@command(place=10)
def simulate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INSTANCE|FILE", help="A built-in instance (exp1-a, drug, …) or a study file with means."
        ),
    ],
    policy: PolicyName = None,
    bound: BoundName = None,
    delta: Delta = None,
    runs: Runs = 1000,
    seed: Seed = 0,
    max_tests: MaxTests = 10**9,
    executor: Executor = None,
    workers: Workers = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Simulate many studies and count tests and errors."""
    from bestarm.cli.shared.progress import progress_bar, runs_progress
    from bestarm.simulation import simulate as simulator

    plan = load_plan(source)
    with progress_bar() as bar:
        result = simulator.simulate(
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
            keep_streams=False,
            progress=runs_progress(bar, runs),
        )
    if as_json:
        print_json(result.summary())
    else:
        Console().print(_table(result))


def _table(result: Simulation) -> Table:
    table = Table(title=literal(f"{result.plan.name}: {result.policy}"), show_header=False, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    spread = "" if result.runs == 1 else f" ± {result.se_tests:,.1f} (sd {result.sd_tests:,.0f})"
    table.add_row("runs", f"{result.runs:,} (seed {result.seed})")
    table.add_row("delta, bound", f"{result.plan.delta:g}, {result.plan.bound}")
    table.add_row("mean tests", f"{result.mean_tests:,.1f}{spread}")
    table.add_row("mean cost", f"{result.mean_cost:,.1f}")
    table.add_row("wrong answers", f"{result.wrong:,} ({100 * result.error_rate:.3g} %)")
    if result.unfinished:
        table.add_row(
            "unfinished", f"{result.unfinished:,} (stopped at {result.max_tests:,} tests; means include them)"
        )
    counts = sorted(result.answer_counts.items(), key=lambda item: -item[1])
    for k, (answer, count) in enumerate(counts):
        table.add_row(
            "answers" if k == 0 else "", f"{'no feasible arm' if answer == 'none' else literal(answer)}: {count:,}"
        )
    table.add_row("speed", f"{result.tests_per_second / 1e6:,.1f} million tests per second")
    return table
