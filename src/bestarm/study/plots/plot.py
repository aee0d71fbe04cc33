"""Charts of a study with matplotlib: `ba.plot`. Intervals, progress and costs are also in the report, or on the
dashboard.

Each function takes a `Study` and returns a matplotlib figure, which a notebook shows. `compare` takes several studies
or simulations, and `curves` several simulations.
"""

from __future__ import annotations

import importlib
import math
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from bestarm.analysis.charts.intervals import COLORS, charted, limits, short, short_names
from bestarm.analysis.charts.style import ACROSS, legend_below, new_figure, new_grid, plain, pyplot, tidy
from bestarm.analysis.standing.arms import ArmStanding, Verdict
from bestarm.study.plots.compare import compare
from bestarm.study.plots.courses import evidence, open_arms
from bestarm.study.plots.curves import curves
from bestarm.study.study import Study

__all__ = ["compare", "costs", "curves", "evidence", "intervals", "open_arms", "progress"]

_MARKERS: dict[Verdict, str] = {"feasible": "o", "infeasible": "x", "worse": "v", "open": "o"}
_MARKERS |= {"retired": "_", "baseline": "s"}


_WIDEST_TITLE = 24


def _height(rows: Sequence[ArmStanding]) -> float:
    """The height in inches of a panel with a line for each arm."""
    return 0.8 + 0.3 * len(rows)


def _name_rows(axes: Any, rows: Sequence[ArmStanding]) -> None:
    """The arms from top to bottom, with or without results."""
    axes.set_yticks(range(len(rows)), [plain(name) for name in short_names([row.name for row in rows])])
    axes.set_ylim(len(rows) - 0.4, -0.6)


def _title(subject: str) -> str:
    """What a panel shows, on two lines if it would be wider than the panel."""
    name = short(subject)
    return name if len(name) <= _WIDEST_TITLE else "\n".join(textwrap.wrap(name, _WIDEST_TITLE - 4))


def _panel(axes: Any, rows: Sequence[ArmStanding], column: int, unit: str | None) -> None:
    first, last = limits([row.metrics[column] for row in rows])
    for place, row in enumerate(rows):
        metric = row.metrics[column]
        if not metric.tests or math.isnan(metric.mean):
            continue
        verdict = row.verdict_on(metric)
        color = COLORS[verdict]
        if math.isfinite(metric.low) or math.isfinite(metric.high):
            ends = [min(max(end, first), last) for end in (metric.low, metric.high)]
            axes.plot(ends, [place, place], color=color, linewidth=2.5, solid_capstyle="round")
        inside = "white" if verdict == "open" else color
        axes.plot(
            min(max(metric.mean, first), last),
            place,
            color=color,
            marker=_MARKERS[verdict],
            markerfacecolor=inside,
            markeredgewidth=2.0,
            markersize=7,
            linestyle="none",
            label=verdict,
        )
    threshold = rows[0].metrics[column].threshold
    if threshold is not None:
        axes.axvline(threshold, color="#222222", linewidth=1.2, linestyle="--", label="threshold")
    # Room for a mark at the edge, such as that of a rate of 0.
    room = 0.03 * (last - first)
    axes.set_xlim(first - room, last + room)
    axes.locator_params(axis="x", nbins=5)
    axes.set_title(plain(_title(rows[0].metrics[column].subject)), fontsize=11)
    if unit is not None:
        axes.set_xlabel(plain(unit))
    axes.tick_params(left=False)
    tidy(axes, grid="x")
    axes.spines["left"].set_visible(False)


def intervals(study: Study) -> Any:
    """Every arm's interval against the threshold, one panel per metric. Color and marker show the verdict.

    If there are very many arms, only the best are shown.
    """
    status = study.status()
    rows, about = charted(study.plan, status.arms, status.leader)
    panels = len(study.plan.metrics)
    across = min(panels, ACROSS)
    down = math.ceil(panels / across)
    figure, grid = new_grid(3.4 * across + 1, _height(rows) * down + 0.5, down, across, sharey=True)
    figure.get_layout_engine().set(w_pad=0.1)
    for column, axes in enumerate(grid.flat):
        if column < panels:
            _panel(axes, rows, column, study.plan.unit_of(study.plan.parts[column]))
        else:
            axes.remove()
    _name_rows(grid[0][0], rows)
    if about:
        figure.suptitle(plain(about), fontsize=10)
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    legend_below(figure, {label: handles[label] for label in (*COLORS, "threshold") if label in handles})
    return figure


def progress(study: Study) -> Any:
    """Tests and cost over time."""
    dates = importlib.import_module("matplotlib.dates")
    made = study.progress()
    times = [datetime.fromtimestamp(time, UTC) for time in made.time]
    figure, panels = new_figure(9, 3.4, across=2)
    for axes, values, label in zip(panels, (made.tests, made.cost), ("tests", "cost"), strict=True):
        # A line through one point is invisible.
        axes.plot(times, values, color=COLORS["feasible"], marker="o" if len(times) == 1 else None)
        axes.set_title(label, fontsize=11)
        axes.set_ylim(bottom=0, top=None if times else 1)
        axes.set_xlabel("time, UTC")
        if times:
            if times[0] == times[-1]:
                # Otherwise matplotlib shows years around it.
                axes.set_xlim(times[0] - timedelta(minutes=1), times[0] + timedelta(minutes=1))
            locator = dates.AutoDateLocator()
            axes.xaxis.set_major_locator(locator)
            axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
        else:
            axes.set_xticks([])
        tidy(axes)
    return figure


def costs(study: Study) -> Any:
    """What the tests of each arm have cost, by what they measure. If there are very many arms, only the best are
    shown."""
    plan, status = study.plan, study.status()
    rows, about = charted(plan, status.arms, status.leader)
    figure, (axes,) = new_figure(9, _height(rows) + 0.5)
    left = [0.0] * len(rows)
    cost_of = dict(zip(plan.arm_names, plan.arm_costs.tolist(), strict=True))
    shades = pyplot().get_cmap("viridis")
    labels = map(plain, short_names([*plan.test_names.values()]))
    for place, (label, lead) in enumerate(zip(labels, plan.test_names, strict=True)):
        # A test of several metrics is paid for once.
        spent = [cost_of[row.name][lead] * row.metrics[lead].tests for row in rows]
        shade = shades(0.9 * place / max(len(plan.test_names) - 1, 1))
        axes.barh(range(len(rows)), spent, left=left, color=shade, edgecolor="white", label=label)
        left = [before + more for before, more in zip(left, spent, strict=True)]
    _name_rows(axes, rows)
    axes.set_xlim(left=0, right=None if any(left) else 1)
    axes.set_xlabel("cost")
    tidy(axes, grid="x")
    if about:
        figure.suptitle(plain(about), fontsize=10)
    handles, names = axes.get_legend_handles_labels()
    legend_below(figure, dict(zip(names, handles, strict=True)))
    return figure
