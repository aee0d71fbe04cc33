"""Studies in SQLite or PostgreSQL, through SQLAlchemy Core."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from bestarm.storage.base import Aside, GivePlaces, Issued, MakeAmendment, Outcome, PlanRounds, StudyRecord, Telling
from bestarm.storage.columns import Columns, Given
from bestarm.storage.errors import (
    BlockTaken,
    BlockUnfinished,
    HandedOn,
    NameTaken,
    SourceTaken,
    StorageError,
    StudyArchived,
)
from bestarm.storage.projects import DEFAULT_PROJECT
from bestarm.storage.sql.bulk import digest_of, issue_given
from bestarm.storage.sql.copies import SQLCopies
from bestarm.storage.sql.deleting import SQLDeletion, unused_number
from bestarm.storage.sql.handing_out import Plans, TestRequest
from bestarm.storage.sql.locked import Done, LockedStudy, lock_study, retried
from bestarm.storage.sql.outcomes import Outcomes, outcome_row
from bestarm.storage.sql.reading import SQLReader
from bestarm.storage.sql.schema import arrivals, former, has_outcome, outcomes, queue, sources, storable, studies
from bestarm.storage.sql.tokens import SQLTokens
from bestarm.storage.sql.upgrading import Upgrade
from bestarm.validation import MOST_TESTS, InvalidInput

_FREED: dict[str, Any] = dict.fromkeys(("silent", "due", "aside", "reason", "request")) | {"expires": 0.0}
"""The queue's columns for a free test."""

_AT_ONCE = 500
"""Tests that one statement names. SQLite limits the number of parameters."""


class _Refused(Exception):
    """Undoes a transaction in which some tests turned out to have another outcome."""

    def __init__(self, outcomes: dict[int, Outcome]) -> None:
        super().__init__()
        self.outcomes = outcomes


class SQLStorage(SQLTokens, SQLCopies, SQLDeletion, SQLReader):
    """An SQLite file (by path, `sqlite:///path` or ":memory:") or a PostgreSQL database (by URL)."""

    keeps_items_seed = True
    notes_authors = True
    keeps_projects = True

    def __init__(self, url: str, *, create: bool = False, upgrade: Upgrade = "own files") -> None:
        super().__init__(url, create=create, upgrade=upgrade)
        self._outcomes = Outcomes(self._database)
        self._plans = Plans(self._database)

    @contextlib.contextmanager
    def _locked(self, key: int, *, blocks_telling: bool = False) -> Iterator[LockedStudy]:
        """A transaction in which no other process can change the study."""
        with self._database.transaction() as connection:
            yield lock_study(self._database, connection, key, blocks_telling=blocks_telling)

    # ----------------------------------------------------------------------------------------------- studies

    @retried
    def create_study(
        self,
        name: str,
        plan: str,
        seed: int,
        *,
        by_arrival: bool = False,
        request: str = "",
        items_seed: int | None = None,
        author: str = "",
        project: str = DEFAULT_PROJECT,
    ) -> StudyRecord:
        try:
            with self._database.transaction() as connection:
                now = self._database.time(connection)
                values = {"name": name, "plan": plan, "seed": seed, "created": now, "revision": 0}
                values |= {"by_arrival": int(by_arrival), "items_seed": items_seed, "project": project}
                values |= unused_number(connection)
                made = connection.execute(sa.insert(studies).values(values)).inserted_primary_key
                assert made is not None
                study = LockedStudy(connection, made[0], now, name)
                if by_arrival:
                    study.execute(sa.insert(arrivals).values(study=study.key, last=0))
                study.log("created", author, "" if project == DEFAULT_PROJECT else f"in the project {project}")
                study.note_done(request, Done("create", 0, 0, ""))
        except sa.exc.IntegrityError:
            # A study in another project is not shown to those who may not read it, whatever key they guess.
            if (record := self.find_study(name)) is not None and record.project == project:
                with self._locked(record.key) as study:
                    if study.find_done(request, "create") is not None:
                        return record
            raise NameTaken("name", name, f"a study of this name exists already in {self.url!r}") from None
        return StudyRecord(study.key, name, plan, seed, now, None, 0, by_arrival, items_seed, project)

    @retried
    def archive(self, key: int, holder: str, *, undo: bool = False) -> None:
        with self._locked(key, blocks_telling=True) as study:
            if study.is_archived == undo:
                archived = None if undo else study.now
                study.execute(sa.update(studies).where(studies.c.study == key).values(archived=archived))
                study.log("restored" if undo else "archived", holder)

    @retried
    def move(self, key: int, project: str, holder: str, *, within: str | None = None) -> None:
        with self._locked(key) as study:
            before = study.project()
            # A repeat finds it moved already.
            if before != project:
                study.project(within)
                changed = {"project": project, "revision": studies.c.revision + 1}
                study.execute(sa.update(studies).where(studies.c.study == key).values(changed))
                study.log("moved", holder, f"from the project {before} to {project}")

    @retried
    def remark(self, key: int, words: str, holder: str) -> None:
        with self._locked(key) as study:
            if self.last_remark(key) != storable(words):
                study.log("remarked", holder, words)

    @retried
    def amend(self, key: int, asked: str, amendment: MakeAmendment, holder: str, *, request: str = "") -> None:
        # No result can be told meanwhile, so a test that is given up cannot have one.
        with self._locked(key, blocks_telling=True) as study:
            if study.find_done(request, "amend", storable(asked)) is None:
                study.check_open()
                record = self.study(key)
                assert record is not None
                change = amendment(record)
                self._check_blocks(study, are_whole=change.waits)
                given_up = self._outcomes.amend(study, change, storable(holder))
                study.note_done(request, Done("amend", 0, given_up, storable(asked)))

    # ------------------------------------------------------------------------------------------------- tests

    @retried
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
        one_plan: bool = False,
        none_new: bool = False,
    ) -> list[Issued]:
        holder = storable(holder)
        asked = TestRequest(
            self._database,
            self._plans,
            key,
            count,
            holder,
            lease,
            settled,
            plan_rounds,
            due,
            request,
            most,
            one_plan,
            none_new,
        )
        try:
            return asked.hand_out()
        except StorageError:
            # A repeat of the same request is handed these tests.
            raise
        except BaseException:
            if asked.handed:
                with contextlib.suppress(Exception):
                    self.release(key, [test.id for test in asked.handed], holder)
            raise

    @retried
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
        names: Sequence[str] = (),
    ) -> Sequence[int]:
        if not results:
            return []
        columns = results if isinstance(results, Columns) else Columns(results)
        digest = digest_of(columns, ends)
        with self._locked(key) as study:
            done = study.find_done(request, "add", digest)
            if done is not None:
                return range(done.first, done.first + done.number)
            study.check_open()
            last, number = self._check_blocks(study, are_whole=bool(names))
            if source:
                self._note_source(study, source, SourceTaken(f"{source}: has been recorded in this study already"))
            for name in names:
                self._note_source(study, f"block {name}", BlockTaken(name))
            if places is not None:
                columns = columns.placed(places())
            arrival = self._outcomes.count_arrivals(study, len(columns))
            ids = issue_given(study, last + 1, number + 1, columns, ends, storable(holder), arrival)
            study.note_done(request, Done("add", ids[0], len(ids), digest))
            return ids

    def _check_blocks(self, study: LockedStudy, *, are_whole: bool) -> tuple[int, int]:
        """The last test's id and the number of its plan. If blocks `are_whole`, that must have been handed out."""
        there = self._plans.situation(study.connection, study.key)
        left = self._plans.rest(study.connection, study.key, there, MOST_TESTS if are_whole else 0)
        if left:
            raise BlockUnfinished(len(left), left[0][3])
        return there.end.last, there.end.number

    def _note_source(self, study: LockedStudy, source: str, taken: InvalidInput) -> None:
        """Note that results of a source are recorded. Raise `taken` if they were before."""
        try:
            study.execute(sa.insert(sources).values(study=study.key, source=storable(source)))
        except sa.exc.IntegrityError:
            raise taken from None

    def tell(self, key: int, test: int, value: float, holder: str, *, more: tuple[float, ...] = ()) -> Outcome | None:
        return self._settle(key, test, value, holder, None, more)

    def drop(self, key: int, test: int, holder: str, reason: str) -> Outcome | None:
        return self._settle(key, test, None, holder, reason)

    @retried
    def _settle(
        self, key: int, test: int, value: float | None, holder: str, reason: str | None, more: tuple[float, ...] = ()
    ) -> Outcome | None:
        try:
            with self._database.writing() as connection:
                row = outcome_row(key, test, value, holder, self._database.clock(), reason, more=more)
                if self._outcomes.settle(connection, row):
                    return None
        except sa.exc.IntegrityError:
            raise _no_such_test(test) from None
        found = self.test(key, test)
        if found is None or found[1] is None:
            raise self._why_refused(key, test)
        return found[1]

    @retried
    def tell_many(self, key: int, results: Sequence[Telling], holder: str) -> dict[int, Outcome]:
        ids = [result[0] for result in results]
        try:
            with self._locked(key) as study:
                now = self._database.clock()
                rows = [outcome_row(key, test, value, holder, now, more=more) for test, value, *more in results]
                if rows and self._outcomes.settle(study.connection, rows) < len(rows):
                    told = {test: outcome for test, (_, outcome) in self.find_tests(key, ids).items() if outcome}
                    for test in ids:
                        if test not in told:
                            raise self._why_refused(key, test)
                    refused = {
                        test: told[test] for test, *values in results if [told[test].value, *told[test].more] != values
                    }
                    if refused:
                        raise _Refused(refused)
        except _Refused as refusal:
            return refusal.outcomes
        except sa.exc.IntegrityError:
            there = self.find_tests(key, ids)
            raise _no_such_test(next(test for test in ids if test not in there)) from None
        return {}

    def _why_refused(self, key: int, test: int) -> InvalidInput:
        """Why a test without an outcome could not be told."""
        record = self.study(key)
        if record is None:
            return _no_such_test(test)
        if record.archived is not None:
            return StudyArchived(record.name)
        holds = sa.select(queue.c.holder).where(queue.c.study == key, queue.c.test == test)
        return HandedOn(test, self._database.scalar(holds) or "another holder")

    @retried
    def correct(
        self, key: int, test: int, value: float, holder: str, reason: str, *, more: tuple[float, ...] = ()
    ) -> Outcome:
        with self._locked(key) as study:
            found = self.test(key, test)
            old = None if found is None else found[1]
            if old is not None and (old.value, *old.more) == (value, *more):
                return old
            study.check_open()
            if old is None:
                if found is None:
                    raise _no_such_test(test)
                raise InvalidInput("test", test, "has no result yet; there is nothing to correct")
            numbers = sa.select(sa.func.max(outcomes.c.correction) + 1, sa.func.max(outcomes.c.arrival)).where(
                outcomes.c.study == key, outcomes.c.test == test
            )
            number, arrival = study.execute(numbers).one()
            row = outcome_row(key, test, value, holder, study.now, reason, number, more)
            study.execute(sa.insert(outcomes), row | {"arrival": arrival})
            study.execute(sa.update(studies).where(studies.c.study == key).values(revision=studies.c.revision + 1))
        return old

    @retried
    def fail(self, key: int, test: int, holder: str, reason: str, *, request: str = "") -> None:
        with self._locked(key) as study:
            if not study.is_repeat(request, "fail", [test]):
                self._check_exists(key, test)
                study.log("failed", holder, reason, test)
                study.execute(_not_lost(key, [test], holder).values(_FREED))

    @retried
    def set_aside(self, key: int, test: int, holder: str, kind: Aside, reason: str, *, request: str = "") -> None:
        with self._locked(key) as study:
            if not study.is_repeat(request, "set aside", [test]):
                self._check_exists(key, test)
                study.log("set aside", holder, f"{kind}: {reason}" if reason else kind, test)
                aside = {"expires": math.inf, "silent": None, "aside": kind, "reason": storable(reason)}
                study.execute(_held(key, [test], holder).values(aside))

    def _check_exists(self, key: int, test: int) -> None:
        if self.test(key, test) is None:
            raise _no_such_test(test)

    @retried
    def release(self, key: int, tests: Sequence[int], holder: str, *, request: str = "") -> None:
        with self._locked(key) as study:
            if not study.is_repeat(request, "release", tests):
                _free(study, tests, holder)

    def release_held_by(self, key: int, name: str, holder: str, *, request: str = "") -> list[int]:
        freed: list[int] = []
        self._release_held_by(key, name, holder, freed, request=request)
        return freed

    @retried
    def _release_held_by(self, key: int, name: str, holder: str, freed: list[int], *, request: str) -> None:
        """Puts what it frees into `freed`, where it stays if the connection is lost and all of this is repeated."""
        with self._locked(key) as study:
            if not study.is_repeat(request, "release", [], f"held by {storable(name)}"):
                held = sa.select(queue.c.test).where(
                    queue.c.study == key, queue.c.holder == storable(name), queue.c.expires > 0.0, ~has_outcome
                )
                freed[:] = study.execute(held.order_by(queue.c.test)).scalars()
                _free(study, freed, holder)

    @retried
    def renew(self, key: int, tests: Sequence[int], holder: str, lease: float) -> None:
        with self._locked(key) as study:
            study.check_open()
            for start in range(0, len(tests), _AT_ONCE):
                held = _held(key, tests[start : start + _AT_ONCE], holder).where(queue.c.aside.is_(None))
                study.execute(held.values(expires=study.now + lease, lease=lease, silent=None))


def _no_such_test(test: int) -> InvalidInput:
    return InvalidInput("test", test, "no such test in this study; `bestarm status` lists the pending ones")


def _held(key: int, tests: Sequence[int], holder: str) -> sa.Update:
    """Changes those of the tests that `holder` holds."""
    holds = queue.c.holder == storable(holder), queue.c.expires > 0.0
    return sa.update(queue).where(queue.c.study == key, queue.c.test.in_(tests), *holds)


def _not_lost(key: int, tests: Sequence[int], holder: str) -> sa.Update:
    """Changes those of the tests that `holder` has not lost to another holder."""
    lost = sa.exists().where(
        former.c.study == queue.c.study, former.c.test == queue.c.test, former.c.holder == storable(holder)
    )
    return sa.update(queue).where(queue.c.study == key, queue.c.test.in_(tests), ~lost)


def _free(study: LockedStudy, tests: Sequence[int], holder: str) -> None:
    """Free these tests. The log says who held them."""
    for start in range(0, len(tests), _AT_ONCE):
        part = tests[start : start + _AT_ONCE]
        others = sa.select(queue.c.test, queue.c.holder).where(
            *(queue.c.study == study.key, queue.c.test.in_(part), queue.c.holder != storable(holder)),
            *(queue.c.expires > 0.0, ~has_outcome),
        )
        for test, other in study.execute(others).all():
            study.log("released", holder, f"held by {other}", test)
        study.execute(_not_lost(study.key, part, holder).values(_FREED))
