"""`bestarm log`: what happened in a study."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, Database, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import open_local_study
from bestarm.cli.shared.show import moment, new_table, plain_console, print_json
from bestarm.texts import shown

if TYPE_CHECKING:
    from bestarm.storage.base import Event
    from bestarm.study import Study


@study_command(place=190)
def log(
    name: StudyName,
    last: Annotated[int, typer.Option(metavar="N", help="How many events, the newest.")] = 50,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """What happened in a study."""
    from bestarm.storage.errors import making_sense

    study = open_local_study(name, db)
    events = study.log(last)
    with making_sense(study.storage.url):
        _print_events(study, events, as_json)


def _print_events(study: Study, events: Iterable[Event], as_json: bool) -> None:
    if as_json:
        print_json([_event(study, event) for event in events])
        return
    shows = ["event", "test", "arm", "metric", *(["item"] if study.plan.items is not None else [])]
    table = new_table("time", "what", *shows[1:], "value", "who", "detail", right=("test", "value"))
    for event in events:
        row = _event(study, event)
        values = [] if event.value is None else [event.value, *event.more]
        words = ["" if row[field] is None else shown(str(row[field])) for field in shows]
        told = ", ".join(f"{value:.6g}" for value in values)
        table.add_row(moment(event.time), *words, told, shown(event.holder), shown(event.detail))
    plain_console().print(table)


def _event(study: Study, event: Event) -> dict[str, object]:
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
        values = None if event.value is None else dict(zip(metrics, (event.value, *event.more), strict=True))
        row |= {"metrics": metrics, "values": values}
    else:
        row["value"] = event.value
    if plan.items is not None:
        row["item"] = study.item_name(event.item)
    return row | {"who": event.holder, "detail": event.detail}
