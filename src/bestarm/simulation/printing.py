"""What simulations and forecasts found, as rows of texts: for `print`, notebooks and the command line alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from bestarm.texts import html_table, in_columns, shown

if TYPE_CHECKING:
    from bestarm.simulation.forecast import Forecast
    from bestarm.simulation.simulate import Simulation

Rows = list[tuple[str, str]]
"""A label and its text."""

MOST_ROWS = 50
"""The most answers, or arms, with a row each."""


def simulation_title(result: Simulation) -> str:
    return f"{result.plan.name}: {result.policy}"


def simulation_text(result: Simulation) -> str:
    return f"{shown(simulation_title(result))}\n{in_columns(simulation_rows(result))}"


def simulation_html(result: Simulation) -> str:
    return _titled(simulation_title(result), html_table(simulation_rows(result)))


def simulation_rows(result: Simulation) -> Rows:
    """Tests, cost, errors and answers of simulated studies."""
    spread = "" if result.runs == 1 else f" ± {result.se_tests:,.1f} (sd {result.sd_tests:,.0f})"
    rows = [
        ("runs", f"{result.runs:,} (seed {result.seed})"),
        ("delta, bound", f"{result.plan.delta:g}, {result.plan.bound}"),
        ("mean tests", f"{result.mean_tests:,.1f}{spread}"),
        ("mean cost", f"{result.mean_cost:,.1f}"),
        ("wrong answers", f"{result.wrong:,} ({100 * result.error_rate:.3g} %)"),
    ]
    if result.unfinished:
        limit = f"stopped at {result.max_tests:,} tests; means include them"
        rows.append(("unfinished", f"{result.unfinished:,} ({limit})"))
    rows += _answers(result.answer_counts, "{:,}")
    if not math.isnan(result.seconds):
        rows.append(("speed", f"{result.tests_per_second / 1e6:,.1f} million tests per second"))
    return rows


def forecast_title(result: Forecast) -> str:
    return f"{result.plan.name}: what it will take"


def forecast_text(result: Forecast) -> str:
    return f"{shown(forecast_title(result))}\n{in_columns(forecast_rows(result))}\n{forecast_words(result)}"


def forecast_html(result: Forecast) -> str:
    figures = _titled(forecast_title(result), html_table(forecast_rows(result)))
    words = f"<p>{escape(forecast_words(result))}</p>"
    streams = stream_rows(result)
    if len(streams) > MOST_ROWS:
        return figures + words
    return figures + words + _titled("Mean tests by arm and metric", html_table(streams, stream_heads(result)))


def _titled(title: str, table: str) -> str:
    return f"<p><strong>{escape(title)}</strong></p>{table}"


def forecast_rows(result: Forecast) -> Rows:
    """What studies of a problem with guessed means take."""
    worlds = "means as given" if result.worlds == 1 else f"{result.worlds} draws of means"
    rows = [
        ("simulated studies", f"{result.runs:,} (seed {result.seed}), {worlds}"),
        ("policy, delta, bound", f"{result.policy}, {result.delta:g}, {result.plan.bound}"),
        ("tests: mean", f"{result.mean_tests:,.0f}"),
        ("tests: half of the studies, 9 in 10", f"{_within(result, 0.5)}, {_within(result, 0.9)}"),
        ("cost: mean", f"{result.mean_cost:,.0f}"),
        ("cost: half of the studies, 9 in 10", f"{result.median_cost:,.0f}, {result.p90_cost:,.0f}"),
        ("tests any method needs (Theorem 1)", _number(result.lower_bound)),
        ("tests, if their number is fixed", _number(result.fixed_sample_tests)),
    ]
    if result.unfinished:
        rows.append(("unfinished", f"{result.unfinished:,} (stopped after {_limit(result)})"))
    rows += _answers({answer: 100 * share for answer, share in result.answers.items()}, "{:.3g} %")
    rows.append(("wrong answers", f"{100 * result.error_rate:.3g} %"))
    return rows


def stream_heads(result: Forecast) -> tuple[str, ...]:
    return ("arm", *result.plan.metrics, "all")


def stream_rows(result: Forecast) -> list[tuple[str, ...]]:
    """Mean tests of each arm and metric, and in all; the last row is that of all arms."""
    # One test may measure several metrics.
    by_arm = zip(result.per_arm.items(), result.per_stream.tolist(), strict=True)
    rows = [(name, *(f"{number:,.0f}" for number in (*tests, together))) for (name, together), tests in by_arm]
    return [*rows, ("all", *(f"{number:,.0f}" for number in (*result.per_metric.values(), result.mean_tests)))]


def forecast_words(result: Forecast) -> str:
    """The forecast in a sentence or two."""
    words = f"Half of such studies end within {_within(result, 0.5)} tests, 9 in 10 within {_within(result, 0.9)}."
    if result.unfinished:
        words += (
            f" {result.unfinished:,} of {result.runs:,} had no answer after {_limit(result)} and were given up, "
            "as happens near a tie or a threshold. They count as ended there, so the means are too low."
        )
    if math.isnan(result.lower_bound):
        words += " The lower bound is not computed; `bestarm theory` says why."
    return words


def _answers(answers: Mapping[str, float], form: str) -> Rows:
    """The answers that were given, the most frequent first, not too many of them."""
    often = sorted(answers.items(), key=lambda item: -item[1])
    texts = [f"{'no feasible arm' if name == 'none' else name}: {form.format(how)}" for name, how in often[:MOST_ROWS]]
    if len(often) > MOST_ROWS:
        texts.append(f"and {len(often) - MOST_ROWS:,} more: {form.format(sum(how for _, how in often[MOST_ROWS:]))}")
    return [("answers" if k == 0 else "", text) for k, text in enumerate(texts)]


def _within(result: Forecast, share: float) -> str:
    """Within how many tests this share of the studies, a half or nine tenths, ends."""
    tests = result.median_tests if share == 0.5 else result.p90_tests
    return f"{tests:,.0f}" if result.finished.mean() >= share else f"more than {tests:,.0f}"


def _limit(result: Forecast) -> str:
    tests, cost = f"{result.max_tests:,} tests", result.plan.max_cost
    return tests if math.isinf(cost) else f"{tests} or at a cost of {cost:,g}"


def _number(number: float) -> str:
    if math.isnan(number):
        return "not computed"
    return "infinite" if math.isinf(number) else f"{number:,.0f}"
