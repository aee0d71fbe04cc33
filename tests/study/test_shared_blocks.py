"""Blocks of several processes and several imports: none is shared, mixed, cut short or counted twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.lengths import lengths
from tests.study.plates import MEANS, block_of, measured, plan

import bestarm as ba
from bestarm.answer import BlocksMade
from bestarm.storage.base import Rounds
from bestarm.study.record import checks


def test_a_block_that_comes_free_while_the_next_is_planned_is_handed_out_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ba.Study.create(plan(), name="plates", storage=str(tmp_path / "s.db"), holder="one")
    two = ba.Study.open("plates", storage=str(tmp_path / "s.db"), holder="two")
    first = one.ask_block()
    really = two._plan_rounds

    def plan_while_another_releases(count: int) -> Rounds:
        planned = really(count)
        one.release(first[:3])
        return planned

    monkeypatch.setattr(two, "_plan_rounds", plan_while_another_releases)
    assert two.ask_block() == first[:3]
    monkeypatch.undo()
    second = two.ask_block()
    assert [block_of(test) for test in second] == ["plate 2"] * 12


def test_free_tests_of_two_blocks_are_handed_out_block_by_block() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    first, second = study.ask_block(), study.ask_block()
    study.release([*first[:2], *second[:2]])
    assert study.ask_block() == first[:2]
    assert study.ask(5) == second[:2]


def test_a_block_comes_in_one_go() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    rows = [(arm, "yield", mean, "Monday") for arm, mean in MEANS.items()]
    study.add(rows)
    with pytest.raises(
        ba.InvalidInput, match="item = 'Monday': has been recorded already; all results of a plate come"
    ):
        study.add([(*row[:3], day) for day in ("Tuesday", "Monday") for row in rows])
    study.add([(*row[:3], "Tuesday") for row in rows])
    assert study.status().blocks == BlocksMade("plate", 2)


def test_a_plate_of_the_study_itself_is_not_added_to() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    study.tell_many([(test, measured(test)) for test in study.ask_block()])
    with pytest.raises(
        ba.InvalidInput, match="item = 'plate 1 A1': is the name of a plate that this study has already"
    ):
        study.add([("F1", "yield", 1.0, "plate 1 A1")])


def test_what_is_left_of_a_block_is_not_withdrawn() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    study.ask(5)
    with pytest.raises(ba.InvalidInput, match="7 tests of plate 1 have not been handed out; ask for the rest of it"):
        study.add([("F1", "yield", 1.0, "Monday")])
    assert len(study.ask_block()) == 7
    assert len(study.add([("F1", "yield", 1.0, "Monday")])) == 1


@pytest.mark.parametrize("blocks", lengths(2, checks.MOST_BLOCKS_HELD))
def test_who_has_no_room_for_a_block_is_told(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MOST_BLOCKS_HELD", blocks)
    study = ba.Study.create(plan(blocks=ba.Blocks("plate", size=1536)), storage=":memory:", holder="Ada")
    for _ in range(blocks):
        assert len(study.ask_block()) == 1536
    said = f"Ada holds {1536 * blocks:,} tests without a result, and a holder can hold at most"
    with pytest.raises(ba.InvalidInput, match=said):
        study.ask_block()


def test_a_worker_gives_up_what_is_left_of_another_machines_block(tmp_path: Path) -> None:
    rng = random.Random(1)
    other = ba.Study.create(
        plan(), name="plates", storage=str(tmp_path / "s.db"), seed=1, items_seed=2, holder="crashed"
    )
    tests = other.ask_block()
    other.tell_many([(test, measured(test)) for test in tests[:5]])
    other.release(tests[5:])
    answer = ba.identify(
        plan(name="plates"),
        lambda arm, metric: MEANS[arm] + rng.gauss(0.0, 1.0),
        storage=str(tmp_path / "s.db"),
    )
    assert answer.arm == "F3"
    given_up = [event for event in other.log() if event.kind == "dropped"]
    assert [event.test for event in given_up] == [test.id for test in tests[5:]]
    assert {event.detail for event in given_up} == {"the block was begun elsewhere, and its rest was not made"}
