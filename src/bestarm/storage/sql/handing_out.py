"""Handing out tests: those that are free, those already planned, and, if they run out, newly planned ones."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bestarm.storage.audit import encode_tests
from bestarm.storage.base import Issued, PlanRounds, Rounds
from bestarm.storage.errors import HoldsEnough, reporting_damage
from bestarm.storage.sql.database import SERVER_TIME, Database
from bestarm.storage.sql.locked import LockedStudy, lock_study, no_such_study
from bestarm.storage.sql.reading import HELD
from bestarm.storage.sql.schema import former, has_outcome, queue, rounds, studies, tests

Planned = tuple[int, ...]
"""Arm, metric, 1 if the test ends a round, and its item if it has one."""

# Made once, since putting a statement together takes longer than running it.
_OF_STUDY = queue.c.study == sa.bindparam("key")
_OVERDUE = queue.c.expires <= sa.bindparam("now")
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
_OF_REQUEST = sa.and_(
    _OF_STUDY,
    queue.c.request == sa.bindparam("request"),
    queue.c.holder == sa.bindparam("holder"),
    queue.c.expires > 0.0,
)
_HANDED = _QUEUED.where(_OF_REQUEST).order_by(queue.c.test)
# Two statements, so that each finds its rows by an index.
_FORGET_SETTLED = sa.delete(queue).where(_OF_STUDY, queue.c.test <= sa.bindparam("settled"))
_FORGET_TOLD = sa.delete(queue).where(_OF_STUDY, has_outcome)
_NEWEST = (
    sa.select(tests.c.test, tests.c.round)
    .where(tests.c.study == sa.bindparam("key"))
    .order_by(tests.c.test.desc())
    .limit(1)
    .subquery()
)
_FIRST_OVERDUE = sa.select(queue.c.expires).where(_OF_STUDY).order_by(queue.c.expires).limit(1)
_SITUATION = (
    sa.select(
        sa.func.coalesce(_NEWEST.c.test, 0),
        sa.func.coalesce(_NEWEST.c.round, 0),
        *(studies.c.revision, rounds.c.round, rounds.c.first, _FIRST_OVERDUE.scalar_subquery()),
        *(HELD.where(sa.bindparam("counted", type_=sa.Boolean)).scalar_subquery(), sa.exists().where(_OF_REQUEST)),
    )
    .select_from(studies.outerjoin(_NEWEST, sa.true()).outerjoin(rounds, rounds.c.study == studies.c.study))
    .where(studies.c.study == sa.bindparam("key"))
)
_ISSUE, _LEASE = sa.insert(tests), sa.insert(queue)
_RACES = 5
"""How often others may plan first before the next tests are decided inside the lock."""


def _flat(rounds: Rounds) -> list[Planned]:
    return [
        (int(test[0]), int(test[1]), int(k == len(tests) - 1), *map(int, test[2:]))
        for tests in rounds
        for k, test in enumerate(tests)
    ]


class End(NamedTuple):
    """The end of the record: the last test, the number of its plan, and the revision of what is before it. Rounds
    planned for another end are discarded: the study's plan may have changed since."""

    last: int
    number: int
    revision: int


class Situation(NamedTuple):
    """What a request for tests depends on, as one statement reads it."""

    end: End
    present: tuple[int, int] | None
    """The number of the present plan, and its first test."""
    some_overdue: bool
    held: int
    """How many tests without an outcome the holder holds, if they were counted."""
    is_repeat: bool
    """Whether the holder still holds tests that were handed out for this request."""


class Plans:
    """The tests that studies have planned and not yet handed out."""

    def __init__(self, database: Database) -> None:
        self._database = database
        insert: Any = sqlite.insert if database.is_sqlite else postgresql.insert
        excluded = insert(rounds).excluded
        self._upsert = insert(rounds).on_conflict_do_update(
            index_elements=["study"], set_={name: excluded[name] for name in ("round", "first", "tests")}
        )
        self._situation = _SITUATION if database.is_sqlite else _SITUATION.add_columns(SERVER_TIME)
        self._read: dict[int, tuple[int, int, list[Planned]]] = {}

    def situation(
        self, connection: sa.Connection, key: int, holder: str = "", request: str = "", *, counted: bool = False
    ) -> Situation:
        """What the database says now about a request of this holder, whose tests are `counted` if that matters."""
        names = {"key": key, "holder": holder, "request": request, "counted": counted}
        row = connection.execute(self._situation, names).first()
        if row is None:
            raise no_such_study(self._database, key)
        now = self._database.clock() if self._database.is_sqlite else row[-1]
        with reporting_damage(self._database.url):
            *end, number, first, earliest, held, is_repeat = row[:8]
            present = None if number is None else (operator.index(number), operator.index(first))
            some_overdue = earliest is not None and earliest <= now
            return Situation(End(*map(operator.index, end)), present, some_overdue, held, bool(is_repeat))

    def put(self, connection: sa.Connection, key: int, number: int, first: int, plan: Sequence[Planned]) -> None:
        row = {"study": key, "round": number, "first": first, "tests": json.dumps(plan)}
        connection.execute(self._upsert, row)

    def rest(self, connection: sa.Connection, key: int, there: Situation, count: int) -> list[Planned]:
        """What the plan still has to hand out, up to `count`."""
        (last, number, _), present = there.end, there.present
        # Results measured without asking get a number of their own, which withdraws the rest of the previous plan.
        if not count or present is None or present[0] != number:
            return []
        done = last + 1 - present[1]
        with reporting_damage(self._database.url):
            return self._plan(connection, key, *present)[done : done + count]

    def _plan(self, connection: sa.Connection, key: int, number: int, first: int) -> list[Planned]:
        # A committed plan never changes, and parsing a long one for every test would take milliseconds.
        known = self._read.get(key)
        if known is None or known[:2] != (number, first):
            text = connection.execute(sa.select(rounds.c.tests).where(rounds.c.study == key)).scalar_one()
            known = number, first, [tuple(row) for row in json.loads(text)]
            self._read[key] = known
        return known[2]


@dataclasses.dataclass
class TestRequest:
    """A request for tests, as `Storage.hand_out` takes it, and what it has been handed so far."""

    database: Database
    plans: Plans
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
            there = self._look(connection)
            is_used_up = not there.some_overdue and not self.plans.rest(connection, self.key, there, 1)
            # Nothing needs deciding for a repeat, or for a holder who holds enough.
            if is_used_up and there.is_repeat:
                return self._handed_before(connection)
        end = None
        if is_used_up and self._has_room(there):
            end = there.end
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
                there = self._look(connection)
                if not self.handed:
                    # Look again: the same request may have been made in the meantime.
                    if there.is_repeat:
                        return self._handed_before(connection)
                    if not self._has_room(there):
                        raise HoldsEnough(self.holder, there.held)
                before = len(self.handed)
                end = self._hand_out(study, there, planned, end, decide=lost >= _RACES)
                if new := [test.id for test in self.handed[before:]]:
                    study.log("handed out", self.holder, encode_tests(new))
            if not self._missing:
                break
        return self.handed

    def _look(self, connection: sa.Connection) -> Situation:
        counted = self.most is not None
        return self.plans.situation(connection, self.key, self.holder, self.request, counted=counted)

    @property
    def _missing(self) -> int:
        # Whatever is planned next would be another block.
        return 0 if self.one_plan and self.handed else self.count - len(self.handed)

    def _has_room(self, there: Situation) -> bool:
        """Whether the holder may be handed any; then for no more than there is room for."""
        if self.most is None:
            return True
        room = self.most - there.held
        if room < (self.count if self.one_plan else 1):
            return False
        self.count = min(self.count, room)
        return True

    def _handed_before(self, connection: sa.Connection) -> list[Issued]:
        names = {"key": self.key, "request": self.request, "holder": self.holder}
        return [Issued(row.test, row.arm, row.metric, row.item) for row in connection.execute(_HANDED, names)]

    def _forget_told(self, study: LockedStudy) -> None:
        """Remove tests from the queue that are known to have an outcome."""
        if study.by_arrival:
            study.execute(_FORGET_TOLD, {"key": self.key})
        elif self.settled:
            study.execute(_FORGET_SETTLED, {"key": self.key, "settled": self.settled})

    def _hand_out(
        self, study: LockedStudy, there: Situation, planned: list[Planned], end: End | None, *, decide: bool
    ) -> End:
        """Hand out free tests, then those `planned` if the record still ends where it did. Returns its end.

        With `one_plan`, all are of one plan, also if tests came free after the next ones were planned.
        """
        # At every request, since each reads the whole queue.
        self._forget_told(study)
        if there.some_overdue:
            self.handed += self._hand_again(study)
        (last, number, revision), missing = there.end, 0 if self.none_new else self._missing
        left = self.plans.rest(study.connection, self.key, there, missing)
        if not left and self._missing:
            if end != there.end and decide:
                planned = _flat(self.plan_rounds(self._missing))
                end = there.end
            if end == there.end and planned:
                number += 1
                self.plans.put(study.connection, self.key, number, last + 1, planned)
                left = planned
        if left and self._missing:
            new = self._issue(study, last + 1, number, left[: self._missing])
            self.handed += new
            last += len(new)
        return End(last, number, revision)

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
