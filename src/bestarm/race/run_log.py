"""Every run of a race: in memory, and in a file beside the study's database where there is one.

Also what the programs and files that commands name contain, so that a race notices when one of them has changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bestarm.answer import DECIDED
from bestarm.noises.shares import Share, as_share, is_share
from bestarm.race.runs import Run
from bestarm.study import Study
from bestarm.validation import InvalidInput

_WHERE_STATED = ("on", "own", "unread", "printed")
"""What a line has only where there is something to say."""


def file_beside(db: str, study: str) -> Path | None:
    """Where the runs of a study are kept; None if its database is not a file."""
    if "://" in db and not db.startswith("sqlite:///"):
        return None
    path = Path(db.removeprefix("sqlite:///"))
    plain = re.sub(r"[^A-Za-z0-9]+", "-", study).strip("-")[:40]
    digest = hashlib.sha256(study.encode()).hexdigest()[:8]
    return path.with_name(f"{path.name}.{plain}-{digest}.runs.jsonl")


_LATER = 10**12
"""Higher numbers are no numbers of tests."""


class RunLog:
    """The runs by the number of their test, with the name of the command."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.runs: dict[int, tuple[str, Run]] = {}
        self.about: dict[str, Any] = {}
        """What was said of the race when it began."""
        self.floor = 0.0
        """Bytes of memory below which programs cannot be told apart; less counts as that."""
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the end of a line that a kill cut off; its test was never told
            if "about" in row:
                self.about = row["about"]
            else:
                test, command = row.pop("test"), row.pop("command")
                own = row.get("own", {}).items()
                row["own"] = {name: as_share(value) if is_share(value) else value for name, value in own}
                self.runs[test] = (command, Run(**row))

    def begin(self, about: Mapping[str, Any], noted: Mapping[str, Any]) -> None:
        """Say what the race is, or make sure that it is the same as before. What is `noted` beside it may differ."""
        if not self.about:
            self.about = {**about, **noted}
            self._write({"about": self.about})
            return
        for field, value in about.items():
            if self.about.get(field) != value:
                before = json.dumps(self.about.get(field), ensure_ascii=False)
                reason = f"this race began with {before}; --fresh starts over"
                raise InvalidInput(field, value, reason, shown=json.dumps(value, ensure_ascii=False))

    def add(self, test: int, command: str, run: Run) -> None:
        self.runs[test] = (command, run)
        own = {name: str(value) if isinstance(value, Share) else value for name, value in run.own.items()}
        row = {"test": test, "command": command, **dataclasses.asdict(run), "own": own}
        self._write({key: value for key, value in row.items() if value or key not in _WHERE_STATED})

    def add_later(self, command: str, run: Run) -> None:
        """Add a run that was made when the study had its answer, and is no test of it."""
        self.add(max([_LATER, *self.runs]) + 1, command, run)

    @property
    def made(self) -> Counter[str]:
        """How many runs of each command there are."""
        return Counter(name for name, _ in self.runs.values())

    @property
    def later(self) -> int:
        """How many runs were made when the study had its answer."""
        return sum(test > _LATER for test in self.runs)

    def of(self, command: str) -> list[Run]:
        """The runs of one command, in the order of their tests."""
        return [run for _, (name, run) in sorted(self.runs.items()) if name == command]

    def _write(self, row: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        with self._path.open("ab+") as file:
            # After a line that a kill cut off, begin a new one.
            if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                file.write(b"\n")
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def when_decided(study: Study, files: Mapping[str, str] | None) -> str:
    """When the last run was made, and whether the programs may be others by now."""
    told = [event.time for event in study.log(last=100) if event.kind == "told"]
    when = datetime.fromtimestamp(told[-1] if told else study.record.created, UTC)
    known = "No file named in the commands has changed since" if files else "Whether programs changed is not known"
    is_decided = study.status().state in DECIDED
    ended = "Decided" if is_decided else "The budget was spent" if study.done else "The last run was made"
    return f"{ended} on {when:%Y-%m-%d at %H:%M} UTC; no run was made now. {known}. --fresh starts over."


_LARGE = 64_000_000
"""Bytes above which a file is known by its size and the time of its last change, not by what it contains."""


def digests_of(commands: Sequence[Sequence[str]], *, are_scripts: bool) -> dict[str, str]:
    """By name: a digest of each program and file that occurs in commands. Files that cannot be read are left out.

    The last word of a command is a script if it is for a shell. Files that a script writes to with `>` do not count.
    """
    found: dict[str, str] = {}
    for command in commands:
        words = [*command[:-1], *_words_in(command[-1])] if are_scripts else command
        for name, path in _files_in(words):
            if name not in found and (digest := _digest(path)) is not None:
                found[name] = digest
    return found


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of files that were there before and contain something else now."""
    return [name for name, digest in before.items() if now.get(name, digest) != digest]


def _words_in(script: str) -> Iterator[str]:
    lexer = shlex.shlex(script, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    is_written = False
    while True:
        try:
            word = lexer.get_token()
        except ValueError:  # a quote that is never closed
            return
        if word is None:
            return
        if not is_written:
            yield word
        is_written = set(word) <= set("<>&|") and ">" in word


def _files_in(words: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Every word that is a file or a program, and what follows the `=` in words such as `--input=f`."""
    for word in words:
        for name in (word, word.partition("=")[2]):
            if not name or "\0" in name:
                continue
            has_folder = os.path.dirname(name) != ""
            if os.path.isfile(name):
                yield name if has_folder else os.path.join(os.curdir, name), Path(name)
            if not has_folder and (program := shutil.which(name)) is not None:
                yield name, Path(program)


def _digest(path: Path) -> str | None:
    try:
        about = path.stat()
        if about.st_size > _LARGE:
            return f"{about.st_size} bytes, changed at {about.st_mtime_ns}"
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
