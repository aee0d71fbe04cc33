"""`bestarm run`: make a study's tests with a command of the user's, and show how it goes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from bestarm.cli.shared.arguments import AsJson, Database, StudyName, Token
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import open_as
from bestarm.cli.shared.show import print_json, say
from bestarm.cli.shared.verdicts import VOID, IgnoreHealth, stop_on_signals
from bestarm.errors import UNSTATED, InvalidInput
from bestarm.texts import VOID_STYLE


@study_command(place=220)
def run(
    name: StudyName,
    command: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Prints a number, or for several metrics a JSON object or lines `name value`; {arm}, {metric}, "
            "{test}, {study} and, with items, {item} are filled in.",
        ),
    ],
    workers: Annotated[int, typer.Option(metavar="N", help="How many tests to make at once.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End a command that takes longer.", show_default="never")
    ] = None,
    failed_as: Annotated[
        list[str] | None,
        typer.Option(metavar="[METRIC=]VALUE", help="Count a failure (another exit status than 0) as this value."),
    ] = None,
    timeout_as: Annotated[
        list[str] | None, typer.Option(metavar="[METRIC=]VALUE", help="Count a time-out as this value.")
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
    ignore_health: IgnoreHealth = False,
    token: Token = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Make the tests with a command of yours until the answer is certain.

    A failure stops the run, unless you say what it counts (--failed-as, --timeout-as), or that it has nothing to do
    with the result (--retry). Exit status 5 says that the results contradict what the guarantee rests on.
    """
    from concurrent.futures import ThreadPoolExecutor

    from bestarm.study.work.command import Command
    from bestarm.study.work.failures import ON_THE_COMMAND_LINE, Declared, read_declared
    from bestarm.study.work.watching import Display
    from bestarm.study.work.workers import drive

    if not 1 <= workers <= 10_000:
        raise InvalidInput("workers", workers, "must be a whole number from 1 to 10,000")
    # Each run is a holder of its own, so that several runs of one user keep their tests apart.
    study = open_as(name, db, None, token)
    items = study.plan.items
    program = Command(command, name, timeout=timeout, shell=shell, items=items is not None)
    named = items if isinstance(items, tuple) else ()
    program.check_names(study.plan.arm_names, study.plan.test_names.values(), named)
    if timeout_as and timeout is None:
        raise InvalidInput("--timeout-as", UNSTATED, "needs --timeout SECONDS")
    declared = Declared.of(
        study.plan,
        read_declared(failed_as or [], "--failed-as"),
        read_declared(timeout_as or [], "--timeout-as"),
        retry,
        ON_THE_COMMAND_LINE,
    )
    pool = ThreadPoolExecutor(workers)
    stop_on_signals()
    try:
        with Display(study, Console(stderr=True)) as display:
            answer = drive(
                study,
                lambda test, _: pool.submit(program, test),
                workers,
                declared=declared,
                says=False,
                watch=display,
            )
    except KeyboardInterrupt:
        print("stopped; the tests under way were given back, and the same command goes on", file=sys.stderr)
        raise
    finally:
        program.stop()
        pool.shutdown(cancel_futures=True)
    status = study.status()
    if as_json:
        print_json(status.to_dict())
    else:
        say(str(answer), VOID_STYLE if answer.guarantee == "void" else None)
        for sentence in status.health.through("file").warnings:
            say(f"warning: {sentence}")
    if answer.guarantee == "void" and not ignore_health:
        raise typer.Exit(VOID)
