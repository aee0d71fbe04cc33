"""Disks that fill up in the middle of a study: a limit on the size of files, or a small file system made for this."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Literal

import bestarm as ba
from bestarm.storage.errors import StorageError
from tests.torture.workers import DELTA, ROOT, acknowledge, measure, problem

Kind = Literal["limit", "full"]
_MOUNTED = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
_SCRIPT = 'mount -t tmpfs -o size=16m none "$1" && shift && "$@"'
_ERRORS = 3
"""How often a call is tried before there is room again."""


def fill_up(path: str, acknowledged: str) -> None:
    """Tell results until the disk is full, then free space, and go on with the same study to its end."""
    study = ba.Study.create(problem(), delta=DELTA, policy="certify", storage=path, seed=0)
    file = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    ballast = Path(path).with_name("ballast")
    errors: list[str] = []
    while not study.done:
        if not errors and ballast.exists():
            with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as heap:
                heap.write(b"x" * 20_000)
        try:
            tests = study.ask(3, lease=0.001)
            for test in tests:
                value = measure(study.name, test)
                study.tell(test, value)
                acknowledge(file, study.name, test, value)
        except StorageError as error:
            errors.append(str(error))
            if len(errors) == _ERRORS:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                ballast.unlink(missing_ok=True)
    assert study.answer is not None
    print(json.dumps({"errors": errors, "answer": study.answer.arm}))
    study.storage.close()


def can_mount(folder: Path) -> bool:
    """Whether this machine lets us mount a small file system there."""
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*_MOUNTED, _SCRIPT, "sh", folder, "true"], capture_output=True, check=False).returncode == 0


def run(kind: Kind, folder: Path, patience: float, limit: int = 150_000) -> list[tuple[str, str]]:
    """Fill up a disk in a separate process. Returns what is wrong afterwards."""
    disk, kept, acknowledged = folder / "disk", folder / "kept", folder / "acknowledged"
    disk.mkdir()
    kept.mkdir()
    worker = [sys.executable, "-m", __name__, kind, str(disk / "studies.db"), str(acknowledged), str(kept), str(limit)]
    command = [*_MOUNTED, _SCRIPT, "sh", str(disk), *worker] if kind == "full" else worker
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience, check=False)
    if ended.returncode:
        return [("stuck", ended.stderr)]
    return _wrong(
        json.loads(ended.stdout), kept / "studies.db", acknowledged, "the disk is full" if kind == "full" else "disk"
    )


def _wrong(result: dict[str, object], path: Path, acknowledged: Path, words: str) -> list[tuple[str, str]]:
    wrong = []
    errors = result["errors"]
    assert isinstance(errors, list)
    if result["answer"] != "safe" or len(errors) != _ERRORS:
        wrong.append(("stuck", f"the answer is {result['answer']} after {len(errors)} errors"))
    wrong += [
        ("stuck", f"not as it should be said: {error}")
        for error in errors
        if words not in error or "nothing acknowledged is lost" not in error or "\n" in error
    ]
    lines = [json.loads(line) for line in acknowledged.read_text().splitlines()]
    study = ba.Study.open("study", storage=path)
    history = {row.id: row for row in study.storage.history(study.record.key)}
    for _, test, value in lines:
        found = [outcome.value for outcome in history[test].outcomes] if test in history else []
        if found != [value]:
            wrong.append(("twice" if len(found) > 1 else "lost", f"test {test}: {found} instead of {value}"))
    study.storage.close()
    with contextlib.closing(sqlite3.connect(path)) as file:
        if file.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            wrong.append(("torn", "SQLite finds the file damaged"))
    return wrong


if __name__ == "__main__":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    database = Path(sys.argv[2])
    if sys.argv[1] == "limit":
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[5]), hard))
    else:
        database.with_name("ballast").write_bytes(b"x" * 15_500_000)
    fill_up(str(database), sys.argv[3])
    # A small file system ends with this process; a closed database is one file.
    shutil.copy(database, sys.argv[4])
