"""What can go wrong with a storage, and what databases complain of, in the user's words: what is wrong, what to do."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator

from bestarm.validation import InvalidInput


class StorageError(RuntimeError):
    """The database cannot do its work now: out of space, out of reach, or busy. Nothing acknowledged is lost."""


class ConnectionLost(StorageError):
    """The connection broke, or the server fell silent, before anything was changed."""


class OutcomeUnknown(ConnectionLost):
    """The connection was lost while the server was at work. Whether it finished is unknown.

    Repeating it is safe: what has a key, or concerns one test, is recorded once.
    """

    def __init__(self, said: str, key: str | None = None, advice: str = "") -> None:
        super().__init__(f"{said}; {advice}" if advice else said)
        self.said = said
        """What happened, without advice on how to go on."""
        self.key = key
        """The key by which a repeat is recognized, if there is one."""
        self._advice = advice

    def advised(self, advice: str, key: str | None = None) -> OutcomeUnknown:
        """The same, with advice on how to repeat it."""
        return OutcomeUnknown(self.said, key, advice)


class NameTaken(InvalidInput):
    """There is a study of that name already."""

    kind = "name taken"


class SourceTaken(InvalidInput):
    """Results of that source have been recorded already."""

    kind = "source taken"


class BlockTaken(InvalidInput):
    """Results of a block of that name have been recorded already."""

    kind = "block taken"

    def __init__(self, name: str) -> None:
        super().__init__("item", name, "has been recorded already")
        self.name = name


class BlockUnfinished(InvalidInput):
    """Some tests of a planned block have not been handed out. `place` is that of the first."""

    kind = "block unfinished"

    def __init__(self, left: int, place: int) -> None:
        super().__init__("results", left, "tests of a block have not been handed out")
        self.left = left
        self.place = place


class NoStudiesYet(InvalidInput):
    """The database can be reached, but no study was ever made in it."""


class OldTables(InvalidInput):
    """The tables are those of an earlier version, and are upgraded only when told."""

    kind = "old tables"

    def __init__(self, url: str, found: int, needed: int) -> None:
        reason = (
            f"was made by an earlier bestarm (its schema is version {found}, this program needs {needed}); stop what "
            "uses it, back it up, and type `bestarm migrate --apply`"
        )
        super().__init__("storage", url, reason)
        self.found = found
        self.needed = needed


class StudyArchived(InvalidInput):
    """The study has been put away: it can be read but not changed."""

    kind = "archived"

    def __init__(self, name: str) -> None:
        super().__init__("study", name, "is archived; bring it back with `bestarm archive --undo` to change it")
        self.name = name


class StudyNotArchived(InvalidInput):
    """Only a study that has been put away can be deleted."""

    kind = "not archived"

    def __init__(self, name: str) -> None:
        super().__init__("study", name, "is not archived; put it away with `bestarm archive` before it is deleted")


class HandedOn(InvalidInput):
    """The test has been handed to another holder. Their result counts, not the former holder's."""

    kind = "handed on"

    def __init__(self, test: int, holder: str) -> None:
        super().__init__("test", test, f"is with {holder} by now, whose result counts")
        self.test = test
        self.holder = holder


class HoldsEnough(InvalidInput):
    """The holder already holds as many tests as allowed."""

    kind = "holds enough"

    def __init__(self, holder: str, held: int) -> None:
        super().__init__("holder", holder, f"holds {held:,} tests without a result already")
        self.holder = holder
        self.held = held


BUSY_SECONDS = 60.0
"""How long to wait for a database that another process is writing to."""

_BUSY = f"another process has held the database for over {BUSY_SECONDS:g} s; try again"
_STOPPED = "the database server stopped; nothing acknowledged is lost, try again when it is back"
_SILENT = "the database server does not answer; nothing acknowledged is lost, try again when it does"
_UNREACHABLE = "the database server cannot be reached; start it and try again"

# Both lists are searched in this order: a server that refuses a password also says that the connection failed.
_MISTAKES = {
    "readonly database": "is read-only; nothing was changed",
    "read-only transaction": "is read-only; nothing was changed",
    "unable to open database file": "cannot be opened; check the folder and the permissions",
    "file is not a database": "is not a bestarm database",
    "no such table": "is not, or is no longer, a bestarm database",
    "malformed": "is damaged (its pages are malformed); restore it from a copy",
    "password authentication failed": "the server refused the user or the password",
    "no password supplied": "the server wants a password",
    "no pg_hba.conf entry": "the server does not let this user in",
    "permission denied": "the server does not let this user work in the database; nothing was changed",
    '(database|role) ".*" does not exist': "the server knows no such database or user",
    "invalid connection option": "has an option in its URL that PostgreSQL does not know",
}

_TROUBLES = {
    "database or disk is full": "the disk is full; nothing acknowledged is lost, free some space and go on",
    "disk i/o error": "the disk could not be written or read; nothing acknowledged is lost",
    "no space left": "the server's disk is full; nothing acknowledged is lost, free some space and go on",
    "database is locked": _BUSY,
    "too many clients|connection slots": "the database server has no connection to spare; try again",
    "lock timeout": f"another process has held the study for over {BUSY_SECONDS:g} s; nothing was changed, try again",
    "idle-in-transaction": "this program was silent for too long at its work; nothing was changed, try again",
    "does not answer": _SILENT,
    "terminating connection": _STOPPED,
    "server closed the connection": _STOPPED,
    "connection is lost": _STOPPED,
    "connection is closed": _STOPPED,
    "connection reset": _STOPPED,
    "shutting down": "the database server is stopping; nothing acknowledged is lost, try again when it is back",
    "starting up": "the database server is starting; try again in a moment",
    "recovery mode": "the database server is starting; try again in a moment",
    "connection timeout": "the database server does not answer; try again",
    "resolve host": "the database server's name is not known; check the URL",
    "connection refused": _UNREACHABLE,
    "connection failed": _UNREACHABLE,
    "could not connect": _UNREACHABLE,
}


def complaint(url: str, error: Exception, secrets: Collection[str] = (), *, is_lost: bool = False) -> Exception:
    """The exception to raise instead: `InvalidInput` if asking again cannot help, else `StorageError`.

    The database's message is left out if it holds one of the `secrets` of its address.
    """
    said = _said(error)
    words = said.lower()
    where = f"storage = {url!r}"
    kind = ConnectionLost if is_lost else StorageError
    for phrase, reason in _MISTAKES.items():
        if re.search(phrase, words):
            return InvalidInput("storage", url, reason)
    for phrase, reason in _TROUBLES.items():
        if re.search(phrase, words):
            return kind(f"{where}: {reason}")
    first = said.splitlines()[0] if said else type(error).__name__
    # The driver may repeat a part of what it could not read.
    parts = {part for secret in secrets for part in (secret, *re.findall(r"\w{3,}", secret))}
    if any(part in first for part in parts):
        return kind(f"{where}: the database refuses, and says why in words that hold a secret of its address")
    return kind(f"{where}: the database says: {first}")


def busy(url: str) -> StorageError:
    """What to raise when a writer's turn never comes."""
    return StorageError(f"storage = {url!r}: {_BUSY}")


@contextlib.contextmanager
def reporting_damage(url: str) -> Iterator[None]:
    """For code that interprets a database's content: if it makes no sense, the database is damaged."""
    try:
        yield
    except InvalidInput:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise InvalidInput(
            "storage", url, f"is damaged (what it holds makes no sense: {said}); restore it from a copy"
        ) from error


def unknown_outcome(url: str, error: Exception) -> OutcomeUnknown:
    """What to raise when the connection was lost before the server confirmed its work."""
    how = "fell silent" if "does not answer" in _said(error).lower() else "was lost"
    return OutcomeUnknown(
        f"storage = {url!r}: the database server {how} before it answered; whether this was recorded is not known"
    )


def _said(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip()
