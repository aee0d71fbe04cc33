"""Budgets of whole blocks: "at most 20 plates"."""

from __future__ import annotations

from typing import Any

import pytest
from tests.study.plates import MEANS, block_of, measured, plan

import bestarm as ba
from bestarm.policies import find_policy
from bestarm.simulation.engine import Job

FIVE = ["F1", "F2", "F3", "F4", "F5"]


def two_plates(**fields: Any) -> ba.Study:
    limited = plan(arms=FIVE, budget=ba.Budget(blocks=2), **fields)
    return ba.Study.create(limited, storage=":memory:", seed=1, items_seed=2)


def tell(study: ba.Study) -> int:
    tests = study.ask_block()
    study.tell_many([(test, measured(test) if test.arm in MEANS else 0.0) for test in tests])
    return len(tests)


def test_a_study_ends_after_so_many_whole_blocks_however_many_tests_they_have() -> None:
    study = two_plates()
    # Five arms, twice each, in 12 wells.
    assert [tell(study), tell(study)] == [10, 10]
    assert study.done
    assert study.ask_block() == []
    assert str(study.answer).startswith("not certified: the budget is spent after 2 of 2 plates (20 tests)")
    assert "2 of 2 plates with all results" in str(study.status())
    assert study.status().to_dict()["blocks"] == {"name": "plate", "made": 2, "allowed": 2}
    assert study.extend(blocks=1) == ba.Budget(blocks=3)
    assert tell(study) == 10
    assert study.done
    assert any("budget: 3 blocks instead of 2" in (event.detail or "") for event in study.log())


def test_blocks_that_are_out_count_and_those_without_a_result_do_not() -> None:
    study = two_plates()
    first, second = study.ask_block(), study.ask_block()
    assert study.ask_block() == []
    for test in first:
        study.abandon(test, "the plate was dropped")
    study.tell_many([(test, 0.0) for test in second])
    assert not study.done
    third = study.ask_block()
    assert {block_of(test) for test in third} == {"plate 3"}
    study.tell_many([(test, 0.0) for test in third])
    assert study.done


def test_what_remains_is_simulated_within_the_blocks_that_are_left() -> None:
    study = ba.Study.create(plan(budget=ba.Budget(blocks=9)), storage=":memory:", seed=3, items_seed=3)
    close = {"F3": 2.5, "F2": 2.5, "F1": 0.0, "F4": -0.3}
    for _ in range(8):
        study.tell_many([(test, measured(test) - MEANS[test.arm] + close[test.arm]) for test in study.ask_block()])
    assert not study.done
    outlook = study.forecast(runs=10)
    assert outlook is not None
    assert outlook.median_tests == float("inf") or outlook.median_tests <= 12


def test_simulated_studies_end_after_as_many_blocks_in_both_engines() -> None:
    truth = [ba.Arm(name, {"yield": 0.0}, spreads={"yield": 1.0}) for name in FIVE]
    limited = plan(arms=truth, budget=ba.Budget(blocks=3))
    job = Job.of(limited, find_policy("certify"), seed=1, max_tests=10**6)
    assert job.simulate(0, 3).outcomes.tests.tolist() == [30] * 3
    assert job.interpret(0, 3).outcomes.tests.tolist() == [30] * 3
    # More blocks than a world has room for at first.
    longer = Job.of(plan(arms=truth, budget=ba.Budget(blocks=200)), find_policy("certify"), seed=1, max_tests=10**6)
    assert longer.simulate(0, 1).outcomes.tests.tolist() == [2000]
    assert "stopped at 3 plates; means include them" in str(ba.simulate(limited, runs=3, seed=1))


def test_a_budget_of_blocks_needs_blocks() -> None:
    with pytest.raises(ba.InvalidInput, match=r"budget.blocks = 20: needs blocks"):
        plan(blocks=None, budget=ba.Budget(blocks=20))
    with pytest.raises(ba.InvalidInput, match=r"blocks = 2\.5: must be a whole number"):
        ba.Budget(blocks=2.5)
    study = ba.Study.create(plan(budget=ba.Budget(tests=24)), storage=":memory:")
    with pytest.raises(ba.InvalidInput, match="the study's budget is one of tests; extend that"):
        study.extend(blocks=1)


def test_a_study_file_and_a_plan_say_the_same() -> None:
    limited = plan(budget=ba.Budget(blocks=20))
    assert "[budget]\nblocks = 20.0\n" in limited.to_toml()
    assert ba.Plan.from_toml(limited.to_toml()) == limited
    assert ba.Problem(arms=["a", "b"], objective=limited.objective, blocks=limited.blocks).with_budget(
        blocks=20
    ).budget == ba.Budget(blocks=20)
