"""Slices as they are stated: attributes, names, one constraint for each value, guesses, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bestarm as ba

RIGHT = ba.Bernoulli()
TOPICS = ("law", "law", "history", "history", "history", "other")


def problem(*constraints: ba.Constraint, **fields: Any) -> ba.Problem:
    stated: dict[str, Any] = {"items": 6, "attributes": {"topic": TOPICS, "hard": [True, False] * 3}, **fields}
    arms = stated.pop("arms", ["old", "new"])
    return ba.Problem(arms=arms, objective=ba.maximize("accuracy", noise=RIGHT), constraints=constraints, **stated)


def test_one_limit_for_each_value_in_the_order_of_the_items() -> None:
    made = problem(ba.at_least("accuracy", 0.7, noise=RIGHT, for_each="topic", weight=2.0))
    assert made.metrics == (
        "accuracy",
        "accuracy where topic = law",
        "accuracy where topic = history",
        "accuracy where topic = other",
    )
    assert made.item_counts == (6, 2, 3, 1)
    assert [part.weight for part in made.constraints] == [2.0] * 3


def test_several_attributes_are_all_required() -> None:
    made = problem(
        ba.at_least("accuracy", 0.2, noise=RIGHT, where={"topic": "history"}, for_each="hard"),
        ba.at_least("accuracy", 0.1, noise=RIGHT, where={"topic": "history", "hard": False}),
    )
    assert made.metrics[1:] == (
        "accuracy where topic = history and hard = true",
        "accuracy where topic = history and hard = false",
        "accuracy at least 0.1 where topic = history and hard = false",
    )
    assert made.item_counts == (6, 2, 1, 1)
    # The last two are about the same items, so that one test serves both.
    assert made.queues == (0, 1, 2, 2)


def test_a_study_file_keeps_what_is_stated() -> None:
    plan = ba.Plan.of(problem(ba.at_least("accuracy", 0.7, noise=RIGHT, for_each="topic")))
    assert ba.Plan.from_toml(plan.to_toml()) == plan
    assert ba.Plan.from_json(plan.to_json()) == plan
    text = """
        arms = ["a", "b"]
        items = 3
        attributes = { topic = ["law", "law", "other"] }
        objective = { metric = "accuracy", goal = "maximize", noise = "bernoulli" }
        constraints = [{ metric = "accuracy", at_least = 0.5, noise = "bernoulli", for_each = "topic" }]
    """
    assert ba.Plan.from_toml(text).metrics[1:] == ("accuracy where topic = law", "accuracy where topic = other")


@pytest.mark.parametrize("indexed", [False, True])
def test_items_may_be_a_data_frame(indexed: bool) -> None:
    frame = pd.DataFrame({"item": [f"q{k}" for k in range(6)], "topic": TOPICS, "text": ["long"] * 6})
    made = problem(
        ba.at_least("accuracy", 0.7, noise=RIGHT, for_each="topic"),
        items=frame.set_index("item") if indexed else frame,
        attributes=None,
    )
    assert made.items == ("q0", "q1", "q2", "q3", "q4", "q5")
    # Columns that no constraint names are left out.
    assert made.attributes == {"topic": TOPICS}
    assert problem(items=pd.DataFrame({"item": range(3)}), attributes=None).items == ("0", "1", "2")
    assert problem(items=pd.DataFrame({"topic": TOPICS}), attributes=None).items == 6
    for column in (pd.Series([7, 9]), np.array([7, 9]), [7, "9"]):
        assert problem(items=column, attributes=None).items == ("7", "9")
    for names, row in ((["x", None, "z"], 1), ([1, 2, math.nan], 0)):
        with pytest.raises(ba.InvalidInput, match=rf"\[{row}\] = .*: must be text or a whole number"):
            problem(items=pd.DataFrame({"item": names}), attributes=None)
    with pytest.raises(ba.InvalidInput, match="no such attribute; the columns of items are 'item', 'topic', 'text'"):
        problem(ba.at_least("accuracy", 0.7, noise=RIGHT, for_each="field"), items=frame, attributes=None)


@pytest.mark.parametrize(
    ("stated", "fields", "reason"),
    [
        ({"where": {"topic": "art"}}, {}, "no item has it; the values are 'law', 'history', 'other'"),
        ({"where": {"field": "law"}}, {}, "no such attribute; the attributes are 'topic', 'hard'"),
        ({"for_each": "field"}, {"attributes": None}, "items have no attributes"),
        ({"where": {"topic": "law", "hard": "true"}}, {"attributes": {"topic": TOPICS}}, "no such attribute"),
        ({"where": {}}, {}, "must name an attribute and its value"),
        ({"where": {"topic": 1.5}}, {}, 'must be a text such as "law"'),
        ({"for_each": "topic"}, {"attributes": {"topic": TOPICS[:5]}}, "has 5 values; it needs one for each of the 6"),
        ({"for_each": "topic"}, {"repeats": True}, "leave out repeats"),
        ({"for_each": "topic"}, {"items": None}, "can only be stated of items"),
        ({"where": {"topic": "law", "hard": True}, "judge": "model"}, {}, "does not go with a judge"),
    ],
)
def test_what_does_not_go_together_is_refused(stated: dict[str, Any], fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ba.InvalidInput, match=reason):
        problem(ba.at_least("accuracy", 0.7, noise=RIGHT, **stated), **fields)


def test_the_same_limit_twice_and_exact_metrics_are_refused() -> None:
    law = ba.at_least("accuracy", 0.7, noise=RIGHT, where={"topic": "law"})
    with pytest.raises(ba.InvalidInput, match="says the same already"):
        problem(law, ba.at_least("accuracy", 0.7, noise=RIGHT, for_each="topic"), law)
    with pytest.raises(ba.InvalidInput, match="the same on every item"):
        problem(ba.at_most("size", 3, noise=ba.Exact(), where={"topic": "law"}))


def test_guesses_by_slice() -> None:
    """What is not stated follows from what is. A rate over a slice is a whole number of its items."""
    guesses = {"accuracy": 0.5, "accuracy where topic = law": 0.0}
    limit = ba.at_least("accuracy", 0.4, noise=RIGHT, for_each="topic")
    made = problem(limit, arms=[ba.Arm("old", {"accuracy": 1.0}), ba.Arm("new", guesses)])
    assert np.allclose(made.true_means(), [[1.0, 1.0, 1.0, 1.0], [0.5, 0.0, 2 / 3, 1.0]])
    assert made.right_answers() == (0,)
    wrong = {"accuracy": 1.0, "accuracy where topic = law": 0.0}
    with pytest.raises(ba.InvalidInput, match="cannot be true together with the other means"):
        problem(limit, arms=[ba.Arm("old", {"accuracy": 1.0}), ba.Arm("new", wrong)])
