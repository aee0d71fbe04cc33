"""The progress bar of long simulations. It goes to standard error, so that it never mixes with the result."""

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
from rich.text import Text

from bestarm.simulation.campaign import CampaignProgress
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
