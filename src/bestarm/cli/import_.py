"""`bestarm import`: past results from a file."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, Database, Key, StudyName, Worker
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.files import recorded_words, results_file
from bestarm.cli.shared.opening import open_study, repeatable_with_key
from bestarm.cli.shared.show import plain_console, print_json, shown


@study_command(place=210)
def import_(
    name: StudyName,
    path: Annotated[
        str, typer.Argument(metavar="FILE", help="CSV with the columns arm,metric,value; - is standard input.")
    ],
    again: Annotated[bool, typer.Option("--again", help="Take a file that is in the study already.")] = False,
    key: Key = None,
    worker: Worker = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Record past results from a CSV file, all or nothing."""
    from bestarm.study.exchange import import_results

    study = open_study(name, db, worker)
    with results_file(path) as (file, called), repeatable_with_key():
        recorded = import_results(study, file, called, once=not again, key=key)
    if as_json:
        print_json(dataclasses.asdict(recorded))
    else:
        plain_console().print(shown(recorded_words(study, recorded)), soft_wrap=True)
