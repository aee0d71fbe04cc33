"""A study as a notebook shows it."""

from __future__ import annotations

from html import escape

from bestarm.analysis.intervals import interval_chart
from bestarm.analysis.status import Status
from bestarm.analysis.words import question
from bestarm.plan import Plan

_MOST = 60


def html_view(plan: Plan, status: Status) -> str:
    """The question, where the study stands, and every arm's intervals."""
    rows = status.arms[:_MOST]
    chart = interval_chart(rows, "Intervals of every arm on every metric, against the thresholds")
    more = f"<p>The first {_MOST} of {len(status.arms)} arms.</p>" if len(status.arms) > _MOST else ""
    health = "".join(f"<li>{escape(str(note))}</li>" for note in status.health.notes)
    found = f"<ul>{health}</ul>" if health else f"<p>{escape(str(status.health))}</p>" if status.tests else ""
    return (
        f'<div style="overflow-wrap:anywhere"><p><strong>{escape(status.study)}</strong>: {escape(question(plan))}</p>'
        f"<p>{escape(status.headline)}; {status.tests:,} tests, cost {status.cost:,.6g}</p>{found}{chart}{more}</div>"
    )
