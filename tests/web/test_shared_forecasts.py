"""The forecast that a service has at hand: it says which results it knows, and is dropped when it is about another
study than the one that is shown."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import bestarm as ba
from bestarm.analysis.status.outlook import Outlook
from bestarm.analysis.status.status import age_words, is_about, progress_lines
from bestarm.web import shared
from bestarm.web.shared import SharedStudy

Clock = Callable[[float], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Time passes only when it is told to."""
    now = [0.0]

    def forward(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(shared, "time", SimpleNamespace(monotonic=lambda: now[0], perf_counter=time.perf_counter))
    monkeypatch.setattr(shared, "MOST_SIMULATED", 1)
    return forward


def plan(**more: Any) -> ba.Plan:
    limits = [ba.at_most("harm", 0.0, noise=ba.Gaussian(1.0))]
    return ba.Plan(
        arms=["a", "b", "c"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)), constraints=limits, **more
    )


def measure(study: ba.Study, tests: int, gap: float = 0.3) -> None:
    rng, made = random.Random(study.status().tests), 0
    while made < tests and (asked := study.ask(tests - made)):
        for test in asked:
            study.tell(test, rng.gauss(gap * (test.arm == "a") if test.metric == "gain" else -0.4, 1.0))
        made += len(asked)


def usual(study: SharedStudy) -> Outlook:
    found = study.usual_forecast(lambda: True)
    assert found is not None
    return found


def opened(tmp_path: Path, **more: Any) -> tuple[ba.Study, SharedStudy]:
    study = ba.Study.create(plan(**more), storage=tmp_path / "studies.db")
    return study, SharedStudy(study.storage, study.record)


def test_a_forecast_beside_newer_results_says_how_many_it_does_not_know(tmp_path: Path, clock: Clock) -> None:
    study, service = opened(tmp_path)
    measure(study, 48)
    first = usual(service)
    assert (first.state, first.after) == ("simulated", 48)
    assert age_words(first, study.status()) == ""
    measure(study, 5)
    clock(9.0)
    assert usual(service) is first
    status = json.loads(service.snapshot().body)
    # What the page shows: this many results that the forecast does not know.
    assert status["tests"] - status["waiting"] - first.after == 5
    assert dict(progress_lines(study.status(), first))["forecast"].endswith(" (forecast of 5 results ago)")
    clock(1000.0)
    again = usual(service)
    assert again.after == 53
    assert age_words(again, study.status()) == ""
    clock(1000.0)
    # There is nothing new to know.
    assert usual(service) is again


def amended(study: ba.Study) -> None:
    study.extend(tests=1)


def corrected(study: ba.Study) -> None:
    study.correct(3, 0.5, "misread")


def spent(study: ba.Study) -> None:
    measure(study, 100)
    assert study.status().state == "budget_spent"


def without_an_arm(study: ba.Study) -> None:
    study.retire("c")


@pytest.mark.parametrize("change", [amended, corrected, spent, without_an_arm])
def test_a_forecast_of_a_study_that_has_changed_in_kind_is_dropped(
    tmp_path: Path, clock: Clock, change: Callable[[ba.Study], None]
) -> None:
    study, service = opened(tmp_path, budget=ba.Budget(tests=50), reserve=0.2)
    measure(study, 48)
    first = usual(service)
    assert is_about(first, study.status())
    change(study)
    status = study.status()
    assert not is_about(first, status)
    assert "simulated" not in str(progress_lines(status, first))
    found = service.usual_forecast(lambda: True)
    assert found is not first
    assert found is None or found.basis == status.basis == json.loads(service.snapshot().body)["basis"]


def test_a_study_with_an_answer_has_no_forecast(tmp_path: Path, clock: Clock) -> None:
    study, service = opened(tmp_path)
    measure(study, 48)
    first = usual(service)
    measure(study, 5_000, gap=4.0)
    assert study.done
    assert service.usual_forecast(lambda: True) is None
    assert not is_about(first, study.status())
