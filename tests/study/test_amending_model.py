"""Studies whose plan changes at any moment, against a simple model: whatever is asked, told, corrected, extended, added
and retired, in any order, by two holders, the study stands where its record and its present plan say."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.lengths import at_length

import bestarm as ba

HOLDERS = st.sampled_from(["ann", "bob"])
VALUES = st.sampled_from([-3.0, -0.5, 0.25, 4.0])
PICKS = st.integers(0, 10**6)
MOST_ARMS = 5


class AmendedStudy(RuleBasedStateMachine):
    """The model is the plan, and the tests whose results are out."""

    order: Literal["issue", "arrival"] = "issue"

    def __init__(self) -> None:
        super().__init__()
        self.closing = contextlib.ExitStack()
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.path = str(Path(self.closing.enter_context(tempfile.TemporaryDirectory(dir=shared)), "studies.db"))
        self.studies: dict[str, ba.Study] = {}
        self.arms, self.retired, self.allowed, self.changes = ["a", "b"], set[str](), 8, 0
        self.out: dict[int, ba.Test] = {}
        self.told: dict[int, ba.Test] = {}

    def teardown(self) -> None:
        self.everybody_stands_where_record_and_plan_say()
        for study in self.studies.values():
            study.storage.close()
        self.closing.close()

    @initialize()
    def create(self) -> None:
        plan = ba.Plan(
            arms=self.arms,
            objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
            constraints=(ba.at_most("risk", 0.0, noise=ba.Gaussian(1.0)),),
            delta=0.1,
            order=self.order,
            reserve=0.3,
            budget=ba.Budget(tests=self.allowed),
        )
        ba.Study.create(plan, storage=self.path).storage.close()
        for holder in ("ann", "bob"):
            self.reopen(holder)

    @rule(holder=HOLDERS)
    def reopen(self, holder: str) -> None:
        if holder in self.studies:
            self.studies[holder].storage.close()
        self.studies[holder] = ba.Study.open("study", storage=self.path, holder=holder)

    @rule(holder=HOLDERS, count=st.integers(1, 6))
    def ask(self, holder: str, count: int) -> None:
        for test in self.studies[holder].ask(count, lease=10_000.0):
            assert test.arm in self.arms
            assert test.arm not in self.retired
            assert test.id not in self.out
            self.out[test.id] = test
        assert len(self.out) + len(self.told) <= self.allowed

    @precondition(lambda self: self.out)
    @rule(holder=HOLDERS, pick=PICKS, value=VALUES)
    def tell(self, holder: str, pick: int, value: float) -> None:
        number = sorted(self.out)[pick % len(self.out)]
        self.studies[holder].tell(self.out[number], value)
        self.told[number] = self.out.pop(number)

    @precondition(lambda self: self.told)
    @rule(holder=HOLDERS, pick=PICKS, value=VALUES)
    def correct(self, holder: str, pick: int, value: float) -> None:
        number = sorted(self.told)[pick % len(self.told)]
        self.studies[holder].correct(self.told[number], value, "typing")

    @rule(holder=HOLDERS, more=st.integers(1, 12))
    def extend(self, holder: str, more: int) -> None:
        self.allowed += more
        self.changes += 1
        assert self.studies[holder].extend(tests=more) == ba.Budget(tests=self.allowed)

    @precondition(lambda self: len(self.arms) < MOST_ARMS)
    @rule(holder=HOLDERS)
    def add_arm(self, holder: str) -> None:
        self.arms.append(f"later {len(self.arms)}")
        self.changes += 1
        self.studies[holder].add_arms(self.arms[-1:])

    @rule(holder=HOLDERS, pick=PICKS)
    def retire(self, holder: str, pick: int) -> None:
        name = self.arms[pick % len(self.arms)]
        if name in self.retired or len(self.retired) == len(self.arms) - 1:
            with pytest.raises(ba.InvalidInput, match=r"is retired already|is the last one left"):
                self.studies[holder].retire(name)
            return
        self.studies[holder].retire(name, "no reason")
        self.retired.add(name)
        self.changes += 1
        for number in [number for number, test in self.out.items() if test.arm == name]:
            with pytest.raises(ba.InvalidInput, match="is retired"):
                self.studies[holder].tell(self.out.pop(number), 0.0)

    @rule()
    def everybody_stands_where_record_and_plan_say(self) -> None:
        if not self.studies:
            return
        fresh = ba.Study.open("study", storage=self.path, holder="ann")
        with contextlib.closing(fresh.storage):
            expected = _standing(fresh)
            events = fresh.log()
        for study in self.studies.values():
            assert _standing(study) == expected
            assert [arm.name for arm in study.plan.arms] == self.arms
            assert {arm.name for arm in study.plan.arms if arm.retired} == self.retired
            assert study.plan.max_tests == self.allowed
            assert {test.id for test, _ in study.pending()} == self.out.keys()
        assert sum(event.kind == "amended" for event in events) == self.changes


def _standing(study: ba.Study) -> Any:
    return repr(study.status()), study._decider.next_round(), study.done


class ByArrival(AmendedStudy):
    order = "arrival"


_settings = settings(
    max_examples=15 if at_length() else 2,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
pytestmark = [pytest.mark.torture] if at_length() else []

TestAmended = AmendedStudy.TestCase
TestAmended.settings = _settings
TestAmendedByArrival = ByArrival.TestCase
TestAmendedByArrival.settings = _settings
