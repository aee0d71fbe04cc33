"""A value far outside what its metric has shown is asked about, and counts once it is confirmed."""

from __future__ import annotations

import io

import pytest

import bestarm as ba
from bestarm.study.files.exchange import import_results, tell_results, write_csv
from bestarm.study.record.far_values import MOST_CHECKED, FarValue

VALUES = (66.0, 58.0, 74.0, 63.0, 68.0, 70.0, 61.0, 65.0)


def new_study(*constraints: ba.Constraint, **more: object) -> ba.Study:
    problem = ba.Problem(
        arms=["old", "new"],
        objective=ba.maximize("yield", noise=ba.Symmetric()),
        constraints=list(constraints),
        **more,  # type: ignore[arg-type]
    )
    return ba.Study.create(problem, storage=":memory:")


@pytest.fixture
def study() -> ba.Study:
    made = new_study()
    made.add([(arm, "yield", value) for value in VALUES for arm in ("old", "new")])
    return made


def test_a_program_is_not_asked(study: ba.Study) -> None:
    [test] = study.ask(1)
    study.tell(test, 661.0)
    study.tell_many([(test, 661.0)])
    study.add([("old", "yield", 6.61)])
    assert study.status().tests == 18


def test_a_question_in_words(study: ba.Study) -> None:
    [test] = study.ask(1)
    before = study.status()
    with pytest.raises(FarValue) as told:
        study.check_far([(test, 661.0)])
    assert str(told.value) == f"test {test.id}, yield of {test.arm}: 661? The others lie between 58 and 74"
    assert (told.value.field, told.value.value) == ("value", 661.0)
    with pytest.raises(FarValue, match=r"^yield of new: 6\.61\? The others lie between 58 and 74$"):
        study.check_far(given=[("new", "yield", 6.61)])
    study.check_far([(test.id, 80.0)], [("old", "yield", 50.0)])
    assert study.status() == before


def test_a_value_that_cannot_be_is_refused_as_ever(study: ba.Study) -> None:
    [test] = study.ask(1)
    with pytest.raises(ba.InvalidInput, match="finite"):
        study.check_far([(test, float("nan"))])
    with pytest.raises(ba.InvalidInput, match="no such test"):
        study.check_far([(999, 66.0)])


def test_every_metric_of_a_test() -> None:
    study = new_study(
        ba.at_most("heat", 100.0, noise=ba.Gaussian(5.0)),
        ba.at_most("fails", 0.5, noise=ba.Bernoulli()),
        measurements=[ba.Measurement(("yield", "heat"))],
    )
    study.add([("old", {"yield": value, "heat": value + 20.0}) for value in VALUES])
    study.add([("old", "fails", 0.0)] * 20)
    with pytest.raises(FarValue) as told:
        study.check_far(given=[("old", {"yield": 66.0, "heat": 8.6}), ("old", "fails", 1.0)])
    assert [complaint.sentence for complaint in told.value.complaints] == [
        "heat of old: 8.6? The others lie between 78 and 94"
    ]


def test_corrections_are_checked_too(study: ba.Study) -> None:
    with pytest.raises(FarValue, match="test 3, yield of old: 661"):
        study.check_far([(3, 661.0)])


def test_a_slip_in_the_first_sheet() -> None:
    """What is told together counts among the others, though the study has no result yet."""
    study = new_study()
    sheet = "test,value\n" + "".join(
        f"{test.id},{value}\n" for test, value in zip(study.ask(9), (*VALUES, 661.0), strict=True)
    )
    with pytest.raises(FarValue, match=r"^test 9, yield of (old|new): 661\? The others lie between 58 and 74$"):
        tell_results(study, sheet.encode(), "sheet.csv", check_far=True)
    assert study.status().tests == 0
    assert tell_results(study, sheet.encode(), "sheet.csv").results == 9


def test_files_of_new_results_are_checked_and_exports_are_not(study: ba.Study) -> None:
    file = b"arm,metric,value\nold,yield,64\nnew,yield,661\n"
    for read in (tell_results, import_results):
        with pytest.raises(FarValue, match=r"^yield of new: 661\?"):
            read(study, file, "new.csv", check_far=True)
    assert import_results(study, file, "new.csv").results == 2
    out = io.StringIO()
    write_csv(study, out)
    again = new_study()
    assert import_results(again, out.getvalue().encode(), "export.csv", check_far=True).results == 18


def test_a_file_that_nobody_typed_is_not_checked(study: ba.Study) -> None:
    rows = "old,yield,66\n" * MOST_CHECKED + "old,yield,661\n"
    assert tell_results(study, b"arm,metric,value\n" + rows.encode(), "log.csv", check_far=True).results == 10_001


def test_the_question_follows_corrections(study: ba.Study) -> None:
    """What was corrected is as if it had never been mistyped."""
    for number in range(1, 17):
        study.correct(number, 1000.0 + number, "misread")
    with pytest.raises(FarValue, match="lie between 1001 and 1015"):
        study.check_far(given=[("old", "yield", 66.0)])


def test_results_that_wait_have_shown_something() -> None:
    study = new_study()
    study.ask(1)
    study.add([("old", "yield", value) for value in VALUES])
    assert study.status().waiting == len(VALUES)
    with pytest.raises(ba.FarValue, match="661"):
        study.check_far(given=[("old", "yield", 661.0)])
