"""Tests in two lengths: a short form for `make test`, and a long one, marked `torture`, for `make torture`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from tests.parts import PARTS

TORTURE = "torture"
"""The marker, and the profile of hypothesis that goes with it."""

Test = TypeVar("Test", bound=Callable[..., Any])


def lengths(short: Any, long: Any) -> list[Any]:
    """Values of a parameter, or tuples of values of several: the second only in `make torture`."""
    return [short, pytest.param(*(long if isinstance(long, tuple) else (long,)), marks=pytest.mark.torture)]


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """Values of a parameter, or tuples of those of several: only so many in `make test`, the rest in `make torture`."""
    values = list(values)
    return [*values[:count], *(lengths(None, value)[1] for value in values[count:])]


def cases(count: int) -> pytest.MarkDecorator:
    """So many cases of a test, evenly spread over all of them, in `make test`; the others only in `make torture`."""
    return pytest.mark.cases(count)


def shorten(items: Sequence[pytest.Item]) -> None:
    """Mark the cases that `make test` leaves out. Those that need a part are not among the ones it chooses from."""
    tests: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        marker = item.get_closest_marker("cases")
        if marker and not item.get_closest_marker(TORTURE) and not item.get_closest_marker(PARTS):
            tests.setdefault((item.nodeid.partition("[")[0], marker.args[0]), []).append(item)
    for (_, count), found in tests.items():
        kept = {len(found) * place // count for place in range(count)}
        for place, item in enumerate(found):
            if place not in kept:
                item.add_marker(TORTURE)


def long_ones_left_out(items: Sequence[pytest.Item], one_in: int, picked_by: str) -> set[pytest.Item]:
    """All long tests but one in so many. Which ones depends on `picked_by` alone: all test processes agree."""
    return {
        item
        for item in items
        if item.get_closest_marker(TORTURE) and zlib.crc32(f"{picked_by} {item.nodeid}".encode()) % one_in
    }


def at_length() -> bool:
    """Whether this is `make torture`."""
    return settings.get_current_profile_name() == TORTURE


def examples(short: int, long: int, **more: Any) -> Callable[[Test], Test]:
    """How many examples hypothesis tries, in `make test` and in `make torture`; and other settings of its own."""
    chosen = settings(max_examples=long if at_length() else short, **more)

    def decorate(test: Test) -> Test:
        limited: Test = chosen(test)
        return pytest.mark.torture(limited) if at_length() else limited

    return decorate
