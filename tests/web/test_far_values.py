"""Values far outside the others are asked about over HTTP and on the page, before they count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.web.browser import Server, Visit
from tests.web.browser import new_study as study_to_visit
from tests.web.service import new_study

import bestarm as ba
from bestarm.client import Client
from bestarm.study.record.far_values import FarValue

PLAN = ba.Plan(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Symmetric()), name="far")
PARTS: dict[str, Any] = {"arms": ["old", "new"], "objective": PLAN.to_data()["objective"], "constraints": []}
USUAL = [("old", "yield", value) for value in (66.0, 58.0, 74.0, 63.0, 68.0, 70.0, 61.0, 65.0)]


def test_a_check_that_records_nothing(service: httpx.Client) -> None:
    study = new_study(service, "far", **PARTS)
    with Client(str(service.base_url)) as client:
        there = client.open("far")
        there.add(USUAL)
        [test] = there.ask(1)
        typed = {"told": [{"test": test.id, "value": 66.0}], "given": [{"arm": "old", "metric": "yield", "value": 661}]}
        said = service.post(f"{study}/check-far", json=typed)
        assert said.status_code == 409
        error = said.json()["error"]
        assert error["kind"] == "far value"
        assert [one["sentence"] for one in error["complaints"]] == [
            "yield of old: 661? The others lie between 58 and 74"
        ]
        assert service.post(f"{study}/check-far", json={"told": typed["told"]}).json() == {}
        with pytest.raises(FarValue, match=r"^yield of old: 661\? The others lie between 58 and 74$"):
            there.check_far(given=[("old", "yield", 661.0)])
        assert there.status().tests == 8
        # Programs are not asked.
        there.tell(test, 661.0)


def test_a_file_is_refused_if_that_is_wanted(service: httpx.Client) -> None:
    study = new_study(service, "far file", **PARTS)
    with Client(str(service.base_url)) as client:
        there = client.open("far file")
        there.add(USUAL)
        file = b"arm,metric,value\nold,yield,64\nold,yield,6.4\n"
        with pytest.raises(FarValue, match=r"^yield of old: 6\.4\?"):
            there.tell_csv(file, check_far=True)
        assert there.status().tests == 8
        beside = b"\n".join(line + tail for line, tail in zip(file.splitlines(), (b",lot", b",1", b",2"), strict=True))
        with pytest.raises(ba.InvalidInput, match="column 'lot': is not known") as caught:
            there.tell_csv(beside)
        assert (caught.value.field, caught.value.choices) == ("ignore", ("lot",))
        assert there.tell_csv(beside, ignore=["lot"]).results == 2
    headers = {"Content-Type": "text/csv"}
    again = service.post(f"{study}/csv?check_far=true", content=file + b"old,yield,6610\n", headers=headers)
    assert (again.status_code, again.json()["error"]["kind"]) == (409, "far value")


def test_the_page_asks_before_it_records(visit: Visit, server: Server, tmp_path: Path) -> None:
    study, path = study_to_visit(server, "far on the page", PLAN)
    study.add(USUAL)
    visitor = visit()
    page = visitor.go(path)
    page.get_by_label("Arm", exact=True).select_option("old")
    value = page.locator(".entry-values input")
    value.fill("661")
    page.get_by_role("button", name="Add result").click()
    dialog = page.get_by_role("dialog", name="Is this value right?")
    dialog.get_by_text("yield of old: 661? The others lie between 58 and 74").wait_for()
    dialog.get_by_role("button", name="Cancel").click()
    dialog.wait_for(state="detached")
    assert value.input_value() == "661"
    assert study.status().tests == 8
    page.get_by_role("button", name="Add result").click()
    dialog.get_by_role("button", name="Record as typed").click()
    page.get_by_text("Result saved as test 9").first.wait_for()
    sheet = tmp_path / "far.csv"
    sheet.write_text("arm,metric,value\nold,yield,66100\n")
    page.locator("input[type=file]").set_input_files(sheet)
    page.get_by_role("button", name="Upload").click()
    dialog.get_by_role("button", name="Record as typed").click()
    page.get_by_text("1 result read from the file.").wait_for()
    assert study.status().tests == 10
    visitor.check("409")
