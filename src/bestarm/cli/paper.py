"""`bestarm paper`."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from bestarm.cli.app import print_json
from bestarm.cli.campaign import summary_table
from bestarm.cli.progress import campaign_progress, progress_bar
from bestarm.cli.show import literal
from bestarm.paper.reproduce import reproduce


def run(
    experiment: str,
    out: Path,
    runs: int,
    seed: int,
    executor: str | None,
    workers: int | None,
    device: str,
    with_performance_first: bool,
    as_json: bool,
) -> None:
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
