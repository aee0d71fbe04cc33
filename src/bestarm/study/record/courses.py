"""A study's record read once more, with a look at what is known from time to time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from bestarm.analysis.standing.knowledge import Moment, moment_of
from bestarm.storage.base import Entries
from bestarm.study.record.follower import Follower


def course_of(follower: Follower, points: int) -> list[Moment]:
    """What was known at about this many moments, evenly spread over the results that count. `follower` has read
    none."""
    with follower.storage.snapshot():
        parts = [*follower._new_entries()]
    results = sum(len(part.ids) for part in parts)
    looks = np.unique(np.linspace(0, results, min(points, results) + 1).round().astype(int)).tolist()
    moments, read = [_moment(follower)], 0
    for piece in _cut(parts, looks):
        follower._enter(piece)
        read += len(piece.ids)
        is_decided = follower._decider.stop is not None
        if is_decided or read in looks:
            moments.append(_moment(follower))
        if is_decided:
            break
    return moments


def _cut(parts: list[Entries], looks: list[int]) -> Iterator[Entries]:
    """The parts in pieces that end where to look."""
    start = 0
    for part in parts:
        end = start + len(part.ids)
        edges = [start, *(look for look in looks if start < look < end), end]
        for first, last in itertools.pairwise(edges):
            columns: list[Any] = [column[first - start : last - start] for column in part]
            yield Entries(*columns)
        start = end


def _moment(follower: Follower) -> Moment:
    decider = follower._decider
    return moment_of(follower.plan, decider.policy, decider.stop, decider.policy.spent[0])
