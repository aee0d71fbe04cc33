"""The form for a new study is made from what the service says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.web.browser import Server, Visit, add_constraint, fill_in, unfold

import bestarm as ba
from bestarm.noises import noise_choices
from bestarm.policies import all_policies
from bestarm.policies.racing import Racing
from bestarm.web import choices

SCALE = {"name": "scale", "label": "scale", "default": 2.0}
HEAVY = {
    "name": "heavy",
    "label": "heavy tails",
    "sentence": "Results may be far out.",
    "numbers": [SCALE, {"name": "tail", "label": "tail index"}],
}


def test_the_form_offers_what_the_service_says(visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what is not built in; what is chosen reaches the service in the form that its description states."""
    noises, policies = noise_choices(), all_policies()
    monkeypatch.setattr(choices, "noise_choices", lambda: [*noises, HEAVY])
    monkeypatch.setattr(choices, "all_policies", lambda: policies | {"on-a-whim": Racing})
    server = Server(tmp_path / "form.db")
    try:
        visitor = visit(server.url)
        page = visitor.go("/new")
        fill_in(page, "chosen")
        said = server.get("/api/choices")

        def offered(label: str) -> list[str]:
            return [
                option.get_attribute("value") or "" for option in page.get_by_label(label).first.locator("option").all()
            ]

        # A quantile can only be limited.
        assert offered("One result is") == [one["name"] for one in said["noises"] if one["name"] != "quantile"]
        assert offered("One result is")[0] == "symmetric"
        assert "heavy" in offered("One result is")
        assert offered("Method") == [one["name"] for one in said["policies"]]
        assert "on-a-whim" in offered("Method")
        assert offered("Results count") == ["issue", "arrival"]
        assert page.get_by_label("Method").input_value() == said["defaults"]["policy"]
        page.get_by_label("Method").select_option("racing")
        page.get_by_text(next(one["sentence"] for one in said["policies"] if one["name"] == "racing")).wait_for()
        page.get_by_label("Results count").select_option("arrival")
        objective = page.get_by_role("group", name="What to make best")
        objective.get_by_label("One result is").select_option("heavy")
        objective.get_by_text("Results may be far out.").wait_for()
        assert objective.get_by_label("Scale").get_attribute("placeholder") == "2"
        objective.get_by_label("Scale").fill("3")
        objective.get_by_label("Tail index").fill("1.5")
        with page.expect_request("**/api/studies") as sent:
            page.get_by_role("button", name="Create the study").click()
        plan = json.loads(sent.value.post_data or "")["plan"]
        assert (plan["policy"], plan["order"]) == ("racing", "arrival")
        assert plan["objective"]["noise"] == {"heavy": [3, 1.5]}
        # Only the form knows of that noise here: the service refuses it, and the form says so at its field.
        page.get_by_role("heading", name="The study was not created").wait_for()
        assert objective.get_by_label("One result is").get_attribute("aria-invalid") == "true"
        objective.get_by_label("One result is").select_option("gaussian")
        objective.get_by_label("Standard deviation").fill("-1")
        page.get_by_role("button", name="Create the study").click()
        page.locator(".summary-errors", has_text="must be a positive number").wait_for()
        assert objective.get_by_label("Standard deviation").get_attribute("aria-invalid") == "true"
        objective.get_by_label("Standard deviation").fill("0.05")
        page.get_by_role("button", name="Create the study").click()
        page.wait_for_url(re.compile(r"/studies/\d+$"))
        assert ba.Study.open("chosen", storage=server.database).plan.order == "arrival"
        visitor.check("422")
    finally:
        server.close()


def test_a_quantile_is_limited(visit: Visit, server: Server) -> None:
    """The form asks for it as people say it, complains at its field, and the dashboard shows it in its units."""
    visitor = visit(server.url)
    page = visitor.go("/new")
    fill_in(page, "tail")
    objective = page.get_by_role("group", name="What to make best")
    objective.get_by_label("One result is").select_option("symmetric")
    constraint = page.get_by_role("group", name="Constraint 1")
    constraint.get_by_label("One result is").select_option("quantile")
    constraint.get_by_label("Quantile must be").fill("200")
    constraint.get_by_label("Quantile q").fill("1.5")
    page.get_by_role("button", name="Create the study").click()
    page.locator(".summary-errors", has_text="must lie strictly between 0 and 1").wait_for()
    assert constraint.get_by_label("Quantile q").get_attribute("aria-invalid") == "true"
    constraint.get_by_label("Quantile q").fill("0.8")
    page.get_by_text("80% quantile at most 200").wait_for()
    page.get_by_role("button", name="Create the study").click()
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    study = ba.Study.open("tail", storage=server.database)
    assert study.plan.noises == (ba.Symmetric(), ba.Quantile(0.8))
    study.add([("25 mg", "adverse event", value) for value in 4 * (100.0, 150.0, 250.0, 120.0, 180.0)])
    page.locator("table.arms").get_by_text("share above 200: 20% of at most 20%").wait_for()
    shown = page.locator("svg[role=img]", has=page.locator("line.threshold")).first.get_attribute("aria-label") or ""
    assert "80% quantile at most 200" in shown
    assert "180, between" in shown
    visitor.check("422")


def test_limits_relative_to_a_baseline_and_of_ratios(visit: Visit, server: Server) -> None:
    """The form asks for them, complains at their fields, and the dashboard says what they are."""
    visitor = visit(server.url)
    page = visitor.go("/new")
    fill_in(page, "ratio")
    constraint = page.get_by_role("group", name="Constraint 1")
    constraint.get_by_label("Mean must be").fill("1.05")
    constraint.get_by_label("The limit is").select_option("relative")
    page.get_by_text("at most 1.05 × the baseline").wait_for()
    page.get_by_role("button", name="Create the study").click()
    page.locator(".summary-errors", has_text="needs a baseline").wait_for()
    assert constraint.get_by_label("The limit is").get_attribute("aria-invalid") == "true"
    page.get_by_label("Baseline").fill("26 mg")
    page.get_by_role("button", name="Create the study").click()
    page.locator(".summary-errors", has_text="no such option").wait_for()
    assert page.get_by_label("Baseline").get_attribute("aria-invalid") == "true"
    page.get_by_label("Baseline").fill("25 mg")
    ratio = add_constraint(page)
    ratio.get_by_label("Metric").fill("errors")
    ratio.get_by_label("Divided by").fill("requests")
    ratio.get_by_label("Mean must be").fill("0.01")
    ratio.get_by_label("One result is").select_option("symmetric")
    page.get_by_text("One test gives errors and requests together").wait_for()
    page.get_by_role("button", name="Create the study").click()
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    study = ba.Study.open("ratio", storage=server.database)
    assert study.plan.baseline == "25 mg"
    assert [part.label for part in study.plan.constraints] == [
        "adverse event at most 1.05 × the baseline",
        "errors per requests at most 0.01",
    ]
    study.add([("25 mg", {"errors": 3, "requests": 100}), ("25 mg", "adverse event", 0.4)])
    heads = page.locator("table.arms")
    heads.get_by_text("errors per requests").first.wait_for()
    heads.get_by_text("at most 1.05 × the baseline").first.wait_for()


def test_limits_on_slices_of_the_items(visit: Visit, server: Server) -> None:
    """Attributes and limits are stated in the form; the dashboard calls a limit by its slice."""
    visitor = visit(server.url)
    page = visitor.go("/new")
    fill_in(page, "slices")
    page.get_by_label("Each measurement is made on").select_option("number")
    page.get_by_label("How many items").fill("3")
    page.get_by_label("Attributes").fill("topic: law, law, history")
    constraint = page.get_by_role("group", name="Constraint 1")
    constraint.get_by_label("On items where").fill("topic = art")
    page.get_by_role("button", name="Create the study").click()
    page.locator(".summary-errors", has_text="no item has it").wait_for()
    constraint.get_by_label("On items where").fill("")
    constraint.get_by_label("For each").fill("topic")
    page.get_by_role("button", name="Create the study").click()
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    study = ba.Study.open("slices", storage=server.database)
    names = ("adverse event where topic = law", "adverse event where topic = history")
    assert study.plan.metrics[1:] == names
    study.add([("25 mg", "adverse event", 0.0, "3")])
    page.locator("table.arms").get_by_text(names[1]).first.wait_for()


def test_goals_are_chosen_and_shown(visit: Visit, server: Server) -> None:
    """The question follows what is chosen, complaints stand at their field, and the study's page names the set."""
    visitor = visit(server.url)
    page = visitor.go("/new")
    fill_in(page, "several")
    page.get_by_label("Find", exact=True).select_option("any feasible")
    page.get_by_text("whichever it is, has adverse event at most 0.5?").wait_for()
    assert not page.get_by_label("How many (optional)").is_visible()
    page.get_by_label("Find", exact=True).select_option("top")
    page.get_by_label("How many (optional)").fill("99")
    page.get_by_role("button", name="Create the study").click()
    page.locator(".summary-errors", has_text="there are only").wait_for()
    assert page.get_by_label("How many (optional)").get_attribute("aria-invalid") == "true"
    page.get_by_label("How many (optional)").fill("2")
    page.get_by_text("Which 2 of").wait_for()
    page.get_by_role("button", name="Create the study").click()
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    study = ba.Study.open("several", storage=server.database)
    assert (study.plan.goal, study.plan.top) == ("top", 2)
    arms = study.plan.arm_names
    # Two arms that are clearly the best, and feasible.
    for _ in range(40):
        study.add(
            [
                (arm, metric, value)
                for place, arm in enumerate(arms)
                for metric, value in (("efficacy", 2.0 if place < 2 else 0.0), ("adverse event", 0.0))
            ]
        )
    page.get_by_text("the 2 best feasible options").first.wait_for()
    assert page.locator("tr.answered").count() == 2
    visitor.check("422")


def test_every_feasible_arm_needs_nothing_to_make_best(visit: Visit, server: Server) -> None:
    """What is to be as good as the standard, but for a margin: the form, the study's page and the list say so."""
    visitor = visit(server.url)
    page = visitor.go("/new")
    page.get_by_label("Name of the study").fill("good enough")
    unfold(page)
    page.get_by_label("Options, one on a line").fill("standard\nF1\nF2\nF3")
    page.get_by_label("Baseline").fill("standard")
    page.get_by_label("Find", exact=True).select_option("every feasible")
    page.get_by_text("Not needed for what this study is to find").wait_for()
    limit = add_constraint(page)
    limit.get_by_label("Metric").fill("yield")
    assert not limit.get_by_label("Margin").is_visible()
    limit.get_by_label("Side of the threshold").select_option("at_least")
    limit.get_by_label("The limit is").select_option("relative")
    limit.get_by_label("Margin").fill("2")
    limit.get_by_label("One result is").select_option("gaussian")
    limit.get_by_label("Standard deviation").fill("1")
    page.get_by_text("Which of 3 options have yield at least the baseline − 2?").wait_for()
    page.get_by_role("button", name="Create the study").click()
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    study = ba.Study.open("good enough", storage=server.database)
    assert (study.plan.goal, study.plan.objective.metric) == ("every feasible", "yield")
    assert study.plan.constraints[0].label == "yield at least the baseline − 2"
    yields = {"standard": 10.0, "F1": 9.5, "F2": 8.0, "F3": 5.0}
    study.add([(arm, "yield", mean) for _ in range(30) for arm, mean in yields.items()])
    page.get_by_text("2 of 3 options are decided").first.wait_for()
    assert page.locator("tr.leads").count() == 0
    visitor.go("/").get_by_text("2 of 3 options are decided").first.wait_for()
    study.add([(arm, "yield", mean + 0.4 * (arm == "F2")) for _ in range(400) for arm, mean in yields.items()])
    visitor.page.get_by_text("F1 and F2: feasible, and no other option is").first.wait_for()
    visitor.check()
