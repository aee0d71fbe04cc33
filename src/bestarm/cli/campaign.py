"""`bestarm campaign`: many simulations at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bestarm.cli.shared.arguments import AsJson, Device, Executor, MaxTests, Seed, Workers
from bestarm.cli.shared.command import command
from bestarm.cli.shared.opening import load_plan
from bestarm.cli.shared.policies import chosen_policy
from bestarm.cli.shared.show import literal, print_json


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
    seed: Seed = 0,
    max_tests: MaxTests = 10**9,
    executor: Executor = None,
    workers: Workers = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Simulate every combination of instances, policies, bounds and deltas; interrupted, it continues."""
    from bestarm.cli.shared.progress import campaign_progress, progress_bar
    from bestarm.cli.shared.summary import summary_table
    from bestarm.simulation.campaign import Campaign

    plans = [load_plan(source) for source in sources]
    grid = Campaign.grid(
        plans,
        policies=[chosen_policy(text) for text in policy or []] or list(dict.fromkeys(plan.policy for plan in plans)),
        bounds=bound,
        deltas=delta,
        runs=runs,
        seed=seed,
        max_tests=max_tests,
    )
    with progress_bar() as bar:
        result = grid.run(
            out,
            executor=executor,
            workers=workers,
            device=device,
            progress=campaign_progress(bar, "campaign"),
        )
    if as_json:
        print_json(result.summary())
    else:
        console = Console()
        console.print(summary_table(result))
        console.print(literal(f"Every run is in {out / 'runs.csv'}, this table in {out / 'summary.csv'}."))
