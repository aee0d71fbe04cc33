"""Opening what a command works on: a plan or a study."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bestarm.cli.shared.arguments import CaFile, Token, Where, Worker
from bestarm.errors import UNSTATED, InvalidInput

if TYPE_CHECKING:
    from bestarm.client import Client, RemoteStudy
    from bestarm.problem import Plan
    from bestarm.study import Study

    AnyStudy = Study | RemoteStudy


@dataclasses.dataclass(frozen=True)
class Place:
    """The options that say where studies are: in a database, or at a service."""

    token: Token = None
    ca_file: CaFile = None
    db: Where = None

    @property
    def url(self) -> str:
        from bestarm.storage.opening import default_url

        return default_url() if self.db is None else self.db

    def client(self) -> Client | None:
        """The service; None if it is a database."""
        from bestarm.storage.opening import is_service

        if is_service(self.url):
            from bestarm.client import Client

            ca_file = self.ca_file or os.environ.get("BESTARM_CA_FILE") or None
            return Client(self.url, read_token(self.token), ca_file=ca_file)
        for option, given in (("--token", self.token), ("--ca-file", self.ca_file)):
            if given is not None:
                raise InvalidInput(option, UNSTATED, "goes with --db http://…")
        return None

    def open(self, name: str, holder: str | None = None) -> AnyStudy:
        """The study of that name. Tests are held in the name of `holder`, by default one of this process's own."""
        check_text("study", name)
        client = self.client()
        if client is None:
            return self.open_here(name, holder)
        with saying_how_to_give_a_token():
            return client.open(name, holder=holder)

    def open_here(self, name: str, holder: str | None = None) -> Study:
        """The study of that name in a database."""
        from bestarm.study import Study

        return Study.open(check_text("study", name), storage=self.db, holder=holder)

    def read(self, name: str) -> Study:
        """The study of that name, to look at. If a service keeps it, this is a copy."""
        from bestarm.study import Study

        study = self.open(name)
        return study if isinstance(study, Study) else study.copy()


@dataclasses.dataclass(frozen=True)
class Access:
    """The options that say who works on a study and where it is."""

    worker: Worker = None
    token: Token = None
    ca_file: CaFile = None
    db: Where = None

    @property
    def place(self) -> Place:
        return Place(self.token, self.ca_file, self.db)

    def open(self, name: str) -> AnyStudy:
        """The study. Its tests are held in the name of the worker, so that a later command can give them back."""
        return self.place.open(name, check_text("worker", self.worker or whoami()))


@contextlib.contextmanager
def saying_how_to_give_a_token() -> Iterator[None]:
    """If the service wants a token, say what to type."""
    try:
        yield
    except InvalidInput as error:
        if error.field != "Authorization":
            raise
        raise InvalidInput(
            "token", UNSTATED, f"{error}; give --token @FILE, or set BESTARM_TOKEN (`bestarm token create` makes one)"
        ) from None


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
    """The study of that name, in a database or, if `db` is http://…, on a server that may want a `token`."""
    return Access(worker, token, None, db).open(name)


_LARGEST_TOKEN = 65_536


def read_token(given: str | None) -> str | None:
    """A token as it is given: itself, or @ and the file that holds it. By default that of the environment."""
    text = given or os.environ.get("BESTARM_TOKEN") or None
    if text is None or not text.startswith("@"):
        return text
    from bestarm.parsing import read_text

    try:
        return read_text(text[1:], _LARGEST_TOKEN).strip()
    except InvalidInput:
        raise InvalidInput("token", text, "is too large for a file with a token") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput("token", text, f"cannot be read: {reason}") from None


def whoami() -> str:
    """This user on this machine."""
    from bestarm.study.intake.names import user_here

    return user_here()


def check_text(field: str, text: str) -> str:
    """The text, if it can be stored. Bytes from the command line that are not UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(field, text, "must be text in UTF-8") from None
    return text


def stated_reason(reason: str) -> str:
    """The reason that a person gives; the log and the report show it."""
    if not reason.strip():
        raise InvalidInput(
            "--reason", UNSTATED, 'must be stated, for the log and the report: --reason "the well dried"'
        )
    return check_text("reason", reason)


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
