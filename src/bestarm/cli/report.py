"""`bestarm report`: a study's report in a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from bestarm.cli.shared.arguments import Database, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.files import written_whole
from bestarm.cli.shared.opening import open_local_study
from bestarm.cli.shared.show import plain_console, shown


@study_command(place=230)
def report(
    name: StudyName,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to write it; STUDY.html by default.")
    ] = None,
    forecast: Annotated[bool, typer.Option(help="Simulate what remains of a running study.")] = True,
    db: Database = None,
) -> None:
    """Write a report: one HTML file to read, print and keep."""
    from bestarm.study.files.report import study_report

    study = open_local_study(name, db)
    file = out or Path(re.sub(r"[^\w.-]+", "-", study.name).strip("-.") + ".html")
    page = study_report(study, forecast=forecast)
    with written_whole(file) as stream:
        stream.write(page)
    plain_console().print(shown(f"Report: {file}"), soft_wrap=True)
