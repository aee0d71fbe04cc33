"""What all charts with matplotlib have in common."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from bestarm.validation import InvalidInput

ACROSS = 4
"""The most panels, or entries of a legend, side by side."""
_LETTER = 0.085
"""About the width of a letter, in inches."""

# The palette of Okabe and Ito, which color-blind readers can tell apart. Marks or hatching say the same.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
GRAY = "#999999"


def pyplot() -> Any:
    """matplotlib, or one clear line if it is not installed."""
    try:
        plt = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise InvalidInput("plots need matplotlib: pip install 'bestarm[plot]'") from None
    # Text in a PDF is text: by default it is drawn as shapes (Type 3 fonts), which journals refuse.
    plt.rcParams["pdf.fonttype"] = 42
    return plt


def new_figure(width: float, height: float, across: int = 1) -> tuple[Any, Any]:
    """A figure of that size in inches, and its panels."""
    figure, grid = new_grid(width, height, 1, across)
    return figure, grid[0]


def new_grid(width: float, height: float, down: int, across: int, **options: Any) -> tuple[Any, Any]:
    """The same with several rows of panels."""
    plt = pyplot()
    size = {"figsize": (width, height), "squeeze": False, "layout": "constrained"}
    figure, grid = plt.subplots(down, across, **size, **options)
    if plt.get_backend().endswith("inline"):
        # A notebook shows what is returned. Figures that are open it shows as well, at the end of the cell.
        plt.close(figure)
    return figure, grid


def plain(text: str) -> str:
    """The text, escaped so that matplotlib does not set what is between two dollar signs as mathematics."""
    return text.replace("$", r"\$")


def tidy(axes: Any, *, grid: str = "both") -> None:
    """Remove what carries no information."""
    axes.grid(axis=grid, color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def in_thousands(axis: Any) -> None:
    """Whole numbers with their thousands set apart."""
    axis.get_major_locator().set_params(integer=True)
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def legend_below(figure: Any, handles: Mapping[str, Any]) -> None:
    """A legend below the figure, in as many columns as fit, the figure as much higher as it takes."""
    if not handles:
        return
    width, height = figure.get_size_inches()
    longest = 0.6 + _LETTER * max(map(len, handles))
    columns = max(1, min(ACROSS, len(handles), int(width / longest)))
    rows = -(-len(handles) // columns)
    figure.set_size_inches(max(width, longest), height + 0.22 * rows)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False)
