"""When old tables may be upgraded, and the copy of an SQLite file that is kept beside it before they are."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sqlite3
from typing import Literal, NamedTuple

from bestarm.storage.errors import OldTables, StorageError
from bestarm.storage.sql import schema
from bestarm.validation import InvalidInput

Upgrade = Literal["own files", "always", "never"]
"""Which old databases are upgraded when they are opened. "own files" are SQLite files that belong to this user."""


class Upgraded(NamedTuple):
    """What was done to a database when it was opened."""

    found: int
    """The version that its tables had."""
    copy: str | None
    """The file that has it as it was. A server's database is not copied."""


def check_version(url: str, found: int, upgrade: Upgrade, file: str | None = None) -> None:
    """Raise an error if tables of the version `found` cannot be used, nor upgraded first.

    `file` is None for a server's database.
    """
    if found == schema.VERSION:
        return
    if found > schema.VERSION:
        raise InvalidInput(
            "storage",
            url,
            f"was made by a newer bestarm (its schema is version {found}, this program knows up to {schema.VERSION}); "
            "upgrade bestarm to open it",
        )
    if any(version not in schema.STEPS for version in range(found, schema.VERSION)):
        raise InvalidInput("storage", url, f"is too old (its schema is version {found}) for this bestarm to upgrade it")
    if upgrade == "never" or (upgrade == "own files" and not _is_own(file)):
        raise OldTables(url, found, schema.VERSION)


def _is_own(file: str | None) -> bool:
    return file is not None and (not hasattr(os, "geteuid") or os.stat(file).st_uid == os.geteuid())


def keep_copy(file: str, version: int, url: str) -> str:
    """Copy the file to `FILE.version-N.copy`, or a name after that, and return where. Nothing is overwritten.

    The caller holds the file's write lock. So no other process makes a copy at the same time, and the copy is what was
    committed before. It gets its name when it is complete and on the disk.
    """
    path = os.path.realpath(file)
    name, unfinished = f"{path}.version-{version}.copy", f"{path}.version-{version}.unfinished"
    try:
        # A process that was killed may have left it.
        _remove(unfinished)
        # Other users may not read it before it has the permissions of the file.
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with (
            contextlib.closing(sqlite3.connect(path)) as source,
            contextlib.closing(sqlite3.connect(unfinished)) as target,
        ):
            source.backup(target)
        shutil.copymode(path, unfinished)
        names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
        kept = next(free for free in names if not os.path.lexists(free))
        os.rename(unfinished, kept)
        _write_through(os.path.dirname(path))
    except BaseException as error:
        with contextlib.suppress(OSError):
            _remove(unfinished)
        if not isinstance(error, OSError | sqlite3.Error):
            raise
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StorageError(
            f"storage = {url!r}: must be upgraded, and no copy could be kept beside it ({reason}); nothing was changed"
        ) from error
    return kept


def _remove(path: str) -> None:
    for beside in ("", "-journal", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(path + beside)


def _write_through(folder: str) -> None:
    """Have the new name on the disk before the upgrade is."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
