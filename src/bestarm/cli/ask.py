"""`bestarm ask`: the next tests to make."""

from __future__ import annotations

import dataclasses
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, Key, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.files import is_stdout, is_workbook, writing
from bestarm.cli.shared.opening import Access, repeatable_with_key
from bestarm.cli.shared.show import counted, new_table, plain_console, print_json, say
from bestarm.errors import UNSTATED, InvalidInput
from bestarm.texts import shown

if TYPE_CHECKING:
    from bestarm.cli.shared.opening import AnyStudy
    from bestarm.study import Test


@study_command(place=130)
def ask(
    name: StudyName,
    number: Annotated[int, typer.Option("-n", metavar="N", help="How many tests, at most.")] = 1,
    block: Annotated[
        bool, typer.Option("--block", help="All tests of the next block, such as a plate or a day.")
    ] = False,
    days: Annotated[
        float | None,
        typer.Option(metavar="DAYS", help="In how many days you want to tell them; later, status says so."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="Write a sheet to fill in: an Excel workbook if it ends in .xlsx, else CSV, with tabs if it ends in "
            ".tsv; - prints CSV.",
        ),
    ] = None,
    semicolons: Annotated[
        bool, typer.Option("--semicolons", help="Semicolons between its columns, for decimal commas.")
    ] = False,
    key: Key = None,
    *,
    access: Access,
    as_json: AsJson = False,
) -> None:
    """Get the next tests to make. They are yours until you tell, fail or release them."""
    if semicolons and out is None:
        raise InvalidInput("--semicolons", UNSTATED, "goes with --out")
    if semicolons and out is not None and is_workbook(out):
        raise InvalidInput("--semicolons", UNSTATED, "is for CSV; an Excel workbook shows decimal commas by itself")
    if as_json and out is not None:
        raise InvalidInput("--json", UNSTATED, "prints the tests; leave out --out")
    study = access.open(name)
    days = math.inf if days is None else days
    if out is not None:
        _write_sheet(study, None if block else number, days, key, out, semicolons)
        return
    with repeatable_with_key():
        tests = _asked(study, None if block else number, days, key)
    if as_json:
        print_json([_plain(test) for test in tests])
        if not tests:
            print(shown(_nothing_to_do(study)), file=sys.stderr)
        return
    if not tests:
        say(_nothing_to_do(study))
        return
    has_items = study.plan.items is not None
    table = new_table(
        "test", study.plan.noun.one, "metric", *([study.plan.item_word] if has_items else []), right=("test",)
    )
    for test in tests:
        item = [shown(test.item or "")] if has_items else []
        table.add_row(str(test.id), shown(test.arm), shown(test.metric), *item)
    plain_console().print(table)
    if len(tests) < number and not block:
        say(f"{len(tests)} of the {number:,}: what comes next depends on their results.")


def _asked(study: AnyStudy, number: int | None, days: float, key: str | None) -> list[Test]:
    """So many tests, or those of the next block."""
    return study.ask_block(days=days, key=key) if number is None else study.ask(number, days=days, key=key)


def _write_sheet(
    study: AnyStudy, number: int | None, days: float, key: str | None, out: Path, semicolons: bool
) -> None:
    """Ask for tests and write them to a file. Whatever goes wrong after that, the same key finds the same tests."""
    from bestarm.storage.keys import new_key
    from bestarm.study.files.sheets import columns_to_fill, write_blank_sheet
    from bestarm.study.files.workbook import check_package, write_workbook

    is_printed, as_workbook = is_stdout(out), is_workbook(out)
    if as_workbook:
        check_package()
    if not is_printed and out.exists():
        raise InvalidInput("out", str(out), "is there already, and may hold results; name another file")
    delimiter = ";" if semicolons else "\t" if out.suffix.lower() == ".tsv" else ","
    key = new_key() if key is None else key
    tests: list[Test] = []
    try:
        with writing(out, workbook=as_workbook) as file, repeatable_with_key():
            tests = _asked(study, number, days, key)
            if not tests:
                raise _NothingToDo
            if as_workbook:
                write_workbook(study, tests, file.buffer)
            else:
                write_blank_sheet(study, tests, file, delimiter)
    except _NothingToDo:
        print(shown(_nothing_to_do(study)), file=sys.stderr if is_printed else sys.stdout)
        return
    except InvalidInput as error:
        if tests:
            raise InvalidInput(f"{error}; --key {shlex.quote(key)} asks for the same tests again") from error
        raise
    if is_printed:
        return
    headings = study.plan.headings
    columns = " and ".join(headings.get(column, column) for column in columns_to_fill(study.plan, tests))
    say(f"{counted(len(tests), 'test')} of {study.name} written to {out}. Fill in {columns}, then give it back:")
    say(f"bestarm tell {shlex.quote(study.name)} --from {shlex.quote(str(out))}")


class _NothingToDo(Exception):
    """There is no test to write down, and so no file."""


def _plain(test: Test) -> dict[str, object]:
    """A test as plain data: its metrics if they are several, its item if it has one."""
    data = dataclasses.asdict(test)
    if len(test.metrics) == 1:
        del data["metrics"]
    if test.item is None:
        del data["item"]
    return data


def _nothing_to_do(study: AnyStudy) -> str:
    answer = study.answer
    if answer is not None:
        return f"Nothing left to test. {answer}"
    awaited = study.awaited()
    first = "" if awaited is None else f" First of all it waits for {awaited}."
    return f"Nothing to test now: the study waits for {counted(len(study.pending()), 'result')}.{first}"
