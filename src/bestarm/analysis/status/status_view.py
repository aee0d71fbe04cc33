"""A status as text of several lines, and as a notebook shows it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from bestarm.analysis.charts.intervals import interval_chart
from bestarm.analysis.status.progress_words import EMPTY, FULL, progress_lines
from bestarm.answer import void_style
from bestarm.texts import in_columns, shown

if TYPE_CHECKING:
    from bestarm.analysis.status.progress_words import Lines
    from bestarm.analysis.status.status import Status
    from bestarm.study.forecast.continuations import Outlook

_MOST = 60


def status_lines(status: Status, outlook: Outlook | None = None) -> Lines:
    """What is known and open, what was done, what everything waits for, the seeds, and whether the data is healthy."""
    made = f"{status.tests:,} recorded, cost {status.cost:,.6g}; {status.pending:,} pending"
    lines = [*progress_lines(status, outlook), ("tests", made)]
    awaited = status.awaited
    if awaited is not None and (status.waiting or awaited.needs_somebody):
        lines.append(("waiting", f"for {awaited}"))
    if status.seed is not None:
        lines.append(("seeds", status.seed_words))
    if status.tests:
        found = [str(note) for note in status.health.notes] or [str(status.health)]
        lines += [("health" if k == 0 else "", sentence) for k, sentence in enumerate(found)]
    return lines


def status_text(status: Status) -> str:
    """For `print`."""
    return f"{shown(status.study)}: {shown(status.headline)}\n{in_columns(status_lines(status))}"


def status_html(status: Status, *, asks: str = "", outlook: Outlook | None = None) -> str:
    """For a notebook: the lines, and every arm's intervals."""
    rows = status.arms[:_MOST]
    chart = interval_chart(rows, "Intervals of every arm on every metric, against the thresholds")
    more = f"<p>The first {_MOST} of {len(status.arms)} arms.</p>" if len(status.arms) > _MOST else ""
    style = void_style(status.guarantee)
    head = f"<p{style}><strong>{escape(status.study)}</strong>: {escape(asks or status.headline)}</p>"
    where = f"<p{style}>{escape(status.headline)}</p>" if asks else ""
    lines = lines_html(status_lines(status, outlook))
    return f'<div style="overflow-wrap:anywhere">{head}{where}{lines}{chart}{more}</div>'


def lines_html(lines: Lines) -> str:
    """Lines as a table in which long texts wrap, for notebooks and reports."""
    body = "".join(
        f'<tr><td style="text-align:left;vertical-align:top;white-space:nowrap"><strong>{escape(name)}</strong></td>'
        f'<td style="text-align:left">{_drawn(text)}</td></tr>\n'
        for name, text in lines
    )
    return f"<table><tbody>{body}</tbody></table>\n"


def _drawn(text: str) -> str:
    """A line's text, in which a bar of characters becomes one that is drawn."""
    rest = text.lstrip(FULL + EMPTY)
    drawn = len(text) - len(rest)
    if not drawn:
        return escape(text)
    width = f"{100 * text[:drawn].count(FULL) / drawn:.0f}%"
    # A border shows it on paper, too, where backgrounds may not be printed.
    return (
        '<span style="display:inline-block;width:12em;height:.8em;border:1px solid #0072b2">'
        f'<span style="display:block;height:0;width:{width};border-top:.8em solid #0072b2"></span></span>{escape(rest)}'
    )
