"""Sheets as Excel workbooks: written, filled in, saved, and read back as they were meant, or refused cell by cell."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Callable
from typing import Any

import openpyxl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.lengths import examples
from tests.study.problems import asked, two_arms
from tests.study.test_lab_sheets import VALUES, outcomes, plan_of

import bestarm as ba
from bestarm.study.files.exchange import import_results, tell_results
from bestarm.study.files.workbook import LAYOUT, Place, write_workbook
from bestarm.study.intake import xlsx_file
from bestarm.study.intake.xlsx_file import ABOUT, LIST

RATES = ba.Problem(
    arms=["F1", "F2"],
    objective=ba.maximize("cure", noise=ba.Bernoulli()),
    constraints=[
        ba.at_most("adverse event", 0.5, noise=ba.Bernoulli()),
        ba.at_most("impurity", 0.4, noise=ba.Bounded(0.0, 1.0)),
        ba.at_most("heat", 50.0, noise=ba.Bounded(0.0, 100.0)),
        ba.at_most("viscosity", 5.0, noise=ba.Gaussian(1.0)),
    ],
)


def blank(study: ba.Study, tests: list[ba.Test], **options: Any) -> bytes:
    out = io.BytesIO()
    write_workbook(study, tests, out, **options)
    return out.getvalue()


def opened(data: bytes) -> Any:
    return openpyxl.load_workbook(io.BytesIO(data))


def saved(book: Any) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def to_fill(sheet: Any) -> dict[tuple[int, str], Any]:
    """The cells to fill in, by test and metric."""
    header = [cell.value for cell in sheet[1]]
    found = {}
    for row in sheet.iter_rows(min_row=2):
        for name, cell in zip(header, row, strict=True):
            if not cell.protection.locked:
                metric = row[header.index("metric")].value if "metric" in header else name
                found[row[0].value, metric] = cell
    return found


def filled(data: bytes, values: dict[tuple[int, str], Any]) -> bytes:
    book = opened(data)
    cells = to_fill(book[LIST])
    for key, value in values.items():
        cells[key].value = value
    return saved(book)


def a_study(problem: ba.Problem = RATES, tests: int = 10) -> tuple[ba.Study, list[ba.Test]]:
    study = ba.Study.create(problem, storage=":memory:", holder="=me")
    return study, study.ask(tests)


def refusal(study: ba.Study, data: bytes) -> ba.InvalidInput:
    with pytest.raises(ba.InvalidInput) as caught:
        tell_results(study, data, "plate.xlsx")
    return caught.value


def as_number(value: float) -> object:
    return value


def with_comma(value: float) -> object:
    # Not 1,234, which may be 1234.
    return f"{value!r}0".replace(".", ",") if "." in repr(value) and "e" not in repr(value) else value


@example("alone", with_comma, [1.5, None] * 4)
@example("columns", as_number, [1.5, None, 0.25, 3.0] * 2)
@examples(12, 60)
@given(
    st.sampled_from(["alone", "together", "items", "columns"]),
    st.sampled_from([as_number, with_comma]),
    st.lists(st.one_of(st.none(), VALUES), min_size=8, max_size=8),
)
def test_a_workbook_is_read_back_as_it_was_meant(
    kind: str, write: Callable[[float], object], measured: list[float | None]
) -> None:
    study = ba.Study.create(plan_of(kind), storage=":memory:", holder="me")
    tests, values, expected = asked(study, measured)
    data = blank(study, tests)
    assert set(to_fill(opened(data)[LIST])) == {(test.id, metric) for test in tests for metric in test.metrics}
    back = filled(data, {key: write(value) for key, value in values.items()})
    if not expected:
        assert "has no results yet: none of its 8 tests has a value" in str(refusal(study, back))
        return
    recorded = tell_results(study, back, "plate.csv")
    assert (recorded.results, recorded.known, recorded.skipped) == (len(expected), 0, 8 - len(expected))
    assert outcomes(study) == expected
    again = import_results(study, back, "plate.xlsx")
    assert (again.results, again.known) == (0, len(expected))


NAMES = st.text(min_size=1, max_size=12).filter(lambda name: not name.startswith("'"))


@example(["=1+1", "_x0041_", "@SUM(A1)", "-2+3", "1.5"])
@examples(20, 100)
@given(st.lists(NAMES, min_size=2, max_size=5, unique_by=str.casefold))
def test_names_stay_what_they_are(names: list[str]) -> None:
    try:
        plan = ba.Plan(arms=tuple(map(ba.Arm, names)), objective=ba.maximize(names[0], noise=ba.Gaussian(1.0)))
    except ba.InvalidInput:
        return
    study, tests = a_study(plan, 4)
    data = blank(study, tests, places={test.id: Place("B", k) for k, test in enumerate(tests, 1)})
    for sheet in opened(data):
        assert not [cell.value for row in sheet.iter_rows() for cell in row if cell.data_type == "f"]
    assert tell_results(study, filled(data, {(test.id, names[0]): 1.5 for test in tests}), "p").results == len(tests)


def test_what_a_sheet_looks_like() -> None:
    study, tests = a_study()
    places = {test.id: Place("AB"[k % 2], 1 + k // 2) for k, test in enumerate(tests)}
    book = opened(blank(study, tests, places=places))
    assert book.sheetnames == [LIST, LAYOUT, ABOUT]
    sheet = book[LIST]
    assert [cell.value for cell in sheet[1]] == ["test", "arm", "metric", "value", "who", "due", "study", "place"]
    assert sheet.protection.sheet
    cells = to_fill(sheet)
    assert {cell.fill.fgColor.rgb for cell in cells.values()} == {"00FFF2CC"}
    rules = {rule.error.partition(":")[0]: rule for rule in sheet.data_validations.dataValidation}
    assert set(rules) == {"cure", "adverse event", "impurity", "heat"}  # viscosity has no range
    assert (rules["cure"].formula1, rules["adverse event"].formula1) == ('"pass,fail"', '"yes,no"')
    assert (rules["heat"].type, rules["heat"].formula1, rules["heat"].formula2) == ("decimal", "0.0", "100.0")
    of_heat = {cell.coordinate for (_, metric), cell in cells.items() if metric == "heat"}
    assert {str(one) for one in rules["heat"].sqref.ranges} <= of_heat | {":".join(sorted(of_heat))}
    layout = list(book[LAYOUT].iter_rows(values_only=True))
    assert layout[0] == (None, 1, 2, 3, 4, 5)
    assert (layout[1][:2], layout[2][0]) == (("A", "F1: cure\ntest 1"), "B")
    about = dict(row[:2] for row in book[ABOUT].iter_rows(values_only=True, max_row=4))
    assert (about["study"], about["tests"]) == ("study", "10")


@pytest.mark.parametrize(
    ("metric", "typed", "expected"),
    [
        ("cure", "pass", 1.0),
        ("cure", "Fail", 0.0),
        ("cure", True, 1.0),
        ("adverse event", "no", 0.0),
        ("adverse event", "YES", 1.0),
        ("adverse event", 1, 1.0),
        ("impurity", "12 %", 0.12),
        ("impurity", "12,5\u00a0%", 0.125),
        ("impurity", "0.1%", 0.001),
        ("impurity", 0.3, 0.3),
        ("heat", "37,5", 37.5),
        ("viscosity", "-0,25", -0.25),
        ("viscosity", "3.5", 3.5),
        ("viscosity", 1.234, 1.234),
    ],
)
def test_what_may_be_typed(metric: str, typed: object, expected: float) -> None:
    study, tests = a_study()
    test = next(test for test in tests if test.metric == metric)
    tell_results(study, filled(blank(study, tests), {(test.id, metric): typed}), "plate.xlsx")
    assert outcomes(study) == {test.id: (expected,)}


@pytest.mark.parametrize(
    ("metric", "typed", "complaint"),
    [
        ("cure", "maybe", "'maybe': must be pass or fail, or 1 or 0"),
        ("cure", 0.5, "must be 0 or 1"),
        ("adverse event", "pass", "must be yes or no, or 1 or 0"),
        ("impurity", "120 %", "must lie between 0 and 1"),
        ("heat", "37 %", "must be a number without a percent sign"),
        ("heat", 101, "must lie between 0 and 100"),
        ("viscosity", "1,234", "may be 1.234 or 1234; write 1,2340 or 1234"),
        ("viscosity", "1.234", "may be 1.234 or 1234"),
        ("viscosity", "1 234,5", "must be written without thousands separators"),
        ("viscosity", datetime.datetime(2026, 5, 3), "is a date or a time: spreadsheets take values such as 3.5"),
        ("viscosity", datetime.time(3, 5), "is a date or a time"),
        ("viscosity", "=1/3", "is a formula whose result is not in the file"),
        ("viscosity", "#DIV/0!", "is an error of the spreadsheet"),
        ("viscosity", True, "must be a number"),
        ("viscosity", "< 2", "must be a number"),
    ],
)
def test_what_is_refused_at_its_cell(metric: str, typed: object, complaint: str) -> None:
    study, tests = a_study()
    test = next(test for test in tests if test.metric == metric)
    data = filled(blank(study, tests), {(test.id, metric): typed})
    error = refusal(study, data)
    [place] = [cell.coordinate for (number, _), cell in to_fill(opened(data)[LIST]).items() if number == test.id]
    assert str(error).startswith(f"plate.xlsx: {place}: value")
    assert complaint in str(error)
    assert error.field == place
    assert outcomes(study) == {}


def test_every_wrong_cell_is_named_at_once() -> None:
    bench = plan_of("together")
    study, tests = a_study(bench, 4)
    data = blank(study, tests)
    cells = to_fill(opened(data)[LIST])
    time = next(test for test in tests if "time" in test.metrics)
    wrong = {(time.id, "time"): "fast", (time.id, "memory"): "1,5", (time.id, "crash"): 7}
    other = next(test for test in tests if "time" in test.metrics and test.id != time.id)
    wrong |= {(other.id, "memory"): "2.5", (other.id, "crash"): 0}
    error = refusal(study, filled(data, wrong))
    assert str(error).splitlines()[0] == "plate.xlsx: 4 cells cannot be accepted; nothing was recorded"
    named = {complaint.field: complaint.reason for complaint in error.complaints}
    assert named.keys() == {
        cells[time.id, "time"].coordinate,
        cells[time.id, "crash"].coordinate,
        cells[other.id, "time"].coordinate,
        cells[other.id, "memory"].coordinate,
    }
    first = cells[time.id, "memory"].coordinate
    mixed = f"has a decimal point, and {first} a decimal comma (1,5); use one of them throughout"
    assert named[cells[other.id, "memory"].coordinate] == mixed
    assert outcomes(study) == {}


def test_a_cell_shown_in_percent() -> None:
    study, tests = a_study()
    data = blank(study, tests)
    for metric, expected in (("impurity", 0.25), ("heat", None)):
        book = opened(data)
        key, cell = next(one for one in to_fill(book[LIST]).items() if one[0][1] == metric)
        cell.value, cell.number_format = 0.25, "0%"
        if expected is None:
            assert "'25%': must be a number without a percent sign" in str(refusal(study, saved(book)))
        else:
            tell_results(study, saved(book), "plate.xlsx")
            assert outcomes(study) == {key[0]: (expected,)}


def test_results_of_formulas_count() -> None:
    study, tests = a_study(two_arms(), 2)
    book = opened(blank(study, tests))
    book[LIST]["D2"], book[LIST]["D3"] = "=1/4", 1
    data = saved(book)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for part in source.infolist():
            # What a spreadsheet adds when it saves: the result.
            content = source.read(part).replace(b"<f>1/4</f><v />", b"<f>1/4</f><v>0.25</v>")
            target.writestr(part, content.replace(b"<f>1/4</f><v></v>", b"<f>1/4</f><v>0.25</v>"))
    tell_results(study, out.getvalue(), "plate.xlsx")
    assert outcomes(study)[1] == (0.25,)


def test_a_sheet_of_another_study_is_refused() -> None:
    data = blank(*a_study())
    other = ba.Study.create(RATES, storage=":memory:", name="other")
    other.ask(10)
    assert "was written for study 'study', and this is study 'other'" in str(refusal(other, data))
    again, _ = a_study()
    assert "was written for another study of this name, created" in str(refusal(again, data))


def workbook_of(*rows: tuple[object, ...], title: str = "Sheet") -> Any:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet.title = title
    for row in rows:
        sheet.append(row)
    return book


def test_workbooks_that_people_make() -> None:
    study, _ = a_study(two_arms(), 2)
    book = workbook_of((), ("Arm", "Metric", "Value"), ("a", "gain", 1.5), (), ("b", "harm", "no"))
    book.create_sheet("notes").append(["remember the milk"])
    assert import_results(study, saved(book), "past.xlsx").results == 2
    book["Sheet"]["E4"] = "cloudy"
    book["Sheet"]["A5"] = "c"
    error = refusal(study, saved(book))
    assert [complaint.sentence for complaint in error.complaints] == [
        "row 4: E4 is not below a heading; keep notes on another worksheet",
        "A5: arm = 'c': no such arm; there are 'a', 'b'",
    ]
    book.create_sheet("copy").append(["arm", "metric", "value"])
    assert "has several worksheets with results ('Sheet', 'copy'); keep one" in str(refusal(study, saved(book)))
    unknown = saved(workbook_of(("arm", "speed"), ("a", 1)))
    assert "row 1: column 'speed': is not known" in str(refusal(study, unknown))
    assert "is empty" in str(refusal(study, saved(openpyxl.Workbook())))


def zipped(**parts: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def changed(data: bytes, part: str, change: Callable[[bytes], bytes]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return zipped(**parts | {part: change(parts[part])})


def test_broken_and_huge_files(monkeypatch: pytest.MonkeyPatch) -> None:
    study, tests = a_study(two_arms(), 2)
    good = filled(blank(study, tests), {(1, tests[0].metric): 1.0})
    sheet = "xl/worksheets/sheet1.xml"
    cases = {
        "cannot be read as an Excel workbook": good[:-200],
        "is a zip file, but no Excel workbook": zipped(word=b"x"),
        "is an old Excel file (.xls), or has a password": xlsx_file.OLD_OR_LOCKED + b"x" * 512,
        "may unpack to 64 MiB": changed(good, sheet, lambda text: text + b" " * (65 * 2**20)),
        "has too many rows": changed(good, sheet, lambda text: text.replace(b'<row r="3"', b'<row r="99999999999"')),
        "(ParseError)": changed(good, sheet, lambda text: text[: len(text) // 2]),
        "(": changed(
            good, "xl/workbook.xml", lambda text: text.replace(b"sheet1", b"sheet9").replace(b"rId1", b"rId9")
        ),
    }
    for complaint, data in cases.items():
        assert complaint in str(refusal(study, data)), complaint
        assert outcomes(study) == {}
    laughs = b"<!DOCTYPE x [" + b'<!ENTITY a0 "ha">'
    laughs += b"".join(b'<!ENTITY a%d "%s">' % (k, b"&a%d;" % (k - 1) * 10) for k in range(1, 12)) + b"]>"
    bomb = changed(good, sheet, lambda text: laughs + text.replace(b"<sheetData>", b"<x>&a11;</x><sheetData>"))
    assert "cannot be read as an Excel workbook" in str(refusal(study, bomb))
    monkeypatch.setattr(xlsx_file, "LARGEST", 1000)
    assert "is too large" in str(refusal(study, good))


@examples(12, 400)
@given(st.data())
def test_any_workbook_is_recorded_whole_or_refused(data: st.DataObject) -> None:
    study, tests = a_study(two_arms(), 2)
    good = filled(blank(study, tests), {(test.id, test.metric): 1.0 for test in tests})
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        part = data.draw(st.sampled_from(archive.namelist()))
        size = len(archive.read(part))
    at, length = data.draw(st.integers(0, size)), data.draw(st.integers(0, 40))
    put = data.draw(st.binary(max_size=8))
    bad = changed(good, part, lambda text: text[:at] + put + text[at + length :])
    try:
        recorded = tell_results(study, bad, "plate.xlsx").results
    except ba.InvalidInput:
        recorded = 0
    assert len(outcomes(study)) == recorded
