"""Handing out tests: those that are free, those already planned, and, if they run out, newly planned ones."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bestarm.storage.audit import encode_tests
from bestarm.storage.base import Issued, PlanRounds, Rounds
from bestarm.storage.errors import HoldsEnough, reporting_damage
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.locked import LockedStudy, lock_study
from bestarm.storage.sql.schema import former, has_outcome, queue, rounds, studies, tests

Planned = tuple[int, ...]
"""Arm, metric, 1 if the test ends a round, and its item if it has one."""

# Made once, since putting a statement together takes longer than running it.
_OF_STUDY = queue.c.study == sa.bindparam("key")
_OVERDUE = queue.c.expires <= sa.bindparam("now")
_SOME_OVERDUE = sa.select(queue.c.test).where(_OF_STUDY, _OVERDUE).limit(1)
_NOTICE_SILENCE = (
    sa.update(queue)
    .where(_OF_STUDY, _OVERDUE, queue.c.expires > 0.0, queue.c.silent.is_(None))
    .values(silent=sa.bindparam("now"))
)
# Leaves time for a heartbeat from a holder that was asleep, or cut off from the database, and is back.
_IS_GONE = queue.c.silent + 0.5 * sa.func.coalesce(queue.c.lease, 0.0) <= sa.bindparam("now")
_QUEUED = sa.select(
    queue.c.test, tests.c.arm, tests.c.metric, tests.c.item, tests.c.round, queue.c.holder, queue.c.expires
).join(tests, sa.and_(tests.c.study == queue.c.study, tests.c.test == queue.c.test))
_FREE = (
    _QUEUED.where(_OF_STUDY, _OVERDUE, sa.or_(queue.c.expires == 0.0, _IS_GONE), ~has_outcome)
    # The sum keeps SQLite from reading the whole queue in order, instead of the few that are overdue.
    .order_by(queue.c.test + 0)
    .limit(sa.bindparam("count"))
)
_HANDED = _QUEUED.where(
    _OF_STUDY,
    queue.c.request == sa.bindparam("request"),
    queue.c.holder == sa.bindparam("holder"),
    queue.c.expires > 0.0,
).order_by(queue.c.test)
# Two statements, so that each finds its rows by an index.
_FORGET_SETTLED = sa.delete(queue).where(_OF_STUDY, queue.c.test <= sa.bindparam("settled"))
_FORGET_TOLD = sa.delete(queue).where(_OF_STUDY, has_outcome)
_NEWEST = (
    sa.select(tests.c.test, tests.c.round)
    .where(tests.c.study == sa.bindparam("key"))
    .order_by(tests.c.test.desc())
    .limit(1)
)
_PRESENT = sa.select(rounds.c.round, rounds.c.first).where(rounds.c.study == sa.bindparam("key"))
_REVISION = sa.select(studies.c.revision).where(studies.c.study == sa.bindparam("key"))
_ISSUE, _LEASE = sa.insert(tests), sa.insert(queue)
_RACES = 5
"""How often others may plan first before the next tests are decided inside the lock."""


def _flat(rounds: Rounds) -> list[Planned]:
    return [
        (int(test[0]), int(test[1]), int(k == len(tests) - 1), *map(int, test[2:]))
        for tests in rounds
        for k, test in enumerate(tests)
    ]


class Plans:
    """The tests that studies have planned and not yet handed out."""

    def __init__(self, *, is_sqlite: bool) -> None:
        insert: Any = sqlite.insert if is_sqlite else postgresql.insert
        excluded = insert(rounds).excluded
        self._upsert = insert(rounds).on_conflict_do_update(
            index_elements=["study"], set_={name: excluded[name] for name in ("round", "first", "tests")}
        )
        self._read: dict[int, tuple[int, int, list[Planned]]] = {}

    def put(self, connection: sa.Connection, key: int, number: int, first: int, plan: Sequence[Planned]) -> None:
        row = {"study": key, "round": number, "first": first, "tests": json.dumps(plan)}
        connection.execute(self._upsert, row)

    def rest(self, connection: sa.Connection, key: int, count: int) -> tuple[int, int, list[Planned]]:
        """The last test's id, the number of its plan, and what that plan still has to hand out, up to `count`."""
        row = connection.execute(_NEWEST, {"key": key}).first()
        if row is None:
            return 0, 0, []
        last, number = map(operator.index, row)
        present = connection.execute(_PRESENT, {"key": key}).first()
        # Results measured without asking get a number of their own, which withdraws the rest of the previous plan.
        if not count or present is None or present.round != number:
            return last, number, []
        done = last + 1 - present.first
        return last, number, self._plan(connection, key, number, present.first)[done : done + count]

    def _plan(self, connection: sa.Connection, key: int, number: int, first: int) -> list[Planned]:
        # A committed plan never changes, and parsing a long one for every test would take milliseconds.
        known = self._read.get(key)
        if known is None or known[:2] != (number, first):
            text = connection.execute(sa.select(rounds.c.tests).where(rounds.c.study == key)).scalar_one()
            known = number, first, [tuple(row) for row in json.loads(text)]
            self._read[key] = known
        return known[2]


class _End(NamedTuple):
    """The end of the record: the last test, the number of its plan, and the revision of what is before it. Rounds
    planned for another end are discarded: the study's plan may have changed since."""

    last: int
    number: int
    revision: int


@dataclasses.dataclass
class TestRequest:
    """A request for tests, as `Storage.hand_out` takes it, and what it has been handed so far."""

    database: Database
    plans: Plans
    count_held: Callable[[], int]
    """How many tests without an outcome the holder holds."""
    key: int
    count: int
    holder: str
    lease: float | None
    settled: int
    plan_rounds: PlanRounds
    due: float | None
    request: str
    most: int | None
    one_plan: bool
    none_new: bool
    handed: list[Issued] = dataclasses.field(default_factory=list)

    def hand_out(self) -> list[Issued]:
        """Hand out tests. A repeat of a request returns the tests that it was handed before and still holds."""
        with self.database.connect() as connection:
            end = self._end_if_nothing_is_free(connection)
            # Nothing needs deciding for a repeat, or for a holder who holds enough.
            if end is not None and (already := self._handed_before(connection)):
                return already
        if end is not None and self.most is not None:
            room = self.most - self.count_held()
            if room >= self._least_room:
                self.count = min(self.count, room)
            else:
                end = None
        for lost in itertools.count():
            planned: list[Planned] = []
            if end is not None:
                # Deciding may take long. It happens outside the lock, unless others keep being quicker.
                planned = _flat(self.plan_rounds(self._missing))
                if not planned:
                    break
            with self.database.transaction() as connection:
                study = lock_study(self.database, connection, self.key)
                study.check_open()
                if not self.handed:
                    # Look again: the same request may have been made in the meantime.
                    if already := self._handed_before(connection):
                        return already
                    self._check_holds_less()
                self._forget_told(study)
                before = len(self.handed)
                end = self._hand_out(study, planned, end, decide=lost >= _RACES)
                if new := [test.id for test in self.handed[before:]]:
                    study.log("handed out", self.holder, encode_tests(new))
            if not self._missing:
                break
        return self.handed

    def _rest(self, connection: sa.Connection, count: int) -> tuple[int, int, list[Planned]]:
        with reporting_damage(self.database.url):
            return self.plans.rest(connection, self.key, count)

    @property
    def _missing(self) -> int:
        # Whatever is planned next would be another block.
        return 0 if self.one_plan and self.handed else self.count - len(self.handed)

    @property
    def _least_room(self) -> int:
        """For how many tests the holder must have room to be handed any."""
        return self.count if self.one_plan else 1

    def _end_if_nothing_is_free(self, connection: sa.Connection) -> _End | None:
        """The end of the record, if everything that was planned is out; None if there is something to hand out."""
        last, number, left = self._rest(connection, 1)
        now = self.database.time(connection)
        if left or connection.execute(_SOME_OVERDUE, {"key": self.key, "now": now}).first() is not None:
            return None
        return _End(last, number, connection.execute(_REVISION, {"key": self.key}).scalar() or 0)

    def _handed_before(self, connection: sa.Connection) -> list[Issued]:
        names = {"key": self.key, "request": self.request, "holder": self.holder}
        return [Issued(row.test, row.arm, row.metric, row.item) for row in connection.execute(_HANDED, names)]

    def _check_holds_less(self) -> None:
        if self.most is not None:
            held = self.count_held()
            if held + self._least_room > self.most:
                raise HoldsEnough(self.holder, held)
            self.count = min(self.count, self.most - held)

    def _forget_told(self, study: LockedStudy) -> None:
        """Remove tests from the queue that are known to have an outcome."""
        if study.by_arrival:
            study.execute(_FORGET_TOLD, {"key": self.key})
        elif self.settled:
            study.execute(_FORGET_SETTLED, {"key": self.key, "settled": self.settled})

    def _hand_out(self, study: LockedStudy, planned: list[Planned], end: _End | None, *, decide: bool) -> _End:
        """Hand out free tests, then those `planned` if the record still ends where it did. Returns its end.

        With `one_plan`, all are of one plan, also if tests came free after the next ones were planned.
        """
        self.handed += self._hand_again(study)
        last, number, left = self._rest(study.connection, 0 if self.none_new else self._missing)
        if not left and self._missing:
            here = _End(last, number, study.revision)
            if end != here and decide:
                planned = _flat(self.plan_rounds(self._missing))
                end = here
            if end == here and planned:
                number += 1
                self.plans.put(study.connection, self.key, number, last + 1, planned)
                left = planned
        if left and self._missing:
            new = self._issue(study, last + 1, number, left[: self._missing])
            self.handed += new
            last += len(new)
        return _End(last, number, study.revision)

    def _lease_columns(self, now: float) -> dict[str, Any]:
        return {
            "holder": self.holder,
            "since": now,
            "lease": self.lease,
            "expires": math.inf if self.lease is None else now + self.lease,
            "due": None if self.due is None else now + self.due,
            "silent": None,
            "request": self.request,
        }

    def _issue(self, study: LockedStudy, first: int, number: int, planned: Sequence[Planned]) -> list[Issued]:
        """Put tests at the end of the record, and hand them out."""
        new: list[Issued] = []
        rows: list[dict[str, Any]] = []
        common = {"study": self.key, "round": number, "given": 0, "issued": study.now}
        for test, (arm, metric, ends, *item) in enumerate(planned, first):
            new.append(Issued(test, arm, metric, item[0] if item else None))
            rows.append(common | {"test": test, "ends": ends, "arm": arm, "metric": metric, "item": new[-1].item})
        study.execute(_ISSUE, rows)
        lease = {"study": self.key, "attempts": 1, **self._lease_columns(study.now)}
        study.execute(_LEASE, [lease | {"test": test.id} for test in new])
        return new

    def _hand_again(self, study: LockedStudy) -> list[Issued]:
        """Hand free tests to their new holder. Former holders can no longer tell them."""
        key, holder = self.key, self.holder
        study.execute(_NOTICE_SILENCE, {"key": key, "now": study.now})
        free = study.execute(_FREE, {"key": key, "now": study.now, "count": self._missing}).all()
        if not free:
            return []
        if self.one_plan:
            free = [row for row in free if row.round == free[0].round]
        columns = self._lease_columns(study.now) | {"aside": None, "reason": None, "attempts": queue.c.attempts + 1}
        update = sa.update(queue).where(queue.c.study == key, queue.c.test == sa.bindparam("id")).values(columns)
        study.execute(update, [{"id": row.test} for row in free])
        mine = sa.delete(former).where(
            former.c.study == key, former.c.test == sa.bindparam("id"), former.c.holder == holder
        )
        study.execute(mine, [{"id": row.test} for row in free])
        for row in free:
            if row.holder != holder:
                # They may have held it before, lost it and gotten it back.
                known = sa.select(former).where(
                    former.c.study == key, former.c.test == row.test, former.c.holder == row.holder
                )
                if study.execute(known).first() is None:
                    study.execute(sa.insert(former).values(study=key, test=row.test, holder=row.holder))
            if row.expires > 0.0:
                detail = f"{row.holder} has been silent; the test goes to {holder}"
                study.log("handed on", row.holder, detail, row.test)
        return [Issued(row.test, row.arm, row.metric, row.item) for row in free]
