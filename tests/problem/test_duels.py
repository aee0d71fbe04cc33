"""Duels: what they ask for, what they refuse, and what a comparison in both orders counts as."""

from __future__ import annotations

from typing import Any

import pytest

import bestarm as ba
from bestarm.problem.problem import Plan

ARMS = ["terse", "friendly"]


def stated(**more: Any) -> ba.Problem:
    return ba.Problem(**{"arms": ARMS, "objective": ba.duel("preference"), "baseline": "plain", **more})


def test_a_duel_asks_for_as_many_wins_as_losses() -> None:
    problem = stated()
    assert problem.constraints == (ba.at_least("preference", 0.5, noise=ba.Duel()),)
    assert problem.bundles == ((0, 1),)
    assert problem.measured == ("preference",)
    assert problem.set_aside is None


def test_a_limit_of_its_own_takes_its_place() -> None:
    limit = ba.at_least("preference", 0.55, noise=ba.Duel())
    assert stated(constraints=[limit]).constraints == (limit,)


@pytest.mark.parametrize("goal", ["best", "any feasible", "every feasible", "top"])
def test_it_is_the_same_from_a_study_file(goal: Any) -> None:
    plan = Plan.of(stated(items=20, goal=goal), name="prompts")
    assert Plan.from_toml(plan.to_toml()) == Plan.from_json(plan.to_json()) == plan
    short = (
        'arms = ["terse", "friendly"]\nbaseline = "plain"\n[objective]\nmetric = "preference"\ngoal = "maximize"\n'
        'noise = "duel"\n'
    )
    assert Plan.from_toml(f'goal = "{goal}"\nitems = 20\nname = "prompts"\n{short}') == plan


def test_a_duel_may_be_a_limit_alone() -> None:
    limits = [ba.at_least("preference", 0.45, noise=ba.Duel()), ba.at_most("price", 3, noise=ba.Bounded(0, 9))]
    assert stated(objective=ba.maximize("score", noise=ba.Bernoulli()), constraints=limits).duels == (1,)
    # Without an objective, the first limit says what there is, and stays the only one.
    alone = ba.Problem(ARMS, constraints=limits, baseline="plain", goal="any feasible")
    assert (alone.objective.metric, len(alone.constraints)) == ("preference", 2)


RELATIVE = ba.at_most("price", relative_to_baseline=1.2, noise=ba.Bounded(0, 9))


def test_a_baseline_that_limits_are_relative_to_is_set_aside() -> None:
    problem = stated(arms=[*ARMS, "plain"], constraints=[RELATIVE], goal="every feasible")
    assert problem.set_aside == 2


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"baseline": None}, "baseline must be stated: 'preference' says how each arm compares with it"),
        ({"baseline": "terse"}, "baseline = 'terse': cannot be one of the arms that are compared with it in a duel"),
        ({"arms": [*ARMS, "plain"], "constraints": [RELATIVE]}, 'leave it out of them, or state goal = "any feasible"'),
        ({"constraints": [RELATIVE]}, "baseline = 'plain': no such arm"),
        ({"objective": ba.minimize("preference", noise=ba.Duel())}, "must be maximize: a win counts as 1"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ba.InvalidInput) as raised:
        stated(**changes)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("shown_first", "shown_second", "counts"),
    [
        ("first", "second", 1.0),
        ("first", "first", 0.5),
        ("second", "second", 0.5),
        ("second", "first", 0.0),
        ("tie", "second", 0.75),
        ("second", "tie", 0.25),
        ("tie", "tie", 0.5),
    ],
)
def test_both_orders_are_asked_for(shown_first: str, shown_second: str, counts: float) -> None:
    asked: list[tuple[str, ...]] = []

    def compare(*shown: str) -> str:
        asked.append(shown)
        return shown_first if shown[0] == "terse" else shown_second

    assert ba.both_orders(compare, "plain")("terse", "preference", "item 3") == counts
    assert asked == [("terse", "plain", "item 3"), ("plain", "terse", "item 3")]
    assert ba.both_orders(compare, "plain")("terse", "preference") == counts


@pytest.mark.parametrize("said", ["terse", None, 1, ["first"]])
def test_a_judge_says_which_is_better(said: Any) -> None:
    with pytest.raises(ba.InvalidInput, match=r'compare = .* must return "first", "second" or "tie"'):
        ba.both_orders(lambda first, second: said, "plain")("terse", "preference")
