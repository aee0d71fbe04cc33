"""Opening what a command works on: a plan or a study."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bestarm.plan import Plan
    from bestarm.study import Study


def load_plan(source: str) -> Plan:
    """The built-in instance of that name, or the study file at that path."""
    from bestarm.paper.instances import instance, instance_names
    from bestarm.plan import Plan
    from bestarm.validation import InvalidInput

    if source in instance_names():
        return instance(source)
    if not Path(source).exists():
        raise InvalidInput(
            f"{source!r} is neither a file nor a built-in instance; these are {', '.join(instance_names())}"
        )
    return Plan.load(source)


def open_study(name: str, db: str | None, worker: str | None = None) -> Study:
    """The study of that name. Tests are held in the name of `worker`, so that a later command can give them back."""
    from bestarm.study import Study

    return Study.open(check_text("study", name), storage=db, holder=check_text("worker", worker or whoami()))


def whoami() -> str:
    """This user on this machine."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


def check_text(field: str, text: str) -> str:
    """The text, if it can be stored. Bytes from the command line that are not UTF-8 cannot."""
    from bestarm.validation import InvalidInput

    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(field, text, "must be text in UTF-8") from None
    return text


@contextlib.contextmanager
def repeatable_with_key() -> Iterator[None]:
    """If it is not known whether a command was carried out, say how to repeat it."""
    from bestarm.storage.errors import OutcomeUnknown

    try:
        yield
    except OutcomeUnknown as error:
        if error.key is None:
            raise
        advice = f"repeat the command with --key {shlex.quote(error.key)}, under which it counts once"
        raise error.advised(advice, error.key) from error
