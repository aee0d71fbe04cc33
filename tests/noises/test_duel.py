"""Verdicts: their words, and that they are decided as values from 0 to 1 are."""

from __future__ import annotations

import dataclasses

import pytest

import bestarm as ba
from bestarm.noises.registry import kind_of
from bestarm.problem.parts import Constraint
from bestarm.study.intake.values import RefusedValue, check_value
from bestarm.validation import parse

PART = ba.at_least("preference", 0.5, noise=ba.Duel())


@pytest.mark.parametrize(("said", "counts"), [("win", 1), ("Tie ", 0.5), ("LOSS", 0), (0.25, 0.25), (1, 1)])
def test_words_are_values(said: object, counts: float) -> None:
    assert check_value(PART, said) == counts


@pytest.mark.parametrize("said", ["won", "", 1.2, -0.1, "2", None])
def test_other_words_are_refused(said: object) -> None:
    with pytest.raises(RefusedValue, match="must be"):
        check_value(PART, said)


def test_no_other_metric_takes_them() -> None:
    with pytest.raises(RefusedValue, match="value of 'time' = 'win': must be a number"):
        check_value(ba.at_most("time", 3, noise=ba.Bounded(0, 9)), "win")


def test_it_is_decided_as_values_in_a_range() -> None:
    """The same kernels, and the same tests in every simulated study."""
    assert kind_of(ba.Duel) == kind_of(ba.Bounded)

    def problem(noise: ba.Bounded | ba.Duel) -> ba.Problem:
        means = {"a": 0.65, "b": 0.45}
        return ba.Problem(
            arms=[ba.Arm(name, {"preference": mean}) for name, mean in means.items()],
            objective=ba.maximize("preference", noise=noise),
            constraints=[dataclasses.replace(PART, noise=noise)],
            baseline="plain" if isinstance(noise, ba.Duel) else None,
            items=200,
        )

    duel, plain = (ba.simulate(problem(noise), runs=20, seed=3) for noise in (ba.Duel(), ba.Bounded(0, 1)))
    assert duel.mean_tests == plain.mean_tests
    assert duel.answer_counts == plain.answer_counts


def test_it_has_its_own_place_in_files() -> None:
    stated = {"metric": "preference", "at_least": 0.5}
    assert parse(Constraint, {**stated, "noise": "duel"}) == PART
    assert ba.Duel().file_form() == "duel"
    with pytest.raises(ba.InvalidInput):
        parse(Constraint, {**stated, "noise": {"duel": [0, 1]}})
