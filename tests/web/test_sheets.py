"""Sheets over HTTP and on the dashboard: downloaded, filled in, pasted, uploaded; every wrong cell is named at once."""

from __future__ import annotations

import io
from pathlib import Path

import httpx
import openpyxl
import pytest
from tests.study.test_lab_sheets import outcomes
from tests.study.test_workbooks import RATES, filled, opened, saved, to_fill
from tests.web.browser import Server, Visit, caches, doses, fill_in
from tests.web.browser import new_study as study_to_visit
from tests.web.service import new_study, refused

from bestarm.client import Client
from bestarm.errors import InvalidInput
from bestarm.parsing import Decimals
from bestarm.study.intake.xlsx_file import LIST, XLSX
from bestarm.web.downloads import attached

WORKBOOK = {"Content-Type": XLSX}


def test_a_sheet_over_http(service: httpx.Client) -> None:
    study = new_study(service, "sheet")
    refused(service.get(f"{study}/sheet"), 404, "there are none to fill in; ask for some first")
    service.post(f"{study}/ask", json={"n": 4, "holder": "ann"})
    answer = service.get(f"{study}/sheet")
    assert answer.headers["Content-Type"] == XLSX
    assert answer.headers["Content-Disposition"] == 'attachment; filename="sheet.xlsx"'
    cells = to_fill(opened(answer.content)[LIST])
    assert len(cells) == 4
    table = service.get(f"{study}/sheet?format=csv&holder=ann").text.splitlines()
    assert (table[0], len(table)) == ("test,arm,metric,value,who,due,study", 5)
    refused(service.get(f"{study}/sheet?holder=bob"), 404, "there are none")
    refused(service.get(f"{study}/sheet?format=ods"), 422, "must be 'xlsx' or 'csv'")
    wrong = filled(answer.content, dict.fromkeys(cells, "x"))
    said = service.post(f"{study}/csv", content=wrong, headers=WORKBOOK)
    refused(said, 422, "4 cells cannot be accepted", "D2")
    assert [one["field"] for one in said.json()["error"]["complaints"]] == ["D2", "D3", "D4", "D5"]
    right = filled(answer.content, {key: "0,5" if key[1] == "gain" else "no" for key in list(cells)[:3]})
    # A file is read as what it is, whatever it is said to be.
    told = service.post(f"{study}/csv", content=right, headers={"Content-Type": "text/csv"})
    assert told.json() == {"told": 3, "skipped": 1}
    with Client(str(service.base_url)) as client:
        there = client.open("sheet")
        assert there.tell_csv(right).known == 3
        with pytest.raises(InvalidInput, match="cannot be read as an Excel workbook"):
            there.tell_csv(right[:400])
    refused(service.post(f"{study}/csv", content=right), 415, "must be text/csv or application/vnd")


def test_a_download_keeps_the_letters_of_its_name() -> None:
    plain = "attachment; filename=\"L-s-1.csv\"; filename*=UTF-8''L%C3%B6s-1.csv"
    assert attached("Lös/1", "csv") == attached('Lo\u0308s\r\n"1', "csv") == {"Content-Disposition": plain}


def test_every_wrong_value_of_a_request_is_named(service: httpx.Client) -> None:
    study = new_study(service, "values")
    tests = service.post(f"{study}/ask", json={"n": 4}).json()["tests"]
    rows = [{"test": test["id"], "value": 7.5} for test in tests]
    expected = [k for k, test in enumerate(tests) if test["metric"] == "harm"]
    for route, name in (("tell", "results"), ("check-far", "told")):
        said = service.post(f"{study}/{route}", json={name: rows})
        refused(said, 422, "must be 0 or 1", f"{name}[{expected[0]}].value")
        named = [one["field"] for one in said.json()["error"]["complaints"]]
        assert named == [f"{name}[{k}].value" for k in expected]
    texts = [{"test": 1, "value": "3,5"}, {"test": 2, "value": "1 234,5"}, {"test": 3, "value": 1}]
    said = service.post(f"{study}/tell", json={"results": texts})
    refused(said, 422, "must be written with a decimal point", "results[0].value")
    assert [one["field"] for one in said.json()["error"]["complaints"]] == ["results[0].value", "results[1].value"]


CASES = [
    *("3.5", "3,5", "-0,25", "+7", ".5", "1e3", "1,5e3", "0,123", "1,234", "12,345", "1,2340", "1234", "1.234", "1,23"),
    *("90%", "90 %", "12,5\u00a0%", "0.1%", "1,234 %", "5‰", "1 234", "1'234.5", "1.234,5", "1,234,567", "abc", "nan"),
    *("1_000", "0x10", "--1", "3,", ",5", "%", "1 %%", "\uff11", "12 a"),
]


@pytest.mark.parametrize("rate", [False, True])
def test_the_page_reads_numbers_as_sheets_are_read(visit: Visit, rate: bool) -> None:
    page = visit().go("/")
    found = page.evaluate(
        """async ([cases, rate]) => {
            const { readTyped } = await import("/static/js/library/numbers.js");
            return cases.map((text) => readTyped(text, { rate }));
        }""",
        [CASES, rate],
    )

    def read(text: str) -> dict[str, object]:
        decimals, wrong = Decimals(","), []
        try:
            value = decimals.read(text.strip(), 1, rate=rate)
            decimals.check(lambda line, error: wrong.append(error))
        except InvalidInput as error:
            return {"reason": error.reason}
        return {"reason": wrong[0].reason} if wrong else {"value": value}

    for text, said in zip(CASES, found, strict=True):
        expected = read(text)
        assert said == expected or (text == "nan" and said == {"reason": "must be a number"}), text


def test_a_column_is_pasted_and_every_wrong_box_marked(visit: Visit, server: Server) -> None:
    study, path = study_to_visit(server, "pasted", RATES)
    tests = study.ask(10)
    page = (visitor := visit()).go(path)
    page.locator(".flight .cell").nth(9).wait_for()
    good = {"cure": "pass", "adverse event": "no", "impurity": "12,5 %", "heat": "37,25", "viscosity": "0,5"}
    column = [good[test.metric] for test in tests]

    def paste(text: str, box: int) -> None:
        page.locator(f"#result-{box}").evaluate(
            """(input, text) => {
                const clipboardData = new DataTransfer();
                clipboardData.setData("text", text);
                input.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
            }""",
            text,
        )

    paste("\r\n".join(column) + "\r\n", 2)
    page.get_by_text("Nothing was filled in: 1 of the 10 pasted values have no box.").wait_for()
    assert page.locator("#result-2").input_value() == ""
    bad = {3: "12 ppm", 4: "37 %", 7: "yes please", 9: "101"}
    paste("\r\n".join(bad.get(k, text) for k, text in enumerate(column, 1)) + "\r\n", 1)
    save = page.get_by_role("button", name="Save results")
    save.click()
    page.locator("#result-3-wrong").get_by_text("must be a number").wait_for()
    assert page.locator("#result-4-wrong").inner_text().startswith("must be a number without a percent sign")
    assert page.locator("#result-7-wrong").inner_text() == "must be yes or no, or 1 or 0"
    page.locator("#result-9-wrong").get_by_text("must lie between 0 and 100").wait_for()
    page.get_by_text("Nothing is saved: look at the 4 boxes marked in red.").wait_for()
    for k in (3, 4, 7):
        page.locator(f"#result-{k}").fill(column[k - 1])
    page.locator("#result-6").fill("1,5")
    save.click()
    page.locator("#result-9-wrong").get_by_text("must lie between 0 and 100").wait_for()
    assert page.locator("#result-6-wrong").inner_text().startswith("must be 0 or 1"), "all of them at once"
    page.locator("#result-6").fill("fail")
    page.locator("#result-9").fill(column[8])
    save.click()
    page.get_by_text("No test is out.").wait_for()
    values = {"cure": 1.0, "adverse event": 0.0, "impurity": 0.125, "heat": 37.25, "viscosity": 0.5}
    assert outcomes(study) == {test.id: (values[test.metric] if test.id != 6 else 0.0,) for test in tests}
    visitor.check("422")


def test_cells_of_several_metrics_are_pasted(visit: Visit, server: Server) -> None:
    study, path = study_to_visit(server, "pasted block", caches())
    tests = [test for test in study.ask(6) if len(test.metrics) == 2]
    page = (visitor := visit()).go(path)
    first = page.locator(f"#result-{tests[0].id}-1")
    first.wait_for()
    first.evaluate(
        """(input) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text", "1,5\\t1,234");
            input.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }"""
    )
    page.get_by_role("button", name="Save results").click()
    page.locator(f"#result-{tests[0].id}-1").wait_for(state="detached")
    assert outcomes(study) == {tests[0].id: (1.5, 1.234)}, "beside 1,5 it is clear what 1,234 means"
    visitor.check()


def test_a_workbook_is_downloaded_and_uploaded(visit: Visit, server: Server, tmp_path: Path) -> None:
    study, path = study_to_visit(server, "by Excel", doses(0.5))
    study.ask(4)
    page = (visitor := visit()).go(path)
    with page.expect_download() as started:
        page.get_by_role("button", name="Excel sheet").click()
    assert started.value.suggested_filename == "by-Excel.xlsx"
    data = Path(started.value.path()).read_bytes()
    cells = to_fill(opened(data)[LIST])
    sheet = tmp_path / "a sheet with another name.csv"
    sheet.write_bytes(filled(data, dict.fromkeys(list(cells)[:2], "x")))
    page.get_by_label("Excel or CSV file").set_input_files(sheet)
    page.get_by_role("button", name="Upload").click()
    page.get_by_text("D3: value = 'x': must be a number").wait_for()
    sheet.write_bytes(filled(data, dict.fromkeys(cells, 0.5)))
    page.get_by_label("Excel or CSV file").set_input_files(sheet)
    page.get_by_role("button", name="Upload").click()
    page.get_by_text("4 results read from the file.", exact=True).wait_for()
    assert study.status().tests == 4
    visitor.check("422")


def test_the_form_takes_decimal_commas_and_percentages(visit: Visit, server: Server) -> None:
    page = (visitor := visit()).go("/new")
    fill_in(page, "commas")
    objective = page.get_by_role("group", name="What to make best")
    objective.get_by_label("Standard deviation").fill("1,234")
    constraint = page.get_by_role("group", name="Constraint 1")
    constraint.get_by_label("One result is").select_option("bernoulli")
    constraint.get_by_label("Mean must be").fill("37,5 %")
    page.get_by_label("Accepted chance of a wrong answer").fill("2,5 %")
    page.get_by_text("97.5% confidence").wait_for()
    page.get_by_role("button", name="Create the study").click()
    page.get_by_text("without thousands separators").first.wait_for()
    objective.get_by_label("Standard deviation").fill("0,25")
    page.get_by_role("button", name="Create the study").click()
    page.get_by_role("heading", name="commas").wait_for()
    plan = server.get(f"/api/studies/{server.key('commas')}")["plan"]
    assert (plan["delta"], plan["objective"]["noise"]) == (0.025, {"gaussian": 0.25})
    assert plan["constraints"][0]["at_most"] == 0.375
    visitor.check("422")


def test_a_workbook_made_by_hand(service: httpx.Client) -> None:
    study = new_study(service, "by hand")
    book = openpyxl.Workbook()
    book.active.append(["arm", "metric", "value"])  # type: ignore[union-attr]
    book.active.append(["a", "gain", 1.5])  # type: ignore[union-attr]
    assert service.post(f"{study}/csv", content=saved(book), headers=WORKBOOK).json() == {"told": 1}
    assert io.BytesIO(saved(book)).read(2) == b"PK"
