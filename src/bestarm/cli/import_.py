"""`bestarm import`: past results from a file, or a whole study from a backup."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, Database, Key, Worker, Yes
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.confirming import record_confirmed
from bestarm.cli.shared.files import recorded_words, results_file
from bestarm.cli.shared.opening import check_text, open_local_study, repeatable_with_key, whoami
from bestarm.cli.shared.show import counted, plain_console, print_json, shown

if TYPE_CHECKING:
    from bestarm.study.files.exchange import Recorded


@study_command(place=210)
def import_(
    name: Annotated[str, typer.Argument(metavar="[STUDY]", help="The study's name; leave it out for a backup.")],
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="CSV with the columns arm,metric,value, or a backup; - is standard input.",
            show_default=False,
        ),
    ] = None,
    new_name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Restore a backup under this name.", show_default=False),
    ] = None,
    yes: Yes = False,
    again: Annotated[bool, typer.Option("--again", help="Take a file that is in the study already.")] = False,
    key: Key = None,
    worker: Worker = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Record past results from a CSV file, or restore a study from a backup (`export --all`); all or nothing."""
    from bestarm.study.files.exchange import import_results
    from bestarm.validation import UNSTATED, InvalidInput

    if path is None:
        for option, given in (("--again", again), ("--key", key), ("--worker", worker)):
            if given:
                raise InvalidInput(option, UNSTATED, "is for STUDY FILE, not for a backup")
        _restore(name, db, new_name, as_json)
        return
    if new_name is not None:
        raise InvalidInput("--as", UNSTATED, "is only for a backup: bestarm import FILE --as NAME")
    study = open_local_study(name, db, check_text("worker", worker or whoami()))

    def record(check_far: bool) -> Recorded:
        with results_file(path) as (file, called), repeatable_with_key():
            return import_results(study, file, called, once=not again, key=key, check_far=check_far)

    recorded = record_confirmed(record, yes, path)
    if as_json:
        print_json(dataclasses.asdict(recorded))
    else:
        plain_console().print(shown(recorded_words(study, recorded)), soft_wrap=True)


def _restore(path: str, db: str | None, name: str | None, as_json: bool) -> None:
    import shutil
    import tempfile

    from bestarm.storage.opening import open_storage
    from bestarm.study.files.backup import restore_backup

    with results_file(path) as (file, called), tempfile.TemporaryFile() as kept:
        if path == "-":
            # It is read twice.
            shutil.copyfileobj(file, kept)
            kept.seek(0)
        new = None if name is None else check_text("name", name)
        made = restore_backup(open_storage(db, create=True), kept if path == "-" else file, called, name=new)
    if as_json:
        print_json(made._asdict())
    else:
        plain_console().print(
            shown(f"Restored {made.name} with {counted(made.rows, 'row')}, {made.digest}."), soft_wrap=True
        )
