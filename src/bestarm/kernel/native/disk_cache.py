"""Machine code on disk.

What is loaded from there runs as us. So it is kept and loaded only where no other user can put or change anything: in
folders and files that belong to us or to root and that no other user can write, on every part of the path.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import shlex
import stat
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ENDING = ".native"
_DIGEST = 32
_MOST_LINKS = 40
_SHARED = "__pycache__"
"""Python lets all users read what it keeps here, and so do we: one user may compile for all, as for an image."""
_ELSEWHERE = "set BESTARM_CACHE_DIR to a folder that only you can write"


class NotPrivate(Exception):
    """Another user could change what is in a folder."""

    def __init__(self, reason: str, remedy: str = _ELSEWHERE) -> None:
        super().__init__(reason)
        self.remedy = remedy


class CacheFolder(NamedTuple):
    """A folder for machine code, and what speaks against it."""

    folder: Path
    objection: str | None = None
    remedy: str | None = None
    is_open: bool = False
    """Whether another user could put code there."""


def _folders(root: types.FunctionType) -> list[Path]:
    """Where machine code may be."""
    if chosen := os.environ.get("BESTARM_CACHE_DIR"):
        return [Path(chosen)]
    beside = Path(root.__code__.co_filename).parent
    return [beside / _SHARED] * beside.is_dir() + [_users_folder()]


def _users_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "bestarm"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bestarm"


def cache_folders(root: types.FunctionType) -> list[CacheFolder]:
    """The folders for machine code, in the order in which they are tried."""
    found = []
    for folder in _folders(root):
        try:
            with tempfile.TemporaryFile(dir=private(folder, make=True)):
                found.append(CacheFolder(folder))
        except NotPrivate as error:
            found.append(CacheFolder(folder, str(error), error.remedy, is_open=True))
        except OSError as error:
            found.append(CacheFolder(folder, f"{folder} cannot be written ({error.strerror or error})", _ELSEWHERE))
    return found


def read(root: types.FunctionType, name: str) -> bytes | None:
    """What was kept under a name, if it is there and whole."""
    for folder in _folders(root):
        with contextlib.suppress(OSError, NotPrivate):
            content = _content(private(folder) / f"{name}{ENDING}")
            if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
                return content[_DIGEST:]
    return None


def keep(root: types.FunctionType, name: str, content: bytes) -> None:
    """Keep it in the first folder that serves. It may be none: then it is compiled again next time."""
    for folder in _folders(root):
        with contextlib.suppress(OSError, NotPrivate):
            _write(private(folder, make=True) / f"{name}{ENDING}", hashlib.sha256(content).digest() + content)
            return


# ----------------------------------------------------------------------------------------- files of other users


def _content(path: Path) -> bytes:
    # What is checked is the very file that is read. A pipe must not make us wait.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        if not is_private_file(os.fstat(file.fileno())):
            raise NotPrivate(f"another user could have written {path}")
        return file.read()


def _write(path: Path, content: bytes) -> None:
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # only we can read and write it
    try:
        with open(handle, "wb") as file:
            file.write(content)
        if path.parent.name == _SHARED:
            os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)  # readers find all of it, or nothing
    except OSError:
        os.unlink(unfinished)
        raise


def private(folder: Path, *, make: bool = False) -> Path:
    """The folder without links, if no other user can change what is in it; with `make`, it is made.

    Every part of the path is looked at, and every link in it. In a folder like /tmp all users may write, but cannot
    replace what is ours.
    """
    if not hasattr(os, "geteuid"):  # elsewhere, a user's folders are closed to others unless they are opened
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        return folder
    absolute = Path.cwd() / folder
    real, parts, links = Path(absolute.anchor), list(absolute.parts[:0:-1]), 0
    _check(real, os.lstat(real), is_last=not parts)
    while parts:
        part = parts.pop()
        path = real.parent if part == ".." else real / part
        there = _looked_at(path, make=make)
        if stat.S_ISLNK(there.st_mode):
            links += 1
            if there.st_uid not in _trusted():
                raise NotPrivate(f"{path} is a link of another user")
            if links > _MOST_LINKS:
                raise NotPrivate(f"{folder} has too many links")
            target = Path(os.readlink(path))
            if target.is_absolute():
                real = Path(target.anchor)
            parts += [step for step in reversed(target.parts) if step != target.anchor]
        else:
            real = path
            _check(real, there, is_last=not parts)
    return real


def _looked_at(path: Path, *, make: bool) -> os.stat_result:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o755 if path.name == _SHARED else 0o700)
    return os.lstat(path)


def _check(folder: Path, there: os.stat_result, *, is_last: bool) -> None:
    if not stat.S_ISDIR(there.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "is no folder", str(folder))
    if there.st_uid not in _trusted():
        raise NotPrivate(f"{folder} belongs to another user")
    is_shared = there.st_mode & stat.S_IWOTH or (there.st_mode & stat.S_IWGRP and not _is_own_group(folder, there))
    if is_shared and (is_last or not there.st_mode & stat.S_ISVTX):
        raise NotPrivate(f"other users can write to {folder}", f"chmod go-w {shlex.quote(str(folder))}")


def is_private_file(there: os.stat_result) -> bool:
    """Whether it is a plain file that no other user can write."""
    if not hasattr(os, "geteuid"):
        return True
    is_closed = not there.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(there.st_mode) and there.st_uid in _trusted() and is_closed


def _trusted() -> tuple[int, int]:
    """Root can change everything anyway."""
    return os.geteuid(), 0


def _is_own_group(folder: Path, there: os.stat_result) -> bool:
    """Whether a group has its user alone, as on many systems each user has a group of the same name."""
    with contextlib.suppress(OSError):
        # Where users have rights one by one, the group's rights are theirs.
        if hasattr(os, "listxattr") and "system.posix_acl_access" in os.listxattr(folder):
            return False
    return there.st_gid in _own_groups(os.geteuid())


@functools.cache
def _own_groups(user: int) -> frozenset[int]:
    import grp
    import pwd

    def groups() -> Iterator[int]:
        for number in (user, 0):
            with contextlib.suppress(KeyError):  # a user or a group without a name
                name = pwd.getpwuid(number)
                group = grp.getgrgid(name.pw_gid)
                if group.gr_name == name.pw_name and set(group.gr_mem) <= {name.pw_name}:
                    yield group.gr_gid

    return frozenset(groups())
