"""What a chart shows, not how it is drawn: computed once, then drawn, printed or saved as a table."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from bestarm.texts import cell


@dataclasses.dataclass(frozen=True)
class Series:
    """One line or one row of bars: values over x, with error bars (empty for none)."""

    label: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()
    reference: bool = False
    """Drawn dashed, without markers: a bound, not a measurement."""
    style: int | None = None
    """Which color, marker and hatching to use, so that a series looks the same in several charts. None: by order."""


@dataclasses.dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    bars: bool = False
    reversed_x: bool = False


@dataclasses.dataclass(frozen=True)
class Chart:
    """Panels side by side, with one legend."""

    title: str
    panels: tuple[Panel, ...]

    def rows(self) -> Iterator[tuple[str, str, float | str, float, float | str]]:
        """The data as a tidy table: panel, series, x, y, error."""
        for panel in self.panels:
            for series in panel.series:
                for k, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
                    yield panel.title, series.label, x, y, series.error[k] if series.error else ""

    def save_data(self, path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("panel", "series", "x", "y", "error"))
            writer.writerows([cell(item) if isinstance(item, str) else item for item in row] for row in self.rows())
