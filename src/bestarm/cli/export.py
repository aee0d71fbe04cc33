"""`bestarm export`: every test and result in a file, or everything of a study, to restore it from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bestarm.cli.shared.arguments import Database, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.files import written_whole
from bestarm.cli.shared.opening import check_text, open_local_study
from bestarm.cli.shared.show import counted, plain_console, shown


@study_command(place=200)
def export(
    name: StudyName,
    form: Annotated[
        str | None, typer.Option("--format", metavar="csv|json", help="CSV, unless the file's name ends in .json.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to; standard output by default.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything of the study, for `bestarm import` to restore it from.")
    ] = False,
    db: Database = None,
) -> None:
    """Write out every test and result, or with --all a backup of the whole study."""
    from bestarm.study.files.exchange import write_csv, write_json
    from bestarm.validation import UNSTATED, InvalidInput

    if everything:
        if form is not None:
            raise InvalidInput("--format", UNSTATED, "cannot be combined with --all, whose files have their own format")
        _back_up(name, db, out)
        return
    writers = {"csv": write_csv, "json": write_json}
    chosen = form or ("json" if out is not None and out.suffix.lower() == ".json" else "csv")
    if chosen not in writers:
        raise InvalidInput("format", form, "must be csv or json", ("csv", "json"))
    study = open_local_study(name, db)
    if out is None or str(out) == "-":
        writers[chosen](study, sys.stdout)
        return
    with written_whole(out) as file:
        tests = writers[chosen](study, file)
    plain_console().print(shown(f"{counted(tests, 'test')} of {study.name} written to {out}."), soft_wrap=True)


def _back_up(name: str, db: str | None, out: Path | None) -> None:
    from bestarm.storage.opening import open_storage
    from bestarm.study.files.backup import write_backup
    from bestarm.study.record.checks import find_record

    storage = open_storage(db)
    record = find_record(storage, check_text("study", name))
    if out is None or str(out) == "-":
        made = write_backup(storage, record, sys.stdout)
        where = "standard output"
    else:
        with written_whole(out) as file:
            made = write_backup(storage, record, file)
        where = str(out)
    said = f"{made.name}: {counted(made.rows, 'row')} written to {where}\n{made.digest}"
    # What is written to standard output is the file.
    print("\n".join(map(shown, said.split("\n"))), file=sys.stderr if where == "standard output" else sys.stdout)
