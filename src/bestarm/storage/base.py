"""What a storage keeps of a study, and what it promises. `bestarm.testing.storages` holds every storage to it.

Two things make up the record: tests, in the order in which they were issued, and their outcomes. Both only ever
grow. Everything else (evidence, verdicts, the answer) is recomputed from them.

When a method returns, its change is durable. When it raises, it has changed nothing, with one exception: if a server
is lost at the moment of a commit, the outcome is unknown, and `OutcomeUnknown` is raised. So every method whose effect
could count twice takes a `request`, a text that the caller makes up. It is carried out once per `request`; a repeat
returns what the first call did. Changing a study that does not exist is `InvalidInput`, and changing an archived one
is `StudyArchived`.

In the record a test is (arm, metric) by number, and a value is as the user gave it. A test can yield several values at
once: its metric is then the first that it measures, and it has all its values or none. It can be made on an item, by
the item's place in the study's order.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Collection, Iterator, Sequence

from bestarm.storage.audit import AuditEntry as AuditEntry
from bestarm.storage.audit import AuditLine as AuditLine
from bestarm.storage.audit import audit_of
from bestarm.storage.columns import Given
from bestarm.storage.copies import Copies as Copies
from bestarm.storage.projects import DEFAULT_PROJECT

# The words of the contract. Other modules import them from here.
from bestarm.storage.rows import Act as Act
from bestarm.storage.rows import Amendment as Amendment
from bestarm.storage.rows import Archived as Archived
from bestarm.storage.rows import Aside as Aside
from bestarm.storage.rows import Entries as Entries
from bestarm.storage.rows import Event as Event
from bestarm.storage.rows import EventKind as EventKind
from bestarm.storage.rows import GivePlaces as GivePlaces
from bestarm.storage.rows import History as History
from bestarm.storage.rows import Issued as Issued
from bestarm.storage.rows import MakeAmendment as MakeAmendment
from bestarm.storage.rows import Outcome as Outcome
from bestarm.storage.rows import Part as Part
from bestarm.storage.rows import Pending as Pending
from bestarm.storage.rows import PlanRounds as PlanRounds
from bestarm.storage.rows import ResultRow as ResultRow
from bestarm.storage.rows import Rounds as Rounds
from bestarm.storage.rows import StudyRecord as StudyRecord
from bestarm.storage.rows import Telling as Telling
from bestarm.storage.rows import Told as Told
from bestarm.storage.tokens import TokenKeeper
from bestarm.validation import InvalidInput


class Storage(TokenKeeper, Copies, abc.ABC):
    """Keeps studies. Many threads can use it at once, and many processes can use one database."""

    url: str
    """Where it is, without a password."""

    is_private: bool = False
    """Whether no other process can reach it."""

    keeps_items_seed: bool = False
    """Whether `create_study` takes `items_seed` and keeps it. If not, `seed` is that of the order."""

    notes_authors: bool = False
    """Whether `create_study` takes `author`, who makes the study, and logs it."""

    keeps_projects: bool = False
    """Whether studies can be in other projects than "default"."""

    @abc.abstractmethod
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
        """A new study. `NameTaken` if the name is taken in any project, unless in this one by the same `request`.

        `items_seed` is stated only for studies with items, and `author` always, if the storage says that it keeps it.
        `project` is stated only if it is not "default", and the storage keeps projects.
        """

    @abc.abstractmethod
    def find_study(self, name: str) -> StudyRecord | None: ...

    def look(self, record: StudyRecord) -> StudyRecord | None:
        """The entry of `record`'s study as it is now. While its revision is the same, so is its plan, and a storage
        need not read it again."""
        found = self.find_study(record.name)
        # Another study may have the name of one that was deleted.
        return found if found is not None and found.key == record.key else None

    @abc.abstractmethod
    def studies(self) -> list[StudyRecord]:
        """All studies, the oldest first."""

    def study(self, key: int) -> StudyRecord | None:
        """The study with that key."""
        return next((record for record in self.studies() if record.key == key), None)

    def project_of(self, key: int) -> str | None:
        """The project of the study with that key; None if there is no such study."""
        found = self.study(key)
        return None if found is None else found.project

    def projects(self) -> dict[str, tuple[int, int]]:
        """The projects that have studies: how many that are not archived, and that are."""
        return {DEFAULT_PROJECT: self.count_studies()}

    def move(self, key: int, project: str, holder: str, *, within: str | None = None) -> None:
        """Put a study into another project, archived or not. The log says so, and the revision grows.

        `NotFound` if it is not in the project `within`, unless that is None.
        """
        raise InvalidInput("project", project, f"the storage {self.url!r} keeps no projects")

    def count_studies(self) -> tuple[int, int]:
        """How many studies there are that are not archived, and that are."""
        is_archived = [record.archived is not None for record in self.studies()]
        return is_archived.count(False), is_archived.count(True)

    def newest(
        self,
        limit: int,
        *,
        before: int | None = None,
        archived: Archived = "true",
        contains: str = "",
        projects: Collection[str] | None = None,
    ) -> list[StudyRecord]:
        """Up to `limit` studies, newest first, whose key is below `before` and whose name has `contains` in it.

        `projects` are those that they may be in. They are stated only if the storage keeps projects.
        """
        wanted = [
            record
            for record in reversed(self.studies())
            if (before is None or record.key < before)
            and (archived == "true" or (record.archived is not None) == (archived == "only"))
            and contains.lower() in record.name.lower()
            and (projects is None or record.project in projects)
        ]
        return wanted[:limit]

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        """Everything that this thread reads inside is from one moment, if the storage can do that."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def archive(self, key: int, holder: str, *, undo: bool = False) -> None:
        """Put a study away, or bring it back. After this returns, nothing is recorded in an archived study."""

    def delete(self, key: int, holder: str, *, within: str | None = None) -> None:
        """Remove an archived study and all that is recorded of it, for good. Repeating it changes nothing.

        `NotFound` if it is not in the project `within`, unless that is None.

        What remains is an act with its name and number. No other study ever gets the number, so a program that still
        has the study open finds that it is gone.
        """
        raise InvalidInput("study", key, f"the storage {self.url!r} cannot delete studies")

    def acts(self) -> list[Act]:
        """What was done and is in no study's log, the oldest first."""
        return []

    def remark(self, key: int, words: str, holder: str) -> None:
        """Log a remark on the study's answer, in place of the one before. A storage without remarks ignores it."""
        return

    def last_remark(self, key: int) -> str:
        """The last remark; empty if there is none."""
        return next((event.detail for event in reversed(self.log(key)) if event.kind == "remarked"), "")

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
        one_plan: bool = False,
        none_new: bool = False,
    ) -> list[Issued]:
        """Hand up to `count` tests to `holder`. No test has two holders at a time.

        With a `lease`, the holder promises to `renew` within that many seconds. Without one, the tests stay theirs
        until they are told, failed or released. `due` is the number of seconds within which the holder wants to tell
        them. Nothing happens when that time is up.

        First come free tests, and those of holders who are gone. A holder is gone if they were silent
        for longer than their lease at a request for tests, and for half as long again after that. Next comes what is
        already planned, then what `plan_rounds` returns, and so on until it returns nothing. What it returns counts
        only if no test has been issued since the call; otherwise it is called again. If it raises, nothing stays
        handed out. Every test up to `settled` has an outcome.

        If `holder` still holds tests that they were handed under the same `request`, those are returned. Otherwise
        they end up with no more than `most` tests. `HoldsEnough` is raised if they hold that many already.

        With `one_plan`, all tests that are handed out were returned by one call of `plan_rounds`: blocks are not mixed.
        Then `HoldsEnough` is raised if there is no room for `count` tests, so that none is cut short.

        With `none_new`, only tests that were issued before are handed out again. It is stated only for studies with a
        budget of time.
        """

    @abc.abstractmethod
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
        """Record results measured without asking: all or nothing. Returns the ids.

        A result is (arm, metric, value), or (arm, metric, value, more, item): `more` has the values after the first.
        They form one round, or several: `ends` has the positions, from 0, of the results that end a round. The last
        result always does. What is planned but not handed out is withdrawn, so that these results need not wait for
        it. A `source` other than "" is accepted only once; again it is `SourceTaken`. The same results under the same
        `request` are not recorded again; different results under it are `InvalidInput`.

        With `places`, the item of each result is by its number, and what `places` returns is recorded instead.

        Results of whole blocks come with the `names` of the blocks, each of which is accepted only once: `BlockTaken`.
        Then nothing is withdrawn: as long as planned tests are not handed out, it is `BlockUnfinished`.
        """

    @abc.abstractmethod
    def tell(self, key: int, test: int, value: float, holder: str, *, more: tuple[float, ...] = ()) -> Outcome | None:
        """Record a test's value, or values. If it has an outcome already, return that and change nothing.

        Any holder may tell a test, except a former one after it was handed to another: which of the two attempts
        counts must not depend on which is quicker. That is `HandedOn`. `InvalidInput` if there is no such test.
        """

    @abc.abstractmethod
    def tell_many(self, key: int, results: Sequence[Telling], holder: str) -> dict[int, Outcome]:
        """Record the values of several tests, all or none: if some have a different outcome, return those outcomes."""

    @abc.abstractmethod
    def correct(
        self, key: int, test: int, value: float, holder: str, reason: str, *, more: tuple[float, ...] = ()
    ) -> Outcome:
        """Replace all values of a test that has an outcome. The old ones stay in the log and are returned."""

    def amend(self, key: int, asked: str, amendment: MakeAmendment, holder: str, *, request: str = "") -> None:
        """Replace the plan of a study, and give up the tests without an outcome of arms that are retired.

        The log says what changed, and the revision grows. `asked` says what is wanted; the same under the same
        `request` is done once.
        """
        raise InvalidInput("study", key, f"the storage {self.url!r} cannot change the plan of a study")

    @abc.abstractmethod
    def drop(self, key: int, test: int, holder: str, reason: str) -> Outcome | None:
        """End a test without a value. If it has an outcome already, return that and change nothing.

        `HandedOn` as for `tell`.
        """

    @abc.abstractmethod
    def fail(self, key: int, test: int, holder: str, reason: str, *, request: str = "") -> None:
        """Note a failed attempt by any holder, and free the test. A former holder's is only noted."""

    @abc.abstractmethod
    def set_aside(self, key: int, test: int, holder: str, kind: Aside, reason: str, *, request: str = "") -> None:
        """Note how the attempt of `holder`, who holds the test, ended. Do not hand out the test.

        It stays set aside until it is told, failed, released or dropped.
        """

    @abc.abstractmethod
    def release(self, key: int, tests: Sequence[int], holder: str, *, request: str = "") -> None:
        """Free unmeasured tests of any holder. Those that `holder` has lost to another holder stay there.

        Freeing another holder's test is noted in the log.
        """

    def release_held_by(self, key: int, name: str, holder: str, *, request: str = "") -> list[int]:
        """Free, in the name of `holder`, everything that `name` holds. Returns those tests; none for a repeat."""
        held = [row.id for row in self.pending(key) if row.holder == name and row.expires > 0.0]
        self.release(key, held, holder, request=request)
        return held

    @abc.abstractmethod
    def renew(self, key: int, tests: Sequence[int], holder: str, lease: float) -> None:
        """A heartbeat: `holder` keeps the tests they hold and promises another within `lease` seconds."""

    @abc.abstractmethod
    def test(self, key: int, test: int) -> tuple[Issued, Outcome | None] | None:
        """A test and its outcome, or None if there is no such test."""

    def find_tests(self, key: int, tests: Sequence[int]) -> dict[int, tuple[Issued, Outcome | None]]:
        """Those of the tests that exist, and their outcomes."""
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

        What has been read does not change: nothing ever arrives before it.
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
        """A number that grows with every line of the log other than tests issued and outcomes."""

    @abc.abstractmethod
    def issued(self, key: int) -> int:
        """How many tests have been issued."""

    def told(self, key: int, after: int) -> int:
        """How many of the tests that follow number `after` have an outcome."""
        return sum(len(part.ids) for part in self.entries(key, after, gaps=True))

    @abc.abstractmethod
    def log(self, key: int, last: int | None = None) -> list[Event]:
        """What happened, the oldest first; the `last` events only, if that is given."""

    def audit(self, key: int) -> list[AuditLine]:
        """Who did what, the oldest first: a line for each request, with its tests."""
        return audit_of(self.log(key))

    def audit_of_all(self) -> list[AuditEntry]:
        """Who did what in all studies and with tokens, the oldest first."""
        found = []
        with self.snapshot():
            for act in self.acts():
                study, token = (None, act.subject) if act.kind.startswith("token") else (act.subject, None)
                found.append(AuditEntry(study, token, AuditLine(act.time, act.kind, act.who, (), act.detail)))
            for record in self.studies():
                found += [AuditEntry(record.name, None, line) for line in self.audit(record.key)]
        return sorted(found, key=lambda entry: entry.line.time)

    @abc.abstractmethod
    def history(self, key: int) -> Iterator[History]:
        """Every test in the order of issue, read piece by piece, so that memory does not grow with their number.

        In a study by arrival those with an outcome come first, in the order in which they arrived.
        """

    def change_mark(self) -> object | None:
        """A value to compare. As long as it stays equal, nothing at all has been written to the database.

        It may change without a write. None means that the storage cannot tell.
        """
        return None

    def check_tables(self) -> None:
        """Raise `OldTables` if the database has tables of an earlier version, `InvalidInput` if of a later one.

        Another program may have upgraded it, or put an older copy in its place, since this one opened it.
        """
        return

    def close(self) -> None:
        """Let go of connections."""
        return
