"""Studies against a simple model: whatever is asked, told, failed, lost and corrected, in any order, by two holders."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.lengths import at_length

import bestarm as ba
from bestarm.storage.sql.storage import SQLStorage

ARMS = ("a", "b")
METRICS = ("gain", "risk")
HOLDERS = st.sampled_from(["ann", "bob"])
VALUES = st.sampled_from([-3.0, -0.5, 0.25, 4.0])
LEASES = st.sampled_from([1.0, 10.0, 1000.0, math.inf])
PICKS = st.lists(st.integers(0, 10**6), max_size=4)


@dataclass
class Entry:
    """What the model knows of a test."""

    arm: str
    metric: str
    holder: str = ""
    expires: float = 0.0
    lease: float = 0.0
    silent: float | None = None
    aside: str | None = None
    former: set[str] = field(default_factory=set)
    outcomes: list[float | None] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        return bool(self.outcomes)

    def is_lost_to(self, holder: str) -> bool:
        """Whether it has another holder now, so that `holder` can no longer tell it."""
        return not self.is_settled and holder in self.former

    def let_go(self) -> None:
        self.expires, self.silent, self.aside = 0.0, None, None


class StudyMachine(RuleBasedStateMachine):
    """Two holders work on one study with a clock of ours; the model is a list of tests."""

    policy = "certify"
    order: Literal["issue", "arrival"] = "issue"

    def __init__(self) -> None:
        super().__init__()
        self.closing = contextlib.ExitStack()
        # In memory where that can be had: it is not the disk's durability that is tested here.
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folder = self.closing.enter_context(tempfile.TemporaryDirectory(dir=shared))
        self.path = str(Path(folder, "studies.db"))
        self.now = 1000.0
        self.model: list[Entry] = []
        self.arrived: list[int] = []
        self.corrections = 0
        self.studies: dict[str, ba.Study] = {}

    def teardown(self) -> None:
        if self.studies:
            self.evidence_is_what_is_complete()
        for study in self.studies.values():
            study.storage.close()
        self.closing.close()

    def _storage(self) -> SQLStorage:
        storage = SQLStorage(self.path, create=True)
        storage._database.clock = lambda: self.now
        return storage

    def _entry(self, pick: int) -> tuple[int, Entry]:
        number = pick % len(self.model)
        return number + 1, self.model[number]

    def _free(self) -> list[int]:
        """The tests to hand out again: free ones, and those of holders who are gone."""
        free = []
        for k, test in enumerate(self.model):
            if test.is_settled or test.expires > self.now:
                continue
            if test.expires > 0.0 and test.silent is None:
                test.silent = self.now
            if test.silent is None or test.silent + test.lease / 2 <= self.now:
                free.append(k + 1)
        return free

    def _tell(self, number: int, value: float | None) -> None:
        entry = self.model[number - 1]
        if not entry.is_settled:
            entry.outcomes = [value]
            self.arrived.append(number)

    # ------------------------------------------------------------------------------------------------- rules

    @initialize()
    def create(self) -> None:
        plan = ba.Plan(
            arms=tuple(ba.Arm(name) for name in ARMS),
            objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
            constraints=(ba.at_most("risk", 0.0, noise=ba.Gaussian(1.0)),),
            delta=0.1,
            policy=self.policy,
            order=self.order,
        )
        ba.Study.create(plan, storage=self._storage())
        for holder in ("ann", "bob"):
            self.reopen(holder)

    @rule(holder=HOLDERS)
    def reopen(self, holder: str) -> None:
        if holder in self.studies:
            self.studies[holder].storage.close()
        self.studies[holder] = ba.Study.open("study", storage=self._storage(), holder=holder)

    @rule(seconds=st.sampled_from([0.5, 2.0, 50.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(holder=HOLDERS, count=st.integers(1, 6), lease=LEASES)
    def ask(self, holder: str, count: int, lease: float) -> None:
        study = self.studies[holder]
        terms: dict[str, Any] = {"days": math.inf} if lease == math.inf else {"lease": lease}
        if study.done:
            assert study.ask(count, **terms) == []
            return
        free = self._free()[:count]
        tests = study.ask(count, **terms)
        # Free tests go first; then come new ones, numbered in order.
        assert len(tests) <= count
        assert [test.id for test in tests[: len(free)]] == free
        new = tests[len(free) :]
        assert [test.id for test in new] == [len(self.model) + k for k in range(1, len(new) + 1)]
        self.model += [Entry(test.arm, test.metric) for test in new]
        if not tests:
            assert any(not test.is_settled for test in self.model), "there is nothing to wait for"
        for test in tests:
            entry = self.model[test.id - 1]
            assert (entry.arm, entry.metric) == (test.arm, test.metric)
            if entry.holder not in ("", holder):
                entry.former.add(entry.holder)
            entry.former.discard(holder)
            entry.let_go()
            entry.holder, entry.expires, entry.lease = holder, self.now + lease, lease

    @precondition(lambda self: self.model)
    @rule(holder=HOLDERS, pick=st.integers(0, 10**6), value=VALUES)
    def tell(self, holder: str, pick: int, value: float) -> None:
        number, entry = self._entry(pick)
        if (entry.is_settled and entry.outcomes[-1] != value) or entry.is_lost_to(holder):
            with pytest.raises(ba.AlreadyTold):
                self.studies[holder].tell(number, value)
        else:
            self.studies[holder].tell(number, value)
            self._tell(number, value)

    @rule(holder=HOLDERS, picks=PICKS, value=VALUES)
    def tell_many(self, holder: str, picks: list[int], value: float) -> None:
        chosen = [self._entry(pick) for pick in picks] if self.model else []
        results = [(number, value) for number, _ in chosen]
        if any((e.is_settled and e.outcomes[-1] != value) or e.is_lost_to(holder) for _, e in chosen):
            with pytest.raises(ba.AlreadyTold):
                self.studies[holder].tell_many(results)
        else:
            self.studies[holder].tell_many(results)
            for number, _ in chosen:
                self._tell(number, value)

    @rule(holder=HOLDERS, value=VALUES)
    def tell_all_that_is_held(self, holder: str, value: float) -> None:
        """So that studies get somewhere."""
        for k, entry in enumerate(self.model):
            if entry.holder == holder and not entry.is_settled:
                self.studies[holder].tell(k + 1, value)
                self._tell(k + 1, value)

    @rule(holder=HOLDERS)
    def tell_what_is_true(self, holder: str) -> None:
        """Everything pending, with values that lead to an answer."""
        for k, entry in enumerate(self.model):
            if not entry.is_settled and not entry.is_lost_to(holder):
                value = -2.0 if entry.metric == "risk" else 5.0 if entry.arm == "a" else 0.0
                self.studies[holder].tell(k + 1, value)
                self._tell(k + 1, value)

    @precondition(lambda self: self.model)
    @rule(holder=HOLDERS, pick=st.integers(0, 10**6))
    def fail(self, holder: str, pick: int) -> None:
        number, entry = self._entry(pick)
        self.studies[holder].fail(number, "exit status 1")
        if holder not in entry.former:
            entry.let_go()

    @precondition(lambda self: self.model)
    @rule(holder=HOLDERS, pick=st.integers(0, 10**6), kind=st.sampled_from(["failed", "timed out", "refused"]))
    def set_aside(self, holder: str, pick: int, kind: Literal["failed", "timed out", "refused"]) -> None:
        number, entry = self._entry(pick)
        self.studies[holder].set_aside(number, "out of ink", kind=kind)
        if entry.holder == holder and entry.expires > 0.0:
            entry.expires, entry.silent, entry.aside = math.inf, None, kind

    @precondition(lambda self: self.model)
    @rule(holder=HOLDERS, pick=st.integers(0, 10**6))
    def abandon(self, holder: str, pick: int) -> None:
        number, entry = self._entry(pick)
        if (entry.is_settled and entry.outcomes[-1] is not None) or entry.is_lost_to(holder):
            with pytest.raises(ba.AlreadyTold):
                self.studies[holder].abandon(number, "broke")
        else:
            self.studies[holder].abandon(number, "broke")
            self._tell(number, None)

    @rule(holder=HOLDERS, picks=PICKS)
    def release(self, holder: str, picks: list[int]) -> None:
        chosen = [self._entry(pick) for pick in picks] if self.model else []
        self.studies[holder].release([number for number, _ in chosen])
        for _, entry in chosen:
            if holder not in entry.former:
                entry.let_go()

    @rule(holder=HOLDERS, picks=PICKS, lease=LEASES.filter(math.isfinite))
    def renew(self, holder: str, picks: list[int], lease: float) -> None:
        chosen = [self._entry(pick) for pick in picks] if self.model else []
        self.studies[holder].renew([number for number, _ in chosen], lease)
        for _, entry in chosen:
            if entry.holder == holder and entry.expires > 0.0 and entry.aside is None:
                entry.expires, entry.lease, entry.silent = self.now + lease, lease, None

    @precondition(lambda self: self.model)
    @rule(holder=HOLDERS, pick=st.integers(0, 10**6), value=VALUES)
    def correct(self, holder: str, pick: int, value: float) -> None:
        number, entry = self._entry(pick)
        if not entry.is_settled:
            with pytest.raises(ba.InvalidInput, match="nothing to correct"):
                self.studies[holder].correct(number, value, "typing")
            return
        self.studies[holder].correct(number, value, "typing")
        if entry.outcomes[-1] != value:
            entry.outcomes.append(value)
            self.corrections += 1

    @rule(
        holder=HOLDERS,
        results=st.lists(st.tuples(st.sampled_from(ARMS), st.sampled_from(METRICS), VALUES), max_size=5),
    )
    def add(self, holder: str, results: list[tuple[str, str, float]]) -> None:
        ids = self.studies[holder].add(results)
        assert ids == [len(self.model) + k for k in range(1, len(results) + 1)]
        self.model += [Entry(arm, metric, outcomes=[value]) for arm, metric, value in results]
        self.arrived += ids

    # -------------------------------------------------------------------------------------------- invariants

    @invariant()
    def the_record_is_the_model(self) -> None:
        for study in self.studies.values():
            storage, key = study.storage, study.record.key
            history = sorted(storage.history(key))
            assert [(row.id, ARMS[row.arm], METRICS[row.metric]) for row in history] == [
                (k + 1, test.arm, test.metric) for k, test in enumerate(self.model)
            ]
            assert [[told.value for told in row.outcomes] for row in history] == [t.outcomes for t in self.model]
            pending = [k for k, test in enumerate(self.model) if not test.is_settled]
            assert [(row.id, row.holder, row.expires, row.aside) for row in storage.pending(key)] == [
                (k + 1, self.model[k].holder, self.model[k].expires, self.model[k].aside) for k in pending
            ]
            by_arrival = [int(test) for part in storage.arrivals(key, 0) for test in part.ids]
            assert by_arrival == (self.arrived if self.order == "arrival" else [])
            record = storage.find_study("study")
            assert record is not None
            assert record.revision == self.corrections

    @rule()
    def evidence_is_what_is_complete(self) -> None:
        """The results before the first that is out, in order, as last corrected; the same for all readers."""
        known = [test for test in self.model if test.is_settled]
        first_gap = next((k for k, test in enumerate(self.model) if not test.is_settled), len(self.model))
        counts = np.zeros((2, 2), int)
        totals = np.zeros((2, 2))
        for test in self.model[:first_gap] if self.order == "issue" else known:
            value = test.outcomes[-1]
            if value is not None:
                counts[ARMS.index(test.arm), METRICS.index(test.metric)] += 1
                totals[ARMS.index(test.arm), METRICS.index(test.metric)] += value
        answers = []
        for study in self.studies.values():
            answers.append((study.answer, study.confidence, study.done))
            decider = study._decider
            if self.order == "issue":
                assert decider.entered == first_gap
            if decider.stop is None:
                assert (decider.policy.streams.counts == counts).all()
                means = decider.policy.streams.means + decider.policy.setting.reference
                assert np.allclose(means[counts > 0], totals[counts > 0] / counts[counts > 0])
            else:
                assert decider.policy.streams.counts.sum() <= counts.sum()
            status = study.status()
            assert status.tests == sum(test.outcomes[-1] is not None for test in known)
            assert status.pending == len(self.model) - len(known)
            assert not math.isnan(status.confidence)
        fresh = ba.Study.open("study", storage=self.studies["ann"].storage)
        answers.append((fresh.answer, fresh.confidence, fresh.done))
        assert answers == [answers[0]] * 3


class EpochMachine(StudyMachine):
    """The same with a policy that sees a whole round before it plans the next."""

    policy = "feasible-lucb"


class ArrivalMachine(StudyMachine):
    """The same with results that count as they arrive."""

    order = "arrival"


_settings = settings(
    max_examples=20 if at_length() else 5,
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
pytestmark = [pytest.mark.torture] if at_length() else []

TestStudy = StudyMachine.TestCase
TestStudy.settings = _settings
TestEpochs = EpochMachine.TestCase
TestEpochs.settings = _settings
TestArrivals = ArrivalMachine.TestCase
TestArrivals.settings = _settings
