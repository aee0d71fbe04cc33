"""A laboratory decides on the page and in Excel alone: eight formulations, plates of 24 that differ, one lost well."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from benchmarks.blocks import LABORATORY, SCATTERS
from tests.study.test_workbooks import filled, opened, to_fill
from tests.tools.plain_words import avoided_words, read_text
from tests.web.browser import Server, Visit, add_constraint, begin_form, create, no_sideways_scrolling
from tests.web.test_grid import paste
from tests.web.test_plain_words import said

from bestarm.study.intake.xlsx_file import LIST

if TYPE_CHECKING:
    from playwright.sync_api import Page

METRICS = ("viability", "toxicity")


def new_laboratory(page: Page) -> None:
    begin_form(page, "formulations", LABORATORY, "viability", "symmetric", "formulation")
    constraint = add_constraint(page)
    constraint.get_by_label("Metric").fill("toxicity")
    constraint.get_by_label("Mean must be").fill("20,0")
    constraint.get_by_label("One result is").select_option("symmetric")
    page.get_by_label("Each measurement is made on").select_option("blocks")
    page.get_by_label("What it is called").fill("plate")
    page.get_by_label("How many tests each has").fill("24")
    page.get_by_label("Each adds the same to all").check()
    assert said(page) == set()
    create(page)


@pytest.mark.torture
def test_a_laboratory_finds_its_formulation(visit: Visit, server: Server, tmp_path: Path) -> None:
    """Plates differ as much as measurements scatter. On average it takes 18 (`benchmarks/blocks.py`)."""
    rng = np.random.default_rng(20)
    visitor = visit()
    page = visitor.go("/new")
    new_laboratory(page)
    plates = 0

    def result(arm: str, metric: str, plate: dict[str, float]) -> str:
        of_metric = METRICS.index(metric)
        value = LABORATORY[arm][of_metric] + plate[metric] + rng.normal(0.0, SCATTERS[metric])
        return f"{value:.2f}".replace(".", ",")

    address = f"/api/studies/{server.key('formulations')}"
    while server.get(address)["answer"] is None:
        page.get_by_role("button", name="Ask for the next plate").click()
        plates += 1
        cells = page.locator(".flight .cell", has_text=re.compile(rf"plate {plates}\s"))
        cells.first.wait_for()
        of_plate = {metric: rng.normal(0.0, SCATTERS[metric]) for metric in METRICS}
        assert said(page) == set(), f"plate {plates}"
        if plates % 2:
            found = [re.search(r"(F\d)\s+(viability|toxicity)", text) for text in cells.all_inner_texts()]
            values = [result(one[1], one[2], of_plate) for one in found if one is not None]
            assert len(values) == cells.count()
            paste(cells.first.locator("input.value"), "\n".join(values))
            page.get_by_text(f"{len(values)} values filled in").first.wait_for()
            page.get_by_role("button", name="Save results").click()
        else:
            with page.expect_download() as download:
                page.get_by_role("button", name="Excel sheet").click()
            sheet = Path(download.value.path()).read_bytes()
            of_test = {row[0]: row[1] for row in opened(sheet)[LIST].iter_rows(min_row=2, values_only=True)}
            rows = {key: result(of_test[key[0]], key[1], of_plate) for key in to_fill(opened(sheet)[LIST])}
            (tmp_path / "plate.xlsx").write_bytes(filled(sheet, rows))
            page.get_by_label("Excel or CSV file").set_input_files(tmp_path / "plate.xlsx")
            page.get_by_role("button", name="Upload").click()
        page.get_by_text("No test is out.").wait_for()
    page.locator(".hero", has_text="feasible and best").wait_for()
    no_sideways_scrolling(page)
    assert said(page) == set()
    assert server.get(address)["answer"] == "F4"
    assert plates <= 20
    report = page.request.get(f"{server.url}{address}/report").text()
    assert "F4" in read_text(report)
    assert avoided_words(read_text(report)) == set()
    visitor.check()
