"""What simulations show: a progress bar, on standard error so that it never mixes with the result, and a table."""

from __future__ import annotations

from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from bestarm.cli.shared.show import literal
from bestarm.simulation.campaign import CampaignProgress, CampaignResult
from bestarm.simulation.simulate import RunsProgress


class _TimeLeft(TimeRemainingColumn):
    """The time left, by the simulator's own estimate if the task has one."""

    def render(self, task: Task) -> Text:
        seconds = task.fields.get("seconds_left")
        if seconds is None:
            return super().render(task)
        return Text(f"{timedelta(seconds=round(seconds))} left", style="progress.remaining")


def progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        _TimeLeft(),
        console=Console(stderr=True),
        transient=True,
    )


def runs_progress(bar: Progress, runs: int) -> RunsProgress:
    """The callback of a simulation or forecast with that many runs, shown as one line of `bar`."""
    task = bar.add_task("compiling (the first time takes seconds)", total=runs)

    def show(done: int, tests: int) -> None:
        bar.update(task, completed=done, description=f"simulating, {tests:,} tests")

    return show


def campaign_progress(bar: Progress, label: str) -> CampaignProgress:
    """The callback of a campaign, shown as one line of `bar`."""
    task = bar.add_task(label, total=None)

    def show(done: int, total: int, seconds_left: float | None) -> None:
        bar.update(task, completed=done, total=total, seconds_left=seconds_left)

    return show


def campaign_table(result: CampaignResult) -> Table:
    """A row per cell. Columns that are the same in every row are left out."""
    simulations = result.simulations
    columns = {
        "bound": [one.plan.bound for one in simulations],
        "delta": [f"{one.plan.delta:g}" for one in simulations],
        "mean tests": [f"{one.mean_tests:,.0f}" for one in simulations],
        "sd": ["" if one.runs == 1 else f"{one.sd_tests:,.0f}" for one in simulations],
        "wrong": [f"{one.wrong:,}" for one in simulations],
        "unfinished": [f"{one.unfinished:,}" for one in simulations],
    }
    if len(set(columns["bound"])) == 1:
        del columns["bound"]
    if not any(one.unfinished for one in simulations):
        del columns["unfinished"]
    table = Table()
    table.add_column("instance", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for heading in columns:
        table.add_column(heading, justify="right")
    for one, *cells in zip(simulations, *columns.values(), strict=True):
        table.add_row(literal(one.plan.name), literal(one.policy), *cells)
    return table
