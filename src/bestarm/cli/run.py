"""`bestarm run`: make a study's tests with a command of the user's, and show how it goes."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bestarm.cli.shared.arguments import AsJson, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import Place
from bestarm.cli.shared.show import print_json, say
from bestarm.cli.shared.verdicts import VOID, IgnoreHealth, status_data, stop_on_signals
from bestarm.errors import UNSTATED, InvalidInput
from bestarm.texts import VOID_STYLE

if TYPE_CHECKING:
    from bestarm.problem import Plan
    from bestarm.study.work.command import Command


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
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=READER",
            help="How a metric is read from what the command prints, for each: p99=json:.latency.p99, "
            "rps=regex:Requests/sec: ([0-9.]+), score=last-line.",
        ),
    ] = None,
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
    blocks: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="End after N blocks. A machine that may suit one arm better is one block: --blocks 1 on each machine.",
            show_default="when the study is done",
        ),
    ] = None,
    shell: Annotated[
        bool, typer.Option("--shell", help="Run the command in a shell, which gets names as variables.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Run it once, for the first arm, show what is read, and record nothing.")
    ] = False,
    ignore_health: IgnoreHealth = False,
    *,
    place: Place,
    as_json: AsJson = False,
) -> None:
    """Make the tests with a command of yours until the answer is certain.

    A failure stops the run, unless you say what it counts (--failed-as, --timeout-as), or that it has nothing to do
    with the result (--retry). Exit status 5 says that the results contradict what the guarantee rests on.
    """
    from concurrent.futures import ThreadPoolExecutor

    from bestarm.analysis.status.waiting import where_option
    from bestarm.study.work.command import Command
    from bestarm.study.work.failures import ON_THE_COMMAND_LINE, Declared, read_declared
    from bestarm.study.work.reading import readers_of
    from bestarm.study.work.watching import Display
    from bestarm.study.work.workers import work

    if not 1 <= workers <= 10_000:
        raise InvalidInput("workers", workers, "must be a whole number from 1 to 10,000")
    # Each run is a holder of its own, so that several runs of one user keep their tests apart.
    study = place.open(name)
    items = study.plan.items if study.plan.blocks is None else None
    if blocks is not None and study.plan.blocks is None:
        raise InvalidInput("--blocks", blocks, f"can only be stated of a study with blocks, and {name!r} has none")
    if blocks is not None and blocks < 1:
        raise InvalidInput("--blocks", blocks, "must be a whole number from 1 on")
    readers = readers_of(metric or [], [*dict.fromkeys(one for names in study.plan.yields.values() for one in names)])
    has_results = not dry_run and study.status().tests > 0
    takes_items = items is not None
    program = Command(
        *(command, name), timeout=timeout, shell=shell, items=takes_items, readers=readers, has_results=has_results
    )
    named = items if isinstance(items, tuple) else ()
    program.check_names(study.plan.arm_names, study.plan.test_names.values(), named)
    if dry_run:
        _try_out(program, study.plan, as_json=as_json)
        return
    if timeout_as and timeout is None:
        raise InvalidInput("--timeout-as", UNSTATED, "needs --timeout SECONDS")
    declared = Declared.of(
        study.plan,
        read_declared(failed_as or [], "--failed-as"),
        read_declared(timeout_as or [], "--timeout-as"),
        retry,
        dataclasses.replace(ON_THE_COMMAND_LINE, where=where_option(place.url)),
    )
    pool = ThreadPoolExecutor(workers)
    stop_on_signals()
    try:
        with Display(study, Console(stderr=True)) as display:
            work(
                study,
                lambda test, _: pool.submit(program, test),
                workers,
                declared=declared,
                says=False,
                watch=display,
                blocks=blocks,
            )
    except KeyboardInterrupt:
        print("stopped; the tests under way were given back, and the same command goes on", file=sys.stderr)
        raise
    finally:
        program.stop()
        pool.shutdown(cancel_futures=True)
    status = study.status()
    is_void = status.guarantee == "void"
    if as_json:
        print_json(status_data(study, status))
    else:
        say(str(study.answer or status.headline), VOID_STYLE if is_void else None)
        for sentence in status.health.through("file").warnings:
            say(f"warning: {sentence}")
    if is_void and not ignore_health:
        raise typer.Exit(VOID)


def _try_out(program: Command, plan: Plan, *, as_json: bool) -> None:
    """Make a test of each kind for the first arm, outside the study, and show what is read from it."""
    from bestarm.study.intake.names import Test

    arm = plan.arm_names[0]
    item = plan.items[0] if isinstance(plan.items, tuple) else None if plan.items is None else "1"
    found: dict[str, Any] = {}
    for lead, metrics in plan.yields.items():
        value = program(Test(0, arm, plan.test_names[lead], metrics, item))
        found |= value if isinstance(value, Mapping) else {metrics[0]: value}
    if as_json:
        print_json({"arm": arm, "item": item, "values": found})
        return
    for metric, value in found.items():
        say(f"{metric} of {arm}: {value}")
    say("Nothing was recorded.")
