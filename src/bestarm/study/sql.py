"""Studies in SQLite or PostgreSQL, through SQLAlchemy Core."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from bestarm.study.columns import Columns
from bestarm.study.database import Database
from bestarm.study.issuing import (
    OVERDUE,
    Planned,
    Plans,
    Terms,
    flat,
    forget_told,
    hand_again,
    hand_new,
    issue,
    issue_given,
    note,
    text,
)
from bestarm.study.reading import (
    has_outcome,
    issued_test,
    issued_tests,
    present_outcomes,
    read_arrivals,
    read_entries,
    read_history,
    read_log,
    read_pending,
)
from bestarm.study.schema import arrivals, events, former, outcomes, queue, sources, studies, tests
from bestarm.study.settling import Outcomes, handed_on, no_such_test, outcome_row
from bestarm.study.storage import (
    Archived,
    Aside,
    Entries,
    Event,
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
_BY_ARRIVAL = sa.select(studies.c.by_arrival).where(studies.c.study == sa.bindparam("key"))
_LOCK = _BY_ARRIVAL.with_for_update(key_share=True)
_SOME_OVERDUE = sa.select(queue.c.test).where(queue.c.study == sa.bindparam("key"), OVERDUE).limit(1)
_RACES = 5
"""How often somebody else may plan first before what is next is decided inside the lock."""


class SQLStorage(Storage):
    """An SQLite file (by path, `sqlite:///path` or ":memory:") or a PostgreSQL database (by URL)."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        self._database = Database(url, create=create)
        self.url = self._database.url
        self.is_private = self._database.in_memory
        self._outcomes = Outcomes(self._database)
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

    def study(self, key: int) -> StudyRecord | None:
        with self._database.connect() as connection:
            row = connection.execute(_STUDIES.where(studies.c.study == key)).first()
        return None if row is None else _record(row)

    def newest(
        self, limit: int, *, before: int | None = None, archived: Archived = "true", contains: str = ""
    ) -> list[StudyRecord]:
        query = _STUDIES.order_by(studies.c.study.desc()).limit(limit)
        if before is not None:
            query = query.where(studies.c.study < before)
        if archived != "true":
            query = query.where(
                studies.c.archived.is_(None) if archived == "false" else studies.c.archived.is_not(None)
            )
        if contains:
            query = query.where(sa.func.lower(studies.c.name).contains(text(contains).lower(), autoescape=True))
        with self._database.connect() as connection:
            return [_record(row) for row in connection.execute(query)]

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        return self._database.snapshot()

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
        handed: list[Issued] = []
        end = self._end_if_nothing_is_free(key)
        try:
            for lost in itertools.count():
                planned: list[Planned] = []
                if end is not None:
                    # Deciding may take long. Nobody waits for it, unless others have been quicker again and again.
                    planned = flat(plan_rounds(count - len(handed)))
                    if not planned:
                        break
                with self._database.transaction() as connection:
                    now, by_arrival = self._lock_and_look(connection, key)
                    terms = Terms(text(holder), now, lease, due)
                    forget_told(connection, key, settled, by_arrival=by_arrival)
                    handed += hand_again(connection, key, count - len(handed), terms)
                    last, number, left = self._plans.rest(connection, key, count - len(handed))
                    if not left and len(handed) < count:
                        if end != (last, number) and lost >= _RACES:
                            planned = flat(plan_rounds(count - len(handed)))
                            end = last, number
                        if end == (last, number) and planned:
                            number += 1
                            self._plans.put(connection, key, number, last + 1, planned)
                            left = planned
                    if left and len(handed) < count:
                        new = issue(connection, key, last + 1, number, left[: count - len(handed)], now)
                        hand_new(connection, key, new, terms)
                        handed += new
                        last += len(new)
                    end = last, number
                if len(handed) >= count:
                    break
        except BaseException:
            if handed:
                with contextlib.suppress(Exception):
                    self.release(key, [test.id for test in handed], holder)
            raise
        return handed

    def _end_if_nothing_is_free(self, key: int) -> tuple[int, int] | None:
        """The end of the record, if everything that was planned is out; None if there is something to hand out."""
        with self._database.connect() as connection:
            last, number, left = self._plans.rest(connection, key, 1)
            now = self._database.time(connection)
            if left or connection.execute(_SOME_OVERDUE, {"key": key, "now": now}).first() is not None:
                return None
        return last, number

    def give(
        self,
        key: int,
        results: Sequence[tuple[int, int, float]],
        holder: str,
        source: str,
        ends: Collection[int] = (),
    ) -> Sequence[int]:
        if not results:
            return []
        columns = results if isinstance(results, Columns) else Columns(results)
        with self._database.transaction() as connection:
            now, by_arrival = self._lock_and_look(connection, key)
            if source:
                try:
                    connection.execute(sa.insert(sources).values(study=key, source=text(source)))
                except sa.exc.IntegrityError:
                    raise InvalidInput(f"{source}: has been recorded in this study already") from None
            last, number, _ = self._plans.rest(connection, key, 0)
            arrival = self._outcomes.count_arrivals(connection, key, len(columns)) if by_arrival else None
            return issue_given(connection, key, last + 1, number + 1, columns, ends, text(holder), now, arrival)

    def tell(self, key: int, test: int, value: float, holder: str) -> Outcome | None:
        with self._database.writing() as connection:
            return self._outcomes.settle(connection, key, test, value, holder)

    def drop(self, key: int, test: int, holder: str, reason: str) -> Outcome | None:
        with self._database.writing() as connection:
            return self._outcomes.settle(connection, key, test, None, holder, reason)

    def tell_many(self, key: int, results: Sequence[tuple[int, float]], holder: str) -> dict[int, Outcome]:
        try:
            with self._database.transaction() as connection:
                self._lock(connection, key)
                if self._outcomes.settle_all(connection, key, results, holder) < len(results):
                    found = present_outcomes(connection, key, [test for test, _ in results])
                    for test, _ in results:
                        if test not in found:
                            raise handed_on(connection, key, test)
                    refused = {test: found[test] for test, value in results if found[test].value != value}
                    if refused:
                        raise _Refused(refused)
        except _Refused as refusal:
            return refusal.outcomes
        except sa.exc.IntegrityError:
            there = self.find_tests(key, [test for test, _ in results])
            missing = [test for test, _ in results if test not in there]
            raise no_such_test(missing[0]) from None
        return {}

    def correct(self, key: int, test: int, value: float, holder: str, reason: str) -> Outcome:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            old = present_outcomes(connection, key, [test]).get(test)
            if old is None:
                if issued_test(connection, key, test) is None:
                    raise no_such_test(test)
                raise InvalidInput(f"test = {test}: has no result yet; there is nothing to correct")
            if old.value == value:
                return old
            numbers = sa.select(sa.func.max(outcomes.c.correction) + 1, sa.func.max(outcomes.c.arrival)).where(
                outcomes.c.study == key, outcomes.c.test == test
            )
            number, arrival = connection.execute(numbers).one()
            row = outcome_row(key, test, value, holder, now, reason, number) | {"arrival": arrival}
            connection.execute(sa.insert(outcomes), row)
            connection.execute(sa.update(studies).where(studies.c.study == key).values(revision=studies.c.revision + 1))
        return old

    def fail(self, key: int, test: int, holder: str, reason: str) -> None:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            if issued_test(connection, key, test) is None:
                raise no_such_test(test)
            note(connection, key, "failed", holder, reason, now, test)
            connection.execute(_not_lost(key, [test], holder).values(_FREED))

    def set_aside(self, key: int, test: int, holder: str, kind: Aside, reason: str) -> None:
        with self._database.transaction() as connection:
            now = self._lock(connection, key)
            if issued_test(connection, key, test) is None:
                raise no_such_test(test)
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

    def find_tests(self, key: int, tests: Sequence[int]) -> dict[int, tuple[Issued, Outcome | None]]:
        with self._database.connect() as connection:
            told = present_outcomes(connection, key, tests)
            return {test: (issued, told.get(test)) for test, issued in issued_tests(connection, key, tests).items()}

    def entries(self, key: int, after: int, *, gaps: bool = False) -> Iterator[Entries]:
        return read_entries(self._database, key, after, gaps=gaps)

    def arrivals(self, key: int, after: int) -> Iterator[Entries]:
        return read_arrivals(self._database, key, after)

    def pending(self, key: int, *, after: int = 0, limit: int | None = None) -> list[Pending]:
        with self._database.connect() as connection:
            return read_pending(connection, key, after, limit)

    def count_pending(self, key: int, holder: str | None = None) -> int:
        query = sa.select(sa.func.count()).select_from(queue).where(queue.c.study == key, ~has_outcome)
        if holder is not None:
            query = query.where(queue.c.holder == text(holder), queue.c.expires > 0.0, queue.c.aside.is_(None))
        with self._database.connect() as connection:
            return int(connection.execute(query).scalar_one())

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
        with self._database.connect() as connection:
            by_arrival = bool(connection.execute(_BY_ARRIVAL, {"key": key}).scalar())
        return read_history(self._database, key, by_arrival=by_arrival)


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
