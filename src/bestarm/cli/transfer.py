"""`bestarm export`, `import`, `report` and `track`: a study in files and in MLflow."""

from __future__ import annotations

import codecs
import dataclasses
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bestarm.cli.shared.arguments import (
    AsJson,
    ColumnNames,
    IgnoredColumns,
    Key,
    StudyName,
    Yes,
)
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.files import is_stdout, read_twice, record_confirmed, recorded_words, results_file, writing
from bestarm.cli.shared.opening import (
    Access,
    Place,
    check_text,
    repeatable_with_key,
    saying_how_to_give_a_token,
    whoami,
)
from bestarm.cli.shared.show import counted, print_json, say
from bestarm.errors import UNSTATED, InvalidInput
from bestarm.texts import shown

if TYPE_CHECKING:
    from bestarm.study.files.exchange import Recorded


@study_command(place=200)
def export(
    name: Annotated[
        str | None, typer.Argument(metavar="STUDY", help="The study's name; with --all all studies by default.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", metavar="csv|json", help="CSV, unless the file's name ends in .json.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to; standard output by default.")
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Everything, for `bestarm import` to restore: of the study, or of all studies."),
    ] = False,
    *,
    place: Place,
) -> None:
    """Write out every test and result, or with --all a backup of a study or of all studies."""
    from bestarm.study.files.exchange import write_csv, write_json

    if everything:
        if form is not None:
            raise InvalidInput("--format", UNSTATED, "cannot be combined with --all, whose files have their own format")
        _back_up(name, place, out)
        return
    if name is None:
        raise InvalidInput("export", UNSTATED, "needs the name of a STUDY, or --all for a backup of all of them")
    writers = {"csv": write_csv, "json": write_json}
    chosen = form or ("json" if out is not None and out.suffix.lower() == ".json" else "csv")
    if chosen not in writers:
        raise InvalidInput("format", form, "must be csv or json", writers)
    study = place.read(name)
    with writing(out) as file:
        tests = writers[chosen](study, file)
    if not is_stdout(out):
        say(f"{counted(tests, 'test')} of {study.name} written to {out}.")


def _back_up(name: str | None, place: Place, out: Path | None) -> None:
    from bestarm.storage.opening import open_storage
    from bestarm.study.files.backup import BackupOfAll, check_backup, write_backup, write_backup_of_all
    from bestarm.study.record.checks import find_record

    client = place.client()
    with writing(out) as file:
        if client is not None:
            with tempfile.TemporaryFile() as kept, saying_how_to_give_a_token():
                client.backup(kept, None if name is None else check_text("study", name))
                kept.seek(0)
                made = check_backup(kept, client.url)
                kept.seek(0)
                shutil.copyfileobj(codecs.getreader("utf-8")(kept), file)
        else:
            # The study is not opened, so that one that cannot be read can be kept, too.
            storage = open_storage(place.db)
            if name is None:
                made = write_backup_of_all(storage, file)
            else:
                made = write_backup(storage, find_record(storage, check_text("study", name)), file)
    what = counted(len(made.studies), "study", "studies") if isinstance(made, BackupOfAll) else made.name
    where, stream = ("standard output", sys.stderr) if is_stdout(out) else (out, sys.stdout)
    print(shown(f"{what}: {counted(made.rows, 'row')} written to {where}"), made.digest, sep="\n", file=stream)


@study_command(place=210)
def import_(
    name: Annotated[str, typer.Argument(metavar="[STUDY]", help="The study's name; leave it out for a backup.")],
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="CSV or Excel workbook with the columns arm,metric,value, or a backup; - is standard input.",
        ),
    ] = None,
    new_name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Restore a backup under this name.")
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(metavar="PROJECT", help="Restore a backup into this project, in place of the one that it names."),
    ] = None,
    yes: Yes = False,
    again: Annotated[bool, typer.Option("--again", help="Take a file that is in the study already.")] = False,
    key: Key = None,
    ignore: IgnoredColumns = None,
    *,
    access: Access,
    columns: ColumnNames = None,
    as_json: AsJson = False,
) -> None:
    """Record past results from CSV or an Excel workbook, or restore a backup (`export --all`); all or nothing."""
    from bestarm.parsing import read_bytes
    from bestarm.study import Study
    from bestarm.study.files.exchange import import_results, read_columns

    if path is None:
        for option, given in {
            "--again": again,
            "--key": key,
            "--worker": access.worker,
            "--map": columns,
            "--ignore": ignore,
        }.items():
            if given:
                raise InvalidInput(option, UNSTATED, "is for STUDY FILE, not for a backup")
        _restore(name, access.place, new_name, project, as_json)
        return
    for option, stated in {"--as NAME": new_name, "--project PROJECT": project}.items():
        if stated is not None:
            raise InvalidInput(option.split()[0], UNSTATED, f"is only for a backup: bestarm import FILE {option}")
    study, meanings = access.open(name), read_columns(columns)

    def record(check_far: bool) -> Recorded:
        with results_file(path) as (file, called), repeatable_with_key():
            how: dict[str, Any] = {"once": not again, "key": key, "columns": meanings, "ignore": ignore or ()}
            if isinstance(study, Study):
                return import_results(study, file, called, check_far=check_far, **how)
            return study.tell_csv(read_bytes(file, called), past=True, check_far=check_far, **how)

    recorded = record_confirmed(record, yes, path)
    if as_json:
        print_json(dataclasses.asdict(recorded))
    else:
        say(recorded_words(study, recorded))


def _restore(path: str, place: Place, name: str | None, project: str | None, as_json: bool) -> None:
    from bestarm.storage.errors import NameTaken
    from bestarm.storage.opening import open_storage
    from bestarm.study.files.backup import restore_backup

    client, new = place.client(), None if name is None else check_text("name", name)
    with results_file(path) as (given, called), read_twice(given, called) as file, saying_how_to_give_a_token():
        try:
            if client is None:
                storage = open_storage(place.db, create=True)
                done = restore_backup(storage, file, called, name=new, project=project, by=whoami())
            else:
                done = client.restore(file, new, project=project)
        except NameTaken as error:
            raise NameTaken(f"{error}; --as NAME restores a study under another") from None
    if as_json:
        print_json(done._asdict() | {"studies": [one._asdict() for one in done.studies]})
        return
    for one in done.studies:
        say(f"Restored {one.name} with {counted(one.rows, 'row')}, {one.digest}.")
    for name in done.there:
        differs = "and differs, if only by its project; it stays as it is"
        say(f"{name} is there already, {differs if name in done.differ else 'with the same record'}.")


@study_command(place=230)
def report(
    name: StudyName,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to write it; STUDY.html by default.")
    ] = None,
    forecast: Annotated[bool, typer.Option(help="Simulate what remains of a running study.")] = True,
    *,
    place: Place,
) -> None:
    """Write a report: one HTML file to read, print and keep."""
    from bestarm.study.reports.report import study_report

    study = place.read(name)
    file = out or Path(re.sub(r"[^\w.-]+", "-", study.name).strip("-.") + ".html")
    page = study_report(study, forecast=forecast)
    with writing(file) as stream:
        stream.write(page)
    if not is_stdout(file):
        say(f"Report: {file}")


@study_command(place=235)
def track(
    name: StudyName,
    to: Annotated[
        str | None,
        typer.Option(metavar="URI", help="MLflow's tracking URI; else $MLFLOW_TRACKING_URI, or its default."),
    ] = None,
    experiment: Annotated[str, typer.Option(metavar="NAME", help="The experiment in MLflow.")] = "bestarm",
    *,
    place: Place,
) -> None:
    """Write results, intervals and the verdict to MLflow. Repeating it is safe."""
    from bestarm.integrations.mlflow import to_mlflow

    run = to_mlflow(place.open(name), tracking_uri=to, experiment=experiment)
    say(f"Tracked: run {run} of experiment {experiment}")
