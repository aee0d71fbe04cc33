"""Tests of several metrics and of items: a study on a server takes and returns what one that is here does."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lengths import cases

import bestarm as ba
from bestarm.client import Client
from bestarm.storage.errors import SourceTaken
from bestarm.study.intake.names import Test
from bestarm.study.intake.values import RefusedValue
from bestarm.study.study import AlreadyTold, Study
from bestarm.study.work.workers import drive
from bestarm.web.server import running

BOUNDED = ba.Bounded(0.0, 10.0)
MEANS = {"a": {"time": 4.0, "memory": 2.0, "crash": 0.0}, "b": {"time": 1.0, "memory": 3.0, "crash": 0.0}}


def plan(name: str = "trial", **more: Any) -> ba.Plan:
    return ba.Plan(
        arms=list(MEANS),
        objective=ba.minimize("time", noise=BOUNDED),
        constraints=[ba.at_most("memory", 5.0, noise=BOUNDED), ba.at_most("crash", 0.5, noise=ba.Bernoulli())],
        measurements=[ba.measurement("time", "memory", cost=2.0)],
        name=name,
        **{"items": 8} | more,
    )


def result(test: Test) -> float | dict[str, float]:
    """What a test yields; of one metric as a number."""
    values = {metric: MEANS[test.arm][metric] for metric in test.metrics}
    return values if len(values) > 1 else values[test.metric]


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return str(tmp_path / "studies.db")


@pytest.fixture
def client(storage: str) -> Iterator[Client]:
    with running(storage) as url, Client(url) as found:
        yield found


@cases(1)
@pytest.mark.parametrize("more", [{}, {"repeats": True}, {"items": None}], ids=["set", "repeats", "no items"])
def test_a_whole_study_is_decided_as_here(client: Client, more: dict[str, Any]) -> None:
    seeds: dict[str, Any] = {"seed": 3} | ({} if "items" in more else {"items_seed": 4})
    remote, local = client.create(plan(**more), **seeds), Study.create(plan(**more), storage=":memory:", **seeds)
    rng = random.Random(1)
    while not local.done:
        tests = local.ask(5)
        assert remote.ask(5) == tests
        rng.shuffle(tests)
        for test in tests:
            local.tell(test, result(test))
        remote.tell_many([(test, result(test)) for test in tests])
    assert local.answer is not None
    assert local.answer.arm == "b"
    assert remote.answer == local.answer
    assert remote.status() == local.status()
    there, here = (
        {(event.test, event.kind): (event.value, event.more, event.item) for event in study.log()}
        for study in (remote, local)
    )
    assert there == here


def test_the_smaller_operations(client: Client, storage: str) -> None:
    remote = client.create(plan(items=["x", "y", "z"]), items_seed=5)
    local = Study.open("trial", storage=storage)
    assert local.record.items_seed == remote.status().items_seed == 5
    both, alone, *_ = remote.ask(4)
    assert (both.metric, both.metrics) == ("time + memory", ("time", "memory"))
    assert alone.metrics == ("crash",)
    assert both.item == alone.item == local.item_name(0) == remote.item_name(0)
    assert remote.pending() == local.pending()
    remote.tell(both, {"memory": np.float64(2.0), "time": 1})
    remote.tell(both, {"memory": 2.0, "time": 1.0})
    remote.tell(alone.id, {"crash": True})
    with pytest.raises(AlreadyTold, match="has the result time 1, memory 2 already"):
        remote.tell(both, {"memory": 2.0, "time": 2.0})
    remote.correct(both, {"time": 3.0}, "misread")
    other, second = "b" if both.arm == "a" else "a", str(local.item_name(1))
    rows: list[Any] = [
        (both.arm, {"time": 1.0, "memory": 1.0}, second),
        (both.arm, "crash", False, second),
        (other, "time + memory", {"time": 2.0, "memory": 1.0}, second),
    ]
    ids = remote.add(rows, key="once")
    assert remote.add(rows, key="once") == ids
    assert remote.log() == local.log()
    assert [event.more for event in remote.log() if event.test == both.id][-1] == (2.0,)
    assert [remote.item_name(event.item) for event in remote.log(3)] == [second] * 3
    there, here = (dataclasses.replace(study.status(), awaited=None) for study in (remote, local))
    assert repr(there) == repr(here)
    remote.set_aside(remote.pending()[0][0], "out of ink")
    [aside], [same] = remote.unresolved(), local.unresolved()
    assert (aside.item, aside.metric) == (same.item, same.metric)
    assert aside.count_command == f"bestarm tell trial {aside.test} time=VALUE memory=VALUE"
    assert aside == remote.awaited()


def test_frames(client: Client) -> None:
    """Every kind of result, in a frame with a column for each metric and in one with a row for each value."""
    here, there = Study.create(plan(), storage=":memory:", items_seed=5), client.create(plan(), items_seed=5)
    wide = {"arm": ["a", "b"], "item": [3, 4], "time": [1.0, 2.0], "memory": [1.0, 0.5], "crash": [1, 0], "lot": [7, 7]}
    long = {"what": ["b", "b"], "metric": ["crash", "crash"], "value": [0, "1/1"], "item": [1, 2]}
    for study in (here, there):
        assert study.add_frame(wide, ignore=["lot"], key="k") == [1, 2, 3, 4]
        assert study.add_frame(wide, ignore=["lot"], key="k") == [1, 2, 3, 4]
        with pytest.raises(SourceTaken, match="all its 4 results are in this study already; again=True"):
            study.add_frame(wide, ignore=["lot"])
        assert study.add_frame(long, arm="what") == [5, 6]
        with pytest.raises(ba.InvalidInput, match="'lot' is not a metric"):
            study.add_frame(wide, again=True)
    frames = [study.frame(wide=True).drop(columns=["holder", "told"]) for study in (here, there)]
    assert frames[0].equals(frames[1])
    assert [moment.tests for moment in here.course(5)] == [moment.tests for moment in there.course(5)]
    for arm in ("a", "b"):
        assert there.items_left(arm) == here.items_left(arm)
        assert len(here.items_left(arm)) < 8


def test_workers_drive_a_study_on_a_server(client: Client) -> None:
    remote = client.create(plan())
    with ThreadPoolExecutor(2) as pool:
        answer = drive(remote, lambda test, _: pool.submit(result, test), 2)
    assert (answer.arm, answer.state) == ("b", "certified")


Both = Callable[[Any], object]


@cases(3)
@pytest.mark.parametrize(
    ("act", "kind", "field"),
    [
        (lambda study: study.tell(1, {"time": 1.0}), RefusedValue, "value"),
        (lambda study: study.tell(1, {"time": 1.0, "memory": 2.0, "speed": 3.0}), RefusedValue, "value"),
        (lambda study: study.tell(1, {"time": 1.0, "memory": 11.0}), RefusedValue, "value.memory"),
        (lambda study: study.tell(1, 1.0), RefusedValue, "value"),
        (lambda study: study.tell(Test(1, "a", "time"), 1.0), ba.InvalidInput, "test"),
        (lambda study: study.correct(1, {"time": 1.0}, "misread"), ba.InvalidInput, "test"),
        (lambda study: study.add([("a", "time", 1.0, 3)]), ba.InvalidInput, "metric"),
        (lambda study: study.add([("a", {"time": 1.0, "crash": 1.0}, 3)]), ba.InvalidInput, "metric"),
        (lambda study: study.add([("a", {"time": 1.0, "memory": 1.0})]), ba.InvalidInput, "item"),
        (lambda study: study.add([("a", {"time": 1.0, "memory": 1.0}, 9)]), ba.InvalidInput, "item"),
        (lambda study: study.add([("a", "time")]), ba.InvalidInput, "results"),
    ],
)
def test_the_same_error_here_and_there(client: Client, act: Both, kind: type[ba.InvalidInput], field: str) -> None:
    errors = []
    for study in (Study.create(plan(), storage=":memory:"), client.create(plan())):
        study.ask(2)
        with pytest.raises(kind) as raised:
            act(study)
        errors.append(raised.value)
    here, there = errors
    assert str(here) == str(there)
    assert (type(there), there.field) == (kind, field)
    assert here.complaints == there.complaints


def test_names_of_metrics_are_text(client: Client) -> None:
    remote = client.create(plan())
    remote.ask(1)
    with pytest.raises(RefusedValue, match="must have the names of metrics"):
        remote.tell(1, {1: 2.0})  # type: ignore[dict-item]
    with pytest.raises(RefusedValue, match="must be a number"):
        remote.tell(1, {"time": "2.0", "memory": 1.0})
