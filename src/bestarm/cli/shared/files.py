"""Files that commands read results from, and write. Values far outside the earlier ones are asked about."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import typer

from bestarm.cli.shared.show import counted
from bestarm.errors import InvalidInput
from bestarm.texts import shown

if TYPE_CHECKING:
    from bestarm.cli.shared.opening import AnyStudy
    from bestarm.study.files.exchange import Recorded
    from bestarm.study.record.far_values import FarValue


_PIECE = 2**20
_LARGEST_PIPE = 4 * 2**30
"""Bytes that are read from a pipe to be kept in a file. It may have no end."""

_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


@contextlib.contextmanager
def results_file(path: str) -> Iterator[tuple[BinaryIO, str]]:
    """A file to read, and what to call it; "-" is standard input."""
    if path == "-":
        yield sys.stdin.buffer, "standard input"
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115 (closed below)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"{path}: cannot be read: {reason}") from None
    with file:
        yield file, path


@contextlib.contextmanager
def read_twice(file: BinaryIO, called: str) -> Iterator[BinaryIO]:
    """The file, or what comes out of a pipe as a file."""
    if file.seekable():
        yield file
        return
    import tempfile

    from bestarm.parsing import too_large

    with tempfile.TemporaryFile() as kept:
        while kept.tell() <= _LARGEST_PIPE and (piece := file.read(_PIECE)):
            kept.write(piece)
        if kept.tell() > _LARGEST_PIPE:
            raise too_large(called, _LARGEST_PIPE)
        kept.seek(0)
        yield kept


def recorded_words(study: AnyStudy, recorded: Recorded) -> str:
    """How many results a file added, in words."""
    left_out = f"; {counted(recorded.skipped, 'test')} without a result left out" if recorded.skipped else ""
    if not recorded.results:
        known = "its one result is" if recorded.known == 1 else f"all its {recorded.known:,} results are"
        return f"Nothing new: {known} in {study.name} already{left_out}."
    ids = ""
    if recorded.first is not None:
        several = recorded.first != recorded.last
        ids = f" as tests {recorded.first} to {recorded.last}" if several else f" as test {recorded.first}"
    known = f"; {recorded.known:,} {'was' if recorded.known == 1 else 'were'} there already" if recorded.known else ""
    return f"Recorded {counted(recorded.results, 'result')}{ids} of {study.name}{known}{left_out}."


def check_writable(option: str, path: str) -> None:
    """Raise `InvalidInput` for a file that could not be written later."""
    file = Path(path).absolute()
    if not file.parent.is_dir():
        raise InvalidInput(option, path, "there is no such folder")
    if file.is_dir():
        raise InvalidInput(option, path, "is a folder; name a file")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InvalidInput(option, path, "may not be written")


def stated_exports(options: object, kinds: Iterable[str]) -> dict[str, str]:
    """The files that options such as `export_json` name, by kind. Better refused now than when all runs are made."""
    found = {kind: path for kind in kinds if (path := getattr(options, f"export_{kind}")) is not None}
    for kind, path in found.items():
        if path != "-":
            check_writable(f"--export-{kind}", path)
    return found


def is_stdout(out: Path | None) -> bool:
    return out is None or str(out) == "-"


def is_workbook(out: Path) -> bool:
    """Whether a file is meant for an Excel workbook, by its name."""
    return out.suffix.lower() == ".xlsx"


@contextlib.contextmanager
def writing(out: Path | None, *, workbook: bool = False) -> Iterator[TextIO]:
    """A file to write, or standard output. A file takes its name when it is complete. Until then the old one stays.

    Only a `workbook`, which goes to the file's `buffer`, may have a name that says that it is one.
    """
    suffix = "" if out is None else out.suffix.lower()
    if suffix in _WORKBOOKS and not (workbook and suffix == ".xlsx"):
        reason = f"ends in {suffix}, and what is written is no such workbook; end the name in .csv"
        raise InvalidInput("out", str(out), reason)
    if out is None or is_stdout(out):
        if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
            # What reads it, such as `bestarm import`, takes UTF-8 on every system.
            sys.stdout.reconfigure(encoding="utf-8")
        yield sys.stdout
        return
    from bestarm.study.reports.whole_file import whole_file

    with whole_file("out", out) as file:
        yield file


def is_typing() -> bool:
    """Whether a person is at a terminal, who can be asked."""
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

    if yes or not is_typing():
        return
    try:
        check()
    except FarValue as error:
        _confirm(error)


@contextlib.contextmanager
def _naming_ignore() -> Iterator[None]:
    """Say which options leave out columns that a study does not know."""
    from bestarm.study.intake.results_file import IGNORE

    try:
        yield
    except InvalidInput as error:
        if error.field != IGNORE or not error.choices:
            raise
        options = " ".join(f"--ignore {shlex.quote(column)}" for column in error.choices)
        raise InvalidInput.of(error.complaints, f"{error}: {options}") from None


def record_confirmed(record: Callable[[bool], Recorded], yes: bool, path: str) -> Recorded:
    """Record a file with `record(check_far)`. Its values were typed by hand, so far values need an answer. Without a
    terminal to ask on, the file is refused."""
    from bestarm.study.record.far_values import FarValue

    try:
        with _naming_ignore():
            return record(not yes)
    except FarValue as error:
        if path == "-" or not is_typing():
            advice = "nothing was recorded; correct what was mistyped, or record all of it as it is with --yes"
            raise FarValue.of(error.complaints, f"{path}: {advice}\n{error}".replace("\n", "\n  ")) from None
        _confirm(error)
    return record(False)
