"""`ba.plot` draws every study, whatever its state, its scale and its names, to PNG and to SVG.

A warning of matplotlib's, such as that a label leaves no room for the picture, is an error here as everywhere.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import numpy as np
import pytest
from tests.analysis.drawn_studies import HOSTILE, LONG, STUDIES, example
from tests.lengths import cases

import bestarm as ba
from bestarm.analysis.charts.chart import Chart, Panel, Series
from bestarm.analysis.charts.drawing import draw
from bestarm.analysis.charts.intervals import interval_chart, limits, short_names, ticks
from bestarm.analysis.standing.arms import ArmStanding, MetricStanding, Verdict


@pytest.fixture(autouse=True)
def pyplot(needs: Callable[[str], None]) -> Iterator[None]:
    needs("matplotlib")
    import matplotlib.pyplot as plt

    with plt.rc_context({"backend": "Agg"}):
        yield
        plt.close("all")


def svg_words(figure: Any) -> str:
    """The text in the picture, which the SVG holds as comments beside the letters' outlines."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg")
    return " ".join(unescape(word) for word in re.findall(r"<!-- (.*?) -->", buffer.getvalue().decode()))


def pictures() -> Iterator[tuple[str, str, str]]:
    """Every plot of every study; each plot of half of the studies in either form."""
    plots = [plot for plot in ba.plot.__all__ if plot != "curves"]
    for place, (name, plot) in enumerate(itertools.product(STUDIES, plots)):
        yield name, plot, ("svg", "png")[(place + place // len(plots)) % 2]


def texts_outside(figure: Any) -> list[str]:
    """What is written beyond the edges of the picture. Marks of an axis beyond its ends are not drawn."""
    from matplotlib.text import Text

    figure.canvas.draw()
    renderer, (width, height) = figure.canvas.get_renderer(), figure.canvas.get_width_height()
    unseen = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            unseen |= {id(tick.label1) for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
            unseen |= {id(tick.label1) for tick in axis.get_minor_ticks()}
    found = []
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and id(text) not in unseen:
            box = text.get_window_extent(renderer)
            if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1:
                found.append(text.get_text())
    return found


@cases(8)
@pytest.mark.parametrize(("name", "plot", "form"), [*pictures()])
def test_every_plot_of_every_study(name: str, plot: str, form: str) -> None:
    figure = getattr(ba.plot, plot)(example(name))
    assert texts_outside(figure) == []
    if form == "svg":
        assert svg_words(figure)
        return
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=50)
    assert buffer.getvalue().startswith(b"\x89PNG")


def test_the_examples_are_what_they_are_called() -> None:
    assert [row.verdict for row in example("running").state].count("open") > 0
    certified, none, spent = (example(name).answer for name in ("certified", "none feasible", "budget spent"))
    assert certified is not None
    assert certified.arm == "fast"
    assert none is not None
    assert none.arm is None
    assert spent is not None
    assert spent.state == "budget_spent"


@pytest.mark.parametrize("name", ["running", "certified", "none feasible"])
def test_intervals(name: str) -> None:
    study = example(name)
    figure = ba.plot.intervals(study)
    assert [axes.get_title() for axes in figure.axes] == ["latency", "crash", "score"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["slow", "fast", "harmful"]
    legend = {text.get_text() for text in figure.legends[0].get_texts()}
    assert legend == {row.verdict_on(metric) for row in study.state for metric in row.metrics} | {"threshold"}
    for column, axes in enumerate(figure.axes):
        means = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "None"]
        assert means == [row.metrics[column].mean for row in study.state]


def test_progress_and_costs() -> None:
    study = example("certified")
    answer = study.answer
    assert answer is not None
    assert ba.plot.progress(study).axes[0].lines[0].get_ydata()[-1] == study.status().tests
    bars = ba.plot.costs(study).axes[0].patches
    assert sum(bar.get_width() for bar in bars) == pytest.approx(answer.cost)


def test_a_test_of_several_metrics_is_paid_for_once() -> None:
    study = example("together")
    axes = ba.plot.costs(study).axes[0]
    assert sum(bar.get_width() for bar in axes.patches) == pytest.approx(study.status().cost)
    assert axes.get_legend_handles_labels()[1] == ["time + memory", "size"]


def test_open_arms_and_evidence_follow_the_course() -> None:
    study = example("rates")
    course = study.course(points=60)
    assert [moment.tests for moment in (course[0], course[-1])] == [0, 152]
    assert [len(moment.candidates) for moment in (course[0], course[-1])] == [3, 1]
    assert course[-1].leader == "150 mg"
    assert course[-1].is_decided
    line = ba.plot.open_arms(study).axes[0].lines[0]
    assert line.get_ydata().tolist()[:-1] == [len(moment.candidates) for moment in course]
    axes = ba.plot.evidence(study).axes[0]
    shares = [value for line in axes.lines for value in np.atleast_1d(line.get_ydata()) if value == value]
    assert 0.0 <= min(shares) <= max(shares) == 100.0
    labels = [text.get_text() for text in axes.get_figure().legends[0].get_texts()]
    assert "300 mg against 150 mg" in labels
    running = example("running").course(points=5)
    assert [moment.tests for moment in running] == [0, 6, 12, 18, 24, 30]
    assert {question.arm for question in running[-1].open} >= {"fast"}
    assert running[-1].open == example("running").status().open
    with pytest.raises(ba.InvalidInput, match="points = 0: must be a whole number"):
        study.course(0)


def test_compare_studies_and_simulations() -> None:
    plan = ba.instance("exp1-a")
    some = [ba.simulate(plan, policy=policy, runs=8, seed=1) for policy in ("feasibility-first", "tf-lucb")]
    left, right = ba.plot.compare(*some).axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["feasibility-first", "tf-lucb"]
    means = [line.get_xdata()[0] for line in left.lines if line.get_linestyle() == "None"]
    assert means == [simulation.mean_tests for simulation in some]
    assert sum(bar.get_width() for bar in right.patches) == pytest.approx(200.0)
    studies = [example(name) for name in ("certified", "running", "none feasible", "new")]
    figure = ba.plot.compare(*studies, labels=["a", "b", "c", "d" * 100])
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["fast", "no feasible arm", "no answer"]
    assert texts_outside(figure) == []
    mixed = ba.plot.compare(some[0], example("certified"))
    assert [label.get_text() for label in mixed.axes[0].get_yticklabels()] == [
        *("exp1-a, feasibility-first", "study, certify")
    ]
    for wrong, complaint in (((), "compare: name the studies"), ((3,), "compare = 3: must be a study or a simulation")):
        with pytest.raises(ba.InvalidInput, match=complaint):
            ba.plot.compare(*wrong)
    with pytest.raises(ba.InvalidInput, match="must be 2, one for each line"):
        ba.plot.compare(*some, labels=["one"])


@pytest.mark.parametrize("plot", ["intervals", "costs"])
def test_names_stand_as_they_are(plot: str) -> None:
    """Between two dollars there is no mathematics; and two arms never look the same."""
    figure = getattr(ba.plot, plot)(example("names"))
    words = svg_words(figure)
    for name in ("$5_a$", "$10_b$", r"\frac{$x$}", "a_b^c{", r"C:\$x", "gain_$ per $day$", "cost_$x^2$"):
        assert name in words
    figure.canvas.draw()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(set(labels)) == len(HOSTILE)


def test_the_best_of_very_many_arms() -> None:
    figure = ba.plot.intervals(example("many arms"))
    assert len(figure.axes[0].get_yticks()) == 60
    assert figure.get_suptitle() == "The 60 arms with the best latency of 70"


def test_names_in_charts_of_simulations() -> None:
    """The plot of a forecast names the metrics."""
    names = ("cost_$x^2$", "$bad{", "m" * 200)
    panel = Panel("of $5_a$", "$x$", "$y$", (Series("$s_t$", names, (1.0, 2.0, 3.0)),), bars=True)
    words = svg_words(draw(Chart("title", (panel,))))
    for name in ("of $5_a$", "$x$", "$y$", "$s_t$", "cost_$x^2$", "$bad{"):
        assert name in words


def test_short_names() -> None:
    assert short_names(["a", "b" * 28]) == ["a", "b" * 28]
    first, second, third = short_names([*LONG, "x" * 200])
    assert first != second
    assert max(map(len, (first, second, third))) < 33


def column(mean: float, half: float, tests: int = 5, threshold: float | None = None) -> list[MetricStanding]:
    return [MetricStanding("m", tests, mean, mean - half, mean + half, threshold, None)]


@pytest.mark.parametrize("half", [0.0, 1e-15, 1e-9, 1.0, 1e9, float("inf")])
@pytest.mark.parametrize("mean", [0.0, 1e-15, 1e-9, 0.3, -7.0, 1e6, 1e15])
def test_the_chart_without_a_library_has_an_axis_to_read(mean: float, half: float) -> None:
    low, high = limits(column(mean, half))
    assert low < mean < high
    marks = ticks(low, high)
    assert 1 <= len(marks) <= 6
    assert len({label for _, label in marks}) == len(marks)
    for at, label in marks:
        assert low <= at <= high
        assert float(label) == pytest.approx(at, abs=(high - low) / 100)


def test_a_rate_has_its_axis_within_0_and_1() -> None:
    rates = ((0.02, 0.0, 0.3), (0.97, 0.6, 1.0))
    assert limits([MetricStanding("m", 9, mean, low, high, 0.5, None) for mean, low, high in rates]) == (0.0, 1.0)
    # But a limit that no rate can miss is shown, too.
    low, high = limits([MetricStanding("m", 9, 0.5, 0.2, 1.0, 1.2, None)])
    assert low >= 0.0
    assert high == 1.2


def test_an_axis_before_the_first_result() -> None:
    for threshold in (1e-9, 0.5, -4.0, 1e9):
        low, high = limits(column(float("nan"), float("nan"), 0, threshold))
        assert low < threshold < high
        assert high - low <= 2.1 * abs(threshold)


@pytest.mark.parametrize("name", STUDIES)
def test_the_chart_without_a_library_draws_every_study(name: str) -> None:
    chart = interval_chart(example(name).state)
    assert "nan" not in chart
    assert "inf" not in chart.replace("infeasible", "")


def test_the_legend_fits_whatever_is_in_it() -> None:
    several: tuple[tuple[Verdict, ...], ...] = (("open",), ("open", "baseline"), ("open", "baseline", "retired"))
    for verdicts in several:
        metrics = (MetricStanding("m", 0, 0.0, -1.0, 1.0, 0.5, None),) * 2
        chart = interval_chart([ArmStanding("a", verdict, "", metrics) for verdict in verdicts])
        assert all(f">{verdict}<" in chart for verdict in verdicts)
        [width] = re.findall(r'viewBox="0 0 (\d+) ', chart)
        [last] = re.findall(r'<text x="(\d+)" y="\d+">threshold<', chart)
        # A letter takes 8 at most.
        assert int(last) + 8 * len("threshold") <= int(width)


def test_curves_of_simulations() -> None:
    plan = ba.instance("exp1-a")
    some = [ba.simulate(plan, policy=policy, runs=50, checkpoints=[50, 400, 800]) for policy in ("racing", "certify")]
    figure = ba.plot.curves(*some)
    words = svg_words(figure)
    assert all(word in words for word in ("Wrong answers", "Regret", "racing", "certify", "800"))
    assert "one" in svg_words(ba.plot.curves(*some, labels=["one", "other"]))
    assert texts_outside(ba.plot.curves(ba.simulate(plan, runs=20, checkpoints=range(50, 2001, 50)))) == []
    for wrong in ([], [plan], [ba.simulate(plan, runs=2)]):
        with pytest.raises(ba.InvalidInput, match="curves"):
            ba.plot.curves(*wrong)


def test_text_in_a_pdf_is_text() -> None:
    buffer = io.BytesIO()
    ba.plot.compare(example("certified")).savefig(buffer, format="pdf")
    assert b"/FontFile2" in buffer.getvalue(), "a TrueType font is embedded"
    assert b"/Type3" not in buffer.getvalue()
