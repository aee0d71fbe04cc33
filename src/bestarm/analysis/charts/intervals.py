"""Interval charts as SVG, without any library: every arm's interval against the threshold, a panel per metric."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

from bestarm.analysis.standing.arms import ASIDE, ArmStanding, MetricStanding, Verdict
from bestarm.problem import Plan
from bestarm.problem.units import in_unit
from bestarm.validation import MOST

# From the Okabe-Ito palette, which color-blind readers can tell apart. The shape of the mark says the same.
COLORS: dict[Verdict, str] = {"feasible": "#0072b2", "infeasible": "#d55e00", "worse": "#7f7f7f", "open": "#e69f00"}
COLORS |= {"retired": "#b0b0b0", "baseline": "#222222"}

_ROW, _TOP, _WIDTH, _GAP, _KEY = 26, 44, 250, 24, 105
_LONGEST_NAME = 28
_NARROWEST = 1e-9
"""The least width of a panel, as a share of the values it shows. Closer values cannot be told apart by labels."""
_FARTHEST = 10.0 * MOST
"""Larger values, as in records made before they were refused, are shown at the edge."""


def limits(column: Sequence[MetricStanding]) -> tuple[float, float]:
    """A range that shows every mean and the threshold. The widest intervals may extend beyond it.

    It does not extend beyond all intervals. These end where the values of a metric end, so a rate has its axis within
    0 and 1.
    """
    points = [m.mean for m in column if m.tests]
    points += [m.threshold for m in column if m.threshold is not None]
    points = [min(max(point, -_FARTHEST), _FARTHEST) for point in points if not math.isnan(point)]
    low, high = min(points, default=0.0), max(points, default=1.0)
    widths = sorted(m.high - m.low for m in column if m.tests and math.isfinite(m.high - m.low))
    # Without any results, as wide as what is asked about.
    margin = widths[len(widths) // 2] * 0.7 if widths else high - low or abs(low)
    narrowest = _NARROWEST * max(abs(low), abs(high))
    margin = max(min(margin, _FARTHEST), narrowest) or 1.0
    first, last = low - margin, high + margin
    real = [m for m in column if m.tests and m.high > m.low]
    ends = max(first, min([low, *(m.low for m in real)])), min(last, max([high, *(m.high for m in real)]))
    return ends if ends[1] - ends[0] > narrowest else (first, last)


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Two to five round numbers in a range, each with its label."""
    power = math.floor(math.log10((high - low) / 2))
    for factor in (5, 2, 1):
        if (high - low) / (factor * 10.0**power) >= 2:
            break
    step = factor * 10.0**power
    chosen = [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    # Enough digits to tell one step from the next. Labels of many digits need room.
    largest = max([step, *map(abs, chosen)])
    digits = max(math.floor(math.log10(largest)) - power + 1, 6)
    if digits > 6 and len(chosen) > 3:
        chosen = chosen[::2]
    return [(tick, f"{tick or 0.0:.{digits}g}") for tick in chosen]


def _mark(verdict: Verdict, x: float, y: float) -> str:
    color = COLORS[verdict]
    match verdict:
        case "feasible":
            return f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{color}"/>'
        case "infeasible":
            d = f"M{x - 5:.1f} {y - 5}L{x + 5:.1f} {y + 5}M{x - 5:.1f} {y + 5}L{x + 5:.1f} {y - 5}"
            return f'<path d="{d}" stroke="{color}" stroke-width="2.5"/>'
        case "worse":
            return f'<path d="M{x - 5.5:.1f} {y - 4}h11l-5.5 9z" fill="{color}"/>'
        case "baseline":
            return f'<path d="M{x - 4.5:.1f} {y - 4.5}h9v9h-9z" fill="{color}"/>'
        case "retired":
            return f'<path d="M{x - 5:.1f} {y}h10" stroke="{color}" stroke-width="2.5"/>'
        case _:
            return f'<circle cx="{x:.1f}" cy="{y}" r="4.5" fill="none" stroke="{color}" stroke-width="2"/>'


def _panel(rows: Sequence[ArmStanding], column: int, left: float, unit: str | None) -> list[str]:
    metrics = [row.metrics[column] for row in rows]
    low, high = limits(metrics)
    bottom = _TOP + _ROW * len(rows)

    def x(value: float) -> float:
        return left + _WIDTH * (min(max(value, low), high) - low) / (high - low)

    middle, title = left + _WIDTH / 2, escape(in_unit(short(metrics[0].subject), unit))
    parts = [f'<text x="{middle:.0f}" y="24" text-anchor="middle" class="title">{title}</text>']
    for tick, label in ticks(low, high):
        parts.append(f'<path d="M{x(tick):.1f} {_TOP - 8}V{bottom}" class="grid"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{bottom + 16}" text-anchor="middle" class="tick">{label}</text>')
    threshold = metrics[0].threshold
    if threshold is not None:
        parts.append(f'<path d="M{x(threshold):.1f} {_TOP - 12}V{bottom + 2}" class="threshold"/>')
    for k, (row, metric) in enumerate(zip(rows, metrics, strict=True)):
        y = _TOP + _ROW * k + _ROW / 2
        if not metric.tests or math.isnan(metric.mean):
            continue
        verdict = row.verdict_on(metric)
        color = COLORS[verdict]
        if math.isfinite(metric.low) or math.isfinite(metric.high):
            line = f"M{x(metric.low):.1f} {y}H{x(metric.high):.1f}"
            parts.append(f'<path d="{line}" stroke="{color}" stroke-width="3" stroke-linecap="round"/>')
        parts.append(_mark(verdict, x(metric.mean), y))
    return parts


def short(name: str) -> str:
    """A name as a chart shows it. Long names often differ at their ends, so the middle is left out."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 10]}…{name[-9:]}"


def short_names(names: Sequence[str]) -> list[str]:
    """Names as a chart shows them. Shortened names that look the same get a number."""
    shown = [short(name) for name in names]
    seen = Counter(shown)
    return [label if seen[label] == 1 else f"{k}: {label}" for k, label in enumerate(shown, start=1)]


def interval_chart(rows: Sequence[ArmStanding], units: Sequence[str | None] = ()) -> str:
    """The chart of a study's standings, as an SVG element. `units` are those of its panels."""
    panels = len(rows[0].metrics)
    names = short_names([row.name for row in rows])
    left = 30 + 8 * max(map(len, names))
    verdicts = [one for one in COLORS if one not in ASIDE or any(row.verdict == one for row in rows)]
    # Beside the verdicts, the legend has the threshold.
    width = left + max(panels * (_WIDTH + _GAP), (len(verdicts) + 1) * _KEY + 15)
    height = _TOP + _ROW * len(rows) + 62
    size = f'viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
        'aria-label="Intervals of every metric, against the thresholds">',
        "<style>text{font:13px system-ui,sans-serif;fill:#222}.title{font-weight:600}.tick{font-size:11px;fill:#555}"
        ".grid{stroke:#ddd}.threshold{stroke:#222;stroke-width:1.5;stroke-dasharray:5 3}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for k, name in enumerate(names):
        y = _TOP + _ROW * k + _ROW / 2 + 4
        parts.append(f'<text x="{left - 14}" y="{y}" text-anchor="end">{escape(name)}</text>')
    for column in range(panels):
        unit = units[column] if units else None
        parts += _panel(rows, column, left + column * (_WIDTH + _GAP), unit)
    x = float(left)
    for verdict in verdicts:
        parts.append(_mark(verdict, x, height - 17))
        parts.append(f'<text x="{x + 12:.0f}" y="{height - 13}">{verdict}</text>')
        x += _KEY
    parts.append(
        f'<path d="M{x} {height - 24}v14" class="threshold"/><text x="{x + 12:.0f}" y="{height - 13}">threshold</text>'
    )
    return "\n".join([*parts, "</svg>"])


MOST_IN_CHART = 60


def charted(plan: Plan, arms: Sequence[ArmStanding], leader: str | None) -> tuple[Sequence[ArmStanding], str]:
    """The arms to show and, if they are not all, a sentence that says which they are."""
    if len(arms) <= MOST_IN_CHART:
        return arms, ""
    sign = 1.0 if plan.objective.goal == "maximize" else -1.0

    def rank(row: ArmStanding) -> tuple[bool, float]:
        mean = row.metrics[0].mean
        return row.name != leader, math.inf if math.isnan(mean) else -sign * mean

    rows = sorted(arms, key=rank)[:MOST_IN_CHART]
    return rows, f"The {MOST_IN_CHART} {plan.noun.many} with the best {plan.objective.metric} of {len(arms):,}"
