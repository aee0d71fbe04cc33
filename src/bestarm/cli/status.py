"""`bestarm status`: where a study stands."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from bestarm.cli.shared.arguments import AsJson, Database, StudyName, Token
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import open_study
from bestarm.cli.shared.show import figures, new_table, plain_console, print_json, say, state_words
from bestarm.cli.shared.verdicts import IgnoreHealth, exit_status
from bestarm.texts import VOID_STYLE, shown

if TYPE_CHECKING:
    from bestarm.analysis.standing.arms import MetricStanding
    from bestarm.analysis.status.outlook import Outlook
    from bestarm.cli.shared.opening import AnyStudy
    from bestarm.problem import Constraint, Objective, Plan
    from bestarm.study import Status

MOST_ARMS = 50
"""How many arms `status` shows unless asked for all."""

MOST_LATE = 5
"""How many tests it names that are overdue or set aside."""

_STYLES = {"feasible": "bold blue", "infeasible": "red", "worse": "dim", "open": "yellow", "retired": "dim"}
_CONTENDERS_FIRST = {"feasible": 0, "open": 1, "worse": 2, "infeasible": 3, "retired": 4}


@study_command(place=180)
def status(
    name: StudyName,
    forecast: Annotated[bool, typer.Option("--forecast", help="Simulate what remains to be done.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help="Every arm, however many there are.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Report what is certain as the exit status.")] = False,
    ignore_health: IgnoreHealth = False,
    token: Token = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Where a study stands: every arm and metric, the leader, what is pending.

    Exit status with --check: 0 if an answer is certified, 3 if it is certain that no arm is feasible, 4 if neither is,
    and 5 if the results contradict what the guarantee rests on.
    """
    study = open_study(name, db, token=token)
    now = study.status()
    left = study.forecast() if forecast else None
    if as_json:
        data = now.to_dict()
        if forecast:
            data["forecast"] = None if left is None else left.to_dict()
        print_json(data)
    else:
        headline, *lines = _headlines(study, now, left)
        say(headline, VOID_STYLE if now.guarantee == "void" else None)
        for line in lines:
            say(line)
        console = plain_console()
        if forecast and left is None:
            is_over = now.state != "running"
            lacking = "No forecast yet: every metric of every arm needs a result first."
            console.print("Nothing remains to be done." if is_over else lacking)
        _print_arms(console, study.plan, now, show_all)
    if check:
        raise typer.Exit(exit_status(now, ignore_health=ignore_health))


def _headlines(study: AnyStudy, now: Status, left: Outlook | None) -> Iterable[str]:
    from bestarm.analysis.status.status import status_lines
    from bestarm.study import Study

    answer = study.answer
    archived = study.record.archived if isinstance(study, Study) else study.archived
    said = now.headline if answer is None else f"{state_words(now.state, now.guarantee)}. {answer}"
    yield f"{now.study}{'' if archived is None else ' (archived)'}: {said}"
    for name, text in status_lines(dataclasses.replace(now, health=now.health.through("file")), left):
        yield f"{name}: {text}" if name else text
    # They do not hold up anything yet, but need attention.
    others = [test for test in study.unresolved() if now.awaited is None or test.test != now.awaited.test]
    for test in others[:MOST_LATE]:
        yield f"Also out: {test}"
    if len(others) > MOST_LATE:
        yield f"So are {len(others) - MOST_LATE:,} more that are overdue or set aside."


def _print_arms(console: Console, plan: Plan, now: Status, show_all: bool) -> None:
    arms = list(now.arms)
    if len(arms) > MOST_ARMS and not show_all:
        arms = sorted(arms, key=lambda arm: _CONTENDERS_FIRST[arm.verdict])[:MOST_ARMS]
    verdicts = new_table("arm", "verdict", "why")
    for arm in arms:
        reason = "" if arm.reason == "undecided" else shown(arm.reason)
        verdicts.add_row(shown(arm.name), Text(arm.verdict, style=_STYLES[arm.verdict]), reason)
    figure = "mean or quantile" if any(part.noise.is_share for part in plan.constraints) else "mean"
    metrics = new_table("arm", "metric", "tests", figure, "interval", "wanted", "known", right=("tests", figure))
    for arm in arms:
        for k, (metric, part) in enumerate(zip(arm.metrics, plan.parts, strict=True)):
            metrics.add_row("" if k else shown(arm.name), *_metric_cells(metric, part))
    for table in (verdicts, metrics):
        console.print()
        console.print(table)
    console.print()
    if len(arms) < len(now.arms):
        console.print(f"{len(arms)} of {len(now.arms):,} arms, contenders first; --all shows every one.")


def _metric_cells(metric: MetricStanding, part: Objective | Constraint) -> tuple[str, ...]:
    from bestarm.analysis.standing.terms import share_words, wanted
    from bestarm.problem import Constraint

    asked = wanted(part)
    if isinstance(part, Constraint) and metric.share is not None:
        asked = f"{asked} ({share_words(part, metric.share) if metric.tests else 'no share yet'})"
    mean, low, high = figures(metric.mean, metric.low, metric.high)
    known = "" if metric.verdict is None else metric.verdict
    is_unknown = not metric.tests or (math.isinf(metric.low) and math.isinf(metric.high))
    interval = "–" if is_unknown else f"{low} to {high}"
    if part.noise.is_exact and metric.tests:
        interval = "certain"
    return shown(metric.subject), f"{metric.tests:,}", mean, interval, asked, known
