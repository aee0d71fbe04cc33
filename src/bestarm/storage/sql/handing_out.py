"""Handing out tests: those that are free, those already planned, and, if they run out, newly planned ones."""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import sqlalchemy as sa

from bestarm.storage.base import Issued, PlanRounds
from bestarm.storage.errors import HoldsEnough
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.leases import (
    OVERDUE,
    Planned,
    Plans,
    Terms,
    flat,
    forget_told,
    hand_again,
    hand_new,
    issue,
)
from bestarm.storage.sql.locking import lock_study
from bestarm.storage.sql.queries import count_pending
from bestarm.storage.sql.requests import handed_under
from bestarm.storage.sql.schema import queue, studies

_SOME_OVERDUE = sa.select(queue.c.test).where(queue.c.study == sa.bindparam("key"), OVERDUE).limit(1)
_REVISION = sa.select(studies.c.revision).where(studies.c.study == sa.bindparam("key"))
_RACES = 5
"""How often others may plan first before the next tests are decided inside the lock."""


class _End(NamedTuple):
    """The end of the record: the last test, the number of its plan, and the revision of what is before it. Rounds
    planned for another end are discarded: the study's plan may have changed since."""

    last: int
    number: int
    revision: int


@dataclasses.dataclass(frozen=True)
class Wish:
    """A request for tests, as `Storage.hand_out` takes it."""

    key: int
    count: int
    holder: str
    lease: float | None
    settled: int
    due: float | None
    request: str
    most: int | None


class HandingOut:
    """Fulfills one request. `handed` is what has been handed out so far."""

    def __init__(self, database: Database, plans: Plans, wish: Wish, plan_rounds: PlanRounds) -> None:
        self._database, self._plans = database, plans
        self._wish, self._plan_rounds = wish, plan_rounds
        self._count = wish.count
        self.handed: list[Issued] = []

    def run(self) -> list[Issued]:
        """Hand out what there is. What the same request was handed before, and still holds, is returned again."""
        wish = self._wish
        repeated = wish.key, wish.request, wish.holder
        with self._database.connect() as connection:
            end = self._end_if_nothing_is_free(connection)
            # Nothing needs deciding for a repeat, or for a holder who holds enough.
            if end is not None and (already := handed_under(connection, *repeated)):
                return already
            if end is not None and wish.most is not None:
                room = wish.most - count_pending(connection, wish.key, wish.holder)
                self._count, end = (min(self._count, room), end) if room > 0 else (self._count, None)
        for lost in itertools.count():
            planned: list[Planned] = []
            if end is not None:
                # Deciding may take long. It happens outside the lock, unless others keep being quicker.
                planned = flat(self._plan_rounds(self._missing))
                if not planned:
                    break
            with self._database.transaction() as connection:
                locked = lock_study(self._database, connection, wish.key)
                locked.check_open()
                if not self.handed:
                    # Look again: the same request may have been made in the meantime.
                    if already := handed_under(connection, *repeated):
                        return already
                    self._check_holds_less(connection)
                forget_told(connection, wish.key, wish.settled, by_arrival=locked.by_arrival)
                terms = Terms(wish.holder, locked.now, wish.lease, wish.due, wish.request)
                end = self._hand_out(connection, terms, planned, end, locked.revision, decide=lost >= _RACES)
            if not self._missing:
                break
        return self.handed

    @property
    def _missing(self) -> int:
        return self._count - len(self.handed)

    def _end_if_nothing_is_free(self, connection: sa.Connection) -> _End | None:
        """The end of the record, if everything that was planned is out; None if there is something to hand out."""
        key = self._wish.key
        last, number, left = self._plans.rest(connection, key, 1)
        now = self._database.time(connection)
        if left or connection.execute(_SOME_OVERDUE, {"key": key, "now": now}).first() is not None:
            return None
        return _End(last, number, connection.execute(_REVISION, {"key": key}).scalar() or 0)

    def _check_holds_less(self, connection: sa.Connection) -> None:
        most = self._wish.most
        if most is not None:
            held = count_pending(connection, self._wish.key, self._wish.holder)
            if held >= most:
                raise HoldsEnough(self._wish.holder, held)
            self._count = min(self._count, most - held)

    def _hand_out(
        self,
        connection: sa.Connection,
        terms: Terms,
        planned: list[Planned],
        end: _End | None,
        revision: int,
        *,
        decide: bool,
    ) -> _End:
        """Hand out what there is, then what was `planned` if the record still ends where it did. Returns its end."""
        key = self._wish.key
        self.handed += hand_again(connection, key, self._missing, terms)
        last, number, left = self._plans.rest(connection, key, self._missing)
        if not left and self._missing:
            here = _End(last, number, revision)
            if end != here and decide:
                planned = flat(self._plan_rounds(self._missing))
                end = here
            if end == here and planned:
                number += 1
                self._plans.put(connection, key, number, last + 1, planned)
                left = planned
        if left and self._missing:
            new = issue(connection, key, last + 1, number, left[: self._missing], terms.now)
            hand_new(connection, key, new, terms)
            self.handed += new
            last += len(new)
        return _End(last, number, revision)
