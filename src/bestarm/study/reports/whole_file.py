"""A file that is written as a whole, or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from bestarm.validation import InvalidInput


@contextlib.contextmanager
def whole_file(field: str, path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A file to write, which takes its name when it is complete. Until then the old one stays."""
    try:
        with _replacing(Path(path)) as file:
            yield file
    except OSError as error:
        raise InvalidInput(field, str(path), f"cannot be written: {error.strerror or error}") from None


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
