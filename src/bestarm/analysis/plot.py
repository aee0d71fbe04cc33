"""Charts of a study with matplotlib, the same as in the report and on the dashboard: `ba.plot`.

Each function takes a `Study` and returns a matplotlib figure, which a notebook shows.
"""

from __future__ import annotations

import importlib
import math
from datetime import UTC, datetime
from typing import Any

from bestarm.study.intervals import COLORS
from bestarm.study.study import Study
from bestarm.validation import InvalidInput

__all__ = ["costs", "intervals", "progress"]

_MARKERS = {"feasible": "o", "infeasible": "x", "worse": "v", "open": "$\u25cb$"}


def _pyplot() -> Any:
    try:
        return importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise InvalidInput("plots need matplotlib: pip install 'bestarm[plot]'") from None


def intervals(study: Study) -> Any:
    """Every arm's interval against the threshold, a panel a metric; colour and marker tell the verdict."""
    plt = _pyplot()
    rows, metrics = study.state, study.plan.metrics
    height = 1.2 + 0.3 * len(rows)
    figure, grid = plt.subplots(
        1, len(metrics), figsize=(3.4 * len(metrics) + 1, height), sharey=True, squeeze=False, layout="constrained"
    )
    for column, axes in enumerate(grid[0]):
        for place, row in enumerate(rows):
            metric = row.metrics[column]
            if not metric.tests:
                continue
            color = COLORS[row.verdict]
            ends = [end for end in (metric.low, metric.high) if math.isfinite(end)]
            axes.plot(ends, [place] * len(ends), color=color, linewidth=2.5, solid_capstyle="round")
            label = row.verdict if column == 0 else None
            axes.plot(metric.mean, place, _MARKERS[row.verdict], color=color, markersize=8, label=label)
        threshold = rows[0].metrics[column].threshold
        if threshold is not None:
            axes.axvline(threshold, color="#222222", linewidth=1.2, linestyle="--")
        axes.set_title(metrics[column], fontsize=11)
        axes.grid(axis="x", color="#dddddd", linewidth=0.7)
        axes.spines[["top", "right", "left"]].set_visible(False)
    grid[0][0].set_yticks(range(len(rows)), [row.name for row in rows])
    grid[0][0].invert_yaxis()
    handles = dict(zip(*reversed(grid[0][0].get_legend_handles_labels()), strict=True))
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def progress(study: Study) -> Any:
    """Tests and cost over time."""
    plt = _pyplot()
    made = study.progress()
    times = [datetime.fromtimestamp(time, UTC) for time in made.time]
    figure, grid = plt.subplots(1, 2, figsize=(9, 3.4), squeeze=False, layout="constrained")
    for axes, values, label in zip(grid[0], (made.tests, made.cost), ("tests", "cost"), strict=True):
        axes.plot(times, values, color=COLORS["feasible"])
        axes.set_title(label, fontsize=11)
        axes.set_ylim(bottom=0)
        axes.tick_params(axis="x", rotation=30)
        axes.grid(color="#dddddd", linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def costs(study: Study) -> Any:
    """What the tests of each arm have cost, metric by metric."""
    plt = _pyplot()
    rows, plan = study.state, study.plan
    figure, axes = plt.subplots(figsize=(7, 1.2 + 0.3 * len(rows)), layout="constrained")
    left = [0.0] * len(rows)
    shades = plt.get_cmap("viridis")
    for column, (metric, cost) in enumerate(zip(plan.metrics, plan.costs, strict=True)):
        spent = [cost * row.metrics[column].tests for row in rows]
        shade = shades(column / max(len(plan.metrics) - 1, 1))
        axes.barh(range(len(rows)), spent, left=left, color=shade, edgecolor="white", label=metric)
        left = [before + more for before, more in zip(left, spent, strict=True)]
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("cost")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure
