"""`bestarm ask`: the next tests to make."""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, Database, Key, StudyName, Worker
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import open_study, repeatable_with_key
from bestarm.cli.shared.show import counted, new_table, plain_console, print_json, shown

if TYPE_CHECKING:
    from bestarm.study import Study, Test


@study_command(place=130)
def ask(
    name: StudyName,
    number: Annotated[int, typer.Option("-n", metavar="N", help="How many tests, at most.")] = 1,
    days: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS", help="In how many days you want to tell them; later, status says so.", show_default=False
        ),
    ] = None,
    key: Key = None,
    worker: Worker = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Get the next tests to make. They are yours until you tell, fail or release them."""
    study = open_study(name, db, worker)
    with repeatable_with_key():
        tests = study.ask(number, days=math.inf if days is None else days, key=key)
    if as_json:
        print_json([_plain(test) for test in tests])
        if not tests:
            print(_nothing_to_do(study), file=sys.stderr)
        return
    console = plain_console()
    if not tests:
        console.print(_nothing_to_do(study), soft_wrap=True)
        return
    has_items = study.plan.items is not None
    table = new_table("test", "arm", "metric", *(["item"] if has_items else []), right=("test",))
    for test in tests:
        item = [shown(test.item or "")] if has_items else []
        table.add_row(str(test.id), shown(test.arm), shown(test.metric), *item)
    console.print(table)
    if len(tests) < number:
        console.print(f"{len(tests)} of the {number:,}: what comes next depends on their results.", soft_wrap=True)


def _plain(test: Test) -> dict[str, object]:
    """A test as plain data: its metrics if they are several, its item if it has one."""
    data = dataclasses.asdict(test)
    if len(test.metrics) == 1:
        del data["metrics"]
    if test.item is None:
        del data["item"]
    return data


def _nothing_to_do(study: Study) -> str:
    answer = study.answer
    if answer is not None:
        return f"Nothing to test any more. {shown(str(answer))}"
    awaited = study.awaited()
    first = "" if awaited is None else f" First of all it waits for {awaited}."
    return f"Nothing to test now: the study waits for {counted(len(study.pending()), 'result')}.{shown(first)}"
