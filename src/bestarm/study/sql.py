"""Studies in SQLite or PostgreSQL, through SQLAlchemy Core.

Telling a result, the commonest thing by far, is one statement that commits by itself: an insert that does nothing if
the test has an outcome.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bestarm.study.database import Database
from bestarm.study.issuing import Plans, Terms, flat, forget_told, hand_again, hand_new, issue, note, text
from bestarm.study.reading import (
    has_outcome,
    issued_test,
    present_outcomes,
    read_arrivals,
    read_entries,
    read_history,
    read_log,
    read_pending,
)
from bestarm.study.schema import arrivals, events, former, outcomes, queue, sources, studies, tests
from bestarm.study.storage import (
    Aside,
    Entries,
    Event,
    HandedOn,
    History,
    Issued,
    Outcome,
    Pending,
    PlanRounds,
    Storage,
    StudyRecord,
)
from bestarm.validation import InvalidInput


class _Refused(Exception):
    """Undoes a transaction in which some tests turned out to have another outcome."""

    def __init__(self, outcomes: dict[int, Outcome]) -> None:
        super().__init__()
        self.outcomes = outcomes


_STUDIES = sa.select(*(studies.c["study" if name == "key" else name] for name in StudyRecord._fields))
_BY_NAME = _STUDIES.where(studies.c.name == sa.bindparam("name"))
# The plan of a large study is megabytes of text, and whoever asks or tells looks first.
_PRESENT = sa.select(
    *(studies.c[name] for name in ("study", "seed", "created", "archived", "revision", "by_arrival"))
).where(studies.c.name == sa.bindparam("name"))
_TOLD = sa.select(sa.func.count()).where(
    outcomes.c.study == sa.bindparam("key"), outcomes.c.test > sa.bindparam("after"), outcomes.c.correction == 0
)
_LOCK = sa.select(studies.c.by_arrival).where(studies.c.study == sa.bindparam("key")).with_for_update(key_share=True)
_FORMER = sa.exists().where(
    former.c.study == sa.bindparam("study"),
    former.c.test == sa.bindparam("test"),
    former.c.holder == sa.bindparam("holder"),
)


def _settling(database: Database) -> Any:
    """The statement that records an outcome, unless the test has one or its teller has lost it.

    Compiled once and for all: to put it together would cost as much as to run it.
    """
    columns: dict[str, Any] = {
        column.name: sa.cast(sa.bindparam(column.name, type_=column.type), column.type) for column in outcomes.c
    }
    key: Any = sa.bindparam("study")
    one: Any = sa.literal_column("1")
    insert: Any
    if database.is_sqlite:
        insert = sqlite.insert(outcomes)
        # Only one connection writes at a time, so nobody else can have the same number.
        last = sa.select(sa.func.max(outcomes.c.arrival)).where(outcomes.c.study == key).scalar_subquery()
        number = one + sa.func.coalesce(last, sa.literal_column("0"))
        of_study = sa.select(sa.case((studies.c.by_arrival == one, number))).where(studies.c.study == key)
        columns["arrival"] = of_study.scalar_subquery()
    else:
        insert = postgresql.insert(outcomes)
        # One clock for all machines, the server's. Who counts up keeps the others waiting until the outcome is there.
        counted = sa.update(arrivals).where(arrivals.c.study == key).values(last=arrivals.c.last + one)
        counting = counted.returning(arrivals.c.last).cte("counted")
        columns["arrival"] = sa.select(counting.c.last).scalar_subquery()
        columns["told"] = database.server_time
    row = sa.select(*(column.label(name) for name, column in columns.items())).where(~_FORMER)
    statement = insert.from_select(list(columns), row).on_conflict_do_nothing()
    return statement.compile(dialect=database.engine.dialect)


class SQLStorage(Storage):
    """An SQLite file (by path, `sqlite:///path` or ":memory:") or a PostgreSQL database (by URL)."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        self._database = Database(url, create=create)
        self.url = self._database.url
        self.is_private = self._database.in_memory
        self._settle_row: Any = _settling(self._database)
        self._plans = Plans(is_sqlite=self._database.is_sqlite)

    def close(self) -> None:
        self._database.close()

    # ----------------------------------------------------------------------------------------------- studies

    def create_study(self, name: str, plan: str, seed: int, *, by_arrival: bool = False) -> StudyRecord:
        try:
            with self._database.transaction() as connection:
                now = self._database.time(connection)
                values = {"name": name, "plan": plan, "seed": seed, "created": now, "revision": 0}
                values["by_arrival"] = int(by_arrival)
                key = connection.execute(sa.insert(studies).values(values)).inserted_primary_key
                assert key is not None
                if by_arrival:
                    connection.execute(sa.insert(arrivals).values(study=key[0], last=0))
                note(connection, key[0], "created", "", "", now)
        except sa.exc.IntegrityError:
            raise InvalidInput(f"name = {name!r}: a study of this name exists already in {self.url!r}") from None
        return StudyRecord(key[0], name, plan, seed, now, None, 0, by_arrival)

    def find_study(self, name: str) -> StudyRecord | None:
        if name != text(name):
            return None
        with self._database.connect() as connection:
            row = connection.execute(_BY_NAME, {"name": name}).first()
        return None if row is None else _record(row)

    def look(self, record: StudyRecord) -> StudyRecord | None:
        with self._database.connect() as connection:
            row = connection.execute(_PRESENT, {"name": record.name}).first()
        return None if row is None else _record((row[0], record.name, record.plan, *row[1:]))

    def studies(self) -> list[StudyRecord]:
        with self._database.connect() as connection:
            return [_record(row) for row in connection.execute(_STUDIES.order_by(studies.c.study))]

    def archive(self, key: int, holder: str, *, undo: bool = False) -> None:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            changed = connection.execute(
                sa.update(studies)
                .where(
                    studies.c.study == key, studies.c.archived.is_not(None) if undo else studies.c.archived.is_(None)
                )
                .values(archived=None if undo else now)
            )
            if changed.rowcount:
                note(connection, key, "restored" if undo else "archived", holder, "", now)

    def _lock(self, connection: sa.Connection, key: int) -> float:
        """Keep everybody else from issuing tests of this study, though not from telling results; returns the time."""
        return self._lock_and_look(connection, key)[0]

    def _lock_and_look(self, connection: sa.Connection, key: int) -> tuple[float, bool]:
        """As `_lock`; returns also whether results count in the order of arrival."""
        row = connection.execute(_LOCK, {"key": key}).first()
        if row is None:
            raise InvalidInput(f"study = {key}: no such study in {self.url!r}")
        return self._database.time(connection), bool(row.by_arrival)

    # ------------------------------------------------------------------------------------------------- tests

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
    ) -> list[Issued]:
        with self._database.transaction() as connection:
            now, by_arrival = self._lock_and_look(connection, key)
            terms = Terms(text(holder), now, lease, due)
            forget_told(connection, key, settled, by_arrival=by_arrival)
            handed = hand_again(connection, key, count, terms)
            last, number, left = self._plans.rest(connection, key, count)
            while len(handed) < count:
                if not left:
                    left = flat(plan_rounds(count - len(handed)))
                    if not left:
                        break
                    number += 1
                    self._plans.put(connection, key, number, last + 1, left)
                part, left = left[: count - len(handed)], left[count - len(handed) :]
                new = issue(connection, key, last + 1, number, part, now)
                hand_new(connection, key, new, terms)
                handed += new
                last += len(new)
        return handed

    def give(
        self,
        key: int,
        results: Sequence[tuple[int, int, float]],
        holder: str,
        source: str,
        ends: Collection[int] = (),
    ) -> list[int]:
        if not results:
            return []
        with self._database.transaction() as connection:
            now, by_arrival = self._lock_and_look(connection, key)
            if source:
                try:
                    connection.execute(sa.insert(sources).values(study=key, source=text(source)))
                except sa.exc.IntegrityError:
                    raise InvalidInput(f"{source}: has been recorded in this study already") from None
            last, number, _ = self._plans.rest(connection, key, 0)
            marked = {*ends, len(results) - 1}
            due = [(arm, metric, int(k in marked)) for k, (arm, metric, _) in enumerate(results)]
            new = issue(connection, key, last + 1, number + 1, due, now, given=True)
            rows = [_outcome(key, test.id, row[2], holder, now) for test, row in zip(new, results, strict=True)]
            if by_arrival:
                first = self._count_arrivals(connection, key, len(rows))
                for k, row in enumerate(rows):
                    row["arrival"] = first + k
            connection.execute(sa.insert(outcomes), rows)
        return [test.id for test in new]

    def _count_arrivals(self, connection: sa.Connection, key: int, count: int) -> int:
        """The first of `count` numbers for outcomes that arrive together."""
        if self._database.is_sqlite:
            last = sa.select(sa.func.max(outcomes.c.arrival)).where(outcomes.c.study == key)
            return 1 + (connection.execute(last).scalar() or 0)
        counted = sa.update(arrivals).where(arrivals.c.study == key).values(last=arrivals.c.last + count)
        return 1 + int(connection.execute(counted.returning(arrivals.c.last)).scalar_one()) - count

    def tell(self, key: int, test: int, value: float, holder: str) -> Outcome | None:
        with self._database.connect() as connection:
            return self._settle(connection, key, test, value, holder)

    def drop(self, key: int, test: int, holder: str, reason: str) -> Outcome | None:
        with self._database.connect() as connection:
            return self._settle(connection, key, test, None, holder, reason)

    def _settle(
        self,
        connection: sa.Connection,
        key: int,
        test: int,
        value: float | None,
        holder: str,
        reason: str | None = None,
    ) -> Outcome | None:
        """Record an outcome, unless the test has one: then return that. `HandedOn` if the holder has lost the test."""
        row = _outcome(key, test, value, holder, self._database.clock(), reason)
        positions = self._settle_row.positiontup
        values: Any = row if positions is None else tuple(row[name] for name in positions)
        try:
            if connection.exec_driver_sql(self._settle_row.string, values).rowcount:
                return None
        except sa.exc.IntegrityError:
            raise _no_test(test) from None
        present = present_outcomes(connection, key, [test]).get(test)
        if present is None:
            holds = sa.select(queue.c.holder).where(queue.c.study == key, queue.c.test == test)
            raise HandedOn(test, connection.execute(holds).scalar() or "somebody else")
        return present

    def tell_many(self, key: int, results: Sequence[tuple[int, float]], holder: str) -> dict[int, Outcome]:
        try:
            with self._database.transaction() as connection:
                self._lock(connection, key)
                refused = {}
                for test, value in results:
                    outcome = self._settle(connection, key, test, value, holder)
                    if outcome is not None and outcome.value != value:
                        refused[test] = outcome
                if refused:
                    raise _Refused(refused)
        except _Refused as refusal:
            return refusal.outcomes
        return {}

    def correct(self, key: int, test: int, value: float, holder: str, reason: str) -> Outcome:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            old = present_outcomes(connection, key, [test]).get(test)
            if old is None:
                if issued_test(connection, key, test) is None:
                    raise _no_test(test)
                raise InvalidInput(f"test = {test}: has no result yet; there is nothing to correct")
            if old.value == value:
                return old
            numbers = sa.select(sa.func.max(outcomes.c.correction) + 1, sa.func.max(outcomes.c.arrival)).where(
                outcomes.c.study == key, outcomes.c.test == test
            )
            number, arrival = connection.execute(numbers).one()
            row = _outcome(key, test, value, holder, now, reason, number) | {"arrival": arrival}
            connection.execute(sa.insert(outcomes), row)
            connection.execute(sa.update(studies).where(studies.c.study == key).values(revision=studies.c.revision + 1))
        return old

    def fail(self, key: int, test: int, holder: str, reason: str) -> None:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            if issued_test(connection, key, test) is None:
                raise _no_test(test)
            note(connection, key, "failed", holder, reason, now, test)
            connection.execute(_not_lost(key, [test], holder).values(_FREED))

    def set_aside(self, key: int, test: int, holder: str, kind: Aside, reason: str) -> None:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            if issued_test(connection, key, test) is None:
                raise _no_test(test)
            note(connection, key, "set aside", holder, f"{kind}: {reason}" if reason else kind, now, test)
            held = _of_tests(key, [test]).where(queue.c.holder == text(holder), queue.c.expires > 0.0)
            connection.execute(held.values(expires=math.inf, silent=None, aside=kind, reason=text(reason)))

    def release(self, key: int, tests: Sequence[int], holder: str) -> None:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            for start in range(0, len(tests), 500):
                part = tests[start : start + 500]
                others = sa.select(queue.c.test, queue.c.holder).where(
                    *_is_of(key, part), queue.c.holder != text(holder), queue.c.expires > 0.0, ~has_outcome
                )
                for test, other in connection.execute(others).all():
                    note(connection, key, "released", holder, f"held by {other}", now, test)
                connection.execute(_not_lost(key, part, holder).values(_FREED))

    def renew(self, key: int, tests: Sequence[int], holder: str, lease: float) -> None:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            for start in range(0, len(tests), 500):
                held = _of_tests(key, tests[start : start + 500]).where(
                    queue.c.holder == text(holder), queue.c.expires > 0.0, queue.c.aside.is_(None)
                )
                connection.execute(held.values(expires=now + lease, lease=lease, silent=None))

    # ----------------------------------------------------------------------------------------------- reading

    def test(self, key: int, test: int) -> tuple[Issued, Outcome | None] | None:
        with self._database.connect() as connection:
            issued = issued_test(connection, key, test)
            if issued is None:
                return None
            return issued, present_outcomes(connection, key, [test]).get(test)

    def entries(self, key: int, after: int, *, gaps: bool = False) -> Iterator[Entries]:
        return read_entries(self._database, key, after, gaps=gaps)

    def arrivals(self, key: int, after: int) -> Iterator[Entries]:
        return read_arrivals(self._database, key, after)

    def pending(self, key: int, *, after: int = 0, limit: int | None = None) -> list[Pending]:
        with self._database.connect() as connection:
            return read_pending(connection, key, after, limit)

    def last_event(self, key: int) -> int:
        query = sa.select(sa.func.max(events.c.event)).where(events.c.study == key)
        with self._database.connect() as connection:
            return connection.execute(query).scalar() or 0

    def issued(self, key: int) -> int:
        query = sa.select(sa.func.max(tests.c.test)).where(tests.c.study == key)
        with self._database.connect() as connection:
            return connection.execute(query).scalar() or 0

    def told(self, key: int, after: int) -> int:
        with self._database.connect() as connection:
            return int(connection.execute(_TOLD, {"key": key, "after": after}).scalar_one())

    def log(self, key: int, last: int | None = None) -> list[Event]:
        with self._database.connect() as connection:
            return read_log(connection, key, last)

    def history(self, key: int) -> Iterator[History]:
        return read_history(self._database, key)


def _outcome(
    key: int,
    test: int,
    value: float | None,
    holder: str,
    now: float,
    reason: str | None = None,
    correction: int = 0,
) -> dict[str, Any]:
    return {
        "study": key,
        "test": test,
        "correction": correction,
        "value": value,
        "reason": None if reason is None else text(reason),
        "holder": text(holder),
        "told": now,
        "arrival": None,
    }


_FREED: dict[str, Any] = {"expires": 0.0, "silent": None, "due": None, "aside": None, "reason": None}
"""What the queue says of a test that nobody holds."""


def _is_of(key: int, ids: Sequence[int]) -> tuple[Any, Any]:
    return queue.c.study == key, queue.c.test.in_(ids)


def _of_tests(key: int, ids: Sequence[int]) -> sa.Update:
    return sa.update(queue).where(*_is_of(key, ids))


def _not_lost(key: int, ids: Sequence[int], holder: str) -> sa.Update:
    """Those of the tests that `holder` has not lost to somebody else."""
    lost = sa.exists().where(
        former.c.study == queue.c.study, former.c.test == queue.c.test, former.c.holder == text(holder)
    )
    return _of_tests(key, ids).where(~lost)


def _record(row: Any) -> StudyRecord:
    return StudyRecord._make([*row[:-1], bool(row[-1])])


def _no_test(test: int) -> InvalidInput:
    return InvalidInput(f"test = {test}: no such test in this study; `bestarm status` lists the pending ones")
