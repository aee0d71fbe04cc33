"""A forecast as a chart."""

from __future__ import annotations

import numpy as np

from bestarm.analysis.charts.chart import Chart, Panel, Series
from bestarm.kernel.state import Ints
from bestarm.simulation.forecast import Forecast

_MOST_TICKS = 8


def forecast_chart(result: Forecast) -> Chart:
    """How many studies are done after how many tests, and what the tests are spent on."""
    per_metric = result.per_metric
    only = next(iter(per_metric)) if len(per_metric) == 1 else None
    return Chart(
        title=f"{result.plan.name}: forecast",
        panels=(
            _done_panel(result),
            Panel(
                title="Tests per metric" if only is None else f"Tests of {only}",
                x_label="metric" if only is None else "",
                y_label="mean tests",
                series=(Series("mean tests", tuple(per_metric), tuple(per_metric.values())),),
                bars=True,
            ),
        ),
    )


def _done_panel(result: Forecast) -> Panel:
    finished = result.tests[result.finished]
    seen = finished if len(finished) else result.tests
    low, high = int(seen.min()), int(seen.max())
    decades = high >= 10 * low
    # Few points, since each gets a marker and, on a logarithmic axis, a label.
    at = _round_numbers(low, high) if decades else _quantiles(seen)
    share = [100.0 * int(np.count_nonzero(finished <= tests)) / result.runs for tests in at]
    return Panel(
        title="When studies are done",
        x_label="tests",
        y_label="studies done, %",
        series=(Series("studies done", tuple(map(float, at)), tuple(share)),),
        log_x=decades,
    )


def _quantiles(numbers: Ints) -> list[int]:
    """The smallest and the largest number and 19 between them, without repeats."""
    spread: list[int] = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, 21), method="higher")).tolist()
    return spread


def _round_numbers(low: int, high: int) -> list[int]:
    """1, 2, 5, 10, … from `low` or below to `high` or above, or fewer between powers of ten if too many to label."""
    for digits in ((1, 2, 5), (1, 3), (1,)):
        every = [digit * 10**power for power in range(len(str(low)) - 1, len(str(high)) + 1) for digit in digits]
        first = max(k for k, number in enumerate(every) if number <= low)
        last = min(k for k, number in enumerate(every) if number >= high)
        if last - first < _MOST_TICKS:
            break
    return every[first : last + 1]
