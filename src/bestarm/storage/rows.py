"""What a storage takes and returns: studies, tests, outcomes, events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bestarm.storage.projects import DEFAULT_PROJECT

Telling = tuple[int, float] | tuple[int, float, *tuple[float, ...]]
"""A test and its values."""


class StudyRecord(NamedTuple):
    """A study's entry: everything but its tests."""

    key: int
    name: str
    plan: str
    """The plan as JSON."""
    seed: int
    created: float
    archived: float | None
    revision: int
    """Grows when something in the past changes (a correction), or the plan or project. Readers then start over."""
    by_arrival: bool = False
    """Whether results count in the order in which they arrive, not in the order in which their tests were issued."""
    items_seed: int | None = None
    """The seed of the random order of items. None without items, and in studies made before it was kept."""
    project: str = DEFAULT_PROJECT

    @property
    def order_seed(self) -> int:
        """The seed that the order of items follows. Studies made before `items_seed` was kept follow `seed`."""
        return self.seed if self.items_seed is None else self.items_seed


class Amendment(NamedTuple):
    """A plan to take the place of another."""

    plan: str
    """As JSON."""
    detail: str
    """What changes, in words, for the log."""
    retired: tuple[int, ...] = ()
    """Arms that are no longer measured."""
    reason: str = ""
    """Why their tests are given up."""
    withdraws: bool = True
    """Whether what is planned but not handed out is withdrawn. The round then ends with the last test handed out."""
    waits: bool = False
    """Whether it is `BlockUnfinished` instead as long as planned tests are not handed out."""


class Issued(NamedTuple):
    """A test that has been handed out. Ids count from 1 in the order of issue."""

    id: int
    arm: int
    metric: int
    item: int | None = None


class Outcome(NamedTuple):
    """How a test ended: with a value, or dropped without one, for a reason."""

    value: float | None
    reason: str | None
    holder: str
    more: tuple[float, ...] = ()
    """The values after the first, if the test yields several."""


class Part(NamedTuple):
    """Rows of one table in a copy of a study, in the table's order. The study's number is not among the columns: it
    differs elsewhere."""

    table: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


Archived = Literal["false", "true", "only"]
"""Which studies are listed: without the archived ones, with them, or only those."""

Aside = Literal["failed", "timed out", "refused", "lost"]
"""How an attempt ended: it failed, it timed out, its value was impossible, or its process was lost."""


class Pending(NamedTuple):
    """A test without an outcome, and who holds it."""

    id: int
    arm: int
    metric: int
    holder: str
    """Who holds it, or held it last."""
    expires: float
    """When the next heartbeat is overdue; 0 if it is free, infinite if its holder keeps it until they tell."""
    attempts: int
    since: float = 0.0
    """When it was handed to its holder, in seconds since 1970."""
    due: float | None = None
    """When its holder wanted to tell it by."""
    aside: Aside | None = None
    """How its attempt ended, until it is known what that counts as. Until then it is not handed out."""
    reason: str = ""
    """What was said about that attempt."""
    item: int | None = None


class Told(NamedTuple):
    """One outcome as it was recorded. A corrected test has several."""

    value: float | None
    reason: str | None
    holder: str
    time: float
    more: tuple[float, ...] = ()


class History(NamedTuple):
    """A test with all its recorded outcomes, the current one last. A pending test has none."""

    id: int
    arm: int
    metric: int
    ends: bool
    given: bool
    """Measured without asking."""
    issued: float
    outcomes: tuple[Told, ...]
    item: int | None = None


EventKind = Literal[
    "created",
    "asked",
    # Kept by a database: who asked for which tests. The log says it of each test.
    "handed out",
    "given",
    "told",
    "dropped",
    "failed",
    "set aside",
    "released",
    "handed on",
    "corrected",
    "amended",
    "archived",
    "restored",
    "moved",
    "remarked",
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
    more: tuple[float, ...] = ()
    item: int | None = None


class Act(NamedTuple):
    """Something that was done and is in no study's log."""

    time: float
    kind: str
    who: str
    subject: str
    """What it was done to: the name of a token or of a study."""
    detail: str
    study: int | None = None
    """The number of a study that was deleted or imported."""


Rounds = Sequence[Sequence[tuple[int, int] | tuple[int, int, int]]]
"""Rounds of tests (arm, metric) or (arm, metric, item)."""
PlanRounds = Callable[[int], Rounds]
"""Called with the number of tests still wanted. Returns the next round or rounds, or none to wait. It may take long, so
it is called outside the storage's lock. It may read the study, including what the same call has handed out."""

GivePlaces = Callable[[], Sequence[int]]
"""Returns for each result given the place of its item in the study's order. It is called when no other call can issue
tests, and not for a repeat. It may read the study. If it raises, nothing is recorded."""


MakeAmendment = Callable[[StudyRecord], Amendment]
"""Returns how to change the plan of the study as it is. It is called when no other call can change it, and not for a
repeat. If it raises, nothing is changed."""


_NONE: npt.NDArray[np.object_] = np.empty(0, object)
_NO_ITEMS: npt.NDArray[np.int64] = np.empty(0, np.int64)
_NO_TIMES: npt.NDArray[np.float64] = np.empty(0)
_NOT_SAID: npt.NDArray[np.int8] = np.empty(0, np.int8)


class ResultRow(NamedTuple):
    """A test that has a result, by number; `values` are those of its metrics."""

    id: int
    arm: int
    metric: int
    values: tuple[float, ...]
    item: int | None


class Entries(NamedTuple):
    """Consecutive tests that have an outcome, column by column; a dropped test's value is NaN."""

    ids: npt.NDArray[np.int64]
    arms: npt.NDArray[np.int64]
    metrics: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    ends: npt.NDArray[np.int8]
    """1 at the last test of a round, where the policy decides."""
    told: npt.NDArray[np.float64]
    """When the outcome was told, in seconds since 1970."""
    arrivals: npt.NDArray[np.int64]
    """In a study by arrival: numbers that grow in the order in which outcomes were told; else 0."""
    holders: npt.NDArray[np.object_] = _NONE
    """Who told the outcome; empty if the storage does not say."""
    more: npt.NDArray[np.object_] = _NONE
    """The values after the first, as tuples; empty if no test here has any."""
    items: npt.NDArray[np.int64] = _NO_ITEMS
    """The items' places, -1 where there is none; empty if no test here has one."""
    issued: npt.NDArray[np.float64] = _NO_TIMES
    """When the test was issued, in seconds since 1970, which is the same for all tests of one request; empty if the
    storage does not say."""
    given: npt.NDArray[np.int8] = _NOT_SAID
    """1 if the test was measured without asking; empty if the storage does not say."""

    def results(self) -> Iterator[ResultRow]:
        """The tests that have a result, one by one."""
        more, items = (column.tolist() or [None] * len(self.ids) for column in (self.more, self.items))
        columns = (column.tolist() for column in (self.ids, self.arms, self.metrics, self.values))
        for id_, arm, metric, value, rest, item in zip(*columns, more, items, strict=True):
            if value == value:
                yield ResultRow(id_, arm, metric, (value, *(rest or ())), None if item == -1 else item)

    def before(self, row: int) -> Entries:
        """Those above a row."""
        columns: list[Any] = [column[:row] for column in self]
        return Entries(*columns)
