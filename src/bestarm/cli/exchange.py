"""`bestarm export` and `import`, and the files that `tell` reads."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from bestarm.cli.app import print_json
from bestarm.cli.opening import open_study, repeatable_with_key
from bestarm.cli.show import counted, plain_console, shown
from bestarm.study import Study
from bestarm.study.exchange import Recorded, import_results, write_csv, write_json
from bestarm.validation import InvalidInput

_WRITERS = {"csv": write_csv, "json": write_json}


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


def recorded_words(study: Study, recorded: Recorded) -> str:
    """What a file brought, in words."""
    ids = ""
    if recorded.first is not None:
        several = recorded.first != recorded.last
        ids = f" as tests {recorded.first} to {recorded.last}" if several else f" as test {recorded.first}"
    left_out = f"; {counted(recorded.skipped, 'test')} without a result left out" if recorded.skipped else ""
    return f"Recorded {counted(recorded.results, 'result')}{ids} of {study.name}{left_out}."


def import_(
    name: str, path: str, again: bool, key: str | None, worker: str | None, db: str | None, as_json: bool
) -> None:
    study = open_study(name, db, worker)
    with results_file(path) as (file, called), repeatable_with_key():
        recorded = import_results(study, file, called, once=not again, key=key)
    if as_json:
        print_json(dataclasses.asdict(recorded))
    else:
        plain_console().print(shown(recorded_words(study, recorded)), soft_wrap=True)


def export(name: str, form: str | None, out: Path | None, db: str | None) -> None:
    chosen = form or ("json" if out is not None and out.suffix.lower() == ".json" else "csv")
    if chosen not in _WRITERS:
        raise InvalidInput("format", form, "must be csv or json", ("csv", "json"))
    study = open_study(name, db)
    if out is None or str(out) == "-":
        _WRITERS[chosen](study, sys.stdout)
        return
    with written_whole(out) as file:
        tests = _WRITERS[chosen](study, file)
    plain_console().print(shown(f"{counted(tests, 'test')} of {study.name} written to {out}."), soft_wrap=True)


@contextlib.contextmanager
def written_whole(out: Path) -> Iterator[TextIO]:
    """A file to write that takes its name when it is complete: before that, the old one stays."""
    try:
        with _replacing(out) as file:
            yield file
    except OSError as error:
        raise InvalidInput("out", str(out), f"cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def _replacing(out: Path) -> Iterator[TextIO]:
    target = Path(os.path.realpath(out))
    if target.exists() and not target.is_file():
        # Pipes and devices cannot be replaced; a folder complains here.
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
