"""SQLite files in folders that cannot be written.

A file with a write-ahead log is read through an index beside it, which SQLite cannot make there. If the log is empty,
there is no writer: the file can be read as it is. If the log holds something (a program was killed, or files were
copied as they were), that is read from a copy, which is removed when it is no longer needed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from bestarm.storage.errors import StorageError
from bestarm.storage.sql import schema

Reading = Literal["as usual", "as it stands", "from a copy"]

_CANNOT_OPEN, _READ_ONLY = 14, 8
"""SQLite's codes for a file, or one beside it, that cannot be opened, and for one that would have to be written."""

_BESIDE = ("-wal", "-journal")


def how_to_read(path: str) -> Reading:
    """How to read a file that is there."""
    file = Path(path)
    if os.access(file.parent, os.W_OK) and os.access(file, os.W_OK):
        return "as usual"
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            version = _version(connection)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (_CANNOT_OPEN, _READ_ONLY):
            return "as usual"
        if any(_has_content(path + end) for end in _BESIDE):
            return "from a copy"
        try:
            with contextlib.closing(_standing(path)) as connection:
                version = _version(connection)
        except sqlite3.Error:
            return "as usual"
        return "as it stands" if version is None or version >= schema.VERSION else "from a copy"
    # An older version would have to be upgraded.
    return "as usual" if version is None or version >= schema.VERSION else "from a copy"


def _version(connection: sqlite3.Connection) -> int | None:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE name = ?", [schema.schema.name]).fetchall()
    if not tables:
        return None
    row = connection.execute(f"SELECT version FROM {schema.schema.name}").fetchone()
    return None if row is None else int(row[0])


def _has_content(path: str) -> bool:
    return os.path.exists(path) and os.path.getsize(path) > 0


def _standing(path: str, **options: Any) -> sqlite3.Connection:
    made: sqlite3.Connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?immutable=1", uri=True, **options)
    return made


class StandingFile:
    """A file that is read as it stands, and must not be written in the meantime."""

    def __init__(self, path: str, url: str) -> None:
        self._path, self._url = path, url

    def connect(self, **options: Any) -> sqlite3.Connection:
        """A connection. If a writer has started, SQLite has made the index that reading needs."""
        if not _has_content(self._path + "-wal"):
            return _standing(self._path, **options)
        made: sqlite3.Connection = sqlite3.connect(self._path, **options)
        return made

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise an error if it is written while the block reads it: the block may have seen half of two states."""
        before = self._stamp()
        yield
        if self._stamp() != before:
            raise StorageError(f"storage = {self._url!r}: was written while it was read; try again")

    def _stamp(self) -> tuple[int, int, int]:
        found = os.stat(self._path)
        return found.st_mtime_ns, found.st_size, found.st_ino


class Copy:
    """A file, and what lies beside it, in a folder where it can be read; removed with this object."""

    def __init__(self, path: str) -> None:
        folder = tempfile.mkdtemp(prefix="bestarm-read-")
        weakref.finalize(self, _remove, folder, os.getpid())
        self.path = os.path.join(folder, "studies.db")
        for end in ("", *_BESIDE):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(path + end, self.path + end)


def _remove(folder: str, process: int) -> None:
    # Not by a child that was forked: its parent still reads it.
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
