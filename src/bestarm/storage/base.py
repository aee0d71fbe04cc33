"""What a storage keeps of a study, and what it promises. `bestarm.testing.storages` holds every storage to it.

Two things make up the record: tests, in the order in which they were issued, and their outcomes. Both only ever
grow. Everything else (evidence, verdicts, the answer) is recomputed from them. What a method has
returned from is durable; a method that raises has changed nothing, except that nobody can know this when a server is
lost at the very moment of a commit: that is `OutcomeUnknown`. So whatever could count twice takes a `request`, a text
of the caller's making: under the same `request` it is done once, and a repeat returns what the first call did. A
study's key that does not exist is `InvalidInput` wherever something would be changed; an archived study is
`StudyArchived`.

In the record a test is (arm, metric) by number, and a value is as the user gave it.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt


class StudyRecord(NamedTuple):
    """What is known of a study apart from its tests."""

    key: int
    name: str
    plan: str
    """The plan as JSON."""
    seed: int
    created: float
    archived: float | None
    revision: int
    """Grows when something in the past changes (a correction), so that readers start afresh."""
    by_arrival: bool = False
    """Whether results count in the order in which they arrive, not in the order in which their tests were issued."""


class Issued(NamedTuple):
    """A test that somebody has been asked to make. Ids count from 1 in the order of issue."""

    id: int
    arm: int
    metric: int


class Outcome(NamedTuple):
    """How a test ended: with a value, or, without one, dropped for a reason."""

    value: float | None
    reason: str | None
    holder: str


Archived = Literal["false", "true", "only"]
"""Which studies are listed: without the archived ones, with them, or only they."""


Aside = Literal["failed", "timed out", "refused", "lost"]
"""How an attempt ended: with an error, with a time-out, with a value that cannot be, with its process."""


class Pending(NamedTuple):
    """A test without an outcome, and who holds it."""

    id: int
    arm: int
    metric: int
    holder: str
    """Who holds it, or held it last."""
    expires: float
    """0 if nobody holds it, infinite if it is its holder's until they tell, else when the next heartbeat is overdue."""
    attempts: int
    since: float = 0.0
    """When it was handed to its holder, in seconds since 1970."""
    due: float | None = None
    """By when its holder wanted to tell it."""
    aside: Aside | None = None
    """How its attempt ended, as long as nobody has said what that counts; meanwhile nobody is asked to make it."""
    reason: str = ""
    """What was said of that attempt."""


class Entries(NamedTuple):
    """Consecutive tests that have an outcome, column by column; a dropped test's value is NaN."""

    ids: npt.NDArray[np.int64]
    arms: npt.NDArray[np.int64]
    metrics: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    ends: npt.NDArray[np.int8]
    """1 where the last test of a round stands: there the policy decides."""
    told: npt.NDArray[np.float64]
    """When the outcome was told, in seconds since 1970."""
    arrivals: npt.NDArray[np.int64]
    """In a study by arrival: numbers that grow in the order in which outcomes were told; else 0."""

    def before(self, row: int) -> Entries:
        """Those above a row."""
        columns: list[Any] = [column[:row] for column in self]
        return Entries(*columns)


class Told(NamedTuple):
    """One outcome as it was recorded; of a corrected test there are several."""

    value: float | None
    reason: str | None
    holder: str
    time: float


class History(NamedTuple):
    """A test with everything that was recorded of it, the present outcome last; none if it is pending."""

    id: int
    arm: int
    metric: int
    ends: bool
    given: bool
    """Measured without asking."""
    issued: float
    outcomes: tuple[Told, ...]


EventKind = Literal[
    "created",
    "asked",
    "given",
    "told",
    "dropped",
    "failed",
    "set aside",
    "released",
    "handed on",
    "corrected",
    "archived",
    "restored",
]


class Event(NamedTuple):
    """One line of a study's log."""

    time: float
    kind: EventKind
    test: int | None
    holder: str
    detail: str
    arm: int | None = None
    metric: int | None = None
    value: float | None = None


Rounds = Sequence[Sequence[tuple[int, int]]]
PlanRounds = Callable[[int], Rounds]
"""Called with how many tests are still wanted; returns the next round or rounds, none for "wait". It may take long, so
it is called outside the storage's lock, and may read the study, what the same call has handed out included."""


class Storage(abc.ABC):
    """Keeps studies. Safe to use from many threads, and on one database from many processes, at once."""

    url: str
    """Where it is, without a password."""

    is_private: bool = False
    """Whether no other process can reach it."""

    @abc.abstractmethod
    def create_study(
        self, name: str, plan: str, seed: int, *, by_arrival: bool = False, request: str = ""
    ) -> StudyRecord:
        """A new study. `NameTaken` if the name is taken, unless by the same `request`."""

    @abc.abstractmethod
    def find_study(self, name: str) -> StudyRecord | None: ...

    def look(self, record: StudyRecord) -> StudyRecord | None:
        """The entry of `record`'s study as it is now. Its plan never changes, so a storage need not read it again."""
        return self.find_study(record.name)

    @abc.abstractmethod
    def studies(self) -> list[StudyRecord]:
        """All studies, the oldest first."""

    def study(self, key: int) -> StudyRecord | None:
        """The study with that key."""
        return next((record for record in self.studies() if record.key == key), None)

    def newest(
        self, limit: int, *, before: int | None = None, archived: Archived = "true", contains: str = ""
    ) -> list[StudyRecord]:
        """Up to `limit` studies, the newest first: those with a key below `before` and `contains` in their name."""
        wanted = [
            record
            for record in reversed(self.studies())
            if (before is None or record.key < before)
            and (archived == "true" or (record.archived is not None) == (archived == "only"))
            and contains.lower() in record.name.lower()
        ]
        return wanted[:limit]

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        """What this thread reads inside is all as it was at one moment, where the storage can tell."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def archive(self, key: int, holder: str, *, undo: bool = False) -> None:
        """Put a study away, or bring it back. Once this has returned, nothing is recorded in an archived study."""

    @abc.abstractmethod
    def hand_out(
        self,
        key: int,
        count: int,
        holder: str,
        lease: float | None,
        settled: int,
        plan_rounds: PlanRounds,
        *,
        due: float | None = None,
        request: str = "",
        most: int | None = None,
    ) -> list[Issued]:
        """Hand up to `count` tests to `holder`, no test to two holders at a time.

        With a `lease`, they promise to `renew` before so many seconds have passed; without one the tests stay theirs
        until they are told, failed or released. `due` is in how many seconds they want to tell them; nothing happens
        when that is over.

        First come tests that nobody holds, and those of holders who are gone: silent for longer than their lease when
        somebody asked, and still silent half as long again after that. Then comes what is planned already, then what
        `plan_rounds` returns, and so on until it returns nothing. What it returns counts only if no test has been
        issued since it was called; else it is called again. If it raises, nothing stays handed out. Every test up to
        `settled` has an outcome.

        If `holder` has been handed tests under the same `request` and still holds some, it is those. Otherwise they
        never hold more than `most` by this, and `HoldsEnough` is raised if they hold so many.
        """

    @abc.abstractmethod
    def give(
        self,
        key: int,
        results: Sequence[tuple[int, int, float]],
        holder: str,
        source: str,
        ends: Collection[int] = (),
        *,
        request: str = "",
    ) -> Sequence[int]:
        """Record results (arm, metric, value) measured without asking: all or nothing. Returns the ids.

        They are one round, or several if `ends` has the places, from 0, of results that end one; the last always
        does. What is planned but not handed out is withdrawn, so that these results need not wait for it. A
        `source` other than "" is taken once only. The same results again under the same `request` are not recorded
        again; other results under it are `InvalidInput`.
        """

    @abc.abstractmethod
    def tell(self, key: int, test: int, value: float, holder: str) -> Outcome | None:
        """Record a test's value, unless it has an outcome: then that is returned and nothing changes.

        Anybody may tell a test, except who held it before it was handed to somebody else: which of the two attempts
        counts must not depend on which is quicker. That is `HandedOn`. `InvalidInput` if there is no such test.
        """

    @abc.abstractmethod
    def tell_many(self, key: int, results: Sequence[tuple[int, float]], holder: str) -> dict[int, Outcome]:
        """Record values of several tests, all or nothing: nothing if some have another outcome, which is returned."""

    @abc.abstractmethod
    def correct(self, key: int, test: int, value: float, holder: str, reason: str) -> Outcome:
        """Replace the value of a test that has an outcome, keeping the old one in the log; returns the old one."""

    @abc.abstractmethod
    def drop(self, key: int, test: int, holder: str, reason: str) -> Outcome | None:
        """End a test without a value, unless it has an outcome: then that is returned and nothing changes.

        `HandedOn` as for `tell`.
        """

    @abc.abstractmethod
    def fail(self, key: int, test: int, holder: str, reason: str, *, request: str = "") -> None:
        """Note a failed attempt, whoever made it, and free the test; of a former holder it is noted and no more."""

    @abc.abstractmethod
    def set_aside(self, key: int, test: int, holder: str, kind: Aside, reason: str, *, request: str = "") -> None:
        """Note that the attempt of `holder`, who holds the test, ended so, and keep the test from being handed out.

        It stays so until somebody tells, fails, releases or drops it.
        """

    @abc.abstractmethod
    def release(self, key: int, tests: Sequence[int], holder: str, *, request: str = "") -> None:
        """Free tests unmeasured, whoever holds them; those that `holder` has lost to somebody else stay with them.

        To free what somebody else holds is noted in the log.
        """

    def release_held_by(self, key: int, name: str, holder: str, *, request: str = "") -> list[int]:
        """Free, in the name of `holder`, everything that `name` holds; returns those tests, none for a repeat."""
        held = [row.id for row in self.pending(key) if row.holder == name and row.expires > 0.0]
        self.release(key, held, holder, request=request)
        return held

    @abc.abstractmethod
    def renew(self, key: int, tests: Sequence[int], holder: str, lease: float) -> None:
        """A heartbeat: `holder` promises to be heard of again within `lease` seconds, for the tests they hold."""

    @abc.abstractmethod
    def test(self, key: int, test: int) -> tuple[Issued, Outcome | None] | None:
        """A test and its outcome, or None if there is no such test."""

    def find_tests(self, key: int, tests: Sequence[int]) -> dict[int, tuple[Issued, Outcome | None]]:
        """Those of the tests that there are, and their outcomes."""
        found = {test: self.test(key, test) for test in tests}
        return {test: issued for test, issued in found.items() if issued is not None}

    @abc.abstractmethod
    def entries(self, key: int, after: int, *, gaps: bool = False) -> Iterator[Entries]:
        """The tests that follow number `after` and have an outcome, in order, up to the first that has none.

        With `gaps`, also those beyond it.
        """

    @abc.abstractmethod
    def arrivals(self, key: int, after: int) -> Iterator[Entries]:
        """In a study by arrival, the tests whose outcomes arrived after number `after`, in that order.

        What was read once stays as it was: nothing ever arrives before it.
        """

    @abc.abstractmethod
    def pending(self, key: int, *, after: int = 0, limit: int | None = None) -> list[Pending]:
        """The tests beyond number `after` without an outcome, in order; at most `limit`, if that is given."""

    def count_pending(self, key: int, holder: str | None = None) -> int:
        """How many tests have no outcome, or how many of those `holder` holds."""
        return sum(
            holder is None or (row.holder == holder and row.expires > 0.0 and row.aside is None)
            for row in self.pending(key)
        )

    @abc.abstractmethod
    def last_event(self, key: int) -> int:
        """A number that grows with every line of the log that is neither of a test issued nor of an outcome."""

    @abc.abstractmethod
    def issued(self, key: int) -> int:
        """How many tests have been issued."""

    def told(self, key: int, after: int) -> int:
        """How many of the tests that follow number `after` have an outcome."""
        return sum(len(part.ids) for part in self.entries(key, after, gaps=True))

    @abc.abstractmethod
    def log(self, key: int, last: int | None = None) -> list[Event]:
        """What happened, the oldest first; the `last` events only, if that is given."""

    @abc.abstractmethod
    def history(self, key: int) -> Iterator[History]:
        """Every test in the order of issue, read piece by piece: memory does not grow with their number.

        In a study by arrival those with an outcome come first, in the order in which they arrived.
        """

    def change_mark(self) -> object | None:
        """Something to compare: as long as it is equal, nothing at all has been written to the database.

        It may differ though nothing was written. None means that it cannot be told.
        """
        return None

    def close(self) -> None:
        """Let go of connections."""
        return
