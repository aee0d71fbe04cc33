"""Sheets to fill in: written, filled in, saved by any spreadsheet, and read back as they were meant."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.cli.live import Program, works
from tests.lengths import examples
from tests.study.problems import asked, bench, exported, two_arms

import bestarm as ba
from bestarm.study.files.exchange import import_results, tell_results
from bestarm.study.files.sheets import write_blank_sheet

NAMES = ["25 µg", "=1+1", 'a "b"', "x;y", "x,y", "-2"]
ITEMS = ["q;1", "q,2", "=q3", "4", "q5"]


def plan_of(kind: str) -> ba.Plan:
    """Tests of one metric, of several, on items, and with metrics that are called like columns."""
    if kind == "together":
        return bench()
    noise = ba.Gaussian(1.0)
    metrics = {"alone": ("=gain", "harm;1"), "items": ("gain", "harm"), "columns": ("due", "who")}[kind]
    return ba.Plan(
        arms=tuple(map(ba.Arm, NAMES)),
        objective=ba.maximize(metrics[0], noise=noise),
        constraints=(ba.at_most(metrics[1], 0.5, noise=noise),),
        measurements=() if kind == "alone" else [ba.measurement(*metrics)],
        items=ITEMS if kind == "items" else None,
        name="=lab; 1",
    )


def blank(study: ba.Study, tests: list[ba.Test], delimiter: str = ",") -> str:
    out = io.StringIO(newline="")
    write_blank_sheet(study, tests, out, delimiter)
    return out.getvalue()


def filled(sheet: str, study: ba.Study, values: dict[tuple[int, str], float], delimiter: str, comma: bool) -> str:
    """What a spreadsheet saves once the values, by test and metric, are in the empty cells."""
    rows = list(csv.reader(io.StringIO(sheet.removeprefix("\ufeff"), newline=""), delimiter=delimiter))
    header, body = rows[0], rows[1:]
    names = {metric: metric for metric in study.plan.measured} | {
        f"'{metric}": metric for metric in study.plan.measured
    }
    for row in body:
        for place, column in enumerate(header):
            metric = names.get(row[header.index("metric")], "") if column == "value" else names.get(column, "")
            value = values.get((int(row[0]), metric))
            if value is not None and row[place] == "" and column not in ("due", "who"):
                row[place] = repr(value).replace(".", ",") if comma else repr(value)
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter).writerows([header, *body])
    return out.getvalue()


def outcomes(study: ba.Study) -> dict[int, tuple[float, ...]]:
    return {
        test.id: (told.value, *told.more)
        for test in study.storage.history(study.record.key)
        for told in test.outcomes[-1:]
        if told.value is not None
    }


# Values of 1.234 and the like are in doubt by themselves.
VALUES = st.one_of(
    st.sampled_from([0.0, 1.0, -2.0, 0.125, 1234.5, 1e-7, 3e20]),
    st.floats(-1e6, 1e6).map(lambda value: round(value, 2)),
)


@example("alone", ";", True, True, "\r\n", "", [1.5, None] * 4)
@example("together", ",", False, False, "\n", "\n\n,,,\n", [1.5, None, 0.25, 3.0] * 2)
@examples(25, 100)
@given(
    st.sampled_from(["alone", "together", "items", "columns"]),
    st.sampled_from(",;\t"),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["", "\n", "\n\n", " \n"]),
    st.lists(st.one_of(st.none(), VALUES), min_size=8, max_size=8),
)
def test_a_sheet_is_read_back_as_it_was_meant(
    kind: str, delimiter: str, comma: bool, bom: bool, end: str, tail: str, measured: list[float | None]
) -> None:
    study = ba.Study.create(plan_of(kind), storage=":memory:", holder="me")
    tests, values, expected = asked(study, measured)
    text = filled(blank(study, tests, delimiter), study, values, delimiter, comma)
    saved = ("\ufeff" if bom else "") + text.replace("\r\n", end) + tail.replace("\n", end)
    if not expected:
        with pytest.raises(ba.InvalidInput, match="has no results yet: none of its 8 tests has a value"):
            tell_results(study, saved.encode(), "plate.csv")
        return
    recorded = tell_results(study, saved.encode(), "plate.csv")
    assert (recorded.results, recorded.known, recorded.skipped) == (len(expected), 0, 8 - len(expected))
    assert outcomes(study) == expected
    again = import_results(study, saved.encode(), "plate.csv")
    assert (again.results, again.known, again.skipped) == (0, len(expected), 8 - len(expected))


def study_of_two() -> ba.Study:
    study = ba.Study.create(two_arms(), storage=":memory:", holder="me")
    study.ask(4)
    return study


def told(text: str, data: bytes | None = None) -> dict[int, tuple[float, ...]]:
    study = study_of_two()
    tell_results(study, text.encode() if data is None else data, "f.csv")
    return outcomes(study)


@pytest.mark.parametrize(
    "text",
    [
        "test;value\n1;1,5\n2;1\n3;-2,25\n",
        "test;value\n1;1.5\n2;1\n3;-2.25\n",
        "test\tvalue\n1\t1,5\n2\t1\n3\t-2,25\n",
        'test,value\n1,"1,5"\n2,"1"\n3,"-2,25"\n',
        "sep=;\ntest;value\n1;1,5\n2;1\n3;-2,25\n\n;\n",
        '\ufefftest;value\r\n"1";"1,5"\r\n2;1\r\n3;-2,25\r\n\r\n',
        "test;value\r1;1,5\r2;1\r3;-2,25",
        "test,value\n1, 1.5\n2,1 \n3,-2.25\n4,\n",
        "test;arm;metric;value;who;due;study\n1;a;gain;1,5;;31.12.2026;study\n2;;;;;;\n".replace(
            "2;;;;;;", "2;a;harm;1;;;"
        )
        + "3;b;gain;-2,25;me;;\n",
    ],
)
def test_the_same_values_as_spreadsheets_write_them(text: str) -> None:
    assert told(text) == {1: (1.5,), 2: (1.0,), 3: (-2.25,)}


def test_doubtful_numbers_are_clear_beside_others() -> None:
    assert told("test;value\n1;1,234\n3;0,5\n") == {1: (1.234,), 3: (0.5,)}
    assert told("test;value\n1;1.234\n3;0.5\n") == {1: (1.234,), 3: (0.5,)}
    assert told("test,value\n1,1.234\n3,5\n") == {1: (1.234,), 3: (5.0,)}
    assert told("test;value\n1;1234\n3;1.2340\n") == {1: (1234.0,), 3: (1.234,)}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("test;value\n1;1,234\n", "line 2: value = '1,234': may be 1.234 or 1234; write 1,2340 or 1234"),
        ("test;value\n1;1.234\n3;7\n", "line 2: value = '1.234': may be 1.234 or 1234; write 1.2340 or 1234"),
        ('test,value\n1,"1,234"\n', "line 2: value = '1,234': may be 1.234 or 1234; write 1,2340 or 1234"),
        ('test,value\n1,"1,234"\n3,2.5\n', "'1,234': must be written without thousands separators, as in 1234.5"),
        (
            "test;value\n1;1,5\n3;2.5\n",
            "line 3: value = '2.5': has a decimal point, and line 2 a decimal comma (1,5); use one of them throughout",
        ),
        (
            "test;value\n1;1.234\n3;2,5\n",
            "line 3: value = '2,5': has a decimal comma, and line 2 a decimal point (1.234)",
        ),
        ("test;value\n1;1.234,5\n", "value = '1.234,5': must be written without thousands separators"),
        ("test;value\n1;1.234.567\n", "value = '1.234.567': must be written without thousands separators"),
        ("test;value\n1;1 234,5\n", "must be written without thousands separators"),
        ("test;value\n1;1'234.5\n", "must be written without thousands separators"),
        ("test;value\n1;12\u00a0345\n", "must be written without thousands separators"),
        ("test;value\n1;45%\n", "value = '45%': must be a number without a percent sign; 45% of 1 is 0.45"),
        ("test;value\n1;4,5%\n", "must be a number without a percent sign"),
        ("test,value\n1,1,5\n", "line 2: has 3 fields; the header has 2; a number with a decimal comma needs quotes"),
        (
            "test,value,who\n1,1,5,\n",
            "line 2: has 4 fields; the header has 3; a number with a decimal comma needs quotes",
        ),
        ("test,value,study\n1,2,other\n", "line 2: study = 'other': this is study 'study'"),
        ("test;value\n1;\n2;\n", "f.csv: has no results yet: none of its 2 tests has a value"),
        ("test;arm;value\n1;b;3\n", "line 2: test = 1: is 'gain' of 'a'"),
    ],
)
def test_what_could_be_misread_is_refused_in_one_line(text: str, complaint: str) -> None:
    study = study_of_two()
    with pytest.raises(ba.InvalidInput) as caught:
        tell_results(study, text.encode(), "f.csv")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert outcomes(study) == {}
    if "test;value" in text and "no results" not in complaint:
        # The same numbers measured without asking, in both forms.
        for form in ("arm;metric;value\n", "arm;gain\n"):
            lines = [line.split(";") for line in text.splitlines()[1:]]
            rows = [["a", *(["gain"] if "metric" in form else []), value] for _, value in lines]
            with pytest.raises(ba.InvalidInput, match=r"line [23]: value"):
                import_results(study, (form + "\n".join(map(";".join, rows))).encode(), "f.csv")
    assert outcomes(study) == {}


def test_a_changed_value_is_named_and_nothing_is_recorded() -> None:
    study = study_of_two()
    tell_results(study, b"test,value\n1,1.5\n2,\n", "f.csv")
    with pytest.raises(ba.InvalidInput) as caught:
        tell_results(study, b"test,value\n1,1.25\n2,0\n", "f.csv")
    expected = (
        "f.csv: line 2: test = 1 ('gain' of 'a'): has the result 1.5 already; if that is wrong, `bestarm tell study 1 "
        "1.25 --correct --reason WHY` replaces it; nothing was recorded"
    )
    assert str(caught.value) == expected
    assert outcomes(study) == {1: (1.5,)}
    study.correct(1, 1.25, "misread")
    recorded = tell_results(study, b"test,value\n1,1.25\n2,0\n", "f.csv")
    assert (recorded.results, recorded.known) == (1, 1)


def test_sheets_of_metrics_together_have_a_column_for_each() -> None:
    study = ba.Study.create(bench(), storage=":memory:", holder="me")
    lines = blank(study, study.ask(2, days=3)).splitlines()
    assert lines[0] == "test,arm,time,memory,crash,size,who,due,study"
    assert [line.partition("me,")[0] for line in lines[1:]] == ["1,a,,,,n/a,", "2,a,n/a,n/a,n/a,,"]
    assert all(line.endswith(" UTC,study") for line in lines[1:])
    with pytest.raises(ba.InvalidInput, match="line 2: value of 'crash' = 'n/a': must be yes or no, or 1 or 0"):
        tell_results(study, b"test,time,memory,crash,size\n1,4,50,n/a,n/a\n", "f.csv")
    with pytest.raises(ba.InvalidInput, match="line 2: crash: is missing; one test yields it together with"):
        tell_results(study, b"test,time,memory,crash,size\n1,4,50,,n/a\n", "f.csv")


def test_a_plate_from_asking_to_telling(lab: Program) -> None:
    said = works(lab, "ask", "two", "-n", "4", "-o", "plate 1.csv", "--semicolons", "--days", "2", "--worker", "Ann")
    assert said == (
        "4 tests of two written to plate 1.csv. Fill in value, then give it back:\n"
        "bestarm tell two --from 'plate 1.csv'\n"
    )
    header, *lines = Path("plate 1.csv").read_text(encoding="utf-8").splitlines()
    assert header == "test;arm;metric;value;who;due;study"
    Path("plate 1.csv").write_text("\r\n".join([header, *(line.replace(";;", ";1;") for line in lines[:3]), lines[3]]))
    assert (
        works(lab, "import", "two", "plate 1.csv") == "Recorded 3 results of two; 1 test without a result left out.\n"
    )
    again = works(lab, "tell", "two", "--csv", "plate 1.csv")
    assert again == "Nothing new: all its 3 results are in two already; 1 test without a result left out.\n"
    # What may hold results is not written over, and nothing is asked for in vain.
    refused = lab("ask", "two", "-n", "4", "-o", "plate 1.csv")
    assert (refused.code, "is there already, and may hold results" in refused.err) == (2, True)
    refused = lab("ask", "two", "-n", "4", "-o", "nowhere/plate.csv")
    assert (refused.code, "cannot be written" in refused.err) == (2, True)
    for wrong in (("--semicolons",), ("--json", "-o", "x.csv")):
        refused = lab("ask", "two", *wrong)
        assert (refused.code, wrong[0] in refused.err) == (2, True)
    study = ba.Study.open("two", storage="s.db")
    assert len(study.pending()) == 1
    assert works(lab, "ask", "two", "-o", "-").startswith("test,arm,metric,value,who,due,study\n")
    works(lab, "ask", "two", "-o", "more.tsv", "-n", "2")
    assert Path("more.tsv").read_text().startswith("test\tarm\t")
    assert "test" in exported(study)
