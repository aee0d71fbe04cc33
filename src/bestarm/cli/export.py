"""`bestarm export`: every test and result in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bestarm.cli.shared.arguments import Database, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.files import written_whole
from bestarm.cli.shared.opening import open_study
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
    db: Database = None,
) -> None:
    """Write out every test and result."""
    from bestarm.study.exchange import write_csv, write_json
    from bestarm.validation import InvalidInput

    writers = {"csv": write_csv, "json": write_json}
    chosen = form or ("json" if out is not None and out.suffix.lower() == ".json" else "csv")
    if chosen not in writers:
        raise InvalidInput("format", form, "must be csv or json", ("csv", "json"))
    study = open_study(name, db)
    if out is None or str(out) == "-":
        writers[chosen](study, sys.stdout)
        return
    with written_whole(out) as file:
        tests = writers[chosen](study, file)
    plain_console().print(shown(f"{counted(tests, 'test')} of {study.name} written to {out}."), soft_wrap=True)
