"""What the programs and files that commands name contain, so that a race notices when one of them has changed."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

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
