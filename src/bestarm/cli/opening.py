"""Opening a study for a command."""

from __future__ import annotations

import contextlib
import getpass
import shlex
import socket
from collections.abc import Iterator

from bestarm.storage.errors import OutcomeUnknown
from bestarm.study import Study
from bestarm.validation import InvalidInput


def open_study(name: str, db: str | None, worker: str | None = None) -> Study:
    """The study of that name. Tests are held in the name of `worker`, so that a later command can give them back."""
    return Study.open(check_text("study", name), storage=db, holder=check_text("worker", worker or whoami()))


def whoami() -> str:
    """This user on this machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


def check_text(field: str, text: str) -> str:
    """Text that can be stored: bytes from the command line that are not UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(field, text, "must be text in UTF-8") from None
    return text


@contextlib.contextmanager
def repeatable_with_key() -> Iterator[None]:
    """Say how the same command is repeated when it is not known whether it was done."""
    try:
        yield
    except OutcomeUnknown as error:
        if error.key is None:
            raise
        advice = f"repeat the command with --key {shlex.quote(error.key)}, under which it counts once"
        raise error.advised(advice, error.key) from error
