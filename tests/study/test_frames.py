"""Data frames: every result of a study out, and the results of any frame in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import examples
from tests.study.problems import RUN, bench, two_arms

import bestarm as ba
from bestarm.storage.errors import SourceTaken

GOOD = {"time": 4.0, "memory": 50.0, "crash": 0.0}


@pytest.fixture(autouse=True)
def pandas(needs: Callable[[str], None]) -> None:
    needs("pandas")


def on_items(**options: Any) -> ba.Plan:
    return ba.Plan(
        arms=(ba.Arm("a"), ba.Arm("b")),
        objective=ba.maximize("score", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("cost", 5.0, noise=ba.Gaussian(1.0)),),
        measurements=[ba.measurement("score", "cost")],
        items=["q1", "q2", "q3", "q4", "q5", "q6"],
        **options,
    )


PLANS: dict[str, Callable[..., ba.Plan]] = {"alone": two_arms, "together": bench, "items": on_items}


def study_of(kind: str, **options: Any) -> ba.Study:
    return ba.Study.create(PLANS[kind](**options), storage=":memory:", holder="me")


def test_every_result_in_the_order_of_the_record() -> None:
    start = datetime.now(UTC)
    study = study_of("together")
    tests = study.ask(4)
    study.tell(tests[2], {"time": 5.0, "memory": 60.0, "crash": 1.0})
    study.tell(tests[0], GOOD)
    study.correct(tests[0], {"memory": 55.0}, "typo")
    study.abandon(tests[1], "spilled")
    study.add([("slow", "size", 3.0)])
    frame = study.frame()
    assert list(frame) == ["test", "arm", "metric", "value", "holder", "told"]
    assert frame[["test", "arm", "metric", "value"]].values.tolist() == [
        *([1, "a", "time", 4.0], [1, "a", "memory", 55.0], [1, "a", "crash", 0.0]),
        *([3, "b", "time", 5.0], [3, "b", "memory", 60.0], [3, "b", "crash", 1.0]),
        [5, "slow", "size", 3.0],
    ]
    assert set(frame.holder) == {"me"}
    # By the database's clock, and rounded.
    assert frame.told.between(start - timedelta(minutes=1), datetime.now(UTC) + timedelta(minutes=1)).all()
    wide = study.frame(wide=True)
    assert list(wide) == ["test", "arm", "time", "size", "memory", "crash", "holder", "told"]
    assert wide.test.tolist() == [1, 3, 5]
    assert wide["size"].isna().tolist() == [True, True, False]
    assert wide["crash"].tolist()[:2] == [0.0, 1.0]


@pytest.mark.parametrize("kind", PLANS)
def test_frames_of_nothing_have_their_columns(kind: str) -> None:
    study = study_of(kind)
    study.ask(2)
    assert len(study.frame()) == len(study.frame(wide=True)) == 0
    item = ["item"] if kind == "items" else []
    assert list(study.frame()) == ["test", "arm", "metric", "value", *item, "holder", "told"]
    assert list(study.frame(wide=True)) == ["test", "arm", *item, *study.plan.measured, "holder", "told"]


def test_by_arrival_and_by_name() -> None:
    study = study_of("alone", order="arrival")
    first, second = study.ask(2)
    study.tell(second, 1.0)
    study.tell(first, 0.5)
    assert study.frame().test.tolist() == [second.id, first.id]
    problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("told", noise=ba.Gaussian(1.0)))
    other = ba.Study.create(problem, storage=":memory:")
    with pytest.raises(ba.InvalidInput, match="the metric 'told' is called like another column"):
        other.frame(wide=True)
    assert other.add_frame({"arm": ["a"], "told": [1.5]}) == [1]
    assert other.frame().metric.tolist() == ["told"]


def results_of(kind: str, draw: Callable[[Any], Any]) -> list[Any]:
    plan = PLANS[kind]()
    number = st.floats(-1e6, 1e6)
    if kind == "items":
        places = st.tuples(st.sampled_from(plan.arm_names), st.sampled_from([f"q{k}" for k in range(1, 7)]))
        rows = draw(st.lists(st.tuples(places, number, number), min_size=1, max_size=8, unique_by=lambda row: row[0]))
        return [(arm, {"score": score, "cost": cost}, item) for (arm, item), score, cost in rows]
    if kind == "alone":
        one = st.tuples(st.sampled_from(plan.arm_names), st.just("gain"), number)
        other = st.tuples(st.sampled_from(plan.arm_names), st.just("harm"), st.sampled_from([0.0, 1.0]))
        return draw(st.lists(st.one_of(one, other), min_size=1, max_size=8))  # type: ignore[no-any-return]
    values = st.fixed_dictionaries({"time": number, "memory": st.floats(0, 1000), "crash": st.sampled_from([0.0, 1.0])})
    run = st.tuples(st.sampled_from(plan.arm_names), values)
    size = st.tuples(st.sampled_from(plan.arm_names), st.just("size"), st.just(3.0))
    return draw(st.lists(st.one_of(run, size), min_size=1, max_size=8))  # type: ignore[no-any-return]


@examples(20, 100)
@given(st.sampled_from([*PLANS]), st.booleans(), st.sampled_from(["pandas", "dict", "shuffled columns"]), st.data())
def test_a_frame_read_into_another_study_is_the_same_frame(kind: str, wide: bool, form: str, data: Any) -> None:
    study, copy = study_of(kind), study_of(kind)
    study.add(results_of(kind, data.draw))
    frame: Any = study.frame(wide=wide)
    given = frame
    if form == "dict":
        given = {name: frame[name].tolist() for name in frame}
    elif form == "shuffled columns":
        given = frame[data.draw(st.permutations([*frame]))].set_index(frame.test * 7)
    ids = copy.add_frame(given)
    assert ids == [*range(1, frame.test.nunique() + 1)]
    mine, theirs = study.frame().drop(columns="told"), copy.frame().drop(columns="told")
    assert mine.equals(theirs)
    with pytest.raises(
        SourceTaken, match=r"^the frame: nothing new, since (its one result is|all its \d results are) in this"
    ):
        copy.add_frame(given)
    assert copy.add_frame(given, again=True, key="k")[0] == len(ids) + 1 if kind != "items" else True


def test_names_of_columns_numbers_as_names_and_text_as_numbers() -> None:
    problem = ba.Problem(arms=["25", "150"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
    study = ba.Study.create(problem, storage=":memory:")
    import pandas as pd

    frame = pd.DataFrame({"dose": [25, 150], "what": ["gain", "gain"], "x": ["1.5", " 2 "], "weather": ["dry", "wet"]})
    assert study.add_frame(frame, arm="dose", metric="what", value="x") == [1, 2]
    assert study.frame()[["arm", "value"]].values.tolist() == [["25", 1.5], ["150", 2.0]]
    study.add_frame(pd.DataFrame({"arm": pd.Categorical(["25"]), "gain": pd.array([3], dtype="Int64")}), key="k")
    study.add_frame(pd.DataFrame({"arm": pd.Categorical(["25"]), "gain": pd.array([3], dtype="Int64")}), key="k")
    assert study.frame().value.tolist() == [1.5, 2.0, 3.0]


def test_columns_of_a_frame_are_ignored_by_name() -> None:
    study = ba.Study.create(two_arms(), storage=":memory:")
    frame = {"arm": ["a"], "gain": [1.0], "batch": [7], "note": ["late"]}
    with pytest.raises(
        ba.InvalidInput, match=r"the columns 'batch', 'note' are no metrics .* ignore=\['batch', 'note'\]$"
    ):
        study.add_frame(frame)
    assert study.add_frame(frame, ignore=["batch", "note"]) == [1]
    for column, said in (("gain", "is one of the study's columns"), ("lot", "the frame has no such column")):
        with pytest.raises(ba.InvalidInput, match=f"ignore = '{column}': {said}"):
            study.add_frame(frame, ignore=["batch", "note", column])


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (7, "frame = 7: must be a data frame, or a dictionary of lists"),
        ({"arm": ["a"], "metric": ["gain"], "value": []}, "the frame: its columns differ in length"),
        ({}, "the frame: has no columns"),
        ({"metric": ["gain"], "value": [1.0]}, "the column 'arm' must be there beside 'metric', 'value'"),
        ({"arm": [], "metric": [], "value": []}, "the frame: has no results"),
        ({"arm": ["a"], "speed": [1.0]}, "the frame: needs columns metric and value, or a column for each metric"),
        (
            {"arm": ["a"], "gain": [1.0], "Harm": [1]},
            "the column 'Harm' is not a metric of this study, which has gain, harm",
        ),
        ({"arm": ["a"], "gain": [1.0], "item": [1]}, "has a column 'item', and this study has no items"),
        (
            {"arm": ["a", "z"], "gain": [1.0, 2.0]},
            "the frame: row 1: column 'arm' = 'z': no such arm; there are 'a', 'b'",
        ),
        ({"arm": ["a"], "gain": ["1,5"]}, "row 0: column 'gain' = '1,5': must be written with a decimal point"),
        ({"arm": ["a"], "harm": [0.5]}, "row 0: column 'harm' = 0.5: must be 0 or 1"),
        ({"arm": ["a"], "gain": [float("inf")]}, "row 0: column 'gain' = inf: must be a finite number"),
        (
            {"arm": ["a"], "gain": [None], "harm": [None]},
            "row 0: has no value of 'gain' and 'harm'",
        ),
        ({"arm": ["a"], "metric": ["gain"], "value": [float("nan")]}, "row 0: column 'value': is missing"),
        ({"arm": ["a"], "metric": ["x"], "value": [1.0]}, "row 0: column 'metric' = 'x': no such metric; there are"),
        ({"arm": [None], "metric": ["gain"], "value": [1.0]}, "row 0: column 'arm': is missing"),
        ({"arm": [["a"]], "metric": ["gain"], "value": [1.0]}, "row 0: column 'arm' = ['a']: no such arm"),
    ],
)
def test_what_cannot_be_read_is_named_and_nothing_recorded(frame: Any, complaint: str) -> None:
    study = study_of("alone")
    with pytest.raises(ba.InvalidInput) as caught:
        study.add_frame(frame)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(study.frame()) == 0


def test_bad_rows_of_tests_of_several_metrics() -> None:
    study = study_of("together")
    long = {
        "test": [1, 1, 1, 2, 2, 3, None, 4],
        "arm": ["a", "a", "a", "b", "b", "b", "b", "slow"],
        "metric": ["time", "memory", "crash", "time", "memory", "time", "time", "size"],
        "value": [1.0, 2.0, "x", 1.0, 2.0, 3.0, 1.0, 3.0],
    }
    with pytest.raises(ba.InvalidInput) as caught:
        study.add_frame(long)
    follow = "the values of one test stand on rows that follow each other"
    assert str(caught.value).split("\n  ") == [
        "the frame: 4 rows cannot be accepted; nothing was recorded",
        "row 2: column 'value' = 'x': must be a number",
        f"row 3: test = 2: lacks 'crash'; {follow}",
        f"row 5: test = 3: lacks 'memory' and 'crash'; {follow}",
        "row 6: metric = 'time': is measured together with 'memory' and 'crash'; give the lines of one test the same "
        "number in a column test, or give each metric a column of its own",
    ]
    with pytest.raises(ba.InvalidInput, match="row 0: column 'crash': is missing; one test yields it together with"):
        study.add_frame({"arm": ["a"], "time": [1.0], "memory": [2.0], "crash": [None]})
    with pytest.raises(ba.InvalidInput, match="the column memory, crash must be there beside 'time': one test yields"):
        study.add_frame({"arm": ["a"], "time": [1.0]})
    assert study.add_frame({"arm": ["a"], "time": [1.0], "memory": [2.0], "crash": [True], "size": [3.0]}) == [1, 2]
    assert study.frame(wide=True).arm.tolist() == ["a", "a"]
    assert [test.metric for test, _ in study.pending()] == []
    assert RUN in study.plan.test_names.values()


def test_items_are_checked_row_by_row() -> None:
    study = study_of("items")
    columns = {"arm": ["a", "a", "b"], "score": [1.0, 2.0, 3.0], "cost": [1.0, 1.0, 1.0]}
    with pytest.raises(ba.InvalidInput, match="the column 'item' must be there beside 'arm', 'score', 'cost'"):
        study.add_frame(columns)
    with pytest.raises(ba.InvalidInput, match="row 2: column 'item' = 'q9'"):
        study.add_frame({**columns, "item": ["q1", "q2", "q9"]})
    with pytest.raises(
        ba.InvalidInput, match=r"row 1: item = 'q1': 'score . cost' of 'a' has been measured on it already"
    ):
        study.add_frame({**columns, "item": ["q1", "q1", "q1"]})
    assert study.add_frame({**columns, "item": ["q1", "q2", "q1"]}) == [1, 2, 3]
    assert study.frame(wide=True).item.tolist() == ["q1", "q2", "q1"]


def test_ratios_have_a_column_for_each_of_their_metrics() -> None:
    plan = ba.Plan(
        arms=("a", "b"),
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("errors", 0.1, per="requests", noise=ba.Gaussian(1.0)),),
    )
    study = ba.Study.create(plan, storage=":memory:")
    frame = {"arm": ["a", "b"], "errors": [1.0, 2.0], "requests": [50.0, 0.0]}
    with pytest.raises(ba.InvalidInput, match=r"the frame: row 1: column 'requests' = 0\.0"):
        study.add_frame(frame)
    assert study.add_frame({**frame, "requests": [50.0, 40.0]}) == [1, 2]
    assert study.frame(wide=True)["requests"].tolist() == [50.0, 40.0]
    assert study.frame().metric.tolist() == ["errors", "requests"] * 2


def test_arms_that_come_later_are_there_in_every_table(tmp_path: Path) -> None:
    """Also in a program that had the study open before they came."""
    plan = ba.Plan(arms=("a", "b"), objective=ba.maximize("gain", noise=ba.Gaussian(1.0)), reserve=0.2)
    one = ba.Study.create(plan, storage=tmp_path / "s.db")
    other = ba.Study.open("study", storage=tmp_path / "s.db")
    one.add([("a", "gain", 1.0), ("b", "gain", 2.0)])
    assert len(other.frame()) == 2
    one.add_arms(["c", "d"])
    one.add([("c", "gain", 3.0)])
    assert other.frame().arm.tolist() == ["a", "b", "c"]
    assert other.course()[-1].candidates == ("a", "b", "c", "d")
    third = ba.Study.open("study", storage=tmp_path / "s.db")
    one.add_arms(["e"])
    assert third.add_frame({"arm": ["e"], "gain": [4.0]}) == [4]
    one.retire("e")
    assert third.frame(wide=True).arm.tolist() == ["a", "b", "c", "e"]
    assert third.course()[-1].candidates == ("a", "b", "c", "d")


def test_pandas_is_not_needed_to_take_a_frame_in() -> None:
    script = (
        "import sys; sys.modules['pandas'] = None\n"
        "import bestarm as ba\n"
        "problem = ba.Problem(arms=['a', 'b'], objective=ba.maximize('gain', noise=ba.Gaussian(1.0)))\n"
        "study = ba.Study.create(problem, storage=':memory:')\n"
        "print(study.add_frame({'arm': ['a'], 'gain': [1.0]}))\n"
        "try:\n    study.frame()\nexcept ba.InvalidInput as error:\n    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "[1]\na data frame needs pandas: pip install 'bestarm[frame]'\n"
