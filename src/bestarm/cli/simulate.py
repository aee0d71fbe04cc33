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
    Runs,
    Seed,
    Workers,
)
from bestarm.cli.shared.command import command
from bestarm.cli.shared.opening import load_plan
from bestarm.cli.shared.policies import chosen_policy
from bestarm.cli.shared.show import print_json, rows_table

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
    policy: Annotated[
        str | None, typer.Option(help="Policy, by name or as FILE.py:CLASS; the study's own by default.")
    ] = None,
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
            policy=None if policy is None else chosen_policy(policy),
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
    from bestarm.simulation.simulate import simulation_rows, simulation_title

    return rows_table(simulation_title(result), simulation_rows(result))
