"""From tests to results: a test of several metrics, one entry of the record, becomes a result of each part it is about.

The objective and the constraints are the parts of a plan. Two parts may have the same metric; then the one value that
was told counts for both. For a ratio, two values of the test make one result: the one minus the threshold times the
other.
"""

from __future__ import annotations

import numpy as np

from bestarm.kernel.state import Floats, Ints
from bestarm.problem import Plan
from bestarm.storage.base import Entries
from bestarm.validation import InvalidInput


class Results:
    """How the tests of a plan are spread over its parts."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._is_plain = all(len(bundle) == 1 == len(plan.yields[bundle[0]]) for bundle in plan.bundles)
        sizes = np.zeros(len(plan.parts), np.int64)
        width = max(map(len, plan.bundles))
        self._parts = np.full((len(plan.parts), width), -1)
        self._columns = np.zeros((len(plan.parts), width), np.int64)
        ratios = {k: part for k, part in enumerate(plan.constraints, start=1) if part.per is not None}
        self._under = np.zeros(len(plan.parts), np.int64)
        self._factors = np.zeros(len(plan.parts))
        for k, part in ratios.items():
            self._under[k] = plan.yields[plan.leads[k]].index(part.per)
            self._factors[k] = part.threshold
        self._ratios = np.array([k in ratios for k in range(len(plan.parts))])
        for bundle in plan.bundles:
            lead = bundle[0]
            sizes[lead] = len(bundle)
            order = plan.in_order(bundle)
            self._parts[lead, : len(bundle)] = order
            self._columns[lead, : len(bundle)] = [plan.yields[lead].index(plan.parts[part].metric) for part in order]
        self._sizes = sizes
        self._yields = np.array([len(plan.yields.get(part, ())) for part in range(len(plan.parts))])

    def of(self, entries: Entries) -> Entries:
        """The results of tests, part by part. A test's results follow each other, and the last one ends its round."""
        return self.with_denominators(entries)[0]

    def with_denominators(self, entries: Entries) -> tuple[Entries, Floats]:
        """The same, and for each result its value or, of a ratio, what was divided by."""
        if self._is_plain or not len(entries.ids):
            return entries, entries.values
        values = self._values(entries)
        sizes = self._sizes[entries.metrics]
        rows = np.repeat(np.arange(len(sizes)), sizes)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        leads = entries.metrics[rows]
        ends = np.where(place == sizes[rows] - 1, entries.ends[rows], 0).astype(np.int8)
        parts = self._parts[leads, place]
        found = values[rows, self._columns[leads, place]]
        under = np.where(self._ratios[parts], values[rows, self._under[parts]], found)
        made = entries._replace(
            ids=entries.ids[rows],
            arms=entries.arms[rows],
            metrics=parts,
            values=np.where(self._ratios[parts], found - self._factors[parts] * under, found),
            ends=ends,
            told=entries.told[rows],
            arrivals=entries.arrivals[rows],
            holders=entries.holders[rows] if len(entries.holders) else entries.holders,
            items=entries.items[rows] if len(entries.items) else entries.items,
            issued=entries.issued[rows] if len(entries.issued) else entries.issued,
            more=entries.more[:0],
        )
        return made, under

    def of_tests(self, entries: Entries) -> list[tuple[int, int, float]]:
        """The results (arm, metric, value) of tests that have one."""
        found = self.of(entries)
        rows = zip(found.arms.tolist(), found.metrics.tolist(), found.values.tolist(), strict=True)
        return [(arm, metric, value) for arm, metric, value in rows if value == value]

    def _values(self, entries: Entries) -> Floats:
        """[test, k]: the values of each test, in the order of the record; NaN where there is none."""
        values = np.full((len(entries.ids), max(int(self._yields.max()), 1)), np.nan)
        values[:, 0] = entries.values
        further = entries.more if len(entries.more) else [()] * len(entries.ids)
        expected: Ints = self._yields[entries.metrics] - 1
        for row, (more, count) in enumerate(zip(further, expected.tolist(), strict=True)):
            if np.isnan(values[row, 0]):
                continue
            if len(more or ()) != count:
                raise InvalidInput(
                    "study",
                    self._plan.name,
                    f"its record is damaged (test {entries.ids[row]} has {1 + len(more or ())} values, and "
                    f"{1 + count} belong to it); restore the database from a copy",
                )
            values[row, 1 : 1 + count] = more
        return values
