"""`bestarm race` and `gate`: which command is best within limits, and is the new one no worse than the old?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import typer

from bestarm.cli.shared.command import PAIR, command
from bestarm.cli.shared.log_gates import LogOptions, refuse_others
from bestarm.cli.shared.race_options import Options
from bestarm.cli.shared.show import say_at_once
from bestarm.cli.shared.suite_gates import SuiteOptions, commands_of
from bestarm.cli.shared.verdicts import EXITS, INTERRUPTED, stop_on_signals
from bestarm.errors import UNSTATED, InvalidInput

_ORDERS = ("auto", "command", "mean-time")
INSTEAD = {
    "--min-benchmarking-time": "--min-runs N or --minutes N says how long to go on",
    "--debug-mode": "--show-output shows what commands print",
    "--reference-name": "put the reference among the commands and name it with --command-name",
    "--parallel": "runs at the same time disturb each other; --on HOST uses more machines",
    "--jobs": "runs at the same time disturb each other; --on HOST uses more machines",
    "--version": "bestarm --version",
    "-V": "bestarm --version",
}
"""What to type instead of options of other programs."""
_FOR_LOGS = ("at_most", "at_least", "delta", "seed", "ignore_health", "export_json", "export_markdown")
"""The options of a gate on commands that one on logs takes, too."""
_FOR_SUITES = (
    *("at_most", "delta", "seed", "ignore_health", "prepare", "warmup", "timeout", "shell", "no_shell", "max_runs"),
    *("minutes", "export_json", "export_csv", "export_markdown"),
)
"""Those that one on suites of benchmarks takes, too."""


@command(place=5, instead=INSTEAD)
def race(
    commands: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="Each in quotes.")],
    minimize: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="time, user, system, memory, output or your own.", show_default="time"),
    ] = None,
    maximize: Annotated[
        str | None, typer.Option(metavar="METRIC", help="The metric to make large: --maximize rps.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="What limits such as time=1.02x or time=baseline+5ms are relative to."),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="What others are compared with in tables.", show_default="the least mean time"
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--command-name", "-n", "--name", metavar="NAME", help="Names of the commands, in order."),
    ] = None,
    parameter_list: Annotated[
        list[str] | None,
        typer.Option("--parameter-list", "-L", metavar=PAIR, help="Fill in {NAME} with each of A,B,C."),
    ] = None,
    parameter_scan: Annotated[
        tuple[str, str, str] | None,
        typer.Option("--parameter-scan", "-P", metavar="NAME FIRST LAST", help="Fill in {NAME} with these numbers."),
    ] = None,
    parameter_step_size: Annotated[
        str | None,
        typer.Option("--parameter-step-size", "-D", metavar="N", help="From number to number.", show_default="1"),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT", help="How close to the best is good enough: 5ms, or 5% of it.", show_default="none"
        ),
    ] = None,
    sort: Annotated[
        str, typer.Option(metavar="ORDER", help="Rows by command or by mean-time; auto is by command.")
    ] = "auto",
    *,
    options: Options,
) -> None:
    """Find the best of several commands, within limits, with as few runs as possible; or measure one.

    Exit status: 0 if an answer is certified, except for pauses rarer than the verdict says; 3 if it is certain that no
    command meets every limit; 4 if the budget is spent before anything is certain, or if the answer paused more often
    than the others by more than two standard deviations, or for long where they never did, or had runs stopped at the
    timeout; 5 if the runs contradict what the guarantee rests on.
    """
    say_at_once()
    from bestarm.race.contestants import contestants_of, with_another
    from bestarm.race.limits import read_objective, read_tolerance

    if sort not in _ORDERS:
        raise InvalidInput("--sort", sort, f"must be one of {', '.join(_ORDERS)}", _ORDERS)
    if minimize is not None and maximize is not None:
        raise InvalidInput("--maximize", maximize, "state one of --minimize and --maximize; the other can be limited")
    around = options.around()
    contestants = contestants_of(
        commands,
        names or [],
        parameter_list or [],
        scan=parameter_scan,
        step=parameter_step_size,
        around=around,
    )
    contestants, base = with_another(contestants, baseline, "--baseline", around)
    contestants, first = with_another(contestants, reference, "--reference", around)
    known, option = options.known, "--minimize" if maximize is None else "--maximize"
    objective = read_objective(maximize or minimize or "time", option, known)
    near = (0.0, 0.0) if tolerance is None else read_tolerance(tolerance, known[objective])
    goal: Literal["minimize", "maximize"] = "minimize" if maximize is None else "maximize"
    question = options.question(objective, base, near, goal, first)
    options.run(contestants, question, order=sort)


def _run_suite(options: Options, suites: SuiteOptions, commands: list[str]) -> int:
    """Run a gate on a suite of benchmarks. Returns the exit status that says what it came to."""
    from bestarm.race.conditions import DEFAULT_MINUTES

    conditions, prepare = options.conditions(), options.prepare or []
    if len(prepare) > 1:
        raise InvalidInput("--prepare", len(prepare), "state it once, for both programs")
    stop_on_signals()
    found = suites.run(
        commands,
        options.at_most or [],
        shell=conditions.shell,
        prepare=prepare[0] if prepare else None,
        timeout=conditions.timeout,
        warmup=conditions.warmup,
        delta=options.delta,
        seed=options.seed,
        minutes=conditions.minutes or DEFAULT_MINUTES,
        pairs=options.max_runs,
        exports=options.exports(),
    )
    return INTERRUPTED if found.is_interrupted else EXITS[found.decided if options.ignore_health else found.found]


@command(place=6, instead=INSTEAD)
def gate(
    candidate: Annotated[str, typer.Argument(metavar="COMMAND|LOG", help="A command, in quotes; with --eval, a log.")],
    baseline: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="The command that the candidate is compared with.")
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add a line of JSON with the verdict; `bestarm history FILE` lists them."),
    ] = None,
    *,
    options: Options,
    logs: LogOptions,
    suites: SuiteOptions,
) -> None:
    """Let a command, or a model by its log, pass only if it is certain not to be worse by more than you allow.

    bestarm gate './new f' --baseline './old f' --at-most time=1.05x runs commands. bestarm gate --eval base.eval
    new.eval --at-least accuracy=-1pp compares logs of evaluations, item by item. bestarm gate --suite pytest 'pytest
    new/bench' --baseline 'pytest old/bench' compares all benchmarks of two programs.

    Exit status: 0 if it is certain that the candidate meets every limit, except for pauses rarer than the verdict says;
    3 if it is certain that it does not; 4 if the budget or the items are spent before either is, or if the command that
    would win paused more often than the other by more than two standard deviations, or for long where the other never
    did, or had runs stopped at the timeout; 5 if the results contradict what the guarantee rests on. --at-most
    pauses=1% makes sure that pauses are rare.
    """
    say_at_once()
    from bestarm.race.contestants import contestants_of, study_name
    from bestarm.race.plans import CANDIDATE

    if suites.suite is not None:
        refuse_others(logs, (), "logs, and --suite runs commands")
        refuse_others(options, _FOR_SUITES, "single commands, and --suite compares all benchmarks that they run")
        if history is not None:
            raise InvalidInput("--history", str(history), "is for single commands, and --suite compares benchmarks")
        raise typer.Exit(_run_suite(options, suites, commands_of(candidate, baseline)))
    refuse_others(suites, (), "benchmarks: --suite says of which kind")
    if (baseline is None) == (logs.log_of_baseline is None):
        raise InvalidInput(
            "--baseline", UNSTATED, "state the command to compare with, or with --eval a log; `race` takes one alone"
        )
    if logs.log_of_baseline is not None:
        refuse_others(options, _FOR_LOGS, "commands, and --eval compares logs")
        if history is not None:
            raise InvalidInput("--history", str(history), "is for commands, and --eval compares logs")
        limits = options.at_most or [], options.at_least or []
        found = logs.run(candidate, *limits, options.delta, options.seed, options.exports())
        raise typer.Exit(EXITS[found.decided if options.ignore_health else found.found])
    refuse_others(logs, (), "logs: bestarm gate --eval BASELINE CANDIDATE")
    if not options.at_most and not options.at_least:
        raise InvalidInput("--at-most", UNSTATED, "say what passes: --at-most time=1.02x")
    assert baseline is not None
    names = [] if baseline != candidate else ["baseline", "candidate"]
    old, new = contestants_of([baseline, candidate], names, around=options.around())
    # The history of a command beside itself is not that of another one.
    options = dataclasses.replace(options, study=options.study or study_name([baseline, candidate]))
    options.run([old, new], options.question(CANDIDATE, old.name), history)
