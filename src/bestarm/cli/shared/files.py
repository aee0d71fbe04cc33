"""Files that commands read results from, and write. Values far outside the earlier ones are asked about."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
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


def is_stdout(out: Path | None) -> bool:
    return out is None or str(out) == "-"


@contextlib.contextmanager
def writing(out: Path | None) -> Iterator[TextIO]:
    """A file to write, or standard output. A file takes its name when it is complete. Until then the old one stays."""
    if out is None or is_stdout(out):
        yield sys.stdout
        return
    try:
        with _replacing(out) as file:
            yield file
    except OSError as error:
        raise InvalidInput("out", str(out), f"cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def _replacing(out: Path) -> Iterator[TextIO]:
    target = Path(os.path.realpath(out))
    if target.exists() and not target.is_file():
        # Pipes and devices cannot be replaced. A folder raises an error here.
        with target.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    temporary = target.with_name(f".{target.name[:100]}.{os.getpid()}.part")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
