"""Which items an arm is measured on next: the first places of the order that no test of it has."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bestarm.problem import Plan
from bestarm.problem.items import ItemOrder
from bestarm.storage.base import Entries, Rounds

Test = tuple[int, int]
"""Arm and metric."""


class Taken:
    """The places that the tests of one arm and metric have. Nearly always they are the first ones."""

    def __init__(self) -> None:
        self.first_free = 0
        self._beyond: set[int] = set()

    def add(self, place: int) -> None:
        if place >= self.first_free:
            self._beyond.add(place)
            while self.first_free in self._beyond:
                self._beyond.remove(self.first_free)
                self.first_free += 1

    def __contains__(self, place: int) -> bool:
        return place < self.first_free or place in self._beyond

    def copy(self) -> Taken:
        other = Taken()
        other.first_free, other._beyond = self.first_free, set(self._beyond)
        return other


class Places:
    """The places of all tests of a study that have entered. A test that ended without a result leaves its place."""

    def __init__(self, plan: Plan, items_seed: int) -> None:
        assert plan.items is not None
        self.order = ItemOrder(plan.items, plan.repeats, items_seed)
        self._taken: dict[Test, Taken] = {}

    def enter(self, entries: Entries) -> None:
        """Take in tests with their outcomes."""
        for test, place in _measured(entries):
            self._taken.setdefault(test, Taken()).add(place)

    def taken(
        self, out: Iterable[tuple[Test, int | None]], late: Iterable[Entries], tests: Collection[Test] | None = None
    ) -> dict[Test, Taken]:
        """The places that are measured or being measured, of some tests or of all, where `out` are tests without a
        result, and `late` have one that has not entered."""
        whose = self._taken if tests is None else tests
        found = {test: self._taken[test].copy() for test in whose if test in self._taken}
        for test, place in [*out, *(pair for part in late for pair in _measured(part))]:
            if place is not None and (tests is None or test in tests):
                found.setdefault(test, Taken()).add(place)
        return found

    def planned(self, rounds: Rounds, out: Iterable[tuple[Test, int | None]], late: Iterable[Entries]) -> Rounds:
        """The same rounds, each test with its place. Where all items are taken, there is nothing more to measure."""
        # In a study with many arms, only a few are asked for at a time.
        taken = self.taken(out, late, {(arm, metric) for tests in rounds for arm, metric, *_ in tests})
        placed: list[list[tuple[int, int] | tuple[int, int, int]]] = []
        for tests in rounds:
            placed.append([])
            for arm, metric, *_ in tests:
                of_test = taken.setdefault((arm, metric), Taken())
                if self.order.places is None or of_test.first_free < self.order.places:
                    placed[-1].append((arm, metric, of_test.first_free))
                    of_test.add(of_test.first_free)
        return [tests for tests in placed if tests]


def _measured(entries: Entries) -> list[tuple[Test, int]]:
    """The tests that have a result, and their places."""
    columns = (entries.arms.tolist(), entries.metrics.tolist(), entries.items.tolist(), entries.values.tolist())
    return [((arm, metric), place) for arm, metric, place, value in zip(*columns, strict=True) if value == value]
