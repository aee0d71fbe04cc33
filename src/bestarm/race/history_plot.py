"""The history of gates as a figure: a panel for each limit, and in it the interval of each gate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bestarm.analysis.charts.drawing import require_plots
from bestarm.analysis.charts.style import new_grid, plain, tidy
from bestarm.race.history import NO_CLAIM, Line, by_limit, figure_of, limit_in, verdict_on
from bestarm.validation import InvalidInput

FORMS = (".png", ".svg", ".pdf")
_MARKS = {
    "holds": ("o", "#0072b2"),
    "violated": ("x", "#d55e00"),
    "open": ("D", "#999999"),
    "void": ("s", "#e69f00"),
}


def draw(lines: Sequence[Line], path: Path) -> None:
    """Write the figure."""
    if path.suffix.lower() not in FORMS:
        raise InvalidInput("--plot", str(path), f"must end in {', '.join(FORMS)}", FORMS)
    known = {name: [row for row in rows if figure_of(row[1]) is not None] for name, rows in by_limit(lines).items()}
    groups = {name: rows for name, rows in known.items() if rows}
    if not groups:
        raise InvalidInput("--plot", str(path), "there is no gate with figures to draw")
    require_plots()
    figure, grid = new_grid(8.0, 0.5 + 2.7 * len(groups), len(groups), 1)
    for axes, ((study, limit), rows) in zip(grid[:, 0], groups.items(), strict=True):
        for place, (line, one) in enumerate(rows):
            found = verdict_on(line, one)
            mark, color = _MARKS.get(found, _MARKS["open"])
            if one["low"] is not None and one["high"] is not None:
                axes.plot([place, place], [one["low"], one["high"]], color=color, linewidth=2.0)
            axes.plot(place, figure_of(one), marker=mark, color=color, linestyle="none", label=found)
        for bound in filter(None, (rows[-1][1].get(side) for side in ("at_most", "at_least"))):
            axes.axhline(bound, color="#222222", linewidth=1.0, linestyle="--", label="limit")
        names = [line["commit"][:8] if line.get("commit") else line["time"][5:16] for line, _ in rows]
        axes.set_xticks(range(len(rows)), names, rotation=90, fontsize=7)
        axes.set_ylabel("ratio" if limit_in(rows[0][1]).is_multiple else rows[0][1]["metric"])
        axes.set_title(plain(f"{study}\n{limit}"), fontsize=9)
        marks = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        axes.legend(marks.values(), marks.keys(), frameon=False, fontsize=8)
        tidy(axes, grid="y")
    figure.supxlabel(NO_CLAIM, fontsize=6, wrap=True)
    try:
        figure.savefig(path)
    except OSError as error:
        raise InvalidInput("--plot", str(path), f"cannot be written: {error.strerror or error}") from None
