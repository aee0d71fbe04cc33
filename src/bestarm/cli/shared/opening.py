"""Opening what a command works on: a plan or a study."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bestarm.cli.shared.arguments import Database, Token, Worker
from bestarm.errors import UNSTATED, InvalidInput

if TYPE_CHECKING:
    from bestarm.client import RemoteStudy
    from bestarm.problem import Plan
    from bestarm.study import Study

    AnyStudy = Study | RemoteStudy


@dataclasses.dataclass(frozen=True)
class Access:
    """The options that say who works on a study and where it is."""

    worker: Worker = None
    token: Token = None
    db: Database = None

    def open(self, name: str) -> AnyStudy:
        return open_study(name, self.db, self.worker, self.token)


def load_plan(source: str) -> Plan:
    """The built-in instance of that name, or the study file at that path."""
    from bestarm.paper.instances import instance, instance_names
    from bestarm.problem import Plan

    if source in instance_names():
        return instance(source)
    if not Path(source).exists():
        raise InvalidInput(
            f"{source!r} is neither a file nor a built-in instance; these are {', '.join(instance_names())}"
        )
    return Plan.load(source)


def open_study(name: str, db: str | None, worker: str | None = None, token: str | None = None) -> AnyStudy:
    """The study of that name, in a database or, if `db` is http://…, on a server that may want a `token`.

    Tests are held in the name of `worker`, so that a later command can give them back.
    """
    return open_as(name, db, check_text("worker", worker or whoami()), token)


def open_as(name: str, db: str | None, holder: str | None, token: str | None = None) -> AnyStudy:
    """The same, with another holder's name; if it is None, the process gets a name of its own."""
    from bestarm.storage.opening import default_url, is_service

    check_text("study", name)
    url = default_url() if db is None else db
    if not is_service(url):
        if token is not None:
            raise InvalidInput("--token", UNSTATED, "goes with --db http://…")
        return open_local_study(name, db, holder)
    from bestarm.client import Client

    try:
        return Client(url, read_token(token)).open(name, holder=holder)
    except InvalidInput as error:
        if error.field != "Authorization":
            raise
        raise InvalidInput(
            "token", UNSTATED, f"{error}; give --token @FILE, or set BESTARM_TOKEN (`bestarm token create` makes one)"
        ) from None


def open_local_study(name: str, db: str | None, holder: str | None = None) -> Study:
    """The study of that name, in a database."""
    from bestarm.study import Study

    return Study.open(check_text("study", name), storage=db, holder=holder)


def read_token(given: str | None) -> str | None:
    """A token as it is given: itself, or @ and the file that holds it. By default that of the environment."""
    text = given or os.environ.get("BESTARM_TOKEN") or None
    if text is None or not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput("token", text, f"cannot be read: {reason}") from None


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
