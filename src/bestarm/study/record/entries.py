"""Pieces of a study's record: which tests have a result, and where to stop and look."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from bestarm.storage.base import Entries
from bestarm.study.intake.blocks import some_of


def tests_of(parts: Iterable[Entries]) -> list[tuple[int, int]]:
    """The tests (arm, metric) that have a result."""
    return [
        (arm, metric)
        for part in parts
        for arm, metric, value in zip(part.arms.tolist(), part.metrics.tolist(), part.values.tolist(), strict=True)
        if value == value
    ]


def unasked_in(entries: Entries) -> int:
    """How many results are there that the study had not asked for."""
    has_result = ~np.isnan(entries.values)
    return int(entries.given[has_result].sum()) if len(entries.given) else 0


def cut(parts: Iterable[Entries], looks: Iterable[int]) -> Iterator[Entries]:
    """The parts in pieces that end where to look."""
    start = 0
    for part in parts:
        end = start + len(part.ids)
        edges = [start, *(look for look in looks if start < look < end), end]
        for first, last in itertools.pairwise(edges):
            yield some_of(part, slice(first - start, last - start))
        start = end
