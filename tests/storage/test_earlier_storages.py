"""A storage written when a test had one value goes on working for studies whose tests have one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.storage.problem import DELTA, measure, problem

import bestarm as ba
from bestarm.storage.base import Entries, Event, History, Outcome
from bestarm.storage.sql.storage import SQLStorage
from bestarm.testing.storages import MakeStorage, arriving, telling

MODULES = (arriving, telling)
CHECKS = [check for module in MODULES for name, check in vars(module).items() if name.startswith("check_")]


class Earlier(SQLStorage):
    """Takes and returns what storages did before there were several values and items, and nothing else."""

    def tell(self, key: int, test: int, value: float, holder: str) -> Outcome | None:  # type: ignore[override]
        return super().tell(key, test, value, holder)

    def tell_many(self, key: int, results: Sequence[tuple[int, float]], holder: str) -> dict[int, Outcome]:  # type: ignore[override]
        return super().tell_many(key, [(test, value) for test, value in results], holder)

    def correct(self, key: int, test: int, value: float, holder: str, reason: str) -> Outcome:  # type: ignore[override]
        return super().correct(key, test, value, holder, reason)

    def give(  # type: ignore[override]
        self,
        key: int,
        results: Sequence[tuple[int, int, float]],
        holder: str,
        source: str,
        ends: Collection[int] = (),
        *,
        request: str = "",
    ) -> Sequence[int]:
        rows = [(arm, metric, value) for arm, metric, value in results]
        return super().give(key, rows, holder, source, ends, request=request)

    def hand_out(self, key: int, *words: Any, **named: Any) -> list[Any]:
        count, holder, lease, settled, plan_rounds = words

        def plan(count: int) -> list[list[tuple[int, int]]]:
            return [[(arm, metric) for arm, metric in tests] for tests in plan_rounds(count)]

        return super().hand_out(key, count, holder, lease, settled, plan, **named)

    def entries(self, key: int, after: int, *, gaps: bool = False) -> Iterator[Entries]:
        return (_without(part) for part in super().entries(key, after, gaps=gaps))

    def arrivals(self, key: int, after: int) -> Iterator[Entries]:
        return (_without(part) for part in super().arrivals(key, after))

    def history(self, key: int) -> Iterator[History]:
        return (History(*test[:7]) for test in super().history(key))

    def log(self, key: int, last: int | None = None) -> list[Event]:
        return [Event(*event[:8]) for event in super().log(key, last)]


def _without(part: Entries) -> Entries:
    columns: tuple[Any, ...] = part[:8]
    return Entries(*columns)


@pytest.mark.parametrize("check", CHECKS)
def test_what_it_did_it_still_does(check: Callable[[MakeStorage], None], tmp_path: Path) -> None:
    check(lambda: Earlier(str(tmp_path / "studies.db"), create=True))


@pytest.mark.parametrize("order", ["issue", "arrival"])
def test_a_study_of_single_metrics(order: Literal["issue", "arrival"], tmp_path: Path) -> None:
    storage = Earlier(str(tmp_path / "studies.db"), create=True)
    stated = problem()
    plan = ba.Plan(stated.arms, stated.objective, stated.constraints, name="single", delta=DELTA, order=order)
    study = ba.Study.create(plan, storage=storage)
    study.add([("safe", "gain", 2.5)])
    first, *rest = study.ask(3)
    study.tell(first, 100.0)
    study.correct(first, measure(first), "typing")
    study.tell_many([(test, measure(test)) for test in rest])
    while not study.done:
        for test in study.ask(50):
            study.tell(test, measure(test))
    assert study.answer is not None
    assert study.answer.arm == "safe"
    assert len(list(study.log())) > study.status().tests
    storage.close()
