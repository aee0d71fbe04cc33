"""`bestarm paper`: the paper's experiments, made again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bestarm.cli.shared.arguments import AsJson, Device, Executor, Seed, Workers
from bestarm.cli.shared.command import command
from bestarm.cli.shared.policies import chosen_policy
from bestarm.cli.shared.show import literal, print_json


@command(place=50)
def paper(
    experiment: Annotated[str, typer.Argument(help="table1, figure2, drug, bounds or all.")],
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and the page.")] = Path("paper"),
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A policy in addition to the paper's five: certify, or FILE.py:CLASS; several times."),
    ] = None,
    runs: Annotated[int, typer.Option(help="Runs of each simulation.")] = 100,
    seed: Seed = 0,
    executor: Executor = None,
    workers: Workers = None,
    device: Device = "cpu",
    with_performance_first: Annotated[
        bool, typer.Option("--with-performance-first", help="Run performance-first on drug too (hours).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper's tables and figures, beside its own figures and the theory."""
    from bestarm.cli.shared.progress import campaign_progress, progress_bar
    from bestarm.cli.shared.summary import summary_table
    from bestarm.paper.reproduce import reproduce

    start = time.monotonic()
    with progress_bar() as bar:
        results = reproduce(
            experiment,
            out,
            runs=runs,
            seed=seed,
            executor=executor,
            workers=workers,
            device=device,
            slow_drug_policies=with_performance_first,
            policies=[chosen_policy(text) for text in policy or []],
            progress=lambda name: campaign_progress(bar, name),
        )
    if as_json:
        print_json({name: result.summary() for name, result in results.items()})
        return
    console = Console()
    for name, result in results.items():
        table = summary_table(result)
        table.title, table.title_justify = name, "left"
        console.print(table)
    console.print(literal(f"Page: {out / 'paper.html'}") + f" (and paper.md), after {time.monotonic() - start:.0f} s.")
