"""The paper, reproduced in a short form: every table and figure, and the theory around the measurements."""

from __future__ import annotations

import csv
import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.lengths import lengths

import bestarm as ba
from bestarm.analysis.charts import drawing
from bestarm.analysis.charts.chart import Chart, Panel, Series
from bestarm.paper.experiments import EXPERIMENTS, POLICIES
from bestarm.paper.page import (
    Block,
    Figure,
    Grid,
    Heading,
    Items,
    Text,
    from_json,
    to_html,
    to_json,
    to_markdown,
)
from bestarm.paper.reproduce import reproduce
from bestarm.theory import analyze


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    reproduce("all", folder, runs=2, seed=1)
    return folder


@pytest.mark.torture
def test_every_figure_in_every_form(everything: Path) -> None:
    for stem in EXPERIMENTS:
        assert (everything / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (everything / f"{stem}.svg").read_text(encoding="utf-8")[:1000]
        assert (everything / f"{stem}.csv").read_text().startswith("panel,series,x,y,error\n")


@pytest.mark.torture
def test_the_page_has_every_part_and_names_the_departures(everything: Path) -> None:
    page = (everything / "paper.md").read_text(encoding="utf-8")
    for part in (
        "Experiment 1",
        "Experiment 2",
        "Drug discovery",
        "Confidence bounds",
        "Where we depart from the paper",
    ):
        assert f"## {part}" in page
    assert "[0.58]" in page
    assert page.count(".png)") == len(EXPERIMENTS)
    html = (everything / "paper.html").read_text(encoding="utf-8")
    assert html.count("<img") == len(EXPERIMENTS)
    assert html.count("<h2>") == 5


@pytest.mark.torture
def test_figure_2_spans_the_papers_sweeps(everything: Path) -> None:
    rows = [line.split(",") for line in (everything / "figure2.csv").read_text().splitlines()[1:]]
    ours = [(panel, float(x)) for panel, series, x, *_ in rows if series == "feasible-lucb"]
    assert [x for panel, x in ours if panel == "number of constraints"] == [2, 4, 8, 16, 32, 64]
    assert [x for panel, x in ours if panel == "number of arms"] == [4, 8, 16, 32, 64]
    assert [x for panel, x in ours if panel == "confidence"] == pytest.approx([10.0**-k for k in range(1, 10)])
    assert {series for _, series, *_ in rows} == {*POLICIES, "lower bound (Theorem 1)"}


@pytest.mark.torture
def test_performance_first_is_left_out_of_the_drug_figure_as_in_the_paper(everything: Path) -> None:
    data = (everything / "drug.csv").read_text()
    assert "performance-first" not in data
    assert "racing" in data


@pytest.mark.parametrize("name", lengths("table1", "all"))
@pytest.mark.torture
def test_reproducing_again_computes_nothing_and_changes_nothing(everything: Path, name: str) -> None:
    before = {path.name: path.read_bytes() for path in everything.iterdir() if path.suffix in (".csv", ".md", ".svg")}
    reproduce(name, everything, runs=2, seed=1)
    after = {path.name: path.read_bytes() for path in everything.iterdir() if path.suffix in (".csv", ".md", ".svg")}
    assert after == before


@pytest.mark.torture
@pytest.mark.parametrize(("first", "second"), [("figure2", "table1"), ("table1", "figure2")])
def test_one_experiment_after_the_other_gives_one_page(first: str, second: str, tmp_path: Path) -> None:
    order = (first, second)
    for runs, name in enumerate(order, start=1):
        reproduce(name, tmp_path, runs=runs, seed=runs)
    page, html = ((tmp_path / f"paper.{kind}").read_text(encoding="utf-8") for kind in ("md", "html"))
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == ["## Experiment 1", "## Experiment 2", "## Where we depart from the paper"]
    assert html.count("<h2>") == 3
    # Each says how it was computed.
    assert [line[:19] for line in page.splitlines() if "runs each" in line] == [
        f"{order.index(name) + 1} runs each, seed {order.index(name) + 1}" for name in ("table1", "figure2")
    ]
    # Computed again, its part is replaced, and the others stay.
    reproduce("table1", tmp_path, runs=3, seed=order.index("table1") + 1)
    page = (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert page.count("## Experiment") == 2
    assert "3 runs each" in page


@pytest.mark.torture
def test_a_damaged_part_is_named(everything: Path, tmp_path: Path) -> None:
    """And one part after the other gives one page: what `test_one_experiment_after_the_other…` does at length."""
    copy = tmp_path / "copy"
    shutil.copytree(everything, copy)
    (copy / "campaigns" / "table1.json").write_text("{")
    with pytest.raises(ba.InvalidInput, match=r"table1\.json is damaged: run `bestarm paper table1` again"):
        reproduce("bounds", copy, runs=2, seed=1)
    reproduce("table1", copy, runs=2, seed=1)
    assert "## Confidence bounds" in (copy / "paper.md").read_text(encoding="utf-8")


@pytest.mark.torture
def test_further_policies_beside_the_papers(everything: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(everything, copy)
    [result] = reproduce("drug", copy, runs=2, seed=1, policies=["certify"]).values()
    papers = [policy for policy in POLICIES if policy != "performance-first"]
    assert [s.policy for s in result.simulations if s.plan.name == "drug"] == [*papers, "certify"]
    rows = [*csv.reader((copy / "drug.csv").read_text().splitlines()[1:])]
    assert {series for _, series, *_ in rows} == {*papers, "certify", "lower bound (Theorem 1)"}
    # What the paper has is what it was, and each policy looks different.
    before = [*csv.reader((everything / "drug.csv").read_text().splitlines()[1:])]
    assert [row for row in rows if row[1] != "certify"] == before
    assert "Not in the paper: certify." in (copy / "paper.md").read_text(encoding="utf-8")
    series = tuple(
        Series(policy, ("x",), (1.0,), style=POLICIES.index(policy) if policy in POLICIES else None)
        for policy in (*papers, "certify")
    )
    styles = drawing._styles(Chart("c", (Panel("p", "", "", series, bars=True),)))
    assert len(set(styles.values())) == len(styles)
    with pytest.raises(ba.InvalidInput, match="policy = 'racing': is there already: the paper has it"):
        reproduce("drug", copy, policies=["racing"])


@pytest.mark.parametrize("name", ba.instance_names())
def test_algorithm_1_lies_between_the_theorems(name: str) -> None:
    """The mean of 5 runs; Theorem 1 is some 40 times below it and Theorem 2 more than 10 times above."""
    theory = analyze(ba.instance(name), 0.1)
    mean = ba.simulate(ba.instance(name), policy="feasible-lucb", runs=5, seed=2).mean_tests
    assert theory.lower_bound < mean < theory.upper_bound


def test_an_unknown_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ba.InvalidInput, match="experiment = 'table2': no such experiment; there are table1, figure2"):
        reproduce("table2", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_it_says_so_before_it_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def absent(name: str, package: str | None = None) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, package)

    drawing.require_plots.cache_clear()
    monkeypatch.setattr(importlib, "import_module", absent)
    try:
        with pytest.raises(ba.InvalidInput, match="plots need matplotlib: pip install"):
            reproduce("table1", tmp_path)
    finally:
        drawing.require_plots.cache_clear()
    assert list(tmp_path.iterdir()) == []


def test_a_chart_shows_its_data_in_the_right_form() -> None:
    line = Series("a", (1.0, 10.0), (100.0, 200.0), (10.0, 500.0))
    bound = Series("least", (1.0, 10.0), (1.0, 2.0), reference=True)
    panel = Panel("p", "x", "y", (line, bound), log_x=True, log_y=True)
    bars = Panel("q", "", "y", (Series("a", ("u", "v"), (3.0, 4.0), (1.0, 1.0)),), bars=True)
    figure = drawing.draw(Chart("c", (panel, bars)))
    first, second = figure.axes
    assert (first.get_xscale(), first.get_yscale()) == ("log", "log")
    assert first.get_ylim()[0] > 0
    assert [tick.get_text() for tick in second.get_xticklabels()] == ["u", "v"]
    assert [patch.get_height() for patch in second.patches] == [3.0, 4.0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "least"]
    importlib.import_module("matplotlib.pyplot").close(figure)


@pytest.mark.parametrize("text", ["{", "[1]", "3", '[{"kind": "Poem"}]', '[{"kind": "Text", "verse": "a"}]', "[[]]"])
def test_what_is_no_page_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(text)


def test_a_page_in_both_forms() -> None:
    blocks: list[Block] = [
        Heading("T"),
        Text("a `b` <c>"),
        Items(("x", "y")),
        Grid(("h", "n"), (("r", "1"),)),
        Figure("f", "cap"),
    ]
    assert from_json(to_json(blocks)) == blocks
    markdown = to_markdown(blocks)
    assert "| h | n |\n| --- | ---: |\n| r | 1 |" in markdown
    assert "![cap](f.png)" in markdown
    html = to_html(blocks, "t<")
    assert "<title>t&lt;</title>" in html
    assert "a <code>b</code> &lt;c&gt;" in html
    assert "<td>r</td><td>1</td>" in html
