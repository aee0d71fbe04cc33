"""Charts drawn with matplotlib. Color, marker and hatching all differ, for print and for color-blind readers."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from bestarm.analysis.charts.chart import Chart, Panel, Series
from bestarm.analysis.charts.intervals import short
from bestarm.analysis.charts.style import GRAY, PALETTE, new_figure, plain, pyplot, tidy

_COLORS = (*PALETTE, GRAY, "#f0e442")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LETTERS_ACROSS = 40
_DATES: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""The kinds of pictures, and where they would have a date."""
_HATCHES = ("", "///", "...", "xx", "\\\\\\", "++", "oo", "--")


@functools.cache
def require_plots() -> Any:
    """matplotlib without a screen. Raises an error now, not after hours of simulation, if it is not installed."""
    plt = pyplot()
    plt.switch_backend("Agg")
    return plt


def _styles(chart: Chart) -> dict[str, int]:
    """Every label of the chart gets one style, the same in all panels: its own, or one that no other label has."""
    wanted = {s.label: s.style for panel in chart.panels for s in panel.series if not s.reference}
    free = (style for style in itertools.count() if style not in wanted.values())
    return {label: (next(free) if style is None else style) % len(_COLORS) for label, style in wanted.items()}


def _line(axes: Any, series: Series, style: int) -> None:
    if series.reference:
        axes.plot(series.x, series.y, "--", color="#222222", linewidth=1.2, label=plain(series.label))
        return
    y = np.array(series.y)
    # On a logarithmic axis a bar must not reach zero.
    below = np.minimum(series.error, 0.95 * y) if series.error else None
    error = None if below is None else np.array([below, series.error])
    axes.errorbar(
        series.x,
        y,
        yerr=error,
        color=_COLORS[style],
        marker=_MARKERS[style],
        markersize=5,
        linewidth=1.5,
        capsize=2.5,
        label=plain(series.label),
    )


def _bars(axes: Any, panel: Panel, styles: dict[str, int]) -> None:
    measured = [s for s in panel.series if not s.reference]
    places = np.arange(len(measured[0].x))
    width = 0.8 / len(measured)
    for k, series in enumerate(measured):
        style = styles[series.label]
        axes.bar(
            places + (k - (len(measured) - 1) / 2) * width,
            series.y,
            width * 0.92,
            yerr=series.error or None,
            capsize=3,
            color=_COLORS[style],
            edgecolor="white",
            hatch=_HATCHES[style],
            label=plain(series.label),
        )
    for series in (s for s in panel.series if s.reference):
        axes.hlines(
            series.y, places - 0.42, places + 0.42, colors="#222222", linestyles="--", label=plain(series.label)
        )
    if len(places) > 1:
        names = [plain(short(str(x))) for x in measured[0].x]
        # Names are slanted if they would overlap.
        slant = {"rotation": 30, "horizontalalignment": "right"} if sum(map(len, names)) > _LETTERS_ACROSS else {}
        axes.set_xticks(places, names, **slant)
    else:
        axes.set_xticks([])  # a panel of one group is named by its title


def draw(chart: Chart) -> Any:
    """The chart as a matplotlib figure."""
    styles = _styles(chart)
    figure, panels = new_figure(4.3 * len(chart.panels), 4.0, across=len(chart.panels))
    for axes, panel in zip(panels, chart.panels, strict=True):
        if panel.bars:
            _bars(axes, panel, styles)
        else:
            for series in panel.series:
                _line(axes, series, styles.get(series.label, 0))
        if panel.log_x:
            axes.set_xscale("log", base=10 if panel.reversed_x else 2)
            if not panel.reversed_x:
                ticks = sorted({x for series in panel.series for x in series.x})
                axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
                axes.minorticks_off()
        if panel.reversed_x:
            axes.invert_xaxis()
        if panel.log_y:
            axes.set_yscale("log")
        else:
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_title(plain(panel.title), fontsize=11)
        axes.set_xlabel(plain(panel.x_label))
        axes.set_ylabel(plain(panel.y_label))
        tidy(axes, grid="y")
    handles: dict[str, Any] = {}
    for axes in panels:
        handles.update({label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)})
    references = {plain(s.label) for panel in chart.panels for s in panel.series if s.reference}
    handles = dict(sorted(handles.items(), key=lambda item: item[0] in references))
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(len(handles), 2 * len(chart.panels)),
        frameon=False,
    )
    return figure


def save(chart: Chart, stem: Path) -> list[Path]:
    """Write the chart as PNG, SVG, PDF and CSV; returns the files."""
    plt = require_plots()
    figure = draw(chart)
    files = [stem.with_suffix(suffix) for suffix in _DATES]
    for file in files:
        # Without dates and random ids, so that the same data give the same file.
        with plt.rc_context({"svg.hashsalt": "bestarm"}):
            figure.savefig(file, dpi=160, metadata=_DATES[file.suffix])
    plt.close(figure)
    data = stem.with_suffix(".csv")
    chart.save_data(data)
    return [*files, data]
