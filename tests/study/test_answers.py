"""An answer as plain data and as a frame, and the report in a file: the same in Python, in a shell and over HTTP."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from tests.program import bestarm
from tests.study.problems import RUN, bench, one_run

import bestarm as ba


@pytest.fixture
def study(tmp_path: Path) -> ba.Study:
    made = ba.Study.create(bench(), name="runs", storage=tmp_path / "a.db", seed=1)
    while not made.done:
        for test in made.ask(4):
            made.tell(test, one_run(test.arm, test.metric))
    return made


def test_the_dictionary_is_what_the_command_line_prints(study: ba.Study, tmp_path: Path) -> None:
    answer = study.answer
    assert answer is not None
    data = json.loads(json.dumps(answer.to_dict()))
    assert data["arm"] == answer.arm == "a"
    assert data["reasons"] == dict(answer.reasons)
    assert data["differences"]["b"]["low"] == answer.differences["b"].low
    where = ("runs", "--db", str(tmp_path / "a.db"), "--json")
    for words in (("status", *where), ("run", *where, "--command", "false")):
        printed = json.loads(bestarm(*words).out)
        assert printed["conclusion"] == data
        assert {name: part for name, part in printed.items() if name != "conclusion"} == study.status().to_dict()


ASSUMED = " neither asked for nor randomized by the study: the guarantee assumes that "


def test_past_results_are_named_wherever_the_answer_is(study: ba.Study, tmp_path: Path) -> None:
    """A study that asked for all of its results says nothing of them."""
    answer, where = study.answer, ("past", "--db", str(tmp_path / "a.db"))
    assert answer is not None
    assert (study.status().unasked, answer.unasked) == ("", "")
    assert "asked for" not in str(answer) + str(study.status())
    past = ba.Study.create(bench(), name="past", storage=tmp_path / "a.db", seed=1)
    past.add([("a", "size", 3.0)])
    one = f"1 result was{ASSUMED}it was not chosen by its value"
    assert past.status().unasked == one
    assert f"not asked: {one}\n" in bestarm("status", *where).out.replace("\n  ", " ")
    while not past.done:
        past.add([(test.arm, test.metric, one_run(test.arm, test.metric)) for test in study_tests(past)])
    found = past.answer
    assert found is not None
    recorded = past.status().tests
    many = f"{recorded} results were{ASSUMED}they were not chosen by their values, and came in an order that does not"
    for said in (found.unasked, past.status().unasked, found.to_dict()["unasked"], past.status().to_dict()["unasked"]):
        assert said == f"{many} depend on results"
    assert str(found) == f"{found.headline}; {found.unasked}"
    printed = json.loads(bestarm("status", *where, "--json").out)
    assert printed["unasked"] == printed["conclusion"]["unasked"] == found.unasked
    void = dataclasses.replace(found, state="void", void_because=("results are skewed (time)",))
    assert "asked for" not in str(void)


def study_tests(study: ba.Study) -> list[ba.Test]:
    """Tests that are not out: what the study would ask for next."""
    tests = study.ask(4)
    for test in tests:
        study.abandon(test, "measured elsewhere")
    return tests


def test_on_items_past_results_need_no_order_and_scores_of_judges_are_none() -> None:
    right = ba.maximize("right", noise=ba.Bernoulli(), judge="score")
    study = ba.Study.create(ba.Problem(["a", "b"], right, items=3), storage=":memory:", seed=1, items_seed=1)
    study.add([(arm, "score", 1.0, str(item)) for arm in "ab" for item in (1, 2, 3)])
    assert study.status().unasked == ""
    study.add([("a", "right", 1.0, "1"), ("a", "right", 0.0, "2")])
    assert study.status().unasked == f"2 results were{ASSUMED}they were not chosen by their values"


def test_a_result_that_was_asked_for_is_not_named_when_it_is_corrected() -> None:
    study = ba.Study.create(ba.Problem(["a", "b"], ba.maximize("gain", noise=ba.Gaussian(1.0))), storage=":memory:")
    tests = study.ask(2)
    study.add([("a", "gain", 1.0)])
    # It waits for the two tests.
    assert study.status().waiting == 1
    for test in tests:
        study.tell(test, 2.0)
        study.correct(test, 3.0, "misread")
    assert study.status().unasked.startswith("1 result was")


def test_a_running_study_has_no_conclusion(tmp_path: Path) -> None:
    ba.Study.create(bench(), name="runs", storage=tmp_path / "a.db").add([("a", "size", 3.0)])
    printed = json.loads(bestarm("status", "runs", "--db", str(tmp_path / "a.db"), "--json").out)
    assert printed["conclusion"] is None
    assert printed["state"] == "running"


def test_infinite_figures_are_null_in_the_dictionary_and_missing_in_the_frame(study: ba.Study) -> None:
    answer = study.answer
    assert answer is not None
    frame = answer.to_frame()
    assert [*frame["arm"]] == [*answer.reasons]
    assert [*frame["answer"]] == [True, False, False]
    assert [f"{row.verdict}: {row.reason}" for row in frame.itertuples()] == [*answer.reasons.values()]
    rows = frame.set_index("arm")
    assert rows["low"].isna().to_dict() == {"a": True, "b": False, "slow": False}
    assert all(rows.loc[arm, "low"] == limits.low for arm, limits in answer.differences.items())
    unknown = ba.Answer("budget_spent", "a", delta=0.1, confidence=0.5, tests=1, cost=math.inf)
    assert unknown.to_dict()["cost"] is None
    assert unknown.to_frame().empty


def test_the_report_takes_its_name_when_it_is_complete(study: ba.Study, tmp_path: Path) -> None:
    file = tmp_path / "runs.html"
    file.write_text("an older one")
    study.report(str(file), note="On a bench.")
    page = file.read_text(encoding="utf-8")
    assert page.endswith("</html>\n")
    assert "On a bench." in page
    assert RUN in page
    with pytest.raises(ba.InvalidInput, match=r"file = '.*nowhere/x.html': cannot be written: No such file"):
        study.report(tmp_path / "nowhere" / "x.html")
    with pytest.raises(ba.InvalidInput, match="cannot be written"):
        study.report(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if "a.db" not in path.name) == ["runs.html"]
