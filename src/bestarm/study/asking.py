"""Asking a study for tests, telling it their results, and holding the tests in between."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bestarm.analysis.standing.knowledge import Moment, moment_of
from bestarm.storage.audit import AuditLine
from bestarm.storage.base import (
    Aside,
    Event,
    Issued,
    Outcome,
    Pending,
    PlanRounds,
    Rounds,
    Storage,
    StudyRecord,
    Telling,
)
from bestarm.storage.errors import HandedOn, HoldsEnough, OutcomeUnknown, StorageError, StudyArchived
from bestarm.storage.keys import check_key, new_key
from bestarm.study.heartbeat import LEASE, Holds
from bestarm.study.intake.blocks import at_ends
from bestarm.study.intake.names import HolderName, Test, number_of, numbers_of
from bestarm.study.intake.values import Result, check_result, check_some, values_in_words, values_of
from bestarm.study.record.checks import (
    check_aside,
    check_ask,
    check_last,
    check_lease,
    check_reason,
    holds_enough,
    most_held,
)
from bestarm.study.record.clock import is_time_up
from bestarm.study.record.entries import cut
from bestarm.study.record.follower import Follower
from bestarm.study.record.overview import Overview
from bestarm.validation import InvalidInput, NotFound


class AlreadyTold(InvalidInput):
    """The test has a different outcome, which `Study.correct` can replace, or has a new holder."""

    kind = "already told"


def _already_told(test: Test, reason: str) -> AlreadyTold:
    return AlreadyTold("test", test.id, reason, shown=f"{test.id} ({test.words})")


def _has_outcome(test: Test, outcome: Outcome) -> AlreadyTold:
    """What to raise for a test that has another outcome."""
    if outcome.value is None:
        return _already_told(test, f"was abandoned{': ' + outcome.reason if outcome.reason else ''}")
    told = values_in_words(test.metrics, values_of(outcome))
    return _already_told(test, f"has the result {told} already; a correction can replace it")


def _all_together(errors: Sequence[AlreadyTold]) -> AlreadyTold:
    """One error that names every test."""
    complaints = [complaint for error in errors for complaint in error.complaints]
    return AlreadyTold.of(complaints, "\n".join(complaint.sentence for complaint in complaints))


def _further(more: Sequence[float]) -> dict[str, Any]:
    """The values after the first, as a storage takes them. A storage from before there were any need not know them."""
    return {"more": tuple(more)} if more else {}


class Asking(Overview):
    """A study that hands out tests and takes their results. `Study` adds everything else."""

    def __init__(self, storage: Storage, record: StudyRecord, *, holder: str | None = None) -> None:
        super().__init__(storage, record)
        user = os.environ.get("USER") or os.environ.get("USERNAME") or "somebody"
        self._held_as = HolderName(holder, user)
        self._handed: dict[int, Issued] = {}
        self._unanswered: str | None = None
        """The key of an ask, if it is not known whether tests were handed out for it."""
        self._holds = Holds(self)

    @property
    def holder(self) -> str:
        """The name under which this object, in this process, holds tests."""
        with self._lock:
            return self._held_as.now()

    def ask(
        self, n: int = 1, *, days: float | None = None, lease: float | None = None, key: str | None = None
    ) -> list[Test]:
        """Up to `n` tests to make now. None when the study is done, or when it must wait for results that are out.

        They are yours as long as this object lives. It keeps a heartbeat, and only if that is silent for half a
        minute are they handed to others. With `days` they are yours without a heartbeat until they are told,
        failed or released. This is for people who measure and come back. When the days are over, the study's status
        says so (`math.inf`: never). With `lease` they are yours for that many seconds, unless you `renew` them: a
        heartbeat of your own. At any time one holder has at most 1,000 tests, plus 10 for each metric of each arm.
        Asking again with the same `key` and the same holder returns the same tests, as far as they are still held.
        """
        return self._ask(n, days, lease, key, self._plan_next)

    def ask_block(self, *, days: float | None = None, lease: float | None = None, key: str | None = None) -> list[Test]:
        """All tests of the next block, in the order of their places there, while other blocks may be out; if some tests
        of an earlier block are free, those. What is in it depends on the blocks whose results are all there.

        There are none when the study is done, or when its budget allows no block beside those that are out. A holder
        who has no room for a whole block is refused. Otherwise it is as `ask`, which hands out the tests of one block
        after the other.

        >>> import bestarm as ba
        >>> goal, days = ba.maximize("yield", noise=ba.Symmetric()), ba.Blocks("day", size=4)
        >>> problem = ba.Problem(arms=["old", "new"], objective=goal, blocks=days)
        >>> study = ba.Study.create(problem, storage=":memory:", seed=1, items_seed=1)
        >>> [(test.arm, test.item) for test in study.ask_block()]
        [('old', 'day 1 1'), ('new', 'day 1 2'), ('new', 'day 1 3'), ('old', 'day 1 4')]
        """
        blocks = self.plan.blocks
        if blocks is None:
            raise InvalidInput("study", self.name, "has no blocks; ask for a number of tests")

        return self._ask(blocks.size, days, lease, key, self._plan_rounds)

    def _plan_next(self, count: int) -> Rounds:
        """What to do next; in blocks, nothing while one is out."""
        if self.plan.blocks is not None and self._storage.count_pending(self._record.key):
            return []
        return self._plan_rounds(count)

    def _ask(
        self, n: int, days: float | None, lease: float | None, key: str | None, plan_rounds: PlanRounds
    ) -> list[Test]:
        check_ask(n, days, lease)
        blocks = self.plan.blocks
        of_block: dict[str, Any] = {}
        if blocks is not None:
            # More than a block is never handed out at once, and no two are mixed.
            n, of_block = min(n, blocks.size), {"one_plan": True}
        elif is_time_up(self._record):
            of_block = {"none_new": True}
        asked = "" if key is None else check_key(key)
        with self._lock:
            self._sync()
            if self._record.archived is not None:
                raise StudyArchived(self.name)
            if self._is_done:
                return []
            # Only this process can reach the study, so no other can take over.
            beats = days is None and lease is None and not self._storage.is_private
            request = asked or self._unanswered or self._new_request()
            try:
                handed = self._storage.hand_out(
                    self._record.key,
                    n,
                    self.holder,
                    LEASE if beats else lease,
                    self._decider.settled,
                    plan_rounds,
                    due=None if days is None or days == math.inf else days * 86400.0,
                    request=request,
                    most=most_held(self.plan),
                    **of_block,
                )
            except HoldsEnough as error:
                raise holds_enough(n, self.plan, self.holder, error.held) from None
            except StorageError as error:
                self._note_unanswered(request)
                if isinstance(error, OutcomeUnknown):
                    raise error.advised(f"asking again with key={request!r} finds the tests", request) from error
                raise
            self._note_unanswered(None)
            self._handed.update((test.id, test) for test in handed)
            if beats:
                self._holds.add(test.id for test in handed)
            return [self._test(test) for test in handed]

    def _note_unanswered(self, request: str | None) -> None:
        """Remember the key to ask again with."""
        self._unanswered = request

    def _new_request(self) -> str:
        """The key of the next action. Under one key an action is carried out once."""
        return new_key()

    def tell(self, test: Test | int, value: Result) -> None:
        """Record the result of a test. Once it returns, the result is safe.

        A test of several metrics is told all its values at once: `study.tell(test, {"time": 1.2, "memory": 340})`.
        Telling the same value again has no effect. A different value is refused (see `correct`).
        """
        issued = self._issued(test)
        first, *more = check_result(self.plan, issued.metric, value)
        with self._telling():
            outcome = self._storage.tell(self._record.key, issued.id, first, self.holder, **_further(more))
        self._let_go([issued.id])
        if outcome is not None and values_of(outcome) != (first, *more):
            raise _has_outcome(self._test(issued), outcome)

    def tell_many(self, results: Iterable[tuple[Test | int, Result]]) -> None:
        """Record several results, all or none."""
        results = list(results)
        checked: list[Telling] = []
        unknown = [number for test, _ in results if (number := number_of(test)) not in self._handed]
        if unknown:
            # All at once, not one by one.
            found = self._storage.find_tests(self._record.key, unknown)
            self._handed.update((number, issued) for number, (issued, _) in found.items())
        for test, value in results:
            issued = self._issued(test)
            values = check_result(self.plan, issued.metric, value)
            row: tuple[int, float, *tuple[float, ...]] = (issued.id, values[0], *values[1:])
            checked.append(row)
        with self._telling():
            refused = self._storage.tell_many(self._record.key, checked, self.holder)
        self._let_go(row[0] for row in checked)
        if refused:
            raise _all_together([_has_outcome(self._test(self._issued(id_)), told) for id_, told in refused.items()])

    def _check_untold(self, tests: Iterable[Test | int]) -> None:
        """Raise `AlreadyTold` if tests have results, all of which it names."""
        numbers = [self._issued(test).id for test in tests]
        found = self._storage.find_tests(self._record.key, numbers)
        told = [(issued, outcome) for issued, outcome in found.values() if outcome and outcome.value is not None]
        if told:
            raise _all_together([_has_outcome(self._test(issued), outcome) for issued, outcome in told])

    def correct(self, test: Test | int, value: Result, reason: str) -> None:
        """Replace a result that was told wrongly, or some of its values; the old one stays in the log.

        Look for mistakes by a rule that does not depend on values. Correcting only surprising values voids the
        guarantee. The log and the report show the reason.
        """
        issued = self._issued(test)
        check_reason(reason)
        if isinstance(value, Mapping):
            found = self._storage.test(self._record.key, issued.id)
            if found is None or found[1] is None:
                raise InvalidInput("test", issued.id, "has no result yet; there is nothing to correct")
            first, *more = check_some(self.plan, issued.metric, value, values_of(found[1]))
        else:
            first, *more = check_result(self.plan, issued.metric, value)
        with self._telling():
            self._storage.correct(self._record.key, issued.id, first, self.holder, reason, **_further(more))

    def fail(self, test: Test | int, reason: str) -> None:
        """Say that an attempt at a test failed, yours or another's. The test is handed out again; the reason is logged.

        This is fair only if failures have nothing to do with results. Otherwise tell what a failure counts as.
        """
        issued = self._issued(test)
        check_reason(reason)
        self._storage.fail(self._record.key, issued.id, self.holder, reason, request=self._new_request())
        self._let_go([issued.id])

    def set_aside(self, test: Test | int, reason: str = "", *, kind: Aside = "failed") -> None:
        """Say that your attempt at a test failed, without saying what that counts as.

        The test is not handed out until a value is told for it, or it is failed, released or abandoned.
        """
        check_aside(kind)
        issued = self._issued(test)
        self._storage.set_aside(self._record.key, issued.id, self.holder, kind, reason, request=self._new_request())
        self._let_go([issued.id])

    def abandon(self, test: Test | int, reason: str) -> None:
        """Give a test up: its result is no longer expected, and will be refused.

        This is fair only if the reason has nothing to do with what the result would have been. The log and the report
        show it.
        """
        issued = self._issued(test)
        check_reason(reason)
        with self._telling():
            outcome = self._storage.drop(self._record.key, issued.id, self.holder, reason)
        self._let_go([issued.id])
        if outcome is not None and outcome.value is not None:
            raise _has_outcome(self._test(issued), outcome)

    def release(self, tests: Iterable[Test | int] | Test | int) -> None:
        """Free unmeasured tests, yours or others'. They can be handed out again at once.

        Freeing another holder's test is fair only if you know that its result will not come, and that this has nothing
        to do with what the result would have been.
        """
        numbers = numbers_of(tests)
        self._storage.release(self._record.key, numbers, self.holder, request=self._new_request())
        self._let_go(numbers)

    def release_held_by(self, name: str) -> list[int]:
        """Free all tests of one holder, as `release` does. Returns the numbers of those tests."""
        freed = self._storage.release_held_by(self._record.key, name, self.holder, request=self._new_request())
        self._let_go(freed)
        return freed

    def renew(self, tests: Iterable[Test | int], lease: float = LEASE) -> None:
        """A heartbeat of your own: hold tests for `lease` seconds from now, if you hold them."""
        check_lease(lease)
        self._storage.renew(self._record.key, numbers_of(tests), self.holder, lease)

    def pending(self, *, after: int = 0, limit: int | None = None) -> list[tuple[Test, Pending]]:
        """The tests whose results are out, and who holds them. With `after` and `limit` they can be read in pieces."""
        rows = self._pending(after=after, limit=limit)
        return [(self._test(row), row) for row in rows]

    def log(self, last: int | None = None) -> list[Event]:
        """What happened in this study, oldest first. With `last`, only that many of the newest events."""
        check_last(last)
        events = self._storage.log(self._record.key, last)
        if any(event.arm is not None and event.arm >= len(self.plan.arms) for event in events):
            self._look_for_arms()
        return events

    def audit(self) -> list[AuditLine]:
        """Who did what in this study, the oldest first: a line for each request, with its tests."""
        return self._storage.audit(self._record.key)

    def course(self, points: int = 100) -> list[Moment]:
        """How the study went: what was certain and what was open at about this many moments, the first before any
        result.

        It reads the record once more, so on a long one it takes as long as opening the study.
        """
        if isinstance(points, bool) or not isinstance(points, int) or not 1 <= points <= 10_000:
            raise InvalidInput("points", points, "must be a whole number from 1 to 10,000")
        self._look_for_arms()
        again = Follower(self._storage, self._record)
        with self._storage.snapshot():
            parts = [*again._new_entries()]
        results = sum(len(part.ids) for part in parts)
        first = sum(map(self._scores.count_in, parts))
        looks = np.unique(np.linspace(first, results, min(points, results - first) + 1).round().astype(int))
        # Blocks enter as a whole.
        looks = looks.tolist() if self.plan.blocks is None else at_ends(parts, looks).tolist()
        decider, read = again._decider, 0
        moments = [moment_of(again.plan, decider.policy, None, 0)]
        for piece in cut(parts, looks):
            again._enter(piece)
            read += len(piece.ids)
            if decider.stop is not None or read in looks:
                moments.append(moment_of(again.plan, decider.policy, decider.stop, decider.policy.spent[0]))
            if decider.stop is not None:
                break
        return moments

    def _issued(self, test: Test | int) -> Issued:
        """The test as it was issued."""
        number = number_of(test)
        issued = self._handed.get(number)
        if issued is None:
            found = self._storage.test(self._record.key, number)
            if found is None:
                raise NotFound("test", number, f"no such test in study {self.name!r}")
            issued = found[0]
        if isinstance(test, Test):
            here = self._test(issued)
            # The item may be left out.
            if (here.arm, here.metric) != (test.arm, test.metric) or test.item not in (None, here.item):
                raise InvalidInput("test", number, f"is {here.words} in study {self.name!r}, not {test.words}")
        return issued

    def _let_go(self, tests: Iterable[int]) -> None:
        """Forget these tests: there is nothing more to do with them here."""
        numbers = list(tests)
        for number in numbers:
            self._handed.pop(number, None)
        self._holds.discard(numbers)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Say that telling can be repeated if its outcome is unknown, and to whom the test was handed if it was."""
        try:
            yield
        except OutcomeUnknown as error:
            raise error.advised("it is safe to repeat: it counts once") from error
        except HandedOn as error:
            self._let_go([error.test])
            reason = f"was handed to {error.holder} in the meantime, whose result counts"
            raise _already_told(self._test(self._issued(error.test)), reason) from None
