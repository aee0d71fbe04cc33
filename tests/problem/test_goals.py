"""Goals: what a problem may ask for, in every form in which it can be stated."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import bestarm as ba
from bestarm.analysis.status.words import guarantee, question
from bestarm.answer import Answer

GAIN = ba.maximize("gain", noise=ba.Gaussian(1.0))
PRICE = ba.at_most("price", 3, noise=ba.Gaussian(1.0))


def plan(**fields: Any) -> ba.Plan:
    return ba.Plan(arms=["a", "b", "c", "d"], objective=GAIN, constraints=[PRICE], **fields)


@pytest.mark.parametrize(
    ("fields", "asks"),
    [
        ({}, "best"),
        ({"goal": "best", "top": 1}, "best"),
        ({"top": 2}, "short list"),
        ({"goal": "top"}, "top"),
        ({"goal": "top", "top": 4}, "top"),
        ({"goal": "any feasible"}, "any feasible"),
        ({"goal": "every feasible"}, "every feasible"),
    ],
)
def test_files_keep_the_goal_and_leave_out_what_is_usual(fields: dict[str, Any], asks: str) -> None:
    stated = plan(**fields)
    assert stated.asks == asks
    assert ba.Plan.from_toml(stated.to_toml()) == ba.Plan.from_json(stated.to_json()) == stated
    usual = {"goal": "best", "top": 1}
    assert {key: data for key, data in stated.to_data().items() if key in usual} == {
        key: fields[key] for key in fields if fields[key] != usual[key]
    }
    problem = ba.Problem(arms=stated.arms, objective=GAIN, constraints=[PRICE], **fields)
    assert ba.Plan.of(problem).asks == problem.asks == asks


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"goal": "worst"}, "goal = 'worst': must be one of 'best', 'any feasible', 'every feasible' or 'top'"),
        ({"top": 0}, "top = 0: must be a whole number from 1 to 1,000"),
        ({"top": 1.5}, "top = 1.5: must be a whole number from 1 to 1,000"),
        ({"top": "2"}, "top = '2': must be a number"),
        ({"goal": "top", "top": 5}, "top = 5: there are only 4 arms"),
        ({"top": 4}, "top = 4: a short list of all 4 arms would say nothing; it must be shorter"),
        ({"goal": "any feasible", "top": 2}, "top = 2: has no meaning with the goal 'any feasible'"),
        ({"goal": "any feasible", "constraints": []}, "goal = 'any feasible': needs a constraint"),
        ({"goal": "every feasible", "top": 2}, "top = 2: has no meaning with the goal 'every feasible'"),
        ({"goal": "every feasible", "constraints": []}, "goal = 'every feasible': needs a constraint"),
        ({"goal": "every feasible", "rules": 1}, "rules = 1: does not know the goal 'every feasible'"),
        ({"goal": "any feasible", "rules": 1}, "rules = 1: does not know the goal 'any feasible'"),
    ],
)
def test_goals_that_make_no_sense_are_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ba.InvalidInput) as refused:
        ba.Plan(**{"arms": list("abcd"), "objective": GAIN, "constraints": [PRICE], **fields})
    assert str(refused.value).startswith(complaint)
    with pytest.raises(ba.InvalidInput) as refused:
        ba.Plan.from_data(plan().to_data() | fields)
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"policy": "tf-lucb", "top": 2}, "does not decide studies with the goal 'best' and top = 2; choose certify"),
        ({"policy": "racing", "goal": "any feasible"}, "does not decide studies with the goal 'any feasible'; choose"),
    ],
)
def test_policies_that_cannot_find_it_are_refused_when_a_study_is_made(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ba.InvalidInput, match=complaint):
        ba.Study.create(plan(**fields), storage=":memory:")


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (
            ba.at_least("price", 4.0, noise=PRICE.noise),
            "at_least = 4.0: contradicts another constraint, price at most 3",
        ),
        (PRICE, "at_most = 3.0: another constraint says the same already: price at most 3"),
    ],
)
def test_limits_that_nothing_can_meet_together_are_refused_when_a_study_is_made(
    more: ba.Constraint, complaint: str
) -> None:
    stated = dataclasses.replace(plan(), constraints=(PRICE, more))
    assert ba.Plan.from_data(stated.to_data()) == stated
    with pytest.raises(ba.InvalidInput, match=complaint):
        ba.Study.create(stated, storage=":memory:")
    both = dataclasses.replace(plan(), constraints=(PRICE, dataclasses.replace(more, at_most=None, at_least=2.0)))
    ba.Study.create(both, storage=":memory:")


def test_what_is_asked_and_what_an_answer_is_worth() -> None:
    among = "the largest mean gain among those with price at most 3?"
    assert question(plan(goal="top", top=2)) == f"Which 2 of 4 arms have {among}"
    assert question(plan(top=2)) == f"Which short list of at most 2 of 4 arms contains the one that has {among}"
    assert question(plan(goal="any feasible")) == "Which of 4 arms, whichever it is, has price at most 3?"

    def worth(fields: dict[str, Any], *arms: str) -> str:
        answer = Answer("certified", arms[0], 0.05, 0.95, 100, 100.0, arms=arms)
        return guarantee(plan(**fields), answer).partition("reservation, ")[2]

    assert worth({"top": 2}, "a", "b") == "if any arm is feasible, the best one is a or b."
    best_two = "a and b meet every constraint, and none of them is worse than number 2 of the feasible arms."
    assert worth({"goal": "top", "top": 2}, "a", "b") == best_two
    assert worth({"goal": "top", "top": 2}, "a") == "a meets every constraint, and no other arm does."
    assert question(plan(goal="every feasible")) == "Which of 4 arms have price at most 3?"
    every = {"goal": "every feasible"}
    assert worth(every, "a", "b") == "a and b meet every constraint, and no other arm does."
    assert worth(every, *"abcd") == "a, b, c and d meet every constraint."
    assert worth({"goal": "any feasible"}, "c") == "c meets every constraint; nothing is said of which arm is best."


def test_right_answers_if_any_feasible_arm_will_do() -> None:
    arms = [ba.Arm(f"arm {k}", {"gain": k, "price": price}) for k, price in enumerate([1.0, 2.0, 3.5, 4.0])]
    problem = ba.Problem(arms=arms, objective=GAIN, constraints=[PRICE], goal="any feasible")
    assert problem.right_answers() == (0, 1)
    assert dataclasses.replace(problem, arms=problem.arms[2:]).right_answers() == (None,)
    slack = dataclasses.replace(problem, constraints=(dataclasses.replace(PRICE, slack=0.6),))
    assert slack.right_answers() == (0, 1, 2)
