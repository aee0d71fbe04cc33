"""Studies with items: every arm meets the same ones in the same order, and results given by name find their places."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.study.problems import exported

import bestarm as ba
from bestarm.analysis.status.waiting import HeldResults
from bestarm.problem.items import ItemOrder
from bestarm.study.files.exchange import import_results, tell_results, write_json

NAMES = [f"question {k}" for k in range(30)]
CALL = "score + violation"


def judges(items: int | Sequence[str] = 30, *, repeats: bool = False, **options: Any) -> ba.Plan:
    """A call of a judge on an item yields a score and whether it broke a rule. Its length is measured alone."""
    return ba.Plan(
        arms=(ba.Arm("terse"), ba.Arm("chatty")),
        objective=ba.maximize("score", noise=ba.Bounded(0, 10)),
        constraints=(
            ba.at_most("violation", 0.5, noise=ba.Bounded(0, 1)),
            ba.at_most("length", 90.0, noise=ba.Bounded(0, 100)),
        ),
        measurements=[ba.measurement("score", "violation")],
        items=items,
        repeats=repeats,
        **options,
    )


def call(arm: str, metric: str, item: str | None) -> float | dict[str, float]:
    """A measurement that depends on the item, and not on chance."""
    assert item is not None
    difficulty = random.Random(item).uniform(0.0, 4.0)
    if metric == "length":
        return 10.0 * difficulty
    assert metric == CALL
    return {"score": difficulty + (5.0 if arm == "terse" else 0.0), "violation": 0.0}


@pytest.fixture(params=[":memory:", "s.db"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param if request.param == ":memory:" else str(tmp_path / request.param)


@pytest.mark.parametrize(("items", "repeats"), [(30, False), (NAMES, False), (30, True), (NAMES, True)])
def test_every_arm_meets_the_same_items_in_the_same_order(
    storage: str, items: int | Sequence[str], repeats: bool
) -> None:
    study = ba.Study.create(judges(items, repeats=repeats, delta=0.2), storage=storage, items_seed=7)
    order = ItemOrder(items if isinstance(items, int) else tuple(items), repeats, 7)
    met: dict[tuple[str, str], list[str | None]] = {}
    while not study.done:
        for test in study.ask(3):
            met.setdefault((test.arm, test.metric), []).append(test.item)
            study.tell(test, call(test.arm, test.metric, test.item))
    for found in met.values():
        assert found == [order.name(place) for place in range(len(found))]
    answer = study.answer
    assert answer is not None
    assert answer.arm == "terse"
    again = ba.Study.open("study", storage=study.storage)
    assert (again.answer, again.state) == (answer, study.state)


def test_identify_is_called_with_the_item(tmp_path: Path) -> None:
    answer = ba.identify(judges(), call, storage=tmp_path / "s.db")
    assert answer.arm == "terse"
    assert ba.identify(judges(), call, storage=tmp_path / "s.db") == answer


def test_a_function_that_takes_no_item_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    def measure(arm: str, metric: str) -> float:
        raise AssertionError

    with pytest.raises(
        ba.InvalidInput, match=r"function = measure: .*must take \(arm, metric, item\), because the problem"
    ):
        ba.identify(judges(), measure, storage=tmp_path / "s.db", failed_as=0)
    assert not (tmp_path / "s.db").exists()


def test_tests_are_named_with_their_item() -> None:
    study = ba.Study.create(judges(NAMES), storage=":memory:", items_seed=7)
    first, second = study.ask(2)
    item = ItemOrder(NAMES, False, 7).name(0)
    assert first == ba.Test(1, "terse", CALL, ("score", "violation"), item)
    study.set_aside(first, "no answer")
    [awaited] = study.unresolved()
    assert (awaited.item, awaited.metric) == (item, CALL)
    assert str(awaited).startswith(f"test 1 ({CALL} of terse on {item}), whose attempt by ")
    assert "study.tell(1, {'score': VALUE, 'violation': VALUE})" in str(awaited)
    study.tell(first, call("terse", CALL, item))
    with pytest.raises(
        ba.AlreadyTold, match=rf"test = 1 \('score . violation' of 'terse' on '{item}'\): has the result"
    ):
        study.tell(first, {"score": 9.9, "violation": 0})
    wrong = ba.Test(second.id, second.arm, second.metric, second.metrics, "question 99")
    with pytest.raises(
        ba.InvalidInput, match=r"test = 2: is 'length' of 'terse' on '.*' in study 'study', not 'length'"
    ):
        study.tell(wrong, 1.0)
    # Who knows of no items does not name them.
    study.tell(ba.Test(second.id, second.arm, second.metric), 1.0)
    assert [study.item_name(event.item) for event in study.log()] == [None, item, second.item, None, item, second.item]


def test_what_was_given_up_is_measured_on_another_day() -> None:
    study = ba.Study.create(judges(4), storage=":memory:")
    tests = study.ask(8)
    study.abandon(tests[0], "no network")
    for test in tests[1:]:
        study.tell(test, call(test.arm, test.metric, test.item))
    assert tests[0].item in {test.item for test in study.ask(8) if (test.arm, test.metric) == ("terse", CALL)}


def test_results_measured_without_asking_find_their_place(database_url: str) -> None:
    study = ba.Study.create(judges(NAMES), storage=database_url, items_seed=7)
    order = ItemOrder(NAMES, False, 7)
    out = study.ask(1)[0]
    values = {"score": 3.0, "violation": 0.0}
    given: list[Any] = [("terse", values, order.name(2)), ("terse", CALL, values, order.name(1))]
    given += [("chatty", "length", 7.0, order.name(0))]
    assert study.add(given, key="k") == [2, 3, 4]
    # A repeat under the same key is recognized, though these items are taken by now.
    assert study.add(given, key="k") == [2, 3, 4]
    assert [event.item for event in study.log() if event.kind == "given"] == [2, 1, 0]
    wrong: list[tuple[Any, str]] = [
        (
            ("terse", values, order.name(2)),
            "'score . violation' of 'terse' has been measured on it already, or is being",
        ),
        (("terse", values, out.item), "has been measured on it already, or is being measured"),
        (("terse", values, "question 77"), "item = 'question 77': no such item; there are 'question 0', 'question 1'"),
        (("terse", values), "item: is missing; results of this study are of an item each"),
        (("terse", values, 2.5), "item = 2.5: must be the name or the number of an item"),
        (("terse", "score", 3.0, "question 1"), "'score': is measured together with 'violation'"),
    ]
    for result, words in wrong:
        with pytest.raises(ba.InvalidInput, match=words):
            study.add([("chatty", "length", 7.0, order.name(5)), result])
    # All or none: that item was not taken.
    assert study.add([("chatty", "length", 7.0, order.name(5))]) == [5]
    with pytest.raises(ba.InvalidInput, match="has been measured on it already"):
        study.add([("chatty", "length", 7.0, order.name(8)), ("chatty", "length", 7.0, order.name(8))])
    # New tests fill what is left, from the first place on.
    places = [order.place(test.item or "") for test in study.ask(30) if (test.arm, test.metric) == ("terse", CALL)]
    assert places[:2] == [3, 4]
    study.storage.close()


def test_with_repeats_the_next_items_count(database_url: str) -> None:
    study = ba.Study.create(judges(5, repeats=True), storage=database_url, items_seed=7)
    order = ItemOrder(5, True, 7)
    values = {"score": 3.0, "violation": 0.0}
    # In one go they may come in any order. Numbers will do for names.
    study.add([("terse", values, int(order.name(place))) for place in (2, 0, 1)])
    assert sorted(event.item for event in study.log() if event.item is not None) == [0, 1, 2]
    other = next(name for name in map(str, range(1, 6)) if name != order.name(3))
    with pytest.raises(
        ba.InvalidInput, match=rf"is not next for .*: items come in .* and the next is '{order.name(3)}'"
    ):
        study.add([("terse", values, other)])
    study.add([("terse", values, order.name(3))])
    study.storage.close()


def test_one_place_is_never_taken_twice(database_url: str) -> None:
    """Some ask while others give results of the same items."""
    study = ba.Study.create(judges(60), storage=database_url)
    order = ItemOrder(60, False, 0)
    refused: list[str] = []

    def ask(me: ba.Study) -> None:
        for _ in range(8):
            for test in me.ask(3):
                me.tell(test, call(test.arm, test.metric, test.item))

    def give(me: ba.Study) -> None:
        for place in range(12):
            item = order.name(place)
            try:
                me.add([(arm, CALL, call(arm, CALL, item), item) for arm in me.plan.arm_names])
            except ba.InvalidInput as error:
                refused.append(str(error))

    # One of them asks and gives through the same object.
    mine = ba.Study.open("study", storage=study.storage)
    with ThreadPoolExecutor() as pool:
        for _ in [*pool.map(lambda act: act[0](act[1]), [(ask, study), (give, study), (ask, mine), (give, mine)])]:
            pass
    issued = [(event.arm, event.metric, event.item) for event in study.log() if event.kind in ("asked", "given")]
    assert len(issued) == len(set(issued))
    assert all("has been measured on it already, or is being measured" in words for words in refused)
    # Both wanted to give each of them.
    assert len(refused) >= 12
    study.storage.close()


@pytest.mark.parametrize(("items", "repeats"), [(30, False), (NAMES, True)])
def test_an_export_read_into_a_new_study_gives_the_same_answer(items: int | list[str], repeats: bool) -> None:
    """With tests given up, whose places are taken by later ones, and tests that are still out."""
    plan = judges(items, repeats=repeats, delta=0.2)
    study = ba.Study.create(plan, storage=":memory:", items_seed=7)
    rng = random.Random(1)
    while not study.done:
        for test in study.ask(5):
            if rng.random() < 0.1:
                study.abandon(test, "no network")
            else:
                study.tell(test, call(test.arm, test.metric, test.item))
    study.ask(3)
    text = exported(study)
    assert text.startswith("test,arm,metric,value,reason,who,issued,told,round,corrections,item\n")
    copy = ba.Study.create(plan, storage=":memory:", items_seed=7)
    import_results(copy, text.encode(), "e.csv")
    assert copy.answer == study.answer
    assert copy.state == study.state
    out = io.StringIO()
    write_json(study, out)
    assert '"metrics": ["score", "violation"], "item": "' in out.getvalue()


def test_sheets_of_items() -> None:
    study = ba.Study.create(judges(NAMES), storage=":memory:", items_seed=7)
    first, *_ = study.ask(4)
    sheet = f"item,arm,score,violation,length\nquestion 3,chatty,1,0,2\nquestion 3,terse,2,0,\n{NAMES[4]},terse,,,5\n"
    assert import_results(study, sheet.encode(), "s.csv").results == 4
    bad = (
        "arm,item,score,violation\nterse,question 3,1,0\nterse,question 33,1,0\nterse,,1,0\nterse,question 5,1,\n"
        f"terse,{first.item},1,0\nterse,question 44,1,0\n"
    )
    with pytest.raises(ba.InvalidInput) as caught:
        import_results(study, bad.encode(), "s.csv")
    assert str(caught.value).split("\n  ")[:2] == [
        "s.csv: 4 lines cannot be accepted; nothing was recorded",
        "line 3: item = 'question 33': no such item; there are " + ", ".join(map(repr, NAMES[:10])) + " and 20 more",
    ]
    assert str(caught.value).split("\n  ")[2:] == [
        "line 4: item: is missing",
        "line 5: violation: is missing; one test yields it together with 'score'",
        "line 7: item = 'question 44': no such item",
    ]
    taken = f"arm,item,score,violation\nterse,question 3,1,0\nterse,question 9,1,0\nterse,{first.item},1,0\n"
    with pytest.raises(ba.InvalidInput) as caught:
        import_results(study, taken.encode(), "s.csv")
    assert [line.split(":")[0] for line in str(caught.value).split("\n  ")[1:]] == ["line 2", "line 4"]
    with pytest.raises(
        ba.InvalidInput, match=r"s.csv: line 1: the column item must be there beside arm, metric, value"
    ):
        import_results(study, b"arm,metric,value\nterse,length,1\n", "s.csv")
    with pytest.raises(
        ba.InvalidInput, match=rf"line 2: test = 1: is 'score . violation' of 'terse' on '{first.item}'"
    ):
        tell_results(study, b"test,item,score,violation\n1,question 3,1,0\n", "s.csv")
    tell_results(study, f"test,item,score,violation\n1,{first.item},1,0\n".encode(), "s.csv")


def test_items_left_are_those_without_all_results_in_the_order_of_the_study() -> None:
    study = ba.Study.create(judges(NAMES), storage=":memory:", items_seed=3)
    order = [ItemOrder(NAMES, False, 3).name(place) for place in range(len(NAMES))]
    assert study.items_left("terse") == order
    # Told out of order, so that a result waits for an earlier one; and an item of which one test of two is made.
    study.add([("terse", {"score": 1.0, "violation": 0.0}, order[k]) for k in (0, 4)])
    study.add([("terse", "length", 10.0, order[k]) for k in (4, 5)])
    assert study.items_left("terse") == [name for name in order if name != order[4]]
    assert study.items_left("chatty") == order
    assert ba.Study.create(judges(repeats=True), storage=":memory:").items_left("terse") == []
    with pytest.raises(ba.InvalidInput, match="no such arm"):
        study.items_left("loud")


def test_past_results_whose_turn_comes_later_are_said_not_to_count() -> None:
    """They say nothing yet of which arm looks feasible."""
    study = ba.Study.create(judges(NAMES), storage=":memory:", items_seed=3)
    order = [ItemOrder(NAMES, False, 3).name(place) for place in range(len(NAMES))]
    study.add([("terse", {"score": 1.0, "violation": 0.0}, order[k]) for k in (4, 5)])
    now = study.status()
    assert (now.headline, now.tests, now.counted) == ("running: no results count yet", 2, 0)
    late = "2 results recorded but not counted yet, for "
    what = f"score + violation of terse on {order[0]}"
    assert now.held is not None
    assert (now.held.results, now.held.test, now.held.words) == (
        *(2, None),
        f"{late}{what}, not asked for yet: items count in the study's order",
    )
    assert f"waiting    {now.held}\n" in str(now)
    study.add([("terse", {"score": 1.0, "violation": 0.0}, order[0])])
    now = study.status()
    assert (now.headline, now.counted) == (
        *("running: no arm looks feasible so far (not counting 2 results that wait)", 1),
    )
    number = next(test.id for test in study.ask(8) if (test.arm, test.metric, test.item) == ("terse", CALL, order[1]))
    assert study.status().held == HeldResults.of(2, f"score + violation of terse on {order[1]}", number)
    assert f"{late}test {number} (score + violation of terse on {order[1]}): items" in str(study.status())
    for test, _ in study.pending():
        study.tell(test, call(test.arm, test.metric, test.item))
    while study.status().held is not None:
        for test in study.ask(4):
            study.tell(test, call(test.arm, test.metric, test.item))
    assert study.status().counted == study.status().tests


def test_what_is_given_up_holds_back_the_results_of_later_items() -> None:
    study = ba.Study.create(judges(NAMES), storage=":memory:", items_seed=3)
    tests = study.ask(8)
    [first, *later] = [test for test in tests if (test.arm, test.metric) == (tests[0].arm, tests[0].metric)]
    study.abandon(first, "the service is down")
    study.tell_many([(test, call(test.arm, test.metric, test.item)) for test in tests if test != first])
    held = study.status().held
    assert held is not None
    assert (held.results, held.test) == (len(later), None)
    assert str(first.item) in held.words


def test_a_study_that_is_done_holds_nothing_back() -> None:
    problem = ba.Problem(["a", "b"], ba.maximize("gain", noise=ba.Gaussian(0.1)), items=9)
    study = ba.Study.create(problem, storage=":memory:", items_seed=3)
    order = study.items_left("a")
    study.add([("a", "gain", 0.0, order[8])])
    assert study.status().held is not None
    while not study.done:
        study.tell_many([(test, float(test.arm == "b")) for test in study.ask(2)])
    assert study.status().held is None
