"""Studies in SQLite or PostgreSQL, through SQLAlchemy Core."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

import sqlalchemy as sa

from bestarm.storage.base import Aside, GivePlaces, Issued, MakeAmendment, Outcome, PlanRounds, StudyRecord, Telling
from bestarm.storage.columns import Columns, Given
from bestarm.storage.copies import Part
from bestarm.storage.errors import ConnectionLost, NameTaken, OutcomeUnknown, SourceTaken, StorageError
from bestarm.storage.keys import new_key
from bestarm.storage.sql.amending import amend
from bestarm.storage.sql.copies import SQLCopies
from bestarm.storage.sql.handing_out import HandingOut, Wish
from bestarm.storage.sql.leases import FREED, Plans, free_tests, issue_given, not_lost, note, of_tests, text
from bestarm.storage.sql.locking import LOCK_OUT, Locked, lock_study
from bestarm.storage.sql.outcomes import Outcomes, no_such_test, outcome_row, why_refused
from bestarm.storage.sql.queries import has_outcome, issued_test, last_remark, present_outcomes
from bestarm.storage.sql.reading import SQLReader
from bestarm.storage.sql.requests import Done, digest_of, find_done, note_done
from bestarm.storage.sql.schema import arrivals, outcomes, queue, sources, studies
from bestarm.storage.sql.tokens import SQLTokens
from bestarm.storage.tokens import Token
from bestarm.validation import InvalidInput

T = TypeVar("T")


class _Refused(Exception):
    """Undoes a transaction in which some tests turned out to have another outcome."""

    def __init__(self, outcomes: dict[int, Outcome]) -> None:
        super().__init__()
        self.outcomes = outcomes


class SQLStorage(SQLReader):
    """An SQLite file (by path, `sqlite:///path` or ":memory:") or a PostgreSQL database (by URL)."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        super().__init__(url, create=create)
        self._outcomes = Outcomes(self._database)
        self._plans = Plans(is_sqlite=self._database.is_sqlite)
        self._tokens = SQLTokens(self._database)
        self._copies = SQLCopies(self._database)

    # ----------------------------------------------------------------------------------------------- studies

    keeps_items_seed = True

    def create_study(
        self,
        name: str,
        plan: str,
        seed: int,
        *,
        by_arrival: bool = False,
        request: str = "",
        items_seed: int | None = None,
    ) -> StudyRecord:
        request = request or new_key()

        def create() -> StudyRecord:
            try:
                with self._database.transaction() as connection:
                    now = self._database.time(connection)
                    values = {"name": name, "plan": plan, "seed": seed, "created": now, "revision": 0}
                    values |= {"by_arrival": int(by_arrival), "items_seed": items_seed}
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
            return StudyRecord(key[0], name, plan, seed, now, None, 0, by_arrival, items_seed)

        return self._safely(create)

    def _created_under(self, name: str, request: str) -> StudyRecord | None:
        """The study of that name, if it was made under that same request."""
        record = self.find_study(name)
        if record is None:
            return None
        with self._database.connect() as connection:
            return None if find_done(connection, record.key, request, "create") is None else record

    def archive(self, key: int, holder: str, *, undo: bool = False) -> None:
        def archive() -> None:
            with self._database.transaction() as connection:
                now = lock_study(self._database, connection, key, LOCK_OUT).now
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

    def remark(self, key: int, words: str, holder: str) -> None:
        def remark() -> None:
            with self._database.transaction() as connection:
                now = self._lock(connection, key).now
                if last_remark(connection, key) != text(words):
                    note(connection, key, "remarked", holder, words, now)

        self._safely(remark)

    def _lock(self, connection: sa.Connection, key: int) -> Locked:
        return lock_study(self._database, connection, key)

    def _safely(self, act: Callable[[], T]) -> T:
        """Call `act`, and once more if the connection was lost. `act` recognizes a repeat."""
        try:
            return act()
        except ConnectionLost as lost:
            try:
                return act()
            except StorageError as error:
                # The first error says most, unless only the second leaves the outcome unknown.
                if isinstance(error, OutcomeUnknown) and not isinstance(lost, OutcomeUnknown):
                    raise
                raise lost from None

    def _under(
        self, key: int, request: str, what: str, tests: Sequence[int], act: Callable[..., None], named: str = ""
    ) -> None:
        """Change an open study, once for each `request`; `act` takes the connection and the time.

        A repeat is recognized by its kind and its tests, or by how it has `named` them.
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
        wish = Wish(key, count, text(holder), lease, settled, due, text(request or new_key()), most)
        return self._safely(lambda: self._hand_out(wish, plan_rounds))

    def _hand_out(self, wish: Wish, plan_rounds: PlanRounds) -> list[Issued]:
        handing = HandingOut(self._database, self._plans, wish, plan_rounds)
        try:
            return handing.run()
        except StorageError:
            # A repeat of the same request is handed these tests.
            raise
        except BaseException:
            if handing.handed:
                with contextlib.suppress(Exception):
                    self.release(wish.key, [test.id for test in handing.handed], wish.holder)
            raise

    def give(
        self,
        key: int,
        results: Sequence[Given],
        holder: str,
        source: str,
        ends: Collection[int] = (),
        *,
        request: str = "",
        places: GivePlaces | None = None,
    ) -> Sequence[int]:
        if not results:
            return []
        columns = results if isinstance(results, Columns) else Columns(results)
        request = text(request or new_key())
        return self._safely(lambda: self._give(key, columns, text(holder), source, ends, request, places))

    def _give(
        self,
        key: int,
        columns: Columns,
        holder: str,
        source: str,
        ends: Collection[int],
        request: str,
        places: GivePlaces | None,
    ) -> range:
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
            if places is not None:
                columns = columns.placed(places())
            last, number, _ = self._plans.rest(connection, key, 0)
            arrival = self._outcomes.count_arrivals(connection, key, len(columns)) if locked.by_arrival else None
            ids = issue_given(connection, key, last + 1, number + 1, columns, ends, holder, locked.now, arrival)
            note_done(connection, key, request, Done("add", ids[0], len(ids), digest), locked.now)
            return ids

    def tell(self, key: int, test: int, value: float, holder: str, *, more: tuple[float, ...] = ()) -> Outcome | None:
        return self._settle(key, test, value, holder, None, more)

    def drop(self, key: int, test: int, holder: str, reason: str) -> Outcome | None:
        return self._settle(key, test, None, holder, reason)

    def _settle(
        self,
        key: int,
        test: int,
        value: float | None,
        holder: str,
        reason: str | None,
        more: tuple[float, ...] = (),
    ) -> Outcome | None:
        def settle() -> Outcome | None:
            with self._database.writing() as connection:
                return self._outcomes.settle(connection, key, test, value, holder, reason, more)

        return self._safely(settle)

    def tell_many(self, key: int, results: Sequence[Telling], holder: str) -> dict[int, Outcome]:
        return self._safely(lambda: self._tell_many(key, results, holder))

    def _tell_many(self, key: int, results: Sequence[Telling], holder: str) -> dict[int, Outcome]:
        ids = [result[0] for result in results]
        try:
            with self._database.transaction() as connection:
                self._lock(connection, key)
                if self._outcomes.settle_all(connection, key, results, holder) < len(results):
                    found = present_outcomes(self._database, connection, key, ids)
                    for test in ids:
                        if test not in found:
                            raise why_refused(connection, key, test)
                    refused = {
                        test: found[test]
                        for test, *values in results
                        if [found[test].value, *found[test].more] != values
                    }
                    if refused:
                        raise _Refused(refused)
        except _Refused as refusal:
            return refusal.outcomes
        except sa.exc.IntegrityError:
            there = self.find_tests(key, ids)
            missing = [test for test in ids if test not in there]
            raise no_such_test(missing[0]) from None
        return {}

    def correct(
        self, key: int, test: int, value: float, holder: str, reason: str, *, more: tuple[float, ...] = ()
    ) -> Outcome:
        return self._safely(lambda: self._correct(key, test, (value, *more), holder, reason))

    def _correct(self, key: int, test: int, values: tuple[float, ...], holder: str, reason: str) -> Outcome:
        with self._database.transaction() as connection:
            locked = self._lock(connection, key)
            old = present_outcomes(self._database, connection, key, [test]).get(test)
            if old is not None and (old.value, *old.more) == values:
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
            row = outcome_row(key, test, values[0], holder, locked.now, reason, number, values[1:])
            connection.execute(sa.insert(outcomes), row | {"arrival": arrival})
            connection.execute(sa.update(studies).where(studies.c.study == key).values(revision=studies.c.revision + 1))
        return old

    def amend(self, key: int, asked: str, amendment: MakeAmendment, holder: str, *, request: str = "") -> None:
        request = text(request or new_key())

        def change() -> None:
            with self._database.transaction() as connection:
                # No result can be told meanwhile, so a test that is given up cannot have one.
                locked = lock_study(self._database, connection, key, LOCK_OUT)
                if find_done(connection, key, request, "amend", text(asked)) is not None:
                    return
                locked.check_open()
                made = amendment(self.read_study(connection, key))
                given_up = amend(connection, self._outcomes, key, made, text(holder), locked)
                note_done(connection, key, request, Done("amend", 0, given_up, text(asked)), locked.now)

        self._safely(change)

    def fail(self, key: int, test: int, holder: str, reason: str, *, request: str = "") -> None:
        def fail(connection: sa.Connection, now: float) -> None:
            if issued_test(connection, key, test) is None:
                raise no_such_test(test)
            note(connection, key, "failed", holder, reason, now, test)
            connection.execute(not_lost(key, [test], holder).values(FREED))

        self._under(key, request, "fail", [test], fail)

    def set_aside(self, key: int, test: int, holder: str, kind: Aside, reason: str, *, request: str = "") -> None:
        def set_aside(connection: sa.Connection, now: float) -> None:
            if issued_test(connection, key, test) is None:
                raise no_such_test(test)
            note(connection, key, "set aside", holder, f"{kind}: {reason}" if reason else kind, now, test)
            held = of_tests(key, [test]).where(queue.c.holder == text(holder), queue.c.expires > 0.0)
            connection.execute(held.values(expires=math.inf, silent=None, aside=kind, reason=text(reason)))

        self._under(key, request, "set aside", [test], set_aside)

    def release(self, key: int, tests: Sequence[int], holder: str, *, request: str = "") -> None:
        self._under(
            key, request, "release", tests, lambda connection, now: free_tests(connection, key, tests, holder, now)
        )

    def release_held_by(self, key: int, name: str, holder: str, *, request: str = "") -> list[int]:
        freed: list[int] = []

        def release(connection: sa.Connection, now: float) -> None:
            held = sa.select(queue.c.test).where(
                queue.c.study == key, queue.c.holder == text(name), queue.c.expires > 0.0, ~has_outcome
            )
            freed[:] = connection.execute(held.order_by(queue.c.test)).scalars()
            free_tests(connection, key, freed, holder, now)

        self._under(key, request, "release", [], release, named=f"held by {text(name)}")
        return freed

    def renew(self, key: int, tests: Sequence[int], holder: str, lease: float) -> None:
        def renew() -> None:
            with self._database.transaction() as connection:
                locked = self._lock(connection, key)
                locked.check_open()
                for start in range(0, len(tests), 500):
                    held = of_tests(key, tests[start : start + 500]).where(
                        queue.c.holder == text(holder), queue.c.expires > 0.0, queue.c.aside.is_(None)
                    )
                    connection.execute(held.values(expires=locked.now + lease, lease=lease, silent=None))

        self._safely(renew)

    # ------------------------------------------------------------------------------------------------ tokens

    def make_token(self, name: str, role: str, days: float | None = None) -> tuple[str, Token]:
        return self._tokens.make(name, role, days)

    def tokens(self) -> list[Token]:
        return self._tokens.all()

    def find_token(self, digest: str) -> tuple[Token, float] | None:
        return self._tokens.find(digest)

    def revoke_token(self, name: str) -> Token:
        return self._safely(lambda: self._tokens.revoke(name))

    # ------------------------------------------------------------------------------------------------ copies

    def dump(self, key: int) -> Iterator[Part]:
        return self._copies.dump(key)

    def restore(self, parts: Iterable[Part]) -> int:
        return self._copies.restore(parts)
