"""`bestarm demo`: the paper's drug study, live, on simulated patients."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from bestarm.cli.shared.command import command
from bestarm.cli.shared.show import VERDICT_STYLES, literal
from bestarm.errors import InvalidInput
from bestarm.texts import VOID_STYLE

if TYPE_CHECKING:
    from bestarm.analysis.standing.arms import MetricStanding
    from bestarm.analysis.status.outlook import Outlook
    from bestarm.analysis.status.status import Status
    from bestarm.answer import Answer
    from bestarm.problem import Plan
    from bestarm.storage.base import Storage
    from bestarm.study.study import Study

_SIGNS = {"feasible": "✓", "infeasible": "✗", "worse": "▽", "open": "·", "retired": "–", "baseline": "="}
_AT_ONCE = 8
"""How many patients are asked at a time."""


@command(place=60)
def demo(
    report: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("bestarm-demo.html"),
    policy: Annotated[str | None, typer.Option(help="Policy, by name.")] = None,
    delta: Annotated[float, typer.Option(help="Allowed probability of a wrong answer.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of the simulated patients.")] = 1,
    rate: Annotated[int, typer.Option(help="Tests per second on a terminal; 0 is as fast as it goes.")] = 1000,
    db: Annotated[str, typer.Option(help="Where to keep the study: a path or a PostgreSQL URL.")] = "bestarm-demo.db",
) -> None:
    """Watch a live study of four drug doses and a placebo on simulated patients, and get its report."""
    from bestarm.analysis.status.words import question
    from bestarm.paper.instances import instance
    from bestarm.policies import find_policy
    from bestarm.problem import Plan
    from bestarm.storage.opening import open_storage
    from bestarm.study.reports.report import study_report
    from bestarm.study.study import Study

    if rate < 0:
        raise InvalidInput("rate", rate, "must be 0 (as fast as it goes) or a positive number of tests per second")
    if not report.parent.is_dir():
        raise InvalidInput("report", str(report), f"the folder {str(report.parent)!r} does not exist")
    plan = dataclasses.replace(instance("drug-bernoulli"), delta=delta)
    if policy is not None:
        plan = Plan.of(plan, policy=find_policy(policy).name)
    storage = open_storage(db, create=True)
    study = Study.create(plan, name=_free_name(storage, "drug dose"), storage=storage, seed=seed)
    console = Console()
    console.print(f"[bold]{question(plan)}[/bold]")
    console.print(
        f"Each test asks one simulated patient one question. The policy {plan.policy} picks the next tests and "
        f"stops as soon as it has an answer whose probability of being wrong is at most {delta:g}.\n"
    )
    answer = _study(console, study, random.Random(seed), rate if console.is_terminal else 0)
    style = "green" if answer.guarantee == "holds" else VOID_STYLE
    console.print(f"\n[bold {style}]{answer}[/]")
    note = f"Measured on simulated patients (seed {seed}) with the event rates listed under each arm below."
    try:
        report.write_text(study_report(study, note=note), encoding="utf-8")
    except OSError as error:
        raise InvalidInput("report", str(report), f"cannot be written: {error.strerror}") from None
    console.print(f"Report: {literal(str(report))}", highlight=False)
    console.print(f"Dashboard: {_program()} serve --db {literal(db)}", highlight=False)


def _cell(metric: MetricStanding) -> str:
    if not metric.tests:
        return "untested"
    sign = {"holds": "✓", "violated": "✗", "open": " "}.get(metric.verdict or "", "")
    return f"{metric.mean:.3f}±{(metric.high - metric.low) / 2:.3f}{sign}"


def _view(plan: Plan, status: Status, outlook: Outlook | None, seconds: float) -> Group:
    from bestarm.analysis.standing.terms import relation, statistic, subject
    from bestarm.analysis.status.status import progress_lines
    from bestarm.study.work.watching import grid

    table = Table()
    table.add_column("dose")
    table.add_column(plan.objective.metric, justify="right")
    for part in plan.constraints:
        table.add_column(f"{subject(part.title, statistic(part))}\n{relation(part)}", justify="right")
    table.add_column("tests", justify="right")
    table.add_column("verdict")
    for row in status.arms:
        table.add_row(
            row.name,
            *map(_cell, row.metrics),
            f"{sum(m.tests for m in row.metrics):,}",
            Text(f"{_SIGNS[row.verdict]} {row.verdict}", style=VERDICT_STYLES[row.verdict]),
        )
    made = ("tests", f"{status.tests:,} in {seconds:.1f} s")
    return Group(table, grid([("so far", status.headline), *progress_lines(status, outlook), made]))


def _free_name(storage: Storage, name: str) -> str:
    """The name, with a number if earlier demos have taken it."""
    taken = {record.name for record in storage.studies()}
    return next(free for free in (name, *(f"{name} {k}" for k in range(2, len(taken) + 3))) if free not in taken)


def _program() -> str:
    """How to call this program: by its path, if its name alone would not find it."""
    called = Path(sys.argv[0])
    if called.name != "bestarm" or shutil.which("bestarm") is not None or not called.is_file():
        return "bestarm"
    return os.path.relpath(called)


def _study(console: Console, study: Study, patients: random.Random, rate: int) -> Answer:
    from rich.live import Live

    from bestarm.analysis.status.status import compact_line
    from bestarm.study.forecast.continuations import BackgroundForecast

    plan = study.plan
    rows = zip(plan.arm_names, plan.true_means().tolist(), strict=True)
    means = {name: dict(zip(plan.metrics, row, strict=True)) for name, row in rows}
    tests, start, shown = 0, time.monotonic(), -1.0
    every = 0.25 if console.is_terminal else 0.5
    forecast = BackgroundForecast(study, every=2.0)
    if rate:
        forecast.start()
    with Live(console=console, auto_refresh=False) as live:
        while (asked := study.ask(_AT_ONCE)) or not study.done:
            for test in asked:
                # One simulated patient: 1 if the event happened.
                study.tell(test, float(patients.random() < means[test.arm][test.metric]))
            tests += len(asked)
            now = time.monotonic() - start
            if now - shown > every:
                shown = now
                if console.is_terminal:
                    live.update(_view(plan, study.status(), forecast.outlook, now), refresh=True)
                else:
                    console.print(Text(compact_line(study.status())), soft_wrap=True)
            if rate and tests / rate > now + 0.02:
                time.sleep(tests / rate - now)
        forecast.stop()
        live.update(_view(plan, study.status(), None, time.monotonic() - start), refresh=True)
    answer = study.answer
    assert answer is not None, "the study is done"
    return answer
