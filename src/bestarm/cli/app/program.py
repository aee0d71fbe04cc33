"""The program: its options, its commands, and how it ends."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bestarm.cli.app.discovery import Commands
from bestarm.cli.shared.show import complain
from bestarm.cli.shared.verdicts import INTERRUPTED, VERDICTS

app = typer.Typer(
    name="bestarm",
    cls=Commands,
    help="Find the best option that is also safe, with as few tests as possible, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        import bestarm
        from bestarm.storage.sql.schema import VERSION

        print(f"bestarm {bestarm.__version__} (schema {VERSION})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the version, and that of the tables of its databases.",
        ),
    ] = False,
) -> None:
    """Find the best option that is also safe, with as few tests as possible, and prove it."""


def main() -> None:
    """Run the program. Exit status 0; 2 for a user's mistake; 3 and 4 for verdicts of `race` and `gate`; 130 if
    it is interrupted; 1 for anything else."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # The parent process closed it, so there is no reader.
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (until the end)
        elif isinstance(stream, io.TextIOWrapper):
            # Characters that a terminal cannot show are escaped. They must not be an error.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_written(_status()))


def _status() -> int:
    """The exit status, after the command has been run."""
    # The error classes are imported only when something went wrong. Importing them earlier would slow every start.
    try:
        app()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print("interrupted", file=sys.stderr)
        return int(end.code) if end.code in (0, 2, *VERDICTS, INTERRUPTED) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        # It came before or after the command itself, which handles it.
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except ValueError as error:
        from bestarm.validation import InvalidInput

        if not isinstance(error, InvalidInput):
            raise
        complain(error)
        return 2
    except RuntimeError as error:
        from bestarm.storage.errors import StorageError
        from bestarm.study.work.failures import MeasurementFailed

        if not isinstance(error, StorageError | MeasurementFailed):
            raise
        complain(error)
        return 1
    except BrokenPipeError:
        return 1
    except OSError as error:
        complain(f"{error.filename or 'output'}: {error.strerror or error}")
        return 1
    return 0


def _written(status: int) -> int:
    """The exit status, after all output has been written; 1 if that fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # A reader that stops, as `head` does, does not want to hear about it.
        if not isinstance(error, BrokenPipeError):
            complain(f"output: {error.strerror or error}")
        status = status or 1
        # Otherwise Python would try again at exit, and print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status
