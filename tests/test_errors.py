"""Errors carry fields: what they say, what they hold, and that both survive a journey to another process."""

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bestarm as ba
from bestarm.client import Client
from bestarm.paper.instances import instance
from bestarm.parsing import read_json
from bestarm.problem import Plan
from bestarm.storage.errors import (
    BlockTaken,
    BlockUnfinished,
    HandedOn,
    HoldsEnough,
    NameTaken,
    SourceTaken,
    StudyArchived,
)
from bestarm.storage.keys import check_key
from bestarm.study.intake.values import RefusedValue
from bestarm.study.record.checks import UnreadableStudy, check_ask
from bestarm.study.study import AlreadyTold
from bestarm.validation import UNSTATED, InvalidInput, NotFound

PROBLEM = {
    "arms": ["a", "b"],
    "objective": {"metric": "gain", "goal": "maximize", "noise": {"gaussian": 1.0}},
    "constraints": [{"metric": "harm", "at_most": 0.5, "noise": "bernoulli"}],
}


def plan(**changes: Any) -> Callable[[], object]:
    return lambda: Plan.from_data(PROBLEM | changes)


def study() -> ba.Study:
    return ba.Study.create(Plan.from_data(PROBLEM), storage=":memory:")


@pytest.mark.parametrize(
    ("act", "field", "value", "reason", "sentence"),
    [
        (plan(delta=2), "delta", 2, "must lie strictly between 0 and 1", "delta = 2: must lie strictly"),
        (plan(arms=["a", "a"]), "arms[1].name", "a", "another arm has this", "arms[1].name = 'a': another arm"),
        (plan(arms=[]), "arms", [], "must name at least one", "arms = []: must name at least one"),
        (plan(objective={"metric": "gain"}), "objective.goal", UNSTATED, "is missing", "objective.goal is missing; "),
        (
            plan(constraints=[{"metric": "harm", "at_most": 2, "noise": "bernoulli"}]),
            "constraints[0].at_most",
            2.0,
            "must lie strictly between 0 and 1, the range",
            "constraints[0] = {'at_most': 2, 'metric': 'harm', 'noise': 'bernoulli'}: at_most = 2.0 of constraint",
        ),
        (
            plan(objective=PROBLEM["objective"] | {"noise": {"gaussian": -1}}),  # type: ignore[operator]
            "objective.noise.sigma",
            -1,
            "must be a positive number",
            "objective.noise = {'gaussian': -1}: sigma = -1: must be a positive number",
        ),
        (
            plan(budget={"tests": 1.5}),
            "budget.tests",
            1.5,
            "must be a whole number",
            "budget = {'tests': 1.5}: tests = 1.5",
        ),
        (lambda: study().tell(7, 1.0), "test", 7, "no such test in study", "test = 7: no such test in study 'study'"),
        (
            lambda: check_ask("x" * 100, None, None),
            "n",
            "x" * 100,
            "must be a whole",
            "n = 'xxxxxxxxxxxx",
        ),
        (lambda: check_key(""), "key", "", "must be text of 1 to 200", "key = '': must be text"),
        (lambda: read_json('{"a": 1, "a": 2}'), "a", UNSTATED, "is given twice", "a is given twice"),
        (lambda: Client("ftp://x"), "url", "ftp://x", "must be the address", "url = 'ftp://x': must be the address"),
        (lambda: Client("http://x?token=1"), "url", UNSTATED, "must be the address", "url: must be the address"),
    ],
)
def test_an_error_has_the_field_that_its_sentence_names(
    act: Callable[[], object], field: str, value: object, reason: str, sentence: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        act()
    error = raised.value
    assert (error.field, error.value) == (field, value)
    assert error.reason.startswith(reason)
    assert str(error).startswith(sentence)
    assert_travels(error)


@pytest.mark.parametrize(
    ("act", "choices"),
    [
        (lambda: instance("x"), ("exp1-a", "drug")),
        (lambda: study().add([("c", "gain", 1.0)]), ("a", "b")),
        (lambda: study().add([("a", "pain", 1.0)]), ("gain", "harm")),
        (lambda: ba.Study.create(Plan.from_data(PROBLEM), policy="x", storage=":memory:"), ("certify", "racing")),
        (lambda: Plan.from_data(PROBLEM).with_means({"c": {}}), ("a", "b")),
    ],
)
def test_an_error_has_what_there_is_to_choose(act: Callable[[], object], choices: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput) as raised:
        act()
    assert set(choices) <= set(raised.value.choices)
    assert_travels(raised.value)


def test_several_complaints_at_once() -> None:
    with pytest.raises(InvalidInput) as raised:
        Plan.from_data(PROBLEM | {"delta": 2, "name": " x", "objective": {"metric": "gain", "goal": "maximize"}})
    error = raised.value
    assert {one.field for one in error.complaints} == {"objective.noise", "name", "delta"}
    assert str(error) == "; ".join(one.sentence for one in error.complaints)
    assert error.field == error.complaints[0].field
    assert_travels(error)
    assert_travels(error.about("study.toml"))
    assert str(error.about("study.toml")) == f"study.toml: {error}"


def test_a_whole_sentence_is_enough() -> None:
    error = InvalidInput("nothing fits")
    assert (str(error), error.field, error.value, error.reason, error.choices) == (
        "nothing fits",
        None,
        UNSTATED,
        "nothing fits",
        (),
    )
    assert isinstance(error, ValueError)
    assert_travels(error)
    assert_travels(InvalidInput())


def _classes(cls: type[InvalidInput]) -> Iterator[type[InvalidInput]]:
    yield cls
    for other in cls.__subclasses__():
        yield from _classes(other)


def test_every_class_of_mistakes_travels_and_has_a_kind_of_its_own() -> None:
    made = [
        *(cls("x", 1, "is wrong", ("2",)) for cls in (NotFound, NameTaken, SourceTaken, AlreadyTold, RefusedValue)),
        UnreadableStudy("study", "x", "its plan cannot be read"),
        StudyArchived("x"),
        HandedOn(3, "ann"),
        HoldsEnough("ann", 4),
        BlockTaken("Monday"),
        BlockUnfinished(3, 20_000),
    ]
    for error in made:
        assert_travels(error)
    public = [cls for cls in _classes(InvalidInput) if cls.__module__.startswith("bestarm.") and cls in map(type, made)]
    assert len({cls.kind for cls in public}) == len(public)
    assert all(inspect.getdoc(cls) for cls in public)


def test_what_cannot_travel_stays_behind() -> None:
    error = InvalidInput("function", lambda: None, "must be a number")
    there: InvalidInput = pickle.loads(pickle.dumps(error))
    assert (str(there), there.field, there.value) == (str(error), "function", UNSTATED)


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(st.text(), plain, st.text(), st.lists(st.text()))
def test_any_field_value_and_reason(field: str, value: object, reason: str, choices: list[str]) -> None:
    error = InvalidInput(field, value, reason, choices)
    assert str(error) == f"{field} = {value!r}: {reason}"
    assert (error.field, error.value, error.reason, error.choices) == (field, value, reason, tuple(choices))
    assert_travels(error)


def assert_travels(error: InvalidInput) -> None:
    for there in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(there) is type(error)
        assert str(there) == str(error)
        assert there.complaints == tuple(one.portable() for one in error.complaints)
        assert vars(there).keys() == vars(error).keys()
