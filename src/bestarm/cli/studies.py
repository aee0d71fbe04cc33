"""The commands of live studies, as the command line declares them. Their bodies load when they are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Name = Annotated[str, typer.Argument(metavar="STUDY", help="The study's name.")]
TestNumber = Annotated[str, typer.Argument(metavar="TEST", help="The test's number, as `ask` gave it.")]
Database = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", help="A file or postgresql://… URL; else $BESTARM_DB, or bestarm.db in this folder."
    ),
]
Worker = Annotated[
    str | None, typer.Option(metavar="NAME", help="In whose name; user@machine by default.", show_default=False)
]
Repeated = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="TEXT", help="One for each thing to do: repeated with it, it counts once.", show_default=False
    ),
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why; kept in the log.", show_default=False)]


def new(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A study file (TOML or JSON), or a built-in instance.")],
    db: Database = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it; the file's own by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed, for policies that draw lots.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Start a study from a study file."""
    from bestarm.cli.study import new

    new(source, name, seed, db, as_json)


def list_studies(
    db: Database = None,
    show_all: Annotated[bool, typer.Option("--all", help="Archived studies too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the studies: their state, tests and leader."""
    from bestarm.cli.study import list_studies

    list_studies(show_all, db, as_json)


def ask(
    study: Name,
    number: Annotated[int, typer.Option("-n", metavar="N", help="How many tests, at most.")] = 1,
    days: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS", help="In how many days you want to tell them; later, status says so.", show_default=False
        ),
    ] = None,
    key: Repeated = None,
    worker: Worker = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Get the next tests to make. They are yours until you tell, fail or release them."""
    from bestarm.cli.study import ask

    ask(study, number, days, key, worker, db, as_json)


def tell(
    study: Name,
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
    key: Repeated = None,
    worker: Worker = None,
    db: Database = None,
) -> None:
    """Record results: TEST VALUE, or --arm A --metric M VALUE, or --csv FILE."""
    from bestarm.cli.study import tell

    tell(study, words or [], arm, metric, table, correct, reason, key, worker, db)


def fail(study: Name, test: TestNumber, reason: Reason = "", worker: Worker = None, db: Database = None) -> None:
    """Say that an attempt at a test failed, for a reason that has nothing to do with its result: it is made again."""
    from bestarm.cli.study import fail

    fail(study, test, reason, worker, db)


def release(
    study: Name,
    tests: Annotated[list[str] | None, typer.Argument(metavar="[TEST...]", help="The tests' numbers.")] = None,
    held_by: Annotated[
        str | None, typer.Option("--held-by", metavar="NAME", help="All tests that NAME holds.", show_default=False)
    ] = None,
    worker: Worker = None,
    db: Database = None,
) -> None:
    """Free tests whose results will not come, whoever holds them: they are handed out again."""
    from bestarm.cli.study import release

    release(study, tests or [], held_by, worker, db)


def abandon(study: Name, test: TestNumber, reason: Reason = "", worker: Worker = None, db: Database = None) -> None:
    """Give a test up, for a reason that has nothing to do with its result."""
    from bestarm.cli.study import abandon

    abandon(study, test, reason, worker, db)


def status(
    study: Name,
    forecast: Annotated[bool, typer.Option("--forecast", help="Simulate what remains to be done.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help="Every arm, however many there are.")] = False,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Where a study stands: every arm and metric, the leader, what is pending."""
    from bestarm.cli.status import status

    status(study, forecast, show_all, db, as_json)


def log(
    study: Name,
    last: Annotated[int, typer.Option(metavar="N", help="How many events, the newest.")] = 50,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """What happened in a study."""
    from bestarm.cli.status import log

    log(study, last, db, as_json)


def export(
    study: Name,
    form: Annotated[
        str | None, typer.Option("--format", metavar="csv|json", help="CSV, unless the file's name ends in .json.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to; standard output by default.")
    ] = None,
    db: Database = None,
) -> None:
    """Write out every test and result."""
    from bestarm.cli.exchange import export

    export(study, form, out, db)


def import_(
    study: Name,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="CSV with the columns arm,metric,value; - is standard input.")
    ],
    again: Annotated[bool, typer.Option("--again", help="Take a file that is in the study already.")] = False,
    key: Repeated = None,
    worker: Worker = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Record past results from a CSV file, all or nothing."""
    from bestarm.cli.exchange import import_

    import_(study, file, again, key, worker, db, as_json)


def archive(
    study: Name,
    undo: Annotated[bool, typer.Option("--undo", help="Bring it back.")] = False,
    db: Database = None,
) -> None:
    """Put a study away: it can be read and not changed."""
    from bestarm.cli.study import archive

    archive(study, undo, db)


def run(
    study: Name,
    command: Annotated[
        str,
        typer.Option(metavar="COMMAND", help="Prints one number; {arm}, {metric}, {test} and {study} are filled in."),
    ],
    workers: Annotated[int, typer.Option(metavar="N", help="How many tests to make at once.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End a command that takes longer.", show_default="never")
    ] = None,
    failed_as: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[METRIC=]VALUE",
            help="Count a failure (another exit status than 0) as this value.",
            show_default=False,
        ),
    ] = None,
    timeout_as: Annotated[
        list[str] | None,
        typer.Option(metavar="[METRIC=]VALUE", help="Count a time-out as this value.", show_default=False),
    ] = None,
    retry: Annotated[
        int,
        typer.Option(
            metavar="N", help="Failures have nothing to do with results: make a failed test again, up to N times."
        ),
    ] = 0,
    shell: Annotated[
        bool, typer.Option("--shell", help="Run the command in a shell, which gets names as variables.")
    ] = False,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Make the tests with a command of yours until the answer is certain.

    A failure stops the run, unless you say what it counts (--failed-as, --timeout-as), or that it has nothing to do
    with the result (--retry).
    """
    from bestarm.cli.run import run

    run(study, db, command, workers, timeout, failed_as or [], timeout_as or [], retry, shell, as_json)


def report(
    study: Name,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to write it; STUDY.html by default.")
    ] = None,
    forecast: Annotated[bool, typer.Option(help="Simulate what remains of a running study.")] = True,
    db: Database = None,
) -> None:
    """Write a report: one HTML file to read, print and keep."""
    from bestarm.cli.report import report

    report(study, out, forecast, db)


COMMANDS: dict[str, Callable[..., Any]] = {
    "new": new,
    "list": list_studies,
    "ask": ask,
    "tell": tell,
    "fail": fail,
    "release": release,
    "abandon": abandon,
    "status": status,
    "log": log,
    "export": export,
    "import": import_,
    "run": run,
    "report": report,
    "archive": archive,
}
"""In the order of a study's life."""
