"""A study on a server, with the methods and properties of `bestarm.Study`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from bestarm.analysis.health.notes import Health
from bestarm.analysis.standing.arms import ArmStanding
from bestarm.analysis.standing.timeline import Progress
from bestarm.analysis.status.outlook import Outlook
from bestarm.analysis.status.status import Status, status_html
from bestarm.analysis.status.waiting import Awaited, is_unresolved
from bestarm.analysis.status.words import question
from bestarm.answer import Answer, Difference
from bestarm.client.answers import read, read_answer, read_event, read_forecast, read_pending, read_test
from bestarm.client.connection import Connection, Unanswered
from bestarm.client.files import FileTransfer
from bestarm.client.sending import MOST_AT_ONCE, checked_batch, given_result, in_parts, named_test, told_result
from bestarm.problem import Amount, Budget, Plan
from bestarm.problem.blocks import BlockOrder
from bestarm.problem.items import ItemOrder
from bestarm.storage.base import Aside, AuditLine, Event, Pending
from bestarm.storage.errors import StorageError
from bestarm.storage.keys import check_key, new_key
from bestarm.storage.opening import default_url
from bestarm.study.framing import Framing
from bestarm.study.heartbeat import LEASE, Holds
from bestarm.study.intake.items import items_of
from bestarm.study.intake.names import HolderName, Numbering, Test, numbers_of
from bestarm.study.intake.new_results import GivenResult, NewResults
from bestarm.study.intake.values import Result
from bestarm.study.record.checks import check_aside, check_ask, check_last, check_lease, check_reason
from bestarm.study.study import AlreadyTold
from bestarm.validation import InvalidInput


class RemoteStudy(FileTransfer, Framing):
    """A study on a server, with the methods and properties of `bestarm.Study`."""

    def __init__(self, connection: Connection, key: int, plan: Plan, *, holder: str | None = None) -> None:
        self._connection = connection
        self.id = key
        """The study's number on the server."""
        self._take(plan)
        self._name = plan.name
        self._held_as = HolderName(holder)
        self._known: tuple[str, dict[str, Any]] | None = None
        self._holds = Holds(self)
        self._asking = threading.Lock()
        self._unanswered: str | None = None
        """The key of an ask that may have handed out tests or not."""

    def _take(self, plan: Plan) -> None:
        """Use this plan, which may differ from the one before."""
        self.plan = plan
        self._plan_data = plan.to_data()
        self._numbering = Numbering(plan)

    @property
    def name(self) -> str:
        return self._name

    @property
    def holder(self) -> str:
        """The name under which tests are held: this object's, in this process, after that of the token."""
        return self._connection.as_holder(self._held_as.now())

    def __repr__(self) -> str:
        return f"<bestarm.client.RemoteStudy {self.name!r} at {self._connection.url!r}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return status_html(self.status(), asks=question(self.plan))

    def _get(self, what: str, query: dict[str, Any] | None = None) -> Any:
        return self._connection.get(f"/api/studies/{self.id}/{what}", query)

    def _post(self, what: str, body: dict[str, Any], *, key: str | None = None) -> Any:
        """Post a request that may be repeated: it counts once."""
        path = f"/api/studies/{self.id}/{what}"
        with self._advising(key):
            return self._connection.post(path, body | {"holder": self.holder}, key=key)

    @contextlib.contextmanager
    def _advising(self, key: str | None) -> Iterator[None]:
        """If it is not known whether something was done, say how to repeat it."""
        try:
            yield
        except Unanswered as error:
            if key is None:
                raise error.advised("it is safe to repeat: it counts once") from error
            raise error.advised(f"repeat it with key={key!r}, under which it is done once", key) from error

    # ------------------------------------------------------------------------------------------- ask and tell

    def ask(
        self, n: int = 1, *, days: float | None = None, lease: float | None = None, key: str | None = None
    ) -> list[Test]:
        """Up to `n` tests to make now, as `Study.ask` hands them out: by default with a heartbeat of this object.

        Asked again with the same `key`, by the same holder, it is the same tests; at most 10,000 then.
        """
        check_ask(n, days, lease)
        if key is not None and check_key(key) and n > MOST_AT_ONCE:
            raise InvalidInput("n", n, f"with a key, at most {MOST_AT_ONCE:,} at a time", shown=f"{n:,}")
        tests: list[Test] = []
        while len(tests) < n:
            wanted = min(n - len(tests), MOST_AT_ONCE)
            asked = self._ask({"n": wanted}, days, lease, key)
            tests += asked
            if len(asked) < wanted:
                break
        return tests

    def ask_block(self, *, days: float | None = None, lease: float | None = None, key: str | None = None) -> list[Test]:
        """All tests of the next block, as `Study.ask_block` hands them out."""
        check_ask(1, days, lease)
        return self._ask({"block": True}, days, lease, None if key is None else check_key(key))

    def _ask(self, wanted: dict[str, Any], days: float | None, lease: float | None, key: str | None) -> list[Test]:
        beats = days is None and lease is None
        stated = {"lease": LEASE if beats else lease, "days": None if days == math.inf else days}
        terms = {name: number for name, number in stated.items() if number is not None}
        request = key or self._take_unanswered() or new_key()
        try:
            asked = self._post("ask", {**wanted, **terms}, key=request)["tests"]
        except StorageError:
            self._unanswered = request
            raise
        if beats:
            self._holds.add(test["id"] for test in asked)
        return [*map(read_test, asked)]

    def _take_unanswered(self) -> str | None:
        """The key of an ask that was not answered, for one thread to ask again."""
        with self._asking:
            taken, self._unanswered = self._unanswered, None
            return taken

    def tell(self, test: Test | int, value: Result) -> None:
        """Record the result of a test, as `Study.tell` does. Once it returns, the result is safe."""
        try:
            self.tell_many([(test, value)])
        except InvalidInput as error:
            # Over HTTP a field is named by its place in the request, such as results[0].value.
            named = ((one, (one.field or "").removeprefix("results[0].")) for one in error.complaints)
            error.complaints = tuple(dataclasses.replace(one, field=field or None) for one, field in named)
            raise

    def tell_many(self, results: Iterable[tuple[Test | int, Result]]) -> None:
        """Record several results, all or none; at most 10,000."""
        rows = [told_result(test, value) for test, value in results]
        try:
            self._post("tell", {"results": checked_batch(rows)})
        except AlreadyTold:
            self._holds.discard(row["test"] for row in rows[:1] if len(rows) == 1)
            raise
        self._holds.discard(row["test"] for row in rows)

    def add(
        self,
        results: Iterable[GivenResult],
        *,
        source: str = "",
        ends: Collection[int] = (),
        key: str | None = None,
    ) -> list[int]:
        """Record results (arm, metric, value) measured without asking, all or none; at most 10,000.

        A test of several metrics is given as (arm, {metric: value, …}). In a study with items the item comes last.
        Under the same `key` the same results are recorded once, as in `Study.add`.
        """
        rows = [given_result(result) for result in results]
        body = {"results": checked_batch(rows), "source": source, "ends": sorted(ends)}
        ids: list[int] = self._post("add", body, key=new_key() if key is None else check_key(key))["ids"]
        return ids

    def _plan_now(self) -> Plan:
        self._status()
        return self.plan

    def _add(self, found: NewResults, source: str, key: str | None) -> list[int]:
        return self.add(found.named(self.plan), source=source, key=key)

    def check_far(self, told: Iterable[tuple[Test | int, Result]] = (), given: Iterable[GivenResult] = ()) -> None:
        """Raise `FarValue` if a value lies far outside those that its metric has shown, as `Study.check_far` does."""
        rows = [told_result(test, value) for test, value in told]
        self._post(
            "check-far",
            {"told": checked_batch(rows), "given": checked_batch([given_result(result) for result in given])},
        )

    def correct(self, test: Test | int, value: Result, reason: str) -> None:
        """Replace a result that was told wrongly, or some of its values; the old one stays in the log.

        Look for mistakes by a rule that ignores values: correcting only surprising values voids the guarantee.
        """
        self._post("correct", told_result(test, value) | {"reason": check_reason(reason)})

    def fail(self, test: Test | int, reason: str) -> None:
        """Say that an attempt at a test failed: it is handed out again, and the reason kept in the log."""
        self._end("fail", test, check_reason(reason), key=new_key())

    def set_aside(self, test: Test | int, reason: str = "", *, kind: Aside = "failed") -> None:
        """Say that your attempt at a test failed, without saying what that counts."""
        check_aside(kind)
        self._end("set-aside", test, reason, key=new_key(), kind=kind)

    def abandon(self, test: Test | int, reason: str) -> None:
        """Give a test up: its result is no longer expected, and will be refused."""
        self._end("abandon", test, check_reason(reason))

    def _end(self, how: str, test: Test | int, reason: str, *, key: str | None = None, **more: str) -> None:
        named = named_test(test)
        self._post(how, named | {"reason": reason[:2000], **more}, key=key)
        self._holds.discard([named["test"]])

    def release(self, tests: Iterable[Test | int] | Test | int) -> None:
        """Free unmeasured tests, even those of other holders. They can be asked for again at once."""
        numbers = numbers_of(tests)
        for part in in_parts(numbers):
            self._post("release", {"tests": part}, key=new_key())
        self._holds.discard(numbers)

    def release_held_by(self, name: str) -> list[int]:
        """Free every test of a holder, as `release` does; returns the numbers of those tests."""
        freed: list[int] = self._post("release", {"held_by": name}, key=new_key())["released"]
        self._holds.discard(freed)
        return freed

    def renew(self, tests: Iterable[Test | int], lease: float = LEASE) -> None:
        """A heartbeat of your own: hold tests for `lease` seconds from now, if you hold them."""
        check_lease(lease)
        for part in in_parts(numbers_of(tests)):
            self._post("renew", {"tests": part, "lease": lease})

    def extend(
        self, tests: Amount = None, cost: Amount = None, *, blocks: Amount = None, hours: Amount = None
    ) -> Budget:
        """Raise the budget, as `Study.extend` does. Returns what is allowed now."""
        more = {"tests": tests, "cost": cost, "blocks": blocks, "hours": hours}
        now = self._post("extend", {name: more[name] for name in more if more[name] is not None}, key=new_key())
        return Budget(**now)

    def add_arms(self, arms: Iterable[str]) -> None:
        """Add arms, for which the plan has a `reserve`."""
        self._post("arms/add", {"arms": [arms] if isinstance(arms, str) else list(arms)}, key=new_key())
        self._status()

    def retire(self, arm: str, reason: str = "") -> None:
        """Take an arm out: it is no longer measured, and the question is about the others."""
        self._post("arms/retire", {"arm": arm, "reason": reason[:2000]}, key=new_key())
        self._status()

    def set_reserve(self, share: float) -> None:
        """Before the first test: the share of delta that is kept for arms that come later or are retired."""
        self._post("reserve", {"share": share}, key=new_key())
        self._status()

    # ------------------------------------------------------------------------------------- where the study is

    def _status(self) -> dict[str, Any]:
        """The status as the service returns it; sent again only if it has changed."""
        path, known = f"/api/studies/{self.id}", self._known
        found = self._connection.get(path, tag=None if known is None else known[0])
        if found is None:
            assert known is not None
            return known[1]
        self._known = found["version"], found
        if found["plan"] != self._plan_data:
            self._take(Plan.from_record(found["plan"]))
        return self._known[1]

    @property
    def done(self) -> bool:
        """Whether the study has its answer, or has spent its budget."""
        return bool(self._get("done")["done"])

    @property
    def answer(self) -> Answer | None:
        """What the study concludes, with the reasons for every arm; None while it is running."""
        return read_answer(self._status())

    @property
    def confidence(self) -> float:
        """How sure the results make us of the present best answer, from 0 to 1."""
        return float(self._status()["confidence"])

    @property
    def state(self) -> tuple[ArmStanding, ...]:
        """Where every arm stands, metric by metric."""
        return self.status().arms

    @property
    def health(self) -> Health:
        """Whether the results contradict what the guarantee rests on."""
        return self.status().health

    def status(self) -> Status:
        """Everything at a glance."""
        return read(Status, self._status())

    def differences(self, arm: str | None = None) -> dict[str, Difference]:
        """By how much, at least and at most, `arm`, by default the leader, performs better than each other arm."""
        found = self._get("differences", None if arm is None else {"arm": arm})
        return {name: read(Difference, limits) for name, limits in found.items()}

    def awaited(self) -> Awaited | None:
        """The test whose result counts next, on which all later ones wait; None if no result is out, or none needed."""
        return self.status().awaited

    def unresolved(self) -> list[Awaited]:
        """The tests that need attention: overdue, or set aside until it is said how a failed attempt counts."""
        names = {"study": self.name, "url": default_url()}
        block = None if self.plan.blocks is None else self.plan.blocks.name
        return [
            Awaited.of(row, test.arm, test.metric, metrics=test.metrics, item=test.item, block=block, **names)
            for test, row in self.pending()
            if is_unresolved(row)
        ]

    def forecast(self, *, runs: int = 100, seed: int = 0) -> Outlook | None:
        """How many more tests it will take, by simulation on the server; None when it cannot be said."""
        found = self._get("forecast", {"runs": runs, "seed": seed})
        return None if found is None else read_forecast(found)

    def _forecast(self, runs: int, seed: int, is_wanted: Callable[[], bool]) -> Outlook | None:
        """The forecast that the service has, for those who watch. It is cheap and may be some seconds old."""
        found = self._get("forecast")
        return None if found is None else read_forecast(found)

    def progress(self) -> Progress:
        """How tests and cost have grown over time, in some hundred points."""
        return Progress(**self._get("history", {"points": 5000}))

    def pending(self, *, after: int = 0, limit: int | None = None) -> list[tuple[Test, Pending]]:
        """The tests that wait for their results, and who holds them. They are read in pages."""
        found: list[dict[str, Any]] = []
        while limit is None or len(found) < limit:
            wanted = MOST_AT_ONCE if limit is None else min(limit - len(found), MOST_AT_ONCE)
            page = self._get("pending", {"after": found[-1]["id"] if found else after, "limit": wanted})
            found += page
            if len(page) < wanted:
                break
        rows = []
        for row in found:
            test = read_test(row)
            rows.append((test, read_pending(row, self.arm_number(test.arm), self.metric_number(test.metric))))
        return rows

    def audit(self) -> list[AuditLine]:
        """Who did what in this study, the oldest first: a line for each request, with its tests."""
        return self.copy().audit()

    def log(self, last: int | None = None) -> list[Event]:
        """What happened in this study, the oldest first; the newest 10,000 events unless `last` is more."""
        check_last(last)
        if last is not None and last > MOST_AT_ONCE:
            return self.copy().log(last)
        events = []
        for row in self._get("log", {"last": min(last or MOST_AT_ONCE, MOST_AT_ONCE)}):
            arm = None if row["arm"] is None else self.arm_number(row["arm"])
            metric = None if row["metric"] is None else self.metric_number(row["metric"])
            events.append(read_event(row, arm, metric))
        return events

    def arm_number(self, name: str) -> int:
        if name not in self.plan.arm_names:
            self._status()  # It may have come later.
        return self._numbering.arm(name)

    def metric_number(self, name: str) -> int:
        """The number of a metric; of a test that yields several, that of the first."""
        return self._numbering.metric(name)

    def item_name(self, place: int | None) -> str | None:
        """The item at a place of the study's order, from 0, as the log and the record have it."""
        return None if place is None or self._items is None else self._items.name(place)

    @functools.cached_property
    def _items(self) -> ItemOrder | BlockOrder | None:
        return items_of(self.plan, self._status().get("items_seed") or 0)
