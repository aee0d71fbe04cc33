"""A budget of time: hours by the clock since a study was created, the same in every process that follows it.

When the hours are over no test begins. Tests that began before still count, however long they take: to leave out those
that are late would leave out what makes them late.
"""

from __future__ import annotations

import functools
import math
import time

from bestarm.parsing import read_json
from bestarm.storage.base import StudyRecord

SECONDS = 3600.0
"""In an hour."""


@functools.lru_cache(256)
def _hours_in(plan: str) -> float:
    # A service asks for every study, twice a second.
    budget = read_json(plan).get("budget") if '"hours"' in plan else None
    return float((budget or {}).get("hours") or math.inf)


def ends_at(record: StudyRecord) -> float | None:
    """When the hours are over, in seconds since 1970; None without such a budget."""
    end = record.created + SECONDS * _hours_in(record.plan)
    return end if end < math.inf else None


def is_time_up(record: StudyRecord) -> bool:
    """Whether the hours are over."""
    end = ends_at(record)
    return end is not None and time.time() >= end


def hours_since(record: StudyRecord) -> float:
    """How many hours ago the study was created."""
    return max(time.time() - record.created, 0.0) / SECONDS
