"""Units of metrics and the study's word for an arm, in headings; and files that have them, or not."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import openpyxl
import pytest
from tests.program import bestarm

import bestarm as ba
from bestarm.study.files.exchange import import_results, tell_results
from bestarm.study.files.sheets import write_blank_sheet
from bestarm.study.files.workbook import write_workbook
from bestarm.study.reports.report import study_report


def plan(*, together: bool = False) -> ba.Plan:
    return ba.Plan(
        arms=["F1", "F2"],
        objective=ba.maximize("yield", noise=ba.Gaussian(1.0), unit="mg"),
        constraints=[
            ba.at_most("time", 300, noise=ba.Gaussian(5.0), unit="µs"),
            ba.at_least("pH", 2, noise=ba.Symmetric()),
        ],
        measurements=[ba.measurement("yield", "time", "pH")] if together else [],
        arm_word="formulation",
    )


def sheet(study: ba.Study, tests: list[ba.Test]) -> list[list[str]]:
    out = io.StringIO(newline="")
    write_blank_sheet(study, tests, out)
    return list(csv.reader(io.StringIO(out.getvalue().removeprefix("\ufeff"))))


def as_bytes(rows: list[list[str]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_sheet_has_them_and_is_read_with_either_heading(is_plain: bool) -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    head, *rows = sheet(study, study.ask(3))
    assert head[:4] == ["test", "formulation", "metric", "value"]
    assert {row[2] for row in rows} <= {"yield (mg)", "time (µs)", "pH"}
    if is_plain:
        head[1] = "arm"
        rows = [[text.partition(" (")[0] if k == 2 else text for k, text in enumerate(row)] for row in rows]
    for row in rows:
        row[3] = "2.5"
    assert tell_results(study, as_bytes([head, *rows]), "plate.csv").results == 3


def test_columns_of_metrics_have_units() -> None:
    study = ba.Study.create(plan(together=True), storage=":memory:")
    head, *rows = sheet(study, study.ask(2))
    assert head[1:5] == ["formulation", "yield (mg)", "time (µs)", "pH"]
    for row in rows:
        row[2:5] = ["1.5", "250", "7"]
    assert tell_results(study, as_bytes([head, *rows]), "plate.csv").results == 2
    text = "Formulation;Yield (mg);time;pH\nF1;1,5;250;7\n"
    assert import_results(study, text.encode(), "old.csv").results == 1


def test_a_workbook_has_them() -> None:
    study = ba.Study.create(plan(together=True), storage=":memory:")
    file = io.BytesIO()
    write_workbook(study, study.ask(2), file)
    book = openpyxl.load_workbook(file)
    assert [cell.value for cell in book["Tests"][1]][1:5] == ["formulation", "yield (mg)", "time (µs)", "pH"]
    for row in (2, 3):
        for column, value in ((3, 1.5), (4, 250.0), (5, 7.0)):
            book["Tests"].cell(row, column, value)
    filled = io.BytesIO()
    book.save(filled)
    assert tell_results(study, filled.getvalue(), "plate.xlsx").results == 2


def test_tables_and_charts_have_them() -> None:
    study = ba.Study.create(plan(together=True), storage=":memory:", name="lab")
    study.tell_many([(test, {"yield": 1.0, "time": 250.0, "pH": 7.0}) for test in study.ask(2)])
    report = study_report(study, forecast=False)
    assert "<th>yield (mg)</th>" in report
    assert "<th>time (µs) ≤ 300</th>" in report
    assert "yield (mg)</text>" in report


def test_the_command_line_shows_them(tmp_path: Path) -> None:
    ba.Study.create(plan(together=True), storage=str(tmp_path / "s.db"), name="lab")
    said = bestarm("status", "lab", BESTARM_DB=str(tmp_path / "s.db"), COLUMNS="200")
    assert "yield (mg)" in said.out


def test_a_plan_keeps_them_and_a_metric_has_one() -> None:
    stated = plan()
    assert 'unit = "mg"' in stated.to_toml()
    assert ba.Plan.from_toml(stated.to_toml()) == stated
    assert ba.maximize("x", noise=ba.Gaussian(1), unit="") == ba.maximize("x", noise=ba.Gaussian(1))
    limit = ba.at_most("yield", 3, noise=ba.Gaussian(1.0), unit="g")
    with pytest.raises(ba.InvalidInput, match="unit = 'mg': must be the same wherever 'yield' is stated"):
        ba.Problem(arms=["a", "b"], objective=stated.objective, constraints=[limit])
