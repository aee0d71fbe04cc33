"""A study that is locked in a transaction: while one process changes it, the others wait.

What was done under a caller's key is noted in the same transaction, so that a repeat is recognized and counts once.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import sqlalchemy as sa

from bestarm.storage.base import EventKind
from bestarm.storage.errors import ConnectionLost, OutcomeUnknown, StorageError, StudyArchived
from bestarm.storage.keys import new_key
from bestarm.storage.sql.database import SERVER_TIME, Database
from bestarm.storage.sql.schema import events, requests, storable, studies
from bestarm.validation import InvalidInput, NotFound

P = ParamSpec("P")
T = TypeVar("T")

# Made once, since putting a statement together takes longer than running it.
_LOOK = sa.select(studies.c.name, studies.c.by_arrival, studies.c.archived, studies.c.revision).where(
    studies.c.study == sa.bindparam("key")
)
# Not a part of these: files of earlier versions have it behind the plan, which may be long.
_PROJECT = sa.select(studies.c.project).where(studies.c.study == sa.bindparam("key"))


def _timed(lock: sa.Select[Any]) -> sa.Select[Any]:
    """The same with the time. It stands around the statement that waits, so it is the time when the wait is over."""
    locked = lock.subquery()
    return sa.select(*locked.c, SERVER_TIME)


# By whether telling results is blocked too.
_LOCKS = {False: _timed(_LOOK.with_for_update(key_share=True)), True: _timed(_LOOK.with_for_update())}


def retried(method: Callable[P, T]) -> Callable[P, T]:
    """The method is called once more if the connection was lost. A repeat is recognized by its `request`, which is made
    up here if the caller gave none."""
    has_request = "request" in inspect.signature(method).parameters

    @functools.wraps(method)
    def call(*args: P.args, **named: P.kwargs) -> T:
        if has_request:
            named["request"] = storable(str(named.get("request") or new_key()))
        try:
            return method(*args, **named)
        except ConnectionLost as lost:
            try:
                return method(*args, **named)
            except StorageError as error:
                # The first error says most, unless only the second leaves the outcome unknown.
                if isinstance(error, OutcomeUnknown) and not isinstance(lost, OutcomeUnknown):
                    raise
                raise lost from None

    return call


class Done(NamedTuple):
    """What was done under a key: the kind of action, its tests, and a digest of its arguments."""

    what: str
    first: int
    number: int
    digest: str


@dataclasses.dataclass(frozen=True)
class LockedStudy:
    """The transaction, what time it is, and what the study's entry says."""

    connection: sa.Connection
    key: int
    now: float
    name: str
    by_arrival: bool = False
    is_archived: bool = False
    revision: int = 0

    def execute(self, statement: sa.Executable, values: Any = None) -> Any:
        return self.connection.execute(statement, values)

    def check_open(self) -> None:
        if self.is_archived:
            raise StudyArchived(self.name)

    def project(self, within: str | None = None) -> str:
        """The study's project. `NotFound` if that is not `within`, unless that is None."""
        found = str(self.execute(_PROJECT, {"key": self.key}).scalar_one())
        if within not in (None, found):
            raise NotFound("study", self.key, f"no such study in the project {within!r}")
        return found

    def log(self, kind: EventKind, holder: str, detail: str = "", test: int | None = None) -> None:
        """Add a line to the log."""
        row = {"kind": kind, "holder": storable(holder), "detail": storable(detail), "test": test}
        self.execute(sa.insert(events).values(study=self.key, time=self.now, **row))

    def find_done(self, request: str, what: str, digest: str = "") -> Done | None:
        """What was done under `request` before; `InvalidInput` if that was something else."""
        query = sa.select(*(requests.c[name] for name in Done._fields)).where(
            requests.c.study == self.key, requests.c.request == request
        )
        row = self.execute(query).first()
        if row is None:
            return None
        if (row.what, row.digest) != (what, digest):
            raise InvalidInput(
                "key",
                request,
                f"was used in this study for something else ({row.what}); repeat the same under a key, and give "
                "everything new a key of its own",
            )
        return Done._make(row)

    def note_done(self, request: str, done: Done) -> None:
        self.execute(sa.insert(requests).values(study=self.key, request=request, time=self.now, **done._asdict()))

    def is_repeat(self, request: str, what: str, tests: Sequence[int], digest: str = "") -> bool:
        """Whether this was done before, by its kind and its tests, or its `digest`. Otherwise note that it is done now,
        in a study that is open."""
        digest = digest or ",".join(map(str, tests[:100]))
        if self.find_done(request, what, digest) is not None:
            return True
        self.check_open()
        self.note_done(request, Done(what, tests[0] if tests else 0, len(tests), digest))
        return False


def lock_study(database: Database, connection: sa.Connection, key: int, *, blocks_telling: bool = False) -> LockedStudy:
    """Keep others from changing this study, though not from telling results unless that is blocked too."""
    # An SQLite file is locked as a whole.
    row = connection.execute(_LOOK if database.is_sqlite else _LOCKS[blocks_telling], {"key": key}).first()
    if row is None:
        raise no_such_study(database, key)
    now = database.clock() if database.is_sqlite else row[-1]
    return LockedStudy(connection, key, now, row.name, bool(row.by_arrival), row.archived is not None, row.revision)


def no_such_study(database: Database, key: int) -> NotFound:
    return NotFound("study", key, f"no such study in {database.url!r}")
