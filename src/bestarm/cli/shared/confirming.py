"""Asking the user whether a typed value is right, if it lies far outside the earlier ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from bestarm.cli.shared.show import shown

if TYPE_CHECKING:
    from bestarm.study.files.exchange import Recorded
    from bestarm.study.record.far_values import FarValue


def _is_typing() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _confirm(error: FarValue) -> None:
    """Ask on the terminal. It ends the command unless the answer is yes."""
    for line in str(error).splitlines():
        typer.echo(shown(line), err=True)
    several = len(error.complaints) > 1
    typer.echo(f"Record {'these values' if several else 'this value'} as typed? [y/N] ", nl=False, err=True)
    if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
        typer.echo("Nothing was recorded.", err=True)
        raise typer.Exit(2)


def confirm_far(check: Callable[[], None], yes: bool) -> None:
    """Ask about what `check` complains of, if a person is typing. A script is not asked."""
    from bestarm.study.record.far_values import FarValue

    if yes or not _is_typing():
        return
    try:
        check()
    except FarValue as error:
        _confirm(error)


def record_confirmed(record: Callable[[bool], Recorded], yes: bool, path: str) -> Recorded:
    """Record a file with `record(check_far)`. Its values were typed by hand, so far values need an answer. Without a
    terminal to ask on, the file is refused."""
    from bestarm.study.record.far_values import FarValue

    try:
        return record(not yes)
    except FarValue as error:
        if path == "-" or not _is_typing():
            advice = "nothing was recorded; correct what was mistyped, or record all of it as it is with --yes"
            raise FarValue.of(error.complaints, f"{path}: {advice}\n{error}".replace("\n", "\n  ")) from None
        _confirm(error)
    return record(False)
