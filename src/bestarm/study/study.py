"""A study: ask which tests to make, tell their results, and have the answer when it is certain enough."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from bestarm.analysis.status.status import status_html
from bestarm.analysis.status.words import question
from bestarm.problem import Budget, Plan, Problem
from bestarm.storage.base import Aside, Event, Issued, Pending, Storage, StudyRecord, Telling
from bestarm.storage.columns import Columns
from bestarm.storage.errors import HandedOn, HoldsEnough, OutcomeUnknown, StorageError, StudyArchived
from bestarm.storage.keys import check_key, new_key
from bestarm.storage.opening import open_storage
from bestarm.study.heartbeat import LEASE, Holds
from bestarm.study.intake.adding import GivenResult, columns_of, places_of, read_rows
from bestarm.study.intake.names import HolderName, Numbering, is_meant, number_of, numbers_of
from bestarm.study.intake.names import Test as Test  # where others look for it
from bestarm.study.intake.placing import Placing
from bestarm.study.intake.telling import AlreadyTold as AlreadyTold  # here too
from bestarm.study.intake.telling import already_told, corrected, further, handed_on, repeatable, values_of
from bestarm.study.intake.values import Result, check_result
from bestarm.study.record.amending import Amendable
from bestarm.study.record.checks import (
    check_aside,
    check_ask,
    check_can_be_decided,
    check_last,
    check_lease,
    find_record,
    holds_enough,
    most_held,
    new_record,
)
from bestarm.study.record.seeds import choose_seeds
from bestarm.study.record.tables import Tables
from bestarm.validation import InvalidInput, NotFound


class Study(Tables, Amendable):
    """A durable study. Make one with `create`, come back to it with `open`, from any number of processes.

    >>> import bestarm as ba
    >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(0.1)))
    >>> study = ba.Study.create(problem, delta=0.05, storage=":memory:")
    >>> yields = {"old": 1.0, "new": 2.0}
    >>> while not study.done:
    ...     for test in study.ask(2):
    ...         study.tell(test, yields[test.arm])
    >>> print(study.answer)
    new: feasible and best, with 95 % confidence, after 4 tests
    """

    def __init__(self, storage: Storage, record: StudyRecord, *, holder: str | None = None) -> None:
        super().__init__(storage, record)
        user = os.environ.get("USER") or os.environ.get("USERNAME") or "somebody"
        self._held_as = HolderName(holder, user)
        self._handed: dict[int, Issued] = {}
        self._unanswered: str | None = None
        """The key of an ask, if it is not known whether tests were handed out for it."""
        self._holds = Holds(self)

    def _read_plan(self) -> None:
        super()._read_plan()
        self._numbering = Numbering(self.plan)

    # ---------------------------------------------------------------------------------------- create and open

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        name: str | None = None,
        delta: float | None = None,
        policy: str | None = None,
        budget: float | Budget | None = None,
        storage: str | os.PathLike[str] | Storage | None = None,
        seed: int | None = None,
        items_seed: int | None = None,
        holder: str | None = None,
    ) -> Study:
        """A new study of `problem`, kept in `storage`: a path, a URL, or by default what `BESTARM_DB` says.

        `delta` is the probability of a wrong answer that you accept: 0.05, unless the problem is a `Plan` that says
        otherwise. `name` is the name to open it by; the default is the plan's own. `budget` is how many tests it may
        make, or a `Budget`.

        `seed` is for random choices of the policy, `items_seed` for the random order of the items. Both are drawn
        afresh and recorded unless they are stated, to repeat a study. Never use an `items_seed` again for arms that
        were improved after a study on the same items: the guarantee would be void.
        """
        plan = Plan.of(problem, delta=delta, name=name, policy=policy, budget=budget)
        seeds = choose_seeds(plan, seed, items_seed)
        check_can_be_decided(plan)
        kept = open_storage(storage, create=True)
        return cls(kept, new_record(kept, plan, seeds), holder=holder)

    @classmethod
    def open(
        cls, name: str, *, storage: str | os.PathLike[str] | Storage | None = None, holder: str | None = None
    ) -> Study:
        """The study of that name."""
        kept = open_storage(storage)
        return cls(kept, find_record(kept, name), holder=holder)

    @property
    def holder(self) -> str:
        """The name under which this object, in this process, holds tests."""
        with self._lock:
            return self._held_as.now()

    def __repr__(self) -> str:
        return f"<bestarm.Study {self.name!r} in {self._storage.url!r}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return status_html(self.status(), asks=question(self.plan))

    # ------------------------------------------------------------------------------------------- ask and tell

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
        check_ask(n, days, lease)
        asked = "" if key is None else check_key(key)
        with self._lock:
            self._sync()
            self._check_open()
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
                    self._plan_rounds,
                    due=None if days is None or days == math.inf else days * 86400.0,
                    request=request,
                    most=most_held(self.plan),
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
            outcome = self._storage.tell(self._record.key, issued.id, first, self.holder, **further(more))
        self._let_go([issued.id])
        if outcome is not None and values_of(outcome) != (first, *more):
            raise already_told(self._test(issued), outcome)

    def tell_many(self, results: Iterable[tuple[Test | int, Result]]) -> None:
        """Record several results, all or none."""
        results = list(results)
        checked: list[Telling] = []
        self._recall([number_of(test) for test, _ in results])
        for test, value in results:
            issued = self._issued(test)
            values = check_result(self.plan, issued.metric, value)
            row: tuple[int, float, *tuple[float, ...]] = (issued.id, values[0], *values[1:])
            checked.append(row)
        with self._telling():
            refused = self._storage.tell_many(self._record.key, checked, self.holder)
        self._let_go(row[0] for row in checked)
        for test, outcome in refused.items():
            raise already_told(self._test(self._issued(test)), outcome)

    def add(
        self,
        results: Iterable[GivenResult],
        *,
        source: str = "",
        ends: Collection[int] = (),
        key: str | None = None,
    ) -> list[int]:
        """Record results (arm, metric, value) that were measured without asking, in the order given, all or none.

        A test of several metrics is given as (arm, {metric: value, …}). In a study with items the item comes last, as
        in (arm, metric, value, item).

        Returns their test ids. Give every result there is: picking some of them would bias the answer. A `source`,
        such as a file's name and digest, is accepted once. Nothing is decided before the last of them, unless `ends`
        has the positions, from 0, of results after which the study they come from decided.

        The same results under the same `key` are recorded once, and a repeat returns the same ids. Without a key, one
        is made up. If a server is lost before it answers, `OutcomeUnknown` has it in `key`, for you to repeat.
        """
        results = list(results)
        try:
            rows = read_rows(self.plan, self._numbering, results)
        except InvalidInput:
            if not self._look_for_arms():
                raise
            rows = read_rows(self.plan, self._numbering, results)
        columns = columns_of(self.plan, rows)
        return list(self._add(columns, source, ends, key, lambda placing: places_of(rows, placing)))

    def _add(
        self,
        rows: Columns,
        source: str,
        ends: Collection[int],
        key: str | None,
        places: Callable[[Placing], Sequence[int]],
    ) -> Sequence[int]:
        """As `add`, for results by number that have been checked. `places` says where those of items belong."""
        request = self._new_request() if key is None else check_key(key)
        try:
            if self._places is None:
                return self._storage.give(self._record.key, rows, self.holder, source, ends, request=request)
            with self._lock:  # which the holder of the storage's lock must not wait for
                return self._storage.give(
                    self._record.key,
                    rows,
                    self.holder,
                    source,
                    ends,
                    request=request,
                    places=lambda: places(self._placing()),
                )
        except OutcomeUnknown as error:
            raise error.advised(f"repeat it with key={request!r}, under which it is recorded once", request) from error

    def correct(self, test: Test | int, value: Result, reason: str = "") -> None:
        """Replace a result that was told wrongly, or some of its values; the old one stays in the log.

        Look for mistakes by a rule that does not depend on values. Correcting only surprising values voids the
        guarantee.
        """
        issued = self._issued(test)
        found = self._storage.test(self._record.key, issued.id) if isinstance(value, Mapping) else None
        first, *more = corrected(self.plan, issued.metric, issued.id, found and found[1], value)
        with repeatable():
            self._storage.correct(self._record.key, issued.id, first, self.holder, reason, **further(more))

    def fail(self, test: Test | int, reason: str = "") -> None:
        """Say that an attempt at a test failed, yours or another's. The test is handed out again; the reason is logged.

        This is fair only if failures have nothing to do with results. Otherwise tell what a failure counts as.
        """
        issued = self._issued(test)
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

    def abandon(self, test: Test | int, reason: str = "") -> None:
        """Give a test up: its result is no longer expected, and will be refused.

        This is fair only if the reason has nothing to do with what the result would have been.
        """
        issued = self._issued(test)
        with self._telling():
            outcome = self._storage.drop(self._record.key, issued.id, self.holder, reason)
        self._let_go([issued.id])
        if outcome is not None and outcome.value is not None:
            raise already_told(self._test(issued), outcome)

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

    def archive(self, *, undo: bool = False) -> None:
        """Put the study away: it can be read but not changed."""
        self._storage.archive(self._record.key, self.holder, undo=undo)
        with self._lock:
            self._look()

    # ----------------------------------------------------------------------------------------- what is under way

    def pending(self, *, after: int = 0, limit: int | None = None) -> list[tuple[Test, Pending]]:
        """The tests whose results are out, and who holds them. With `after` and `limit` they can be read in pieces."""
        rows = self._storage.pending(self._record.key, after=after, limit=limit)
        return [(self._test(row), row) for row in rows]

    def log(self, last: int | None = None) -> list[Event]:
        """What happened in this study, oldest first. With `last`, only that many of the newest events."""
        check_last(last)
        events = self._storage.log(self._record.key, last)
        if any(event.arm is not None and event.arm >= len(self.plan.arms) for event in events):
            self._look_for_arms()
        return events

    def arm_number(self, name: str) -> int:
        return self._numbering.arm(name)

    def metric_number(self, name: str) -> int:
        """The number of a metric; of a test that yields several, that of the first."""
        return self._numbering.metric(name)

    # ------------------------------------------------------------------------------------------------ inside

    def _check_open(self) -> None:
        if self._record.archived is not None:
            raise StudyArchived(self.name)

    def _issued(self, test: Test | int) -> Issued:
        """The test as it was issued."""
        number = number_of(test)
        issued = self._handed.get(number)
        if issued is None:
            found = self._storage.test(self._record.key, number)
            if found is None:
                raise NotFound("test", number, f"no such test in study {self.name!r}")
            issued = found[0]
        if isinstance(test, Test) and not is_meant(self._test(issued), test):
            here = self._test(issued)
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
        with repeatable():
            try:
                yield
            except HandedOn as error:
                self._let_go([error.test])
                raise handed_on(self._test(self._issued(error.test)), error) from None

    def _recall(self, tests: Sequence[int]) -> None:
        """Look up, all at once, the tests that were not handed out here."""
        unknown = [test for test in tests if test not in self._handed]
        if unknown:
            found = self._storage.find_tests(self._record.key, unknown)
            self._handed.update((test, issued) for test, (issued, _) in found.items())
