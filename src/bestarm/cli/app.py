"""The program `bestarm` and its commands."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bestarm.cli import studies
from bestarm.cli.arguments import Command, DashCommand
from bestarm.cli.serve import serve

if TYPE_CHECKING:
    from bestarm.plan import Plan

app = typer.Typer(
    name="bestarm",
    help="Find the best option that is also safe, with as few tests as possible, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AsJson = studies.AsJson
Executor = Annotated[
    str | None,
    typer.Option(help="Where to compute: threads (default), processes, dask:ADDRESS or ray:ADDRESS."),
]
Workers = Annotated[int | None, typer.Option(help="Threads or processes; all cores by default.")]
Device = Annotated[
    str, typer.Option(help="cpu, cuda (a CUDA card), or auto: a card if there is one and the job is large.")
]
Seed = Annotated[int, typer.Option(help="Seed; the same seed gives the same runs.")]


def load_plan(source: str) -> Plan:
    """The built-in instance of that name, or the study file at that path."""
    from bestarm.paper.instances import instance, instance_names
    from bestarm.plan import Plan
    from bestarm.validation import InvalidInput

    if source in instance_names():
        return instance(source)
    if not Path(source).exists():
        raise InvalidInput(
            f"{source!r} is neither a file nor a built-in instance; these are {', '.join(instance_names())}"
        )
    return Plan.load(source)


def print_json(data: Any) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))


def _version(wanted: bool) -> None:
    if wanted:
        import bestarm

        print(f"bestarm {bestarm.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Find the best option that is also safe, with as few tests as possible, and prove it."""


@app.command(cls=Command)
def simulate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INSTANCE|FILE", help="A built-in instance (exp1-a, drug, …) or a study file with means."
        ),
    ],
    policy: Annotated[str | None, typer.Option(help="Policy, by name; the study's own by default.")] = None,
    bound: Annotated[str | None, typer.Option(help="Confidence bound: paper, lil or mixture.")] = None,
    runs: Annotated[int, typer.Option(help="How many studies to simulate.")] = 1000,
    delta: Annotated[float | None, typer.Option(help="Allowed probability of a wrong answer.")] = None,
    seed: Seed = 0,
    max_tests: Annotated[int, typer.Option(help="Tests after which a run is given up as unfinished.")] = 10**9,
    executor: Executor = None,
    workers: Workers = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Simulate many studies and count tests and errors."""
    from bestarm.cli.simulate import run

    run(load_plan(source), policy, bound, runs, delta, seed, max_tests, executor, workers, device, as_json)


@app.command(cls=Command)
def theory(
    source: Annotated[str, typer.Argument(metavar="INSTANCE|FILE", help="A built-in instance or a study file.")],
    delta: Annotated[float | None, typer.Option(help="Allowed probability of a wrong answer.")] = None,
    as_json: AsJson = False,
) -> None:
    """How hard a problem is: complexity terms, lower and upper bounds, the best allocation of tests."""
    from bestarm.cli.theory import run

    run(load_plan(source), delta, as_json)


@app.command(cls=Command)
def forecast(
    source: Annotated[
        str, typer.Argument(metavar="INSTANCE|FILE", help="A study file with guessed means or ranges of them.")
    ],
    policy: Annotated[str | None, typer.Option(help="Policy, by name; the study's own by default.")] = None,
    bound: Annotated[str | None, typer.Option(help="Confidence bound: paper, lil or mixture.")] = None,
    delta: Annotated[float | None, typer.Option(help="Allowed probability of a wrong answer.")] = None,
    runs: Annotated[int, typer.Option(help="How many studies to simulate.")] = 1000,
    seed: Seed = 0,
    max_tests: Annotated[int, typer.Option(help="Tests after which a run is given up as unfinished.")] = 10**8,
    executor: Executor = None,
    workers: Workers = None,
    device: Device = "cpu",
    plot: Annotated[Path | None, typer.Option(help="Write a plot here (.png; SVG and data beside it).")] = None,
    as_json: AsJson = False,
) -> None:
    """How many tests a study will take and what it will cost, from guessed means."""
    from bestarm.cli.forecast import run

    run(load_plan(source), policy, bound, delta, runs, seed, max_tests, executor, workers, device, plot, as_json)


@app.command(cls=Command)
def campaign(
    sources: Annotated[list[str], typer.Argument(metavar="INSTANCE|FILE...", help="Instances or study files.")],
    out: Annotated[Path, typer.Option(help="Folder for results; an interrupted campaign there continues.")],
    policy: Annotated[list[str] | None, typer.Option(help="Policy; may be given several times.")] = None,
    bound: Annotated[list[str] | None, typer.Option(help="Confidence bound; may be given several times.")] = None,
    delta: Annotated[list[float] | None, typer.Option(help="Delta; may be given several times.")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each combination.")] = 1000,
    seed: Seed = 0,
    max_tests: Annotated[int, typer.Option(help="Tests after which a run is given up as unfinished.")] = 10**9,
    executor: Executor = None,
    workers: Workers = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Simulate every combination of instances, policies, bounds and deltas; interrupted, it continues."""
    from bestarm.cli.campaign import run

    plans = [load_plan(source) for source in sources]
    run(plans, out, policy, bound, delta, runs, seed, max_tests, executor, workers, device, as_json)


@app.command(cls=Command)
def paper(
    experiment: Annotated[str, typer.Argument(help="table1, figure2, drug, bounds or all.")],
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and the page.")] = Path("paper"),
    runs: Annotated[int, typer.Option(help="Runs of each simulation.")] = 100,
    seed: Seed = 0,
    executor: Executor = None,
    workers: Workers = None,
    device: Device = "cpu",
    with_performance_first: Annotated[
        bool, typer.Option("--with-performance-first", help="Run performance-first on drug too (hours).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper's tables and figures, beside its own figures and the theory."""
    from bestarm.cli.paper import run

    run(experiment, out, runs, seed, executor, workers, device, with_performance_first, as_json)


@app.command(cls=Command)
def demo(
    report: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("bestarm-demo.html"),
    db: Annotated[str, typer.Option(help="Where to keep the study: a path or a PostgreSQL URL.")] = "bestarm-demo.db",
    policy: Annotated[str | None, typer.Option(help="Policy, by name.")] = None,
    delta: Annotated[float, typer.Option(help="Allowed probability of a wrong answer.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of the simulated patients.")] = 1,
    rate: Annotated[int, typer.Option(help="Tests per second on a terminal; 0 is as fast as it goes.")] = 1000,
) -> None:
    """Watch a live study of five drug doses on simulated patients, and get its report."""
    from bestarm.cli.demo import run

    run(report, db, policy, delta, seed, rate)


@app.command(cls=Command)
def doctor(db: studies.Database = None, as_json: AsJson = False) -> None:
    """Say what is installed, what works, and how to get what is missing; status 1 if something is broken."""
    from bestarm.cli.doctor import run

    run(db, as_json)


for _name, _command in studies.COMMANDS.items():
    app.command(_name, cls=DashCommand, rich_help_panel="Live studies")(_command)
app.command("serve", cls=Command, rich_help_panel="Live studies")(serve)


def main() -> None:
    """Run the program. Exit status 0; 2 for a user's mistake; 1 for anything else."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Closed by whoever started the program: nobody wants to read it.
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (until the end)
        elif isinstance(stream, io.TextIOWrapper):
            # What a terminal cannot show is written out rather than an error.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_written(_status()))


def _status() -> int:
    """The exit status, after the command has been run."""
    # The error classes are looked up only when something went wrong: importing them here would slow every start.
    try:
        app()
    except SystemExit as end:
        if end.code == 130:
            print("interrupted", file=sys.stderr)
        return int(end.code) if end.code in (0, 2) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        # Before or after the command itself, which handles it.
        print("interrupted", file=sys.stderr)
        return 1
    except ValueError as error:
        from bestarm.validation import InvalidInput

        if not isinstance(error, InvalidInput):
            raise
        _complain(error)
        return 2
    except RuntimeError as error:
        from bestarm.storage.errors import StorageError
        from bestarm.study.failures import MeasurementFailed

        if not isinstance(error, StorageError | MeasurementFailed):
            raise
        _complain(error)
        return 1
    except BrokenPipeError:
        return 1
    except OSError as error:
        _complain(f"{error.filename or 'output'}: {error.strerror or error}")
        return 1
    return 0


def _complain(error: object) -> None:
    """Print an error. What others have named cannot steer the terminal; lists of lines stay lists of lines."""
    from bestarm.texts import shown

    lines = [shown(line) for line in str(error).split("\n  ")]
    print("error:", "\n  ".join(lines), file=sys.stderr)


def _written(status: int) -> int:
    """The exit status, once all output has gone out: 1 if it cannot."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Who stops reading, as `head` does, wants to hear no more.
        if not isinstance(error, BrokenPipeError):
            _complain(f"output: {error.strerror or error}")
        status = status or 1
        # Else Python would try again when it ends, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status
