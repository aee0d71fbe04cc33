"""`bestarm campaign`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bestarm.cli.app import print_json
from bestarm.cli.progress import campaign_progress, progress_bar
from bestarm.cli.show import literal
from bestarm.plan import Plan
from bestarm.simulation.campaign import Campaign, CampaignResult


def run(
    plans: Sequence[Plan],
    out: Path,
    policies: Sequence[str] | None,
    bounds: Sequence[str] | None,
    deltas: Sequence[float] | None,
    runs: int,
    seed: int,
    max_tests: int,
    executor: str | None,
    workers: int | None,
    device: str,
    as_json: bool,
) -> None:
    grid = Campaign.grid(
        plans,
        policies=policies or list(dict.fromkeys(plan.policy for plan in plans)),
        bounds=bounds,
        deltas=deltas,
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


def summary_table(result: CampaignResult) -> Table:
    """A row per cell; what is the same in every row is left out."""
    table = Table()
    simulations = result.simulations
    several_bounds = len({s.plan.bound for s in simulations}) > 1
    any_unfinished = any(s.unfinished for s in simulations)
    table.add_column("instance", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for heading in (
        ["bound"] * several_bounds + ["delta", "mean tests", "sd", "wrong"] + ["unfinished"] * any_unfinished
    ):
        table.add_column(heading, justify="right")
    for s in simulations:
        row = [s.plan.bound] * several_bounds
        row += [
            f"{s.plan.delta:g}",
            f"{s.mean_tests:,.0f}",
            "" if s.runs == 1 else f"{s.sd_tests:,.0f}",
            f"{s.wrong:,}",
        ]
        row += [f"{s.unfinished:,}"] * any_unfinished
        table.add_row(literal(s.plan.name), literal(s.policy), *row)
    return table
