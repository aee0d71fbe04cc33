"""`bestarm log`: what happened in a study."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, Database, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import open_study
from bestarm.cli.shared.show import moment, new_table, plain_console, print_json, shown

if TYPE_CHECKING:
    from bestarm.plan import Plan
    from bestarm.storage.base import Event


@study_command(place=190)
def log(
    name: StudyName,
    last: Annotated[int, typer.Option(metavar="N", help="How many events, the newest.")] = 50,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """What happened in a study."""
    from bestarm.storage.errors import making_sense

    study = open_study(name, db)
    events = study.log(last)
    with making_sense(study.storage.url):
        _print_events(study.plan, events, as_json)


def _print_events(plan: Plan, events: Iterable[Event], as_json: bool) -> None:
    if as_json:
        print_json([_event(plan, event) for event in events])
        return
    table = new_table("time", "what", "test", "arm", "metric", "value", "who", "detail", right=("test", "value"))
    for event in events:
        row = _event(plan, event)
        value = "" if event.value is None else f"{event.value:.6g}"
        words = ["" if row[field] is None else shown(str(row[field])) for field in ("event", "test", "arm", "metric")]
        table.add_row(moment(event.time), *words, value, shown(event.holder), shown(event.detail))
    plain_console().print(table)


def _event(plan: Plan, event: Event) -> dict[str, object]:
    from bestarm.study.exchange import iso_time

    return {
        "time": iso_time(event.time),
        "event": event.kind,
        "test": event.test,
        "arm": None if event.arm is None else plan.arm_names[event.arm],
        "metric": None if event.metric is None else plan.metrics[event.metric],
        "value": event.value,
        "who": event.holder,
        "detail": event.detail,
    }
