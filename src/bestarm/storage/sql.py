"""Studies in SQLite or PostgreSQL, through SQLAlchemy Core."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from bestarm.storage.base import (
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
from bestarm.storage.columns import Columns
from bestarm.storage.database import Database
from bestarm.storage.errors import (
    ConnectionLost,
    HoldsEnough,
    NameTaken,
    OutcomeUnknown,
    SourceTaken,
    StorageError,
    StudyArchived,
    making_sense,
)
from bestarm.storage.leases import (
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
from bestarm.storage.outcomes import Outcomes, no_such_test, outcome_row, why_refused
from bestarm.storage.queries import (
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
from bestarm.storage.requests import Done, digest_of, find_done, handed_under, new_key, note_done
from bestarm.storage.schema import arrivals, events, former, outcomes, queue, sources, studies, tests
from bestarm.validation import InvalidInput

T = TypeVar("T")


class _Refused(Exception):
    """Undoes a transaction in which some tests turned out to have another outcome."""

    def __init__(self, outcomes: dict[int, Outcome]) -> None:
        super().__init__()
        self.outcomes = outcomes


def _all_studies(*, is_sqlite: bool) -> sa.Select[Any]:
    columns: list[Any] = [studies.c["study" if name == "key" else name] for name in StudyRecord._fields]
    if is_sqlite:
        # As bytes: where a damaged file holds what is no text, SQLite would refuse to read any study at all.
        columns = [sa.cast(each, sa.LargeBinary) if each.name in ("name", "plan") else each for each in columns]
    return sa.select(*columns)


# The plan of a large study is megabytes of text, and whoever asks or tells looks first.
_PRESENT = sa.select(
    *(studies.c[name] for name in ("study", "seed", "created", "archived", "revision", "by_arrival"))
).where(studies.c.name == sa.bindparam("name"))
_TOLD = sa.select(sa.func.count()).where(
    outcomes.c.study == sa.bindparam("key"), outcomes.c.test > sa.bindparam("after"), outcomes.c.correction == 0
)
_BY_ARRIVAL = sa.select(studies.c.by_arrival).where(studies.c.study == sa.bindparam("key"))
_LOOK = sa.select(studies.c.name, studies.c.by_arrival, studies.c.archived).where(
    studies.c.study == sa.bindparam("key")
)
_LOCK = _LOOK.with_for_update(key_share=True)
# Keeps also those waiting who tell results.
_LOCK_OUT = _LOOK.with_for_update()
_SOME_OVERDUE = sa.select(queue.c.test).where(queue.c.study == sa.bindparam("key"), OVERDUE).limit(1)
_PENDING = sa.select(sa.func.count()).select_from(queue).where(queue.c.study == sa.bindparam("key"), ~has_outcome)
_HELD = _PENDING.where(queue.c.holder == sa.bindparam("holder"), queue.c.expires > 0.0, queue.c.aside.is_(None))
_RACES = 5
"""How often somebody else may plan first before what is next is decided inside the lock."""


class _Locked(NamedTuple):
    """A study whose entry is locked: what time it is, and what its entry says."""

    now: float
    by_arrival: bool
    name: str
    is_archived: bool

    def check_open(self) -> None:
        if self.is_archived:
            raise StudyArchived(self.name)


class SQLStorage(Storage):
    """An SQLite file (by path, `sqlite:///path` or ":memory:") or a PostgreSQL database (by URL)."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        self._database = Database(url, create=create)
        self.url = self._database.url
        self.is_private = self._database.in_memory
        self._outcomes = Outcomes(self._database)
        self._studies = _all_studies(is_sqlite=self._database.is_sqlite)
        self._by_name = self._studies.where(studies.c.name == sa.bindparam("name"))
        self._plans = Plans(is_sqlite=self._database.is_sqlite)

    def close(self) -> None:
        self._database.close()

    # ----------------------------------------------------------------------------------------------- studies

    def create_study(
        self, name: str, plan: str, seed: int, *, by_arrival: bool = False, request: str = ""
    ) -> StudyRecord:
        request = request or new_key()

        def create() -> StudyRecord:
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
                    note_done(connection, key[0], request, Done("create", 0, 0, ""), now)
            except sa.exc.IntegrityError:
                if (made := self._created_under(name, request)) is not None:
                    return made
                raise NameTaken("name", name, f"a study of this name exists already in {self.url!r}") from None
            return StudyRecord(key[0], name, plan, seed, now, None, 0, by_arrival)

        return self._safely(create)

    def _created_under(self, name: str, request: str) -> StudyRecord | None:
        """The study of that name, if it was made under that very request."""
        record = self.find_study(name)
        if record is None:
            return None
        with self._database.connect() as connection:
            return None if find_done(connection, record.key, request, "create") is None else record

    def find_study(self, name: str) -> StudyRecord | None:
        if name != text(name):
            return None
        with self._database.connect() as connection:
            row = connection.execute(self._by_name, {"name": name}).first()
        return None if row is None else _record(row)

    def look(self, record: StudyRecord) -> StudyRecord | None:
        with self._database.connect() as connection:
            row = connection.execute(_PRESENT, {"name": record.name}).first()
        return None if row is None else _record((row[0], record.name, record.plan, *row[1:]))

    def studies(self) -> list[StudyRecord]:
        with self._database.connect() as connection:
            return [_record(row) for row in connection.execute(self._studies.order_by(studies.c.study))]

    def study(self, key: int) -> StudyRecord | None:
        with self._database.connect() as connection:
            row = connection.execute(self._studies.where(studies.c.study == key)).first()
        return None if row is None else _record(row)

    def newest(
        self, limit: int, *, before: int | None = None, archived: Archived = "true", contains: str = ""
    ) -> list[StudyRecord]:
        query = self._studies.order_by(studies.c.study.desc()).limit(limit)
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
        def archive() -> None:
            with self._database.transaction() as connection:
                now = self._lock(connection, key, _LOCK_OUT).now
                changed = connection.execute(
                    sa.update(studies)
                    .where(
                        studies.c.study == key,
                        studies.c.archived.is_not(None) if undo else studies.c.archived.is_(None),
                    )
                    .values(archived=None if undo else now)
                )
                if changed.rowcount:
                    note(connection, key, "restored" if undo else "archived", holder, "", now)

        self._safely(archive)

    def _lock(self, connection: sa.Connection, key: int, how: sa.Select[Any] = _LOCK) -> _Locked:
        """Keep everybody else from changing this study, though not from telling results."""
        row = connection.execute(how, {"key": key}).first()
        if row is None:
            raise InvalidInput("study", key, f"no such study in {self.url!r}")
        return _Locked(self._database.time(connection), bool(row.by_arrival), row.name, row.archived is not None)

    def _lock_open(self, connection: sa.Connection, key: int) -> _Locked:
        """As `_lock`, for what an archived study does not allow."""
        locked = self._lock(connection, key)
        locked.check_open()
        return locked

    def _safely(self, act: Callable[[], T]) -> T:
        """Do it, and once more if the connection was lost: `act` knows itself again if it was done after all."""
        try:
            return act()
        except ConnectionLost as lost:
            try:
                return act()
            except StorageError as error:
                # What happened first says most, unless only of the second time nobody knows what came of it.
                if isinstance(error, OutcomeUnknown) and not isinstance(lost, OutcomeUnknown):
                    raise
                raise lost from None

    def _under(
        self, key: int, request: str, what: str, tests: Sequence[int], act: Callable[..., None], named: str = ""
    ) -> None:
        """Change an open study, once for each `request`; `act` takes the connection and the time.

        What is repeated is known by its kind and the tests it is about, or by how it has `named` them.
        """
        request, named = request or new_key(), named or ",".join(map(str, tests[:100]))

        def once() -> None:
            with self._database.transaction() as connection:
                locked = self._lock(connection, key)
                if find_done(connection, key, text(request), what, named) is not None:
                    return
                locked.check_open()
                act(connection, locked.now)
                done = Done(what, tests[0] if tests else 0, len(tests), named)
                note_done(connection, key, text(request), done, locked.now)

        self._safely(once)

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
        request: str = "",
        most: int | None = None,
    ) -> list[Issued]:
        request = text(request or new_key())
        return self._safely(
            lambda: self._hand_out(key, count, text(holder), lease, settled, plan_rounds, due, request, most)
        )

    def _hand_out(
        self,
        key: int,
        count: int,
        holder: str,
        lease: float | None,
        settled: int,
        plan_rounds: PlanRounds,
        due: float | None,
        request: str,
        most: int | None,
    ) -> list[Issued]:
        handed: list[Issued] = []
        with self._database.connect() as connection:
            end = self._end_if_nothing_is_free(connection, key)
            # Nothing is decided for who repeats themselves, or holds enough.
            if end is not None and (already := handed_under(connection, key, request, holder)):
                return already
        if end is not None and most is not None:
            room = most - self.count_pending(key, holder)
            count, end = (min(count, room), end) if room > 0 else (count, None)
        try:
            for lost in itertools.count():
                planned: list[Planned] = []
                if end is not None:
                    # Deciding may take long. Nobody waits for it, unless others have been quicker again and again.
                    planned = flat(plan_rounds(count - len(handed)))
                    if not planned:
                        break
                with self._database.transaction() as connection:
                    now, by_arrival, *_ = self._lock_open(connection, key)
                    # Looked for again, for somebody may have asked under the same request meanwhile.
                    if not handed and (already := handed_under(connection, key, request, holder)):
                        return already
                    if most is not None and not handed:
                        held = self.count_pending(key, holder)
                        if held >= most:
                            raise HoldsEnough(holder, held)
                        count = min(count, most - held)
                    terms = Terms(holder, now, lease, due, request)
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
        except StorageError:
            # Whoever asks again under the same request is handed what this one was.
            raise
        except BaseException:
            if handed:
                with contextlib.suppress(Exception):
                    self.release(key, [test.id for test in handed], holder)
            raise
        return handed

    def _end_if_nothing_is_free(self, connection: sa.Connection, key: int) -> tuple[int, int] | None:
        """The end of the record, if everything that was planned is out; None if there is something to hand out."""
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
        *,
        request: str = "",
    ) -> Sequence[int]:
        if not results:
            return []
        columns = results if isinstance(results, Columns) else Columns(results)
        request = text(request or new_key())
        return self._safely(lambda: self._give(key, columns, text(holder), source, ends, request))

    def _give(self, key: int, columns: Columns, holder: str, source: str, ends: Collection[int], request: str) -> range:
        digest = digest_of(columns, ends)
        with self._database.transaction() as connection:
            locked = self._lock(connection, key)
            done = find_done(connection, key, request, "add", digest)
            if done is not None:
                return range(done.first, done.first + done.number)
            locked.check_open()
            if source:
                try:
                    connection.execute(sa.insert(sources).values(study=key, source=text(source)))
                except sa.exc.IntegrityError:
                    raise SourceTaken(f"{source}: has been recorded in this study already") from None
            last, number, _ = self._plans.rest(connection, key, 0)
            arrival = self._outcomes.count_arrivals(connection, key, len(columns)) if locked.by_arrival else None
            ids = issue_given(connection, key, last + 1, number + 1, columns, ends, holder, locked.now, arrival)
            note_done(connection, key, request, Done("add", ids[0], len(ids), digest), locked.now)
            return ids

    def tell(self, key: int, test: int, value: float, holder: str) -> Outcome | None:
        return self._settle(key, test, value, holder, None)

    def drop(self, key: int, test: int, holder: str, reason: str) -> Outcome | None:
        return self._settle(key, test, None, holder, reason)

    def _settle(self, key: int, test: int, value: float | None, holder: str, reason: str | None) -> Outcome | None:
        def settle() -> Outcome | None:
            with self._database.writing() as connection:
                return self._outcomes.settle(connection, key, test, value, holder, reason)

        return self._safely(settle)

    def tell_many(self, key: int, results: Sequence[tuple[int, float]], holder: str) -> dict[int, Outcome]:
        return self._safely(lambda: self._tell_many(key, results, holder))

    def _tell_many(self, key: int, results: Sequence[tuple[int, float]], holder: str) -> dict[int, Outcome]:
        try:
            with self._database.transaction() as connection:
                self._lock(connection, key)
                if self._outcomes.settle_all(connection, key, results, holder) < len(results):
                    found = present_outcomes(connection, key, [test for test, _ in results])
                    for test, _ in results:
                        if test not in found:
                            raise why_refused(connection, key, test)
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
        return self._safely(lambda: self._correct(key, test, value, holder, reason))

    def _correct(self, key: int, test: int, value: float, holder: str, reason: str) -> Outcome:
        with self._database.transaction() as connection:
            locked = self._lock(connection, key)
            old = present_outcomes(connection, key, [test]).get(test)
            if old is not None and old.value == value:
                return old
            locked.check_open()
            if old is None:
                if issued_test(connection, key, test) is None:
                    raise no_such_test(test)
                raise InvalidInput("test", test, "has no result yet; there is nothing to correct")
            numbers = sa.select(sa.func.max(outcomes.c.correction) + 1, sa.func.max(outcomes.c.arrival)).where(
                outcomes.c.study == key, outcomes.c.test == test
            )
            number, arrival = connection.execute(numbers).one()
            row = outcome_row(key, test, value, holder, locked.now, reason, number) | {"arrival": arrival}
            connection.execute(sa.insert(outcomes), row)
            connection.execute(sa.update(studies).where(studies.c.study == key).values(revision=studies.c.revision + 1))
        return old

    def fail(self, key: int, test: int, holder: str, reason: str, *, request: str = "") -> None:
        def fail(connection: sa.Connection, now: float) -> None:
            if issued_test(connection, key, test) is None:
                raise no_such_test(test)
            note(connection, key, "failed", holder, reason, now, test)
            connection.execute(_not_lost(key, [test], holder).values(_FREED))

        self._under(key, request, "fail", [test], fail)

    def set_aside(self, key: int, test: int, holder: str, kind: Aside, reason: str, *, request: str = "") -> None:
        def set_aside(connection: sa.Connection, now: float) -> None:
            if issued_test(connection, key, test) is None:
                raise no_such_test(test)
            note(connection, key, "set aside", holder, f"{kind}: {reason}" if reason else kind, now, test)
            held = _of_tests(key, [test]).where(queue.c.holder == text(holder), queue.c.expires > 0.0)
            connection.execute(held.values(expires=math.inf, silent=None, aside=kind, reason=text(reason)))

        self._under(key, request, "set aside", [test], set_aside)

    def release(self, key: int, tests: Sequence[int], holder: str, *, request: str = "") -> None:
        self._under(key, request, "release", tests, lambda connection, now: _free(connection, key, tests, holder, now))

    def release_held_by(self, key: int, name: str, holder: str, *, request: str = "") -> list[int]:
        freed: list[int] = []

        def release(connection: sa.Connection, now: float) -> None:
            held = sa.select(queue.c.test).where(
                queue.c.study == key, queue.c.holder == text(name), queue.c.expires > 0.0, ~has_outcome
            )
            freed[:] = connection.execute(held.order_by(queue.c.test)).scalars()
            _free(connection, key, freed, holder, now)

        self._under(key, request, "release", [], release, named=f"held by {text(name)}")
        return freed

    def renew(self, key: int, tests: Sequence[int], holder: str, lease: float) -> None:
        def renew() -> None:
            with self._database.transaction() as connection:
                now = self._lock_open(connection, key).now
                for start in range(0, len(tests), 500):
                    held = _of_tests(key, tests[start : start + 500]).where(
                        queue.c.holder == text(holder), queue.c.expires > 0.0, queue.c.aside.is_(None)
                    )
                    connection.execute(held.values(expires=now + lease, lease=lease, silent=None))

        self._safely(renew)

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
        with self._database.connect() as connection, making_sense(self.url):
            return read_pending(connection, key, after, limit)

    def count_pending(self, key: int, holder: str | None = None) -> int:
        query, whose = (_PENDING, {}) if holder is None else (_HELD, {"holder": text(holder)})
        with self._database.connect() as connection:
            return int(connection.execute(query, {"key": key, **whose}).scalar_one())

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
        with self._database.connect() as connection, making_sense(self.url):
            return read_log(connection, key, last)

    def history(self, key: int) -> Iterator[History]:
        with self._database.connect() as connection:
            by_arrival = bool(connection.execute(_BY_ARRIVAL, {"key": key}).scalar())
        return read_history(self._database, key, by_arrival=by_arrival)


_FREED: dict[str, Any] = dict.fromkeys(("silent", "due", "aside", "reason", "request")) | {"expires": 0.0}
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


def _free(connection: sa.Connection, key: int, ids: Sequence[int], holder: str, now: float) -> None:
    """Nobody holds these tests any more; whose they were is noted."""
    for start in range(0, len(ids), 500):
        part = ids[start : start + 500]
        others = sa.select(queue.c.test, queue.c.holder).where(
            *_is_of(key, part), queue.c.holder != text(holder), queue.c.expires > 0.0, ~has_outcome
        )
        for test, other in connection.execute(others).all():
            note(connection, key, "released", holder, f"held by {other}", now, test)
        connection.execute(_not_lost(key, part, holder).values(_FREED))


def _record(row: Any) -> StudyRecord:
    texts = (each.decode(errors="replace") if isinstance(each, bytes) else each for each in row[:-1])
    return StudyRecord._make([*texts, bool(row[-1])])
