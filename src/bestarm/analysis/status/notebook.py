"""A study as a notebook shows it."""

from __future__ import annotations

from bestarm.analysis.status.status import Status
from bestarm.analysis.status.status_view import status_html
from bestarm.analysis.status.words import question
from bestarm.plan import Plan


def html_view(plan: Plan, status: Status) -> str:
    """The question, where the study stands, and every arm's intervals."""
    return status_html(status, asks=question(plan))
