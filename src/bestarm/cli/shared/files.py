"""Files that commands read results from, and write."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from bestarm.cli.shared.show import counted

if TYPE_CHECKING:
    from bestarm.cli.shared.opening import AnyStudy
    from bestarm.study.files.exchange import Recorded


@contextlib.contextmanager
def results_file(path: str) -> Iterator[tuple[BinaryIO, str]]:
    """A file to read, and what to call it; "-" is standard input."""
    if path == "-":
        yield sys.stdin.buffer, "standard input"
        return
    from bestarm.validation import InvalidInput

    try:
        file = Path(path).open("rb")  # noqa: SIM115 (closed below)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"{path}: cannot be read: {reason}") from None
    with file:
        yield file, path


def recorded_words(study: AnyStudy, recorded: Recorded) -> str:
    """What a file brought, in words."""
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


@contextlib.contextmanager
def written_whole(out: Path) -> Iterator[TextIO]:
    """A file to write. It takes its name when it is complete. Until then the old one stays."""
    from bestarm.validation import InvalidInput

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
