"""`bestarm list`, `status` and `log`: the studies of a database, where one stands, and what happened in it."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bestarm.cli.shared.arguments import AsJson, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import Place, check_text, saying_how_to_give_a_token
from bestarm.cli.shared.show import (
    VERDICT_STYLES,
    age,
    figures,
    moment,
    new_table,
    percent,
    plain_console,
    print_json,
    print_rows,
    say,
    state_words,
)
from bestarm.cli.shared.verdicts import IgnoreHealth, exit_status, status_data
from bestarm.errors import UNSTATED, InvalidInput
from bestarm.texts import VOID_STYLE, shown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bestarm.analysis.standing.arms import MetricStanding
    from bestarm.analysis.status.outlook import Outlook
    from bestarm.cli.shared.opening import AnyStudy
    from bestarm.client import StudyLine
    from bestarm.problem import Constraint, Objective, Plan
    from bestarm.storage.base import Event, Storage, StudyRecord
    from bestarm.study import Status

MOST_ARMS = 50
"""How many arms `status` shows unless asked for all."""

MOST_LATE = 5
"""How many tests it names that are overdue or set aside."""

_FIELDS = ("state", "answer", "leader", "guarantee", "void_because", "progress", "confidence", "tests")


@study_command(place=120)
def list_(
    show_all: Annotated[bool, typer.Option("--all", help="Archived studies too.")] = False,
    project: Annotated[str | None, typer.Option(metavar="PROJECT", help="Only those of this project.")] = None,
    *,
    place: Place,
    as_json: AsJson = False,
) -> None:
    """List the studies: their state, tests and leader."""
    from bestarm.storage.projects import DEFAULT_PROJECT

    where, rows = _rows(place, show_all, None if project is None else check_text("project", project))
    if as_json:
        print_json([row.to_dict() for row in rows])
        return
    console = plain_console()
    if not rows:
        of = "" if project is None else f" of the project {shown(project)}"
        console.print(f"No studies{of} in {shown(where)}{'' if show_all else '; --all lists archived ones too'}.")
        return
    # Without projects there is nothing to tell apart.
    heads = ["project"] if any(row.record.project != DEFAULT_PROJECT for row in rows) else []
    table = new_table("study", *heads, "state", "tests", "leader", "evidence", "age", right=("tests", "evidence"))
    for row in rows:
        name, *cells = row.cells()
        table.add_row(name, *([shown(row.record.project)] if heads else []), *cells)
    console.print(table)


def _rows(place: Place, show_all: bool, project: str | None) -> tuple[str, list[_Listed]]:
    """Where the studies are, without a password, and a row for each."""
    from bestarm.storage.opening import open_storage

    if (client := place.client()) is not None:
        with saying_how_to_give_a_token():
            lines = client.studies(archived=show_all, project=project)
        # It has the newest first.
        rows = [_Listed(line, None if line.state is None else line, line.error or "") for line in reversed(lines)]
        return client.url, rows
    storage = open_storage(place.db)
    records = [record for record in storage.studies() if show_all or record.archived is None]
    wanted = [record for record in records if project in (None, record.project)]
    return storage.url, [_Listed.of(storage, record) for record in wanted]


@dataclasses.dataclass(frozen=True)
class _Listed:
    record: StudyRecord | StudyLine
    status: Status | StudyLine | None
    """None if it cannot be known, or if the service is still computing it."""
    error: str = ""

    @classmethod
    def of(cls, storage: Storage, record: StudyRecord) -> _Listed:
        from bestarm.storage.errors import StorageError
        from bestarm.study import Study

        try:
            return cls(record, Study(storage, record).status())
        except StorageError:
            raise
        except InvalidInput as error:
            # One study that needs a policy not installed here must not hide the others.
            return cls(record, None, str(error))
        except Exception as error:  # nor must one whose record is damaged in an unexpected way
            return cls(record, None, f"study = {record.name!r}: cannot be computed: {type(error).__name__}: {error}")

    def to_dict(self) -> dict[str, Any]:
        from bestarm.study.files.exchange import iso_time

        record, status = self.record, self.status
        known = {field: getattr(status, field, None) for field in _FIELDS}
        return {
            "study": record.name,
            "project": record.project,
            **known,
            "void_because": list(known["void_because"] or ()),
            "created": iso_time(record.created),
            "archived": None if record.archived is None else iso_time(record.archived),
            "error": self.error or None,
        }

    def cells(self) -> list[RenderableType]:
        name, old = shown(self.record.name), age(time.time() - self.record.created)
        away = "" if self.record.archived is None else ", archived"
        if self.status is None:
            why = "cannot be read" if self.error else "being computed"
            return [name, f"{why}{away}", "", shown(self.error), "", old]
        status = self.status
        assert status.state is not None
        style = VOID_STYLE if status.guarantee == "void" else ""
        state = Text(state_words(status.state, status.guarantee) + away, style=style)
        return [name, state, f"{status.tests:,}", shown(status.leader or "–"), percent(status.progress or 0.0), old]


@study_command(place=180)
def status(
    name: StudyName,
    forecast: Annotated[bool, typer.Option("--forecast", help="Simulate what remains to be done.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help="Every arm, however many there are.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Report what is certain as the exit status.")] = False,
    ignore_health: IgnoreHealth = False,
    *,
    place: Place,
    as_json: AsJson = False,
) -> None:
    """Where a study stands: every arm and metric, the leader, what is pending.

    Exit status with --check: 0 if an answer is certified, 3 if it is certain that no arm is feasible, 4 if neither is,
    and 5 if the results contradict what the guarantee rests on.
    """
    from bestarm.answer import DECIDED

    study = place.open(name)
    now = study.status()
    left = study.forecast() if forecast else None
    if as_json:
        data = status_data(study, now)
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
            is_over = now.state in DECIDED
            lacking = f"No forecast yet: every metric of every {study.plan.noun.one} needs a result first."
            console.print("Nothing remains to be done." if is_over else lacking)
        _print_arms(console, study.plan, now, show_all)
    if check:
        raise typer.Exit(exit_status(now, ignore_health=ignore_health))


def _headlines(study: AnyStudy, now: Status, left: Outlook | None) -> Iterable[str]:
    from bestarm.analysis.status.status import status_lines
    from bestarm.analysis.status.tests_made import after_words
    from bestarm.study import Study

    answer = study.answer
    archived = study.record.archived if isinstance(study, Study) else study.archived
    after = "" if answer is None else after_words(answer.state, answer.tests, now.tests)
    conclusion = "" if answer is None else str(answer).replace(answer.headline, f"{answer.headline}{after}", 1)
    said = now.headline if answer is None else f"{state_words(now.state, now.guarantee)}. {conclusion}"
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
    from bestarm.analysis.standing.arms import VERDICTS
    from bestarm.analysis.status.blocks import about_means

    arms = list(now.arms)
    if len(arms) > MOST_ARMS and not show_all:
        arms = sorted(arms, key=lambda arm: VERDICTS.index(arm.verdict))[:MOST_ARMS]
    verdicts = new_table(plan.noun.one, "verdict", "why")
    for arm in arms:
        reason = "" if arm.reason == "undecided" else shown(arm.reason)
        verdicts.add_row(shown(arm.name), Text(arm.verdict, style=VERDICT_STYLES[arm.verdict]), reason)
    figure = "mean or quantile" if any(part.noise.is_share for part in plan.constraints) else "mean"
    heads = (plan.noun.one, "metric", "tests", figure, "interval", "wanted", "known")
    metrics = new_table(*heads, right=("tests", figure))
    for arm in arms:
        for k, (metric, part) in enumerate(zip(arm.metrics, plan.parts, strict=True)):
            metrics.add_row("" if k else shown(arm.name), *_metric_cells(plan, metric, part))
    for table in (verdicts, metrics):
        console.print()
        console.print(table)
    if note := about_means(plan):
        console.print(shown(note), soft_wrap=True)
    console.print()
    if len(arms) < len(now.arms):
        console.print(f"{len(arms)} of {plan.noun.counted(len(now.arms))}, contenders first; --all shows every one.")


def _metric_cells(plan: Plan, metric: MetricStanding, part: Objective | Constraint) -> tuple[str, ...]:
    from bestarm.analysis.standing.terms import share_words, wanted
    from bestarm.problem import Constraint
    from bestarm.problem.units import in_unit

    asked = "not asked about" if part is plan.objective and plan.asks == "every feasible" else wanted(part)
    if isinstance(part, Constraint) and metric.share is not None:
        asked = f"{asked} ({share_words(part, metric.share) if metric.tests else 'no share yet'})"
    mean, low, high = figures(metric.mean, metric.low, metric.high)
    known = "" if metric.verdict is None else metric.verdict
    is_unknown = not metric.tests or (math.isinf(metric.low) and math.isinf(metric.high))
    interval = "–" if is_unknown else f"{low} to {high}"
    if part.noise.is_exact and metric.tests:
        interval = "certain"
    return shown(in_unit(metric.subject, plan.unit_of(part))), f"{metric.tests:,}", mean, interval, asked, known


@study_command(place=190)
def log(
    name: Annotated[
        str | None, typer.Argument(metavar="STUDY", help="The study's name; with --audit all studies by default.")
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="How many events, the newest.", show_default="50, in an audit 1,000, as JSON all"
        ),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Who did what, a line for each request with its tests.")
    ] = False,
    json_lines: Annotated[bool, typer.Option("--json-lines", help="Print each line as JSON.")] = False,
    *,
    place: Place,
    as_json: AsJson = False,
) -> None:
    """What happened in a study, or who did what."""
    from bestarm.storage.errors import reporting_damage
    from bestarm.study import Study

    if audit:
        from bestarm.cli.shared.audit import print_audit

        print_audit(name, place, last, as_json=as_json, json_lines=json_lines)
        return
    if name is None:
        raise InvalidInput("log", UNSTATED, "needs the name of a STUDY, or --audit for all of them")
    study = place.open(name)
    events = study.log(50 if last is None else last)
    # The address as it was given may hold a password.
    with reporting_damage(study.storage.url if isinstance(study, Study) else place.url):
        if as_json or json_lines:
            print_rows([_event(study, event) for event in events], json_lines=json_lines)
        else:
            _print_events(study, events)


def _print_events(study: AnyStudy, events: Iterable[Event]) -> None:
    from bestarm.noises.shares import told_words

    shows = ["event", "test", "arm", "metric", *(["item"] if study.plan.items is not None else [])]
    heads = [study.plan.noun.one if field == "arm" else field for field in shows[1:]]
    table = new_table("time", "what", *heads, "value", "who", "detail", right=("test", "value"))
    for event in events:
        row = _event(study, event)
        values = [] if event.value is None else [event.value, *event.more]
        words = ["" if row[field] is None else shown(str(row[field])) for field in shows]
        told = ", ".join(told_words(value, ".6g") for value in values)
        table.add_row(moment(event.time), *words, told, shown(event.holder), shown(event.detail))
    plain_console().print(table)


def _event(study: AnyStudy, event: Event) -> dict[str, object]:
    from bestarm.noises.shares import as_told
    from bestarm.study.files.exchange import iso_time

    plan = study.plan
    row: dict[str, object] = {
        "time": iso_time(event.time),
        "event": event.kind,
        "test": event.test,
        "arm": None if event.arm is None else plan.arm_names[event.arm],
        "metric": None if event.metric is None else plan.test_names[event.metric],
    }
    metrics = () if event.metric is None else plan.yields[event.metric]
    if len(metrics) > 1:
        told = [] if event.value is None else map(as_told, (event.value, *event.more))
        values = None if event.value is None else dict(zip(metrics, told, strict=True))
        row |= {"metrics": metrics, "values": values}
    else:
        row["value"] = None if event.value is None else as_told(event.value)
    if plan.items is not None:
        row["item"] = study.item_name(event.item)
    return row | {"who": event.holder, "detail": event.detail}
