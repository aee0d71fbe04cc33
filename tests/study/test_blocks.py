"""Studies in blocks: asked for as a whole, entered as a whole, compared within."""

from __future__ import annotations

import dataclasses
import io
import math
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import examples
from tests.study.plates import MEANS, PLATE, block_of, finish, measured, plan

import bestarm as ba
from bestarm.analysis.status.blocks import about_means
from bestarm.policies import find_policy
from bestarm.simulation.engine import Job
from bestarm.study import Test
from bestarm.study.files.exchange import import_results, tell_results, write_csv
from bestarm.study.files.workbook import write_workbook
from bestarm.study.reports.report import study_report


@pytest.mark.parametrize("storage", [":memory:", "s.db"])
def test_plates_that_differ_and_drift_do_not_hide_the_best(storage: str, tmp_path: Path) -> None:
    kept = storage if storage == ":memory:" else str(tmp_path / storage)
    study = ba.Study.create(plan(), storage=kept, seed=1, items_seed=2)
    answer = finish(study)
    assert answer.arm == "F3"
    assert answer.tests % 12 == 0
    assert not study.health.notes
    assert study.status().tests == answer.tests == len(study.frame())
    assert sum(row.metrics[0].tests for row in study.state) == answer.tests


def test_a_block_is_full_in_random_places_and_each_arm_is_in_it_equally_often() -> None:
    study = ba.Study.create(plan(), storage=":memory:", seed=1, items_seed=2)
    first, second = study.ask_block(), study.ask_block()
    places = [f"{row}{column}" for row in "ABC" for column in range(1, 5)]
    assert [test.item for test in first] == [f"plate 1 {place}" for place in places]
    assert {block_of(test) for test in second} == {"plate 2"}
    assert set(Counter(test.arm for test in first).values()) == {3}
    assert [test.arm for test in first] != sorted(test.arm for test in first)
    assert [test.arm for test in first] != [test.arm for test in second]
    again = ba.Study.create(plan(), storage=":memory:", seed=1, items_seed=2)
    assert again.ask_block() == first


def test_ask_hands_out_one_block_after_the_other() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    tests = study.ask(5) + study.ask(100)
    assert [block_of(test) for test in tests] == ["plate 1"] * 12
    assert study.ask(1) == []
    study.tell_many([(test, measured(test)) for test in tests])
    assert {block_of(test) for test in study.ask(100)} == {"plate 2"}


def test_the_rest_of_a_block_comes_before_another() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    study.ask(5)
    assert [block_of(test) for test in study.ask_block()] == ["plate 1"] * 7
    assert {block_of(test) for test in study.ask_block()} == {"plate 2"}


def test_nothing_counts_before_the_block_is_complete() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    tests = study.ask_block()
    study.tell_many([(test, measured(test)) for test in tests[:-1]])
    status = study.status()
    assert (status.tests, status.waiting, status.pending) == (11, 11, 1)
    assert all(math.isnan(row.metrics[0].mean) for row in study.state)
    assert status.awaited is not None
    assert "(the results of its plate count, once no other test of it is out)" in str(status.awaited)
    study.abandon(tests[-1], "the well was empty")
    status = study.status()
    assert (status.tests, status.waiting, status.pending) == (11, 0, 0)
    for row in study.state:
        values = [measured(test) for test in tests[:-1] if test.arm == row.name]
        assert row.metrics[0].mean == pytest.approx(sum(values) / len(values))
        assert row.metrics[0].tests == len(values)


def test_an_arm_that_is_lost_from_its_first_block_comes_again_and_the_others_count() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    tests = study.ask_block()
    for test in tests:
        if test.arm == "F2":
            study.abandon(test, "spilled")
        else:
            study.tell(test, measured(test))
    again = study.ask_block()
    assert {test.arm for test in again} == set(MEANS)
    study.tell_many([(test, measured(test)) for test in again])
    assert finish(study).arm == "F3"


def test_asking_without_blocks_is_refused() -> None:
    study = ba.Study.create(plan(blocks=None), storage=":memory:")
    with pytest.raises(ba.InvalidInput, match="has no blocks"):
        study.ask_block()


def test_the_order_in_which_results_come_makes_no_difference() -> None:
    answers = set()
    for seed in range(3):
        rng = random.Random(seed)
        study = ba.Study.create(plan(), storage=":memory:", seed=1, items_seed=2)
        while not study.done:
            tests = study.ask_block()
            rng.shuffle(tests)
            for test in tests:
                study.tell(test, measured(test))
        answers.add(str(study.answer))
    assert len(answers) == 1


def test_blocks_that_are_out_at_the_same_time_enter_in_order() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    first, second = study.ask_block(), study.ask_block()
    study.tell_many([(test, measured(test)) for test in second])
    assert study.status().waiting == 12
    study.tell_many([(test, measured(test)) for test in first])
    assert study.status().waiting == 0
    assert finish(study).arm == "F3"


@pytest.mark.parametrize("same", [False, True])
def test_a_live_study_decides_as_the_simulated_one(same: bool) -> None:
    truth = [ba.Arm(name, {"yield": mean}, spreads={"yield": 1.0}) for name, mean in MEANS.items()]
    simulated = plan(arms=truth, block_spreads={"yield": 4.0}, blocks=dataclasses.replace(PLATE, same_for_all=same))
    job = Job.of(simulated, find_policy("certify"), seed=11, max_tests=10_000)
    outcome = job.simulate(0, 1).outcomes
    world = job.world(0, job.worlds.room if job.worlds is not None else 0)
    study = ba.Study.create(simulated, storage=":memory:", seed=11)
    while not study.done:
        made: Counter[str] = Counter()
        for test in study.ask_block():
            number = int(block_of(test).split()[-1]) - 1
            arm = study.arm_number(test.arm)
            study.tell(test, float(world[arm, 0, number * PLATE.size + made[test.arm]]))
            made[test.arm] += 1
    answer = study.answer
    assert answer is not None
    assert (study.arm_number(answer.arm or ""), answer.tests) == (outcome.answers[0], outcome.tests[0])


def test_an_export_given_to_a_new_study_comes_to_the_same_conclusion(tmp_path: Path) -> None:
    study = ba.Study.create(plan(), storage=":memory:", seed=1, items_seed=2)
    finish(study)
    file = io.StringIO()
    write_csv(study, file)
    again = ba.Study.create(plan(), storage=str(tmp_path / "again.db"), seed=1, items_seed=2)
    import_results(again, file.getvalue().encode(), "record.csv")
    assert again.answer == study.answer
    assert again.frame().item.tolist() == study.frame().item.tolist()


def test_blocks_that_suit_one_arm_better_are_noticed_where_that_was_ruled_out() -> None:
    """Each plate adds something of its own to each arm, and it was stated to add the same to all."""
    same = dataclasses.replace(PLATE, same_for_all=True)
    rng = np.random.default_rng(3)
    for suits, expected in ((0.0, []), (3.0, ["broken"])):
        study = ba.Study.create(plan(arms=["F1", "F2"], blocks=same, delta=1e-9), storage=":memory:", seed=1)
        for _ in range(40):
            of_plate = rng.normal(0.0, suits, 2) + rng.normal(0.0, 5.0) if suits else np.full(2, rng.normal(0.0, 5.0))
            tests = study.ask_block()
            values = [float(of_plate[study.arm_number(test.arm)] + rng.normal()) for test in tests]
            study.tell_many(list(zip(tests, values, strict=True)))
        assert [note.severity for note in study.health.notes if note.kind == "together"] == expected


def test_scatter_within_blocks_is_checked_where_it_is_stated() -> None:
    """Measurements scatter by 2, plates by 5; 1 was stated, or 2."""
    same = dataclasses.replace(PLATE, same_for_all=True)
    for sigma, expected in ((1.0, ["broken"]), (2.0, [])):
        rng = np.random.default_rng(4)
        objective = ba.maximize("yield", noise=ba.Gaussian(sigma))
        study = ba.Study.create(plan(objective=objective, blocks=same, delta=1e-9), storage=":memory:", seed=1)
        for _ in range(20):
            plate = rng.normal(0.0, 5.0)
            study.tell_many([(test, float(plate + rng.normal(0.0, 2.0))) for test in study.ask_block()])
        assert [note.severity for note in study.health.notes if note.kind == "scatter"] == expected


def test_results_of_blocks_of_ones_own() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    rng = np.random.default_rng(1)
    rows = [
        (arm, "yield", mean + 5.0 * day + rng.normal(), f"day {day}")
        for day in range(12)
        for arm, mean in MEANS.items()
        for _ in range(3)
    ]
    study.add(rows)
    assert study.answer is not None
    assert study.answer.arm == "F3"
    with pytest.raises(ba.InvalidInput, match="comes again after another plate"):
        study.add([("F1", "yield", 1.0, "x"), ("F1", "yield", 1.0, "y"), ("F1", "yield", 1.0, "x")])
    with pytest.raises(ba.InvalidInput, match="of a plate each"):
        study.add([("F1", "yield", 1.0)])
    frame = {"arm": ["F1", "F2"], "yield": [1.0, 2.0], "item": ["z", "z"]}
    assert len(study.add_frame(frame)) == 2


def test_a_workbook_shows_where_on_the_plate_each_test_is_made() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    tests, file = [*study.ask_block(), *study.ask_block()], io.BytesIO()
    write_workbook(study, tests, file)
    book = openpyxl.load_workbook(file)
    assert book.sheetnames[1:3] == ["Layout plate 1", "Layout plate 2"]
    grid = book["Layout plate 2"]
    for position, test in enumerate(tests[12:]):
        row, column = divmod(position, 4)
        assert grid.cell(2 + row, 2 + column).value == f"{test.arm}\ntest {test.id}"
    listed = book["Tests"]
    heads = [cell.value for cell in listed[1]]
    assert heads[:4] == ["test", "arm", "metric", "plate"]
    assert listed.cell(2, 4).value == "plate 1 A1"
    at = heads.index("value") + 1
    for number, test in enumerate(tests, 2):
        listed.cell(number, at, measured(test))
    filled = io.BytesIO()
    book.save(filled)
    tell_results(study, filled.getvalue(), "plate.xlsx")
    assert study.status().tests == 24


def test_a_far_value_is_named_by_its_place() -> None:
    study = ba.Study.create(plan(), storage=":memory:", seed=1, items_seed=1)
    tests = study.ask_block()
    values = {test: 1.0 + 0.1 * k for k, test in enumerate(tests)} | {tests[4]: 900.0}
    with pytest.raises(ba.FarValue, match=rf"^test {tests[4].id} \(plate 1 B1\), yield of F\d: 900\? "):
        study.check_far(values.items())


def test_workers_make_each_block_in_one_place() -> None:
    seen: list[tuple[str, str]] = []

    def function(arm: str, metric: str) -> float:
        seen.append((arm, metric))
        return MEANS[arm] + random.gauss(0.0, 1.0)

    with ThreadPoolExecutor(3) as pool:
        answer = ba.identify(plan(), function, executor=pool)
    assert answer.arm == "F3"
    assert len(seen) == answer.tests


def test_the_rest_of_a_study_in_blocks_is_foreseen() -> None:
    close = {"F3": 2.5, "F2": 2.0, "F1": 0.0, "F4": -0.3}
    study = ba.Study.create(plan(), storage=":memory:", seed=3, items_seed=3)
    for _ in range(8):
        study.tell_many([(test, measured(test) - MEANS[test.arm] + close[test.arm]) for test in study.ask_block()])
    assert not study.done
    outlook = study.forecast(runs=20)
    assert outlook is not None
    assert 0 < outlook.median_tests < 10_000
    assert outlook.median_tests % 12 == 0


def test_the_course_of_a_study_shows_whole_blocks() -> None:
    study = ba.Study.create(plan(), storage=":memory:", seed=1, items_seed=2)
    answer = finish(study)
    course = study.course(5)
    assert [moment.tests % 12 for moment in course] == [0] * len(course)
    assert course[-1].is_decided
    assert course[-1].tests == answer.tests


@examples(8, 25, deadline=None)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_drawn_studies_in_blocks_end_with_an_answer(data: st.DataObject, seed: int) -> None:
    """Noises, goals, limits, sizes, missing tests and blocks that are out together, in any combination."""
    noise = data.draw(st.sampled_from([ba.Symmetric(), ba.Gaussian(1.0), ba.Bounded(-40.0, 60.0)]))
    goals = [("best", 1), ("best", 2), ("top", 2), ("any feasible", 1), ("every feasible", 1)]
    goal, top = data.draw(st.sampled_from(goals))
    size = data.draw(st.sampled_from([4, 7, 12]))
    is_joint, is_relative = data.draw(st.booleans()), data.draw(st.booleans())
    limit = (
        ba.at_most("risk", relative_to_baseline=2.0, noise=ba.Bounded(0, 10))
        if is_relative
        else ba.at_most("risk", 5.0, noise=ba.Bounded(0, 10))
    )
    study = ba.Study.create(
        plan(
            objective=ba.maximize("yield", noise=noise),
            constraints=[limit],
            measurements=[ba.measurement("yield", "risk")] if is_joint else [],
            baseline="F1" if is_relative else None,
            blocks=ba.Blocks("day", size=size, same_for_all=data.draw(st.booleans())),
            goal=goal,
            top=top,
            budget=ba.Budget(tests=240),
        ),
        storage=":memory:",
        seed=seed,
        items_seed=4,
    )
    rng = random.Random(seed)
    risk = {"F1": 2.0, "F2": 1.0, "F3": 2.0, "F4": 9.0}

    def result(test: Test) -> float | dict[str, float]:
        values = {
            "yield": max(min(measured(test), 60.0), -40.0),
            "risk": risk[test.arm] + random.Random(test.id).random(),
        }
        return {metric: values[metric] for metric in test.metrics} if len(test.metrics) > 1 else values[test.metric]

    while not study.done:
        tests = study.ask_block()
        if rng.random() < 0.5:
            tests += study.ask_block()
        assert tests, "the study is not done, and there is nothing to do"
        for test in tests:
            if rng.random() < 0.05:
                study.abandon(test, "dropped")
            else:
                study.tell(test, result(test))
    answer = study.answer
    assert answer is not None
    assert answer.tests <= 240
    if answer.state == "certified":
        assert "F4" not in answer.arms
    assert str(study.status())
    twin = ba.Study.create(study.plan, storage=":memory:", seed=study.record.seed, items_seed=4)
    file = io.StringIO()
    write_csv(study, file)
    import_results(twin, file.getvalue().encode(), "record.csv")
    assert twin.answer == answer


def test_words_of_a_study_are_its_own() -> None:
    dish = dataclasses.replace(plan(), blocks=ba.Blocks("dish", size=12), arm_word="recipe")
    study = ba.Study.create(dish, storage=":memory:", name="mine")
    study.ask_block()
    [metric] = study.plan.measured[:1]
    others = b"test,value,study,buffer\n1,3,buffers,b\n"
    for data, said in (
        (f"recipe,{metric}\nF1,3\n".encode(), f"the column dish must be there beside recipe, {metric}"),
        (f"recipe,dish,{metric},hue\n".encode(), "column 'hue': is not known; there are test, recipe, metric"),
        (others, "f.csv: is a sheet of study 'buffers', and this is study 'mine'"),
        (others.replace(b"buffers", b"mine"), "column 'buffer': is not known"),
    ):
        with pytest.raises(ba.InvalidInput, match=re.escape(said)):
            tell_results(study, data, "f.csv")
    means = "include what their dishes added: do not subtract them. Recipes are compared by differences within a dish."
    of_means = "Each mean is one of dish means, in which a dish counts once, however many tests it has. Means of "
    page = study_report(study, forecast=False)
    # On the first page, beside the table with the reasons and above the raw results.
    assert page.count(means) == page.count(of_means) == 3
    limits = dataclasses.replace(
        dish, goal="every feasible", constraints=(ba.at_most("hue", 0.5, noise=ba.Bernoulli()),)
    )
    assert about_means(limits) == of_means.removesuffix(" Means of ")
