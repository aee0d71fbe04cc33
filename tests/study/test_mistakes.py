"""Mistakes that can be taken back: of the program that measures, and of what is stated. None costs a test."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import cases, examples

import bestarm as ba
from bestarm.study.work.failures import wrong_form

ACCURACY = ba.maximize("accuracy", noise=ba.Bernoulli())
PLAIN = ba.Problem(arms=["a", "b"], objective=ACCURACY)
BOTH = ba.Problem(
    arms=["a", "b"],
    objective=ACCURACY,
    constraints=[ba.at_most("cost", 5, noise=ba.Bounded(0, 10))],
    measurements=[ba.measurement("accuracy", "cost")],
)


async def a_coroutine() -> float:
    return 1.0


WRONG: list[tuple[Any, str]] = [
    (lambda: None, r"None is no result; the function must return .*\. If an attempt failed, it must raise"),
    (a_coroutine, "a coroutine is no result; `await bestarm.identify_async"),
    (dict, "lacks 'accuracy'"),
    (lambda: {"accuracy": 1.0, "cost": 1.0, "tokens": 7}, "and no '(tokens|cost)'"),
    (lambda: {"Accuracy": 1.0}, "and no 'Accuracy'"),
    (lambda: "1", "'1' is no result"),
    (lambda: (1.0, 2.0), r"\(1.0, 2.0\) is no result"),
    (lambda: np.array([1.0, 0.0]), r"is no result; .*; float.* makes one of it|VALUE, "),
    (lambda: {"accuracy": None, "cost": 1.0}, "is no result|and no 'cost'"),
    (lambda: 1j, "is no result"),
]


def test_a_number_is_not_advised_where_a_mapping_is_wanted() -> None:
    """What float(…) makes of it is no result of two metrics either."""
    assert wrong_form(["accuracy", "cost"], 0.4).endswith('{"accuracy": VALUE, "cost": VALUE}')
    assert wrong_form(["accuracy"], np.array(["0.4"])).endswith("; float(…) makes one of it")


@cases(12)
@pytest.mark.parametrize("problem", [PLAIN, BOTH], ids=["one metric", "two metrics"])
@pytest.mark.parametrize(("wrong", "words"), WRONG)
@pytest.mark.parametrize("kind", ["threads", "coroutines"])
def test_nothing_is_lost_by_a_wrong_result(
    kind: str, problem: ba.Problem, wrong: Callable[[], Any], words: str, tmp_path: Path
) -> None:
    """The seventh call goes wrong. Once the function is mended, calling again goes on as if it never had."""
    calls: list[str] = []
    mended = False

    def right(arm: str, metric: str) -> Any:
        calls.append(arm)
        if len(calls) >= 7 and not mended:
            return wrong()
        value = np.bool_(arm == "a")
        return {"accuracy": value, "cost": np.float32(1.0)} if problem is BOTH else value

    async def right_async(arm: str, metric: str) -> Any:
        found = right(arm, metric)
        return await found if asyncio.iscoroutine(found) and mended else found

    def identify() -> ba.Answer:
        where: dict[str, Any] = {"storage": tmp_path / "s.db", "seed": 1, "failed_as": 1, "retries": 3}
        if kind == "threads":
            return ba.identify(problem, right, workers=3, **where)
        return asyncio.run(ba.identify_async(problem, right_async, concurrency=3, **where))

    for _ in range(2):
        with pytest.raises(ba.MeasurementFailed, match=words) as stopped:
            identify()
        said = str(stopped.value)
        assert "The test is given back. Mend that, and call again with the same storage and name to go on." in said
        study = ba.Study.open("study", storage=tmp_path / "s.db")
        assert study.unresolved() == []
        assert study.status().tests == 6
    mended = True
    answer = identify()
    assert answer.arm == "a"
    assert answer.tests == ba.identify(problem, right, workers=3, seed=1).tests


def test_a_study_in_memory_goes_on_too() -> None:
    calls = 0

    def measure(arm: str, metric: str) -> float | None:
        nonlocal calls
        calls += 1
        return None if calls == 9 else float(arm == "a")

    with pytest.raises(ba.MeasurementFailed, match=r"storage=sys\.last_value\.study\.storage") as stopped:
        ba.identify(PLAIN, measure)  # type: ignore[arg-type]
    assert stopped.value.study is not None
    answer = ba.identify(PLAIN, measure, storage=stopped.value.study.storage)  # type: ignore[arg-type]
    assert (answer.arm, calls) == ("a", answer.tests + 1)


def test_an_impossible_value_can_be_taken_back(tmp_path: Path) -> None:
    """It is set aside, because the noise may be wrong. If the function was, the message says how to free the test."""
    with pytest.raises(ba.MeasurementFailed) as stopped:
        ba.identify(PLAIN, lambda arm, metric: 93.0, storage=tmp_path / "s.db")
    advice = "bestarm.Study.open('study', storage=…).release(1)"
    assert advice in str(stopped.value)
    ba.Study.open("study", storage=tmp_path / "s.db").release(1)
    assert ba.identify(PLAIN, lambda arm, metric: arm == "a", storage=tmp_path / "s.db").arm == "a"


def test_an_exception_can_be_taken_back() -> None:
    """A bug in the seventeenth call, and no storage."""
    calls = 0
    rng = random.Random(4)

    def measure(arm: str, metric: str) -> float:
        nonlocal calls
        calls += 1
        if calls == 17:
            raise NameError("name 'acuracy' is not defined")
        return float(rng.random() < (0.9 if arm == "a" else 0.5))

    with pytest.raises(
        ba.MeasurementFailed, match=r"once a mistake .* is mended, free the test with sys\.last"
    ) as stop:
        ba.identify(PLAIN, measure, workers=4)
    study: Any = stop.value.study
    [held] = study.unresolved()
    study.release(held.test)
    assert ba.identify(PLAIN, measure, storage=study.storage).arm == "a"


def nothing(*arguments: str) -> float:
    raise AssertionError("it must not be called")


@pytest.mark.parametrize("items", [None, 50])
def test_functions_that_cannot_be_called(items: int | None) -> None:
    problem = ba.Problem(arms=["a", "b"], objective=ACCURACY, items=items)
    names = r"\(arm, metric, item\)" if items else r"\(arm, metric\)"
    wrong: list[Any] = [lambda arm: nothing(arm), lambda: nothing(), lambda a, b, c, d: nothing(a), 3, None]
    wrong.append((lambda arm, metric: nothing(arm)) if items else (lambda arm, metric, item: nothing(arm)))
    for function in wrong:
        with pytest.raises(ba.InvalidInput, match=f"function = .*must (take|be a function of) {names}"):
            ba.identify(problem, function)
        with pytest.raises(ba.InvalidInput, match=f"function = .*must (take|be a function of) {names}"):
            asyncio.run(ba.identify_async(problem, function))

    async def measure(*names: str) -> float:
        return nothing(*names)

    with pytest.raises(ba.InvalidInput, match=r"function = measure: is a coroutine function .*identify_async"):
        ba.identify(problem, measure)  # type: ignore[arg-type]
    for problem_of in (ba.identify, lambda *given: asyncio.run(ba.identify_async(*given))):
        with pytest.raises(ba.InvalidInput, match=r"problem = .*: must be a Problem or a Plan"):
            problem_of(nothing, problem)  # type: ignore[arg-type]


def test_what_is_stated_wrongly_says_what_was_meant() -> None:
    stated: list[tuple[dict[str, Any], str]] = [
        (
            {"objective": "accuracy"},
            r"objective = 'accuracy': must say what is wanted: maximize\('accuracy', noise=…\)",
        ),
        ({"arms": [1, 2]}, r'arms\[0\] = 1: must be a name, as in "1", or an Arm; arms\[1\] = 2'),
        ({"arms": "ab"}, r"arms = 'ab': must be a list of names, as in \['ab'\]"),
        ({"constraints": ["cost"]}, r"constraints\[0\] = 'cost': must say what the limit is: at_most\('cost', LIMIT"),
    ]
    for fields, words in stated:
        given: dict[str, Any] = {"arms": ["a", "b"], "objective": ACCURACY} | fields
        with pytest.raises(ba.InvalidInput, match=words):
            ba.Problem(**given)


@pytest.mark.parametrize(("delta", "meant"), [(0.95, "0.05"), (0.9, "0.1"), (0.99, "0.01"), (0.6, "0.4")])
def test_a_confidence_in_the_place_of_delta(delta: float, meant: str) -> None:
    with pytest.raises(ba.InvalidInput, match=rf"delta = {delta}: .* at most 0\.5; was {meant} meant"):
        ba.Study.create(PLAIN, delta=delta, storage=":memory:")
    with pytest.raises(ba.InvalidInput, match=f"was {meant} meant"):
        ba.identify(PLAIN, nothing, delta=delta)
    assert ba.Study.create(PLAIN, delta=0.5, storage=":memory:").plan.delta == 0.5


@examples(40, 1000, deadline=None)
@given(
    st.sampled_from([("accuracy",), ("accuracy", "cost")]),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3) | st.complex_numbers(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["accuracy", "cost", 1]), inner),
        max_leaves=4,
    ),
)
def test_what_has_the_right_form_is_told_or_refused_for_its_value(metrics: tuple[str, ...], result: Any) -> None:
    """Whatever is returned, it is a mistake of form, or the study takes it, or it is a number that cannot be."""
    plan = BOTH if len(metrics) == 2 else PLAIN
    if not wrong_form(metrics, result):
        study = ba.Study.create(plan, storage=":memory:")
        [test] = study.ask(1)
        said = ""
        try:
            study.tell(test, result)
        except ba.InvalidInput as error:
            said = str(error)
        # True is a value of a rate, and of nothing else.
        known = (
            "must be 0 or 1",
            "finite",
            "must lie between",
            "= True: must be a number",
            "= False: must be a number",
        )
        assert not said or any(words in said for words in known), said
