"""One study as a server process holds it: used by many clients at once, each under its own name."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import itertools
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from bestarm.analysis.status.blocks import about_means
from bestarm.analysis.status.outlook import Outlook
from bestarm.analysis.status.status import Status, shown_fields
from bestarm.analysis.status.tests_made import about_tests
from bestarm.analysis.status.words import about_intervals, question
from bestarm.answer import Answer, plain
from bestarm.client import StudyLine
from bestarm.noises.shares import as_told
from bestarm.problem import Constraint, Plan
from bestarm.storage.base import Entries, Event, Issued, Pending, ResultRow, Storage, StudyRecord
from bestarm.storage.opening import default_url
from bestarm.study.intake.items import MeasuredItems
from bestarm.study.intake.kinds import kind_of
from bestarm.study.intake.names import numbers_of
from bestarm.study.intake.values import Result, check_result
from bestarm.study.study import Study, Test
from bestarm.validation import exact
from bestarm.web.errors import json_bytes
from bestarm.web.inputs import NamedTest
from bestarm.web.versions import Version, version_of

_LOOK_EVERY = 1.0
"""Seconds after which the study's entry is read again before something is changed: another process may archive it."""

_MOST_HANDED = 20_000
"""Tests to remember before those that have an outcome are forgotten."""

_ROW_FIELDS = (
    *("state", "answer", "leader", "progress", "confidence", "tests", "cost", "pending", "waiting"),
    *("guarantee", "void_because", "answered", "claim", "decided"),
)
"""What the list of studies shows of a `Status`."""

_ARMS_AT_ONCE = 2_000
"""Arms of a large study that are made into JSON in one go."""

_LONG_READ = 0.25
_MOST_LOGS = 8

MOST_SIMULATED = 100_000
"""Streams times runs of a forecast by default: a large study is simulated less often."""


MOST_IN_PASSING = 50_000
"""Results that may be read while a request is answered. If there are more, see `BacklogTooLong`."""


class BacklogTooLong(Exception):
    """The study has too many new results to read while other requests wait: see `SharedStudy.catch_up`."""


class Snapshot:
    """Where a study stood at a version: its line in the list of studies, and everything, which of a large study is made
    into JSON only if it is looked at."""

    def __init__(self, version: Version, row: dict[str, Any], seconds: float, whole: Callable[[], dict[str, Any]]):
        self.version, self.row = version, row
        self.seconds = seconds
        """How long it took to compute."""
        self.whole = whole
        """Makes everything, for `json_bytes`."""

    @functools.cached_property
    def body(self) -> bytes:
        """Everything as JSON."""
        whole, most = self.whole(), _ARMS_AT_ONCE
        arms = whole.pop("arms")
        # Making JSON lets no other thread work, so it is made in pieces.
        pieces = [json_bytes(arms[k : k + most])[1:-1] for k in range(0, len(arms), most)]
        return b"".join((json_bytes(whole)[:-1], b',"arms":[', b",".join(pieces), b"]}"))

    @functools.cached_property
    def zipped(self) -> bytes:
        return gzip.compress(self.body, compresslevel=3)


class _KnownOutlook(NamedTuple):
    """A forecast, and until when it is shown although there are newer results."""

    fresh_until: float
    outlook: Outlook


class SharedStudy(Study):
    """A study for many clients. Shared work takes its lock; long work happens outside it."""

    def __init__(self, storage: Storage, record: StudyRecord) -> None:
        super().__init__(storage, record)
        self._client = threading.local()
        self._has_several = any(len(metrics) > 1 for metrics in self.plan.yields.values())
        self._looked = time.monotonic()
        self._snapshot: Snapshot | None = None
        self._logs: dict[int, tuple[float, float, list[Event]]] = {}
        self._forecasting = threading.Lock()
        self._room = _MOST_HANDED

    def _restart(self) -> None:
        super()._restart()
        self._outlook: _KnownOutlook | None = None

    @contextlib.contextmanager
    def on_behalf_of(self, holder: str, key: str | None = None) -> Iterator[None]:
        """Within this context, the thread acts for `holder`, on the current entry, and once for each `key`."""
        if time.monotonic() - self._looked > _LOOK_EVERY:
            self._look_without_waiting()
        self._client.holder, self._client.key = holder, key
        try:
            yield
        finally:
            self._client.holder = self._client.key = None

    def _look_without_waiting(self) -> None:
        """As `_look`, without waiting for the lock. The next computation notices a change in the past."""
        record = self._storage.look(self._record)
        if record is not None and record.revision == self._record.revision:
            self._record = record
        self._looked = time.monotonic()

    @contextlib.contextmanager
    def without_long_reads(self) -> Iterator[None]:
        """Within this context, the thread raises `BacklogTooLong` if there are too many new results to read."""
        self._client.room = MOST_IN_PASSING
        try:
            yield
        finally:
            self._client.room = math.inf

    def catch_up(self) -> None:
        """Read all new results, however long that takes."""
        with self._lock:
            self._sync()
            # Otherwise the next request for the study would wait for it.
            self._watch.health()

    def _enter(self, entries: Entries) -> None:
        super()._enter(entries)
        room = getattr(self._client, "room", math.inf) - len(entries.ids)
        self._client.room = room
        if room < 0:
            # What has entered stays entered.
            raise BacklogTooLong

    @property
    def entered(self) -> int:
        """The results up to this number are known."""
        return self._decider.entered

    @property
    def holder(self) -> str:
        return getattr(self._client, "holder", None) or "service"

    def _new_request(self) -> str:
        return getattr(self._client, "key", None) or super()._new_request()

    def _note_unanswered(self, request: str | None) -> None:
        # Clients repeat their own requests, under their own keys.
        return

    @property
    def _address(self) -> str:
        # Never leak the storage URL.
        return default_url()

    def find_test(self, named: NamedTest) -> Test | int:
        """The test that a client names. Its arm, metric and item, if given, are checked when it is used."""
        if (named.arm, named.metric, named.item) == (None, None, None):
            return named.test
        here = self._test(self._issued(named.test))
        arm = here.arm if named.arm is None else named.arm
        metric = here.metric if named.metric is None else named.metric
        return Test(named.test, arm, metric, item=named.item)

    def for_each(self, named: Sequence[NamedTest], act: Callable[[Test | int], None]) -> None:
        """Do something with each of the tests, under a key of its own. None is touched if one has a result already."""
        tests, key = [self.find_test(test) for test in named], self._client.key
        if len(tests) > 1:
            self._check_untold(tests)
        for number, test in zip(numbers_of(tests), tests, strict=True):
            if key is not None and len(tests) > 1:
                self._client.key = uuid.uuid5(uuid.NAMESPACE_OID, f"{key} {number}").hex
            act(test)

    def check_told(self, test: Test | int, value: Result) -> None:
        """Raise `InvalidInput` if a value cannot be the result of a test."""
        check_result(self.plan, self._issued(test).metric, value)

    def ask_or_done(self, n: int | None, days: float | None, lease: float | None) -> tuple[list[Test], bool]:
        """Tests to make, up to `n` or those of a block, and whether the study is done."""
        # This process outlives its clients, so it must not keep their tests alive.
        days = math.inf if days is None and lease is None else days
        tests = self.ask_block(days=days, lease=lease) if n is None else self.ask(n, days=days, lease=lease)
        if len(self._handed) > self._room:
            with self._lock:
                settled = self._decider.settled
                handed = list(self._handed.items())  # in one step, since others tell meanwhile
                self._handed = {test: issued for test, issued in handed if test > settled}
                # The remaining ones are not checked again at every ask.
                self._room = max(_MOST_HANDED, 2 * len(self._handed))
        return tests, not tests and self.done

    # ------------------------------------------------------------------------------------------- where it stands

    def snapshot(self) -> Snapshot:
        """Where the study stands now; computed once for every version."""
        with self._lock:
            known = self._snapshot
            if known is not None and self._present_version() == known.version:
                return known
            self._sync()
            self._snapshot = self._take_snapshot(version_of(self._storage, self._record, self._decider.entered))
            return self._snapshot

    def _present_version(self) -> Version | None:
        """The version in the database, by as few and small queries as possible: pollers ask twice a second."""
        record = self._storage.look(self._record)
        if record is None or record.revision != self._record.revision:
            return None
        return version_of(self._storage, record, self._decider.entered)

    def _take_snapshot(self, version: Version) -> Snapshot:
        start = time.perf_counter()
        status, answer, plan, record = self.status(), self.answer, self.plan, self._record
        row = list_row(record, plan) | {name: plain(getattr(status, name)) for name in _ROW_FIELDS}
        row["left"] = len(status.candidates)
        whole = functools.partial(_whole, version, record, plan, status, answer)
        return Snapshot(version, row, time.perf_counter() - start, whole)

    def recent_log(self, last: int) -> list[Event]:
        """The newest events. For a very long study they may be a few seconds old."""
        known = self._logs.get(last)
        if known is not None and time.monotonic() - known[0] < known[1]:
            return known[2]
        start = time.monotonic()
        events = self.log(last)
        took = time.monotonic() - start
        if took > _LONG_READ:
            if len(self._logs) > _MOST_LOGS:
                self._logs.clear()
            self._logs[last] = start + took, 4.0 * took, events
        return events

    def forecast_while(self, is_wanted: Callable[[], bool], runs: int, seed: int) -> Outlook | None:
        """A forecast, given up with `NotWanted` as soon as it is not wanted any more."""
        return self._forecast(runs, seed, is_wanted)

    def usual_forecast(self, is_wanted: Callable[[], bool]) -> Outlook | None:
        """A forecast for all who look at the study. If there are newer results it may be ten seconds old, or ten times
        what it takes; it says which results it knows. A study that has changed in kind gets a new one."""
        with self._forecasting:
            start = time.monotonic()
            with self._lock:
                self._sync()
                if (known := self._outlook) is not None and self._decider.stop is None:
                    is_current = self._timeline.total[0] == known.outlook.after or start < known.fresh_until
                    if is_current and self._forecast_basis() == known.outlook.basis:
                        return known.outlook
            streams = len(self.plan.arms) * len(self.plan.metrics)
            made = self._forecast(min(100, max(10, MOST_SIMULATED // streams)), 0, is_wanted)
            end = time.monotonic()
            self._outlook = None if made is None else _KnownOutlook(end + max(10.0, 10.0 * (end - start)), made)
            return made

    # --------------------------------------------------------------------------------- tests and events as JSON data
    # What only studies with items, or with tests of several metrics, need is left out of the others. Clients that know
    # nothing of it can use those as before.

    def test_data(self, test: Test, **place: int | None) -> dict[str, Any]:
        """A test to make."""
        named = {"id": test.id, "arm": test.arm, "metric": test.metric}
        return named | self._optional(test.metrics, item=test.item, **place)

    def pending_data(self, test: Test, row: Pending) -> dict[str, Any]:
        """A test whose result is out, and who holds it."""
        data = row._asdict()
        return data | self.test_data(test, place=data.pop("item"))

    def waiting_data(self, after: int, limit: int) -> list[dict[str, Any]]:
        """Results that are recorded, and count as soon as those of earlier tests or items, or of the rest of their
        block, do."""
        with self._lock:
            self._sync()
            late = [] if self._is_done else self._recorded_late()
            items = None if self._is_done else self._items
            held = items.held(self._reached) if isinstance(items, MeasuredItems) else []
        rows = sorted([*((row, True) for row in held), *((row, False) for part in late for row in part.results())])
        found = itertools.islice((pair for pair in rows if pair[0].id > after), limit)
        return [self._waiting_row(row, is_held) for row, is_held in found]

    def _waiting_row(self, row: ResultRow, is_held: bool) -> dict[str, Any]:
        test = self._test(Issued(row.id, row.arm, row.metric, row.item))
        values = dict(zip(test.metrics, map(as_told, row.values), strict=True))
        return self.test_data(test, place=row.item) | {"values": values} | ({"held": True} if is_held else {})

    def event_data(self, event: Event) -> dict[str, Any]:
        """A line of the log."""
        plan, data = self.plan, event._asdict()
        del data["more"], data["item"]
        data["value"] = None if event.value is None else as_told(event.value)
        data["arm"] = None if event.arm is None else plan.arm_names[event.arm]
        data["metric"] = None if event.metric is None else plan.test_names[event.metric]
        metrics = () if event.metric is None else plan.yields[event.metric]
        if self._has_several:
            numbers = [] if event.value is None else [as_told(value) for value in (event.value, *event.more)]
            told = dict(zip(metrics, numbers, strict=True)) if numbers else None
            data |= {"value": data["value"] if len(metrics) < 2 else None, "values": told}
        return data | self._optional(metrics, item=self.item_name(event.item), place=event.item)

    def _optional(self, metrics: Sequence[str], **item: str | int | None) -> dict[str, Any]:
        several = {"metrics": list(metrics)} if self._has_several else {}
        return several | (item if self.plan.items is not None else {})


def _whole(version: Version, record: StudyRecord, plan: Plan, status: Status, answer: Answer | None) -> dict[str, Any]:
    """Everything about a study, as `models.StudyStatus` describes it."""
    conclusion = None
    if answer is not None:
        conclusion = answer.to_dict() | {"warnings": list(status.health.through("file").warnings)}
        # Every arm has its reason under `arms`.
        del conclusion["reasons"]
    return {
        "id": record.key,
        "version": str(version),
        **shown_fields(status),
        "plan": plan.to_data(),
        "question": question(plan),
        "about_tests": about_tests(plan),
        "measured": [
            {
                "name": plan.test_names[lead],
                "metrics": list(metrics),
                "places": [part for part, first in enumerate(plan.leads) if first == lead],
                "cost": plan.costs[lead],
            }
            for lead, metrics in plan.yields.items()
        ],
        "results": _result_words(plan),
        "about_intervals": about_intervals(plan, brief=True),
        "about_means": about_means(plan),
        "answer_text": None if answer is None else str(answer),
        "conclusion": conclusion,
        "created": record.created,
        "archived": record.archived,
        "project": record.project,
    }


def _result_words(plan: Plan) -> dict[str, dict[str, Any]]:
    """What to type for each metric, what the plan assumes about it, and its range."""
    words: dict[str, dict[str, Any]] = {}
    for part in plan.parts:
        known = words.get(part.metric)
        sentence, hint = part.noise.sentence(), part.noise.value_hint()
        if isinstance(part, Constraint) and part.per is not None:
            sentence, hint = f"{part.formula}: {sentence}", "number"
            positive = {"hint": "positive number", "sentence": "each measurement is positive", "low": 0.0, "high": None}
            words.setdefault(part.per, positive)
        if known is None:
            low, high = plain(part.noise.value_range)
            words[part.metric] = {"hint": hint, "sentence": sentence, "low": low, "high": high}
            if meaning := kind_of(plan, part.metric).words:
                words[part.metric]["words"] = dict(meaning)
        elif sentence not in known["sentence"]:
            known["sentence"] += f"; {sentence}"
    for judge, parts in plan.judged.items():
        kind, whose = kind_of(plan, judge), plan.parts[parts[0]].metric
        low, high = exact(kind.low), exact(kind.high)
        sentence = f"each score lies between {low} and {high}, on the scale of {whose}"
        words[judge] = {"hint": f"{low} to {high}", "sentence": sentence, "low": kind.low, "high": kind.high}
    return words


def list_row(record: StudyRecord, plan: Plan | None, error: str | None = None) -> dict[str, Any]:
    """A study's line in the list of studies, with what its results say left open, or why it cannot be read."""
    row: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(StudyLine))
    row |= {"id": record.key, "name": record.name, "created": record.created, "archived": record.archived}
    row |= {"project": record.project}
    row |= {"answered": [], "claim": "", "decided": "", "void_because": [], "error": error}
    if plan is not None:
        objective = plan.objective
        row |= {"delta": plan.delta, "policy": plan.policy, "objective": objective.metric, "arms": len(plan.arms)}
        row |= {"metrics": len(plan.metrics), "tolerance": objective.tolerance, "slack": bool(plan.slacks)}
        row |= {"arm_word": plan.arm_word}
    return row
