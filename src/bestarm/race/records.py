"""Every run of a race: in memory, and in a file beside the study's database where there is one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bestarm.race.runs import Run
from bestarm.validation import InvalidInput


def file_beside(db: str, study: str) -> Path | None:
    """Where the runs of a study are kept; None if its database is not a file."""
    if "://" in db and not db.startswith("sqlite:///"):
        return None
    path = Path(db.removeprefix("sqlite:///"))
    plain = re.sub(r"[^A-Za-z0-9]+", "-", study).strip("-")[:40]
    digest = hashlib.sha256(study.encode()).hexdigest()[:8]
    return path.with_name(f"{path.name}.{plain}-{digest}.runs.jsonl")


class Records:
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
                self.runs[test] = (command, Run(**row))

    def begin(self, about: Mapping[str, Any], noted: Mapping[str, Any]) -> None:
        """Say what the race is, or make sure that it is the same as before. What is `noted` beside it may differ."""
        if not self.about:
            self.about = {**about, **noted}
            self._write({"about": self.about})
            return
        if "cutoffs" in noted and "cutoffs" not in self.about:
            # Earlier versions did not know what a pause is.
            self.about["cutoffs"] = noted["cutoffs"]
            self._write({"about": self.about})
        for field, value in about.items():
            if self.about.get(field) != value:
                before = json.dumps(self.about.get(field), ensure_ascii=False)
                reason = f"this race began with {before}; --fresh starts anew"
                raise InvalidInput(field, value, reason, shown=json.dumps(value, ensure_ascii=False))

    def add(self, test: int, command: str, run: Run) -> None:
        self.runs[test] = (command, run)
        self._write({"test": test, "command": command, **dataclasses.asdict(run)})

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
