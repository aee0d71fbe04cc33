"""Arms that come later and are retired in studies on items and in blocks."""

from __future__ import annotations

import dataclasses
import io
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.study.test_amending import MEANS, answer_of, history, plan, standing

import bestarm as ba
from bestarm.study.files.exchange import import_results, write_csv

ON_ITEMS: dict[str, dict[str, Any]] = {
    "set": {"items": 50},
    "repeats": {"items": 5, "repeats": True},
    "blocks": {"blocks": ba.Blocks("day", 6)},
}


def on_items(kind: str) -> ba.Plan:
    both = (ba.measurement("gain", "risk"),)
    return dataclasses.replace(plan(), measurements=both, delta=0.1, **ON_ITEMS[kind])


def measure_some(study: ba.Study, rounds: int = 10**6) -> None:
    """What an arm gives on an item of a set is always the same."""
    for _ in range(rounds):
        if study.done:
            return
        for test in study.ask(1):
            rng = random.Random(f"{test.arm} {test.item if study.plan.items == 50 else test.id}")
            study.tell(
                test, {metric: rng.gauss(mean, 1.0) for metric, mean in zip(test.metrics, MEANS[test.arm], strict=True)}
            )


@pytest.mark.parametrize("kind", ON_ITEMS)
def test_arms_come_and_go_on_items_and_in_blocks(kind: str, tmp_path: Path) -> None:
    storage = tmp_path / "studies.db"
    study = ba.Study.create(on_items(kind), storage=storage, seed=1, items_seed=2 if kind != "blocks" else None)
    measure_some(study, 36)
    given_up = study.ask(1) if kind != "blocks" else []
    for test in given_up:
        study.abandon(test, "the power failed")
    places = [row.item for row in history(study)]
    study.add_arms(["d"])
    later = study.plan.arms[3]
    # An item that was handed out counts as met, whatever came of it.
    assert later.since == (0 if kind == "blocks" else 1 + max(places))
    [test] = study.ask(1)
    assert test.arm == "d" or kind == "blocks"
    other = ba.Study.open("study", storage=storage)
    assert standing(other) == standing(study)
    for test, _ in study.pending():
        study.abandon(test, "the power failed again")
    measure_some(study, 40)
    outlook = study.forecast(runs=3)
    assert outlook is None or math.isfinite(outlook.median_tests) or outlook.state == "too early"
    measure_some(study)
    assert answer_of(study).arm == "d"
    first = min(row.item for row in history(study) if row.arm == 3)
    assert first == {"set": 0, "repeats": later.since}.get(kind, first)
    study.retire("d")
    study.add_arms(["e"])
    measure_some(study)
    assert answer_of(study).arm == "b"
    assert standing(ba.Study.open("study", storage=storage)) == standing(study)
    text = io.StringIO()
    write_csv(study, text)
    copy = ba.Study.create(study.plan, storage=":memory:", seed=1, items_seed=2 if kind != "blocks" else None)
    import_results(copy, text.getvalue().encode(), "export.csv")
    assert answer_of(copy).arm == "b"


def test_plans_do_not_change_in_the_middle_of_a_block() -> None:
    """If they did, the rest of the block would depend on what its beginning has shown."""
    study = ba.Study.create(on_items("blocks"), storage=":memory:")
    study.ask(2)
    changes: list[Callable[[], None]] = [lambda: study.add_arms(["d"]), lambda: study.retire("a")]
    for change in changes:
        with pytest.raises(ba.InvalidInput, match=r"must wait: 4 tests of day 1 have not been handed out"):
            change()
    study.ask(4)
    study.add_arms(["d"])
    assert study.plan.arm_names == ("a", "b", "c", "d")
    assert {test.arm for test in study.ask_block()} >= {"d"}


@pytest.mark.parametrize("kind", [*ON_ITEMS, ""])
def test_a_retired_arm_does_not_lead_while_a_new_one_has_no_result(kind: str) -> None:
    study = ba.Study.create(on_items(kind) if kind else plan(), storage=":memory:", seed=1)

    def measure() -> None:
        for test in study.ask_block() if kind == "blocks" else study.ask(6):
            values = dict(zip(("gain", "risk"), MEANS[test.arm], strict=True))
            study.tell(test, values if kind else values[test.metric])

    measure()
    leader = study.status().leader
    assert leader is not None
    study.retire(leader)
    study.add_arms(["d"])
    for _ in range(2):
        status = study.status()
        assert status.leader in {*"abcd"} - {leader}
        assert leader not in status.candidates
        measure()
