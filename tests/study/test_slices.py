"""Studies with limits on slices: which items they go to, what counts of each result, and the same from every side."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.study.problems import exported

import bestarm as ba
from bestarm.problem.items import ItemOrder
from bestarm.study.files.exchange import import_results, write_json
from bestarm.study.reports.report import study_report

TOPICS = ["law"] * 6 + ["history"] * 30 + ["other"] * 24
LANGUAGES = ["de", "en", "en"] * 20
RIGHT = ba.Bernoulli()


def plan(**options: Any) -> ba.Plan:
    """A call yields whether an answer is right and how long it took."""
    right, fields = RIGHT, {"baseline": "old", "goal": "every feasible", "delta": 0.1, **options}
    return ba.Plan(
        arms=("old", "new", "newer"),
        objective=ba.maximize("accuracy", noise=right),
        constraints=(
            ba.at_least("accuracy", noise=right, relative_to_baseline=True, margin=0.1),
            ba.at_least("accuracy", 0.3, noise=right, for_each="topic"),
            ba.at_least("accuracy", noise=right, relative_to_baseline=True, margin=0.15, where={"topic": "law"}),
            ba.at_most("time", 9.0, noise=ba.Bounded(0, 10), where={"topic": "history", "language": "en"}),
        ),
        measurements=[ba.measurement("accuracy", "time")],
        items=[f"q{k}" for k in range(60)],
        attributes={"topic": TOPICS, "language": LANGUAGES},
        **fields,
    )


def call(arm: str, metric: str, item: str | None) -> dict[str, float]:
    chance = random.Random(f"{arm} {item}")
    is_law = int((item or "q0")[1:]) < 6
    rate = {"old": 0.8, "new": 0.2 if is_law else 0.9, "newer": 0.85}[arm]
    return {"accuracy": float(chance.random() < rate), "time": 5.0 + 4.0 * chance.random()}


def test_results_that_count_for_no_slice_yet_are_held() -> None:
    """They wait for the item that brings them into a slice, and not for the first of all."""
    study = ba.Study.create(plan(), storage=":memory:", seed=1, items_seed=1)
    law = [item for item in study.items_left("old") if int(item[1:]) < 6]
    study.add([("old", call("old", "", item), item) for item in (law[2], law[3])])
    now = study.status()
    assert now.held is not None
    assert (now.held.results, now.counted) == (2, 0)
    assert f"of old on {law[0]}, not asked for yet" in now.held.words
    study.add([("old", call("old", "", law[0]), law[0])])
    assert f"of old on {law[1]}, not asked for yet" in str(study.status().held)
    study.add([("old", call("old", "", law[1]), law[1])])
    now = study.status()
    # All count for the slice by now, and for the mean of all items later.
    assert (now.held, now.counted, now.arms[0].metrics[2].tests, now.arms[0].metrics[0].tests) == (None, 4, 4, 0)


def answered(study: ba.Study) -> ba.Answer:
    """The study, made to its end."""
    while tests := study.ask(2):
        for test in tests:
            study.tell(test, call(test.arm, test.metric, test.item))
    answer = study.answer
    assert answer is not None
    return answer


def followed(study: ba.Study) -> tuple[Any, Any]:
    """The streams of the study's policy, and where the items of slices stand."""
    study.status()
    policy = study._decider.policy
    return policy.streams, policy.setting.items.slices


@pytest.mark.parametrize("seed", range(6))
def test_each_result_counts_for_every_part_that_its_item_is_in(seed: int, tmp_path: Path) -> None:
    """A model: tests are asked for several at once, told in any order and some given up. What has entered of each
    stream is then the results of its items, in the study's order, as far as there is none missing."""
    chance = random.Random(seed)
    study = ba.Study.create(plan(), storage=str(tmp_path / "s.db"), seed=seed, items_seed=100 + seed)
    known: dict[tuple[str, str], dict[str, float]] = {}
    held: list[Any] = []
    for _ in range(12):
        held += study.ask(chance.randint(1, 7))
        chance.shuffle(held)
        for _ in range(chance.randint(0, len(held))):
            test = held.pop()
            if chance.random() < 0.1:
                study.abandon(test, "the server was down")
            else:
                known[test.arm, test.item] = call(test.arm, test.metric, test.item)
                study.tell(test, known[test.arm, test.item])
    while held and not study.done:
        test = held.pop()
        known[test.arm, test.item] = call(test.arm, test.metric, test.item)
        study.tell(test, known[test.arm, test.item])
    assert not study.done or held == []
    streams, slices = followed(study)
    order, inside = ItemOrder(study.plan.items or (), False, 100 + seed), study.plan.inside
    assert inside is not None
    assert slices.sizes.tolist() == inside.sum(axis=1).tolist()
    for arm, name in enumerate(study.plan.arm_names):
        for part, stated in enumerate(study.plan.parts):
            items = [order.name(place) for place in range(60) if inside[part, order.item(place)]]
            told = [known.get((name, item)) for item in items]
            first = next((k for k, values in enumerate(told) if values is None), len(told))
            values = [values[stated.metric] for values in told[:first] if values is not None]
            sign = study.plan.normal_form().sign[part]
            reference = study._decider.policy.setting.reference[part]
            if not study.done:
                assert streams.counts[arm, part] == first
            count = int(streams.counts[arm, part])
            assert streams.sums[arm, part] == pytest.approx(sum(sign * value - reference for value in values[:count]))
    again = ba.Study.open(study.name, storage=str(tmp_path / "s.db"))
    assert again.status().to_dict() == study.status().to_dict()


def test_a_study_goes_to_the_slice_that_decides() -> None:
    """All six questions about law are asked of the arm that fails there, long before their turn among all."""
    study = ba.Study.create(plan(), storage=":memory:", seed=1, items_seed=3)
    answer = answered(study)
    assert answer.feasible == ("newer",)
    reason = next(arm.reason for arm in study.state if arm.name == "new")
    assert "accuracy where topic = law" in reason
    law = [item for item in map(str, study.frame()[study.frame()["arm"] == "new"]["item"]) if int(item[1:]) < 6]
    assert len({*law}) >= 3
    assert len(study.frame()) < 2 * 3 * 60


def test_the_same_study_from_sqlite_from_csv_and_from_json(tmp_path: Path) -> None:
    """An export has every result with its item, and a study made from it is where the first one is."""
    url = str(tmp_path / "s.db")
    study = ba.Study.create(plan(), storage=url, seed=4, items_seed=9)
    for _ in range(30):
        for test in study.ask(1):
            study.tell(test, call(test.arm, test.metric, test.item))
    copy = ba.Study.create(plan(name="copy"), storage=url, seed=4, items_seed=9)
    import_results(copy, exported(study).encode(), "s.csv")
    first, second = followed(study)[0], followed(copy)[0]
    assert np.array_equal(first.counts, second.counts)
    assert np.allclose(first.sums, second.sums)
    assert exported(copy).splitlines()[0] == exported(study).splitlines()[0]
    out = io.StringIO()
    write_json(study, out)
    kept = json.loads(out.getvalue())
    assert ba.Plan.from_data(kept["plan"]) == study.plan


def test_what_it_cost_adds_up_to_what_was_recorded() -> None:
    """Also where results count in a slice and not, or not yet, for all items."""
    study = ba.Study.create(plan(), storage=":memory:", seed=1, items_seed=1)
    answered(study)
    status = study.status()
    counted = sum(row.metrics[0].tests for row in status.arms)
    assert counted < status.tests
    table = study_report(study, forecast=False).split("<h2>What it cost</h2>")[1].split("</table>")[0]
    assert f"<td>{counted:,}</td>" in table
    assert f"<th>{status.tests - counted:,}</th>" in table
    assert f"in all</th><th>{status.tests:,}</th><th></th><th>{status.cost:,.6g}</th>" in table


def test_names_are_the_same_in_status_report_and_question() -> None:
    study = ba.Study.create(plan(), storage=":memory:", seed=1, items_seed=3)
    answered(study)
    assert "accuracy where topic = law" in study_report(study, forecast=False)
    names = {row.metric for row in study.state[0].metrics}
    assert {"accuracy where topic = law", "accuracy where topic = other", "accuracy"} <= names


def test_a_forecast_of_the_rest() -> None:
    study = ba.Study.create(plan(), storage=":memory:", seed=1, items_seed=3)
    while min(followed(study)[0].counts.mean(), 60) < 6.5 and not study.done:
        for test in study.ask(3):
            study.tell(test, call(test.arm, test.metric, test.item))
    if not study.done:
        outlook = study.forecast(runs=20)
        assert outlook is not None
        assert outlook.median_tests <= 3 * 60


def test_by_arrival_and_with_a_budget() -> None:
    study = ba.Study.create(plan(order="arrival", budget=ba.Budget(tests=25)), storage=":memory:", items_seed=5)
    answer = answered(study)
    assert answer.tests <= 25
    status = study.status()
    assert status.tests == len(study.frame().drop_duplicates("test"))
