"""`bestarm tell`: record results."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.shared.arguments import Database, Key, Reason, StudyName, Worker
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.files import recorded_words, results_file
from bestarm.cli.shared.opening import check_text, open_study, repeatable_with_key
from bestarm.cli.shared.show import plain_console, shown


@study_command(place=140)
def tell(
    name: StudyName,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="TEST VALUE", help="A test and its result.", show_default=False)
    ] = None,
    arm: Annotated[str | None, typer.Option(metavar="ARM", help="With --metric: measured without asking.")] = None,
    metric: Annotated[str | None, typer.Option(metavar="METRIC", help="The metric of that result.")] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--csv", metavar="FILE", help="Many results: columns test,value or arm,metric,value; - is standard input."
        ),
    ] = None,
    correct: Annotated[
        bool, typer.Option("--correct", help="Replace a result told wrongly; the log keeps it.")
    ] = False,
    reason: Reason = "",
    key: Key = None,
    worker: Worker = None,
    db: Database = None,
) -> None:
    """Record results: TEST VALUE, or --arm A --metric M VALUE, or --csv FILE."""
    from bestarm.study.csv_reader import read_test, read_value
    from bestarm.study.exchange import tell_results
    from bestarm.validation import UNSTATED, InvalidInput

    words = words or []
    by_name = arm is not None or metric is not None
    expected = 0 if table is not None else 1 if by_name else 2
    if len(words) != expected or (table is not None and by_name) or (arm is None) != (metric is None):
        raise InvalidInput("tell: give TEST VALUE, or --arm ARM --metric METRIC VALUE, or --csv FILE")
    if correct and expected != 2:
        raise InvalidInput("--correct", UNSTATED, "goes with TEST VALUE, one test at a time")
    if reason and not correct:
        raise InvalidInput("--reason", UNSTATED, "goes with --correct")
    if key is not None and expected == 2:
        raise InvalidInput("--key", UNSTATED, "goes with --arm and --metric, or --csv; a test's number is key enough")
    check_text("reason", reason)
    if table is not None:
        study = open_study(name, db, worker)
        with results_file(table) as (file, called), repeatable_with_key():
            # The same lines may well be piped in twice, such as yes and no. A file is one set of results.
            said = recorded_words(study, tell_results(study, file, called, once=table != "-", key=key))
    elif arm is not None and metric is not None:
        value = read_value(words[0].strip())
        study = open_study(name, db, worker)
        with repeatable_with_key():
            [number] = study.add([(check_text("arm", arm), check_text("metric", metric), value)], key=key)
        said = f"Recorded as test {number}: {metric} of {arm} = {value:g}."
    else:
        number, value = read_test(words[0].strip()), read_value(words[1].strip())
        study = open_study(name, db, worker)
        if correct:
            study.correct(number, value, reason)
        else:
            study.tell(number, value)
        said = f"{'Corrected' if correct else 'Recorded'}: test {number} = {value:g}."
    plain_console().print(shown(said), soft_wrap=True)
