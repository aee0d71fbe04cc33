"""The policy of one study, brought up to date with its record.

Results enter in the order in which their tests were issued, throughout the study, so that how long a test takes cannot
bias the answer. The policy decides at the end of each round. In a study by arrival, whose plan says that durations have
nothing to do with results, they enter as they come, and the policy decides after each one. Either way, what is decided
depends only on the record.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bestarm.kernel.state import Floats, Ints
from bestarm.policies import policy_for, setting_for
from bestarm.policies.base import Policy
from bestarm.policies.confidence import COMPILE_STREAMS, WAIT_STREAMS
from bestarm.policies.decisions import Stop
from bestarm.policies.kernels import KernelPolicy
from bestarm.policies.setting import references, to_normal
from bestarm.problem import Plan
from bestarm.storage.base import Entries
from bestarm.validation import InvalidInput

COMPILE_BACKLOG = 2000
COMPILE_RESULTS = 20_000
"""With this many results at once, or in all, compiled code pays off, and is waited for. On large problems it pays off,
too, but where a person is watching they go on interpreted until it is there."""


class Decider:
    """A study's policy, what it has been told, and its decision."""

    def __init__(self, plan: Plan, seed: int, *, by_arrival: bool = False) -> None:
        policy = policy_for(plan, plan.policy)
        setting = setting_for(plan, policy, plan.delta, plan.bound, references(plan))
        self.policy: Policy = policy(setting, len(plan.arms), len(plan.metrics), seed=seed)
        self._by_arrival = by_arrival
        self.entered = 0
        """The number of the last test that has entered; in a study by arrival, of the last arrival."""
        self.stop: Stop | None = None
        """The policy's answer, once it has one. Results that come later do not enter."""
        self._plan = plan
        self._next: list[tuple[int, int]] | None = None
        self._has_reference = False
        self._count = 0

    @property
    def settled(self) -> int:
        """The outcomes of all tests up to this number are known to have entered."""
        return 0 if self._by_arrival else self.entered

    def enter(self, entries: Entries) -> None:
        """Take in the outcomes that follow number `entered`, in order: the results of a test after each other, as
        `Results` spreads them."""
        self.entered = int((entries.arrivals if self._by_arrival else entries.ids)[-1])
        if self.stop is not None:
            return
        self._count += len(entries.ids)
        is_long = len(entries.ids) >= COMPILE_BACKLOG or self._count >= COMPILE_RESULTS
        streams = self.policy.streams.counts.size
        if is_long or streams >= COMPILE_STREAMS:
            self._compile(wait=is_long or streams >= WAIT_STREAMS)
        self._check(entries)
        columns = (entries.arms, entries.metrics)
        tests = np.column_stack(columns if self._plan.items is None else (*columns, entries.items))
        ends = self.policy.setting.following[entries.metrics] < 0 if self._by_arrival else entries.ends
        normal = self._normal(entries.metrics, entries.values, enter=True)
        self._take(self.policy.advance(tests, normal, ends.astype(np.int8)))

    def _check(self, entries: Entries) -> None:
        """Compiled code would write out of bounds if a number were out of range."""
        for kind, numbers, count in zip(
            ("arm", "metric"), (entries.arms, entries.metrics), self.policy.streams.counts.shape, strict=True
        ):
            if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= count:
                place = int(np.argmax((numbers < 0) | (numbers >= count)))
                raise InvalidInput(
                    "study",
                    self._plan.name,
                    f"its record is damaged (test {entries.ids[place]} is of {kind} number {numbers[place]}, and "
                    f"there are {count}); restore the database from a copy",
                )

    def _normal(self, metrics: Ints, values: Floats, *, enter: bool = False) -> Floats:
        """Results in normal form, in the order in which they enter. NaN stays NaN.

        A Gaussian objective has no natural reference. Its first result to enter becomes one.
        """
        setting = self.policy.setting
        if not self._has_reference:
            known = values[(metrics == 0) & ~np.isnan(values)]
            setting.reference[:] = references(self._plan, *known[:1].tolist())
            self._has_reference = enter and len(known) > 0
        normal: Floats = to_normal(self._plan, setting, metrics, values)
        return normal

    def _compile(self, *, wait: bool) -> None:
        if isinstance(self.policy, KernelPolicy) and not self.policy.is_compiled:
            self.policy.compile(wait=wait)

    def _take(self, decision: list[tuple[int, int]] | Stop | None) -> None:
        if isinstance(decision, Stop):
            self.stop = decision
        self._next = None if isinstance(decision, Stop) else decision

    def next_round(self) -> list[tuple[int, int]]:
        """The tests to make next, once every test issued so far has entered. None if the policy has stopped.

        Until every stream has a result, they are tests of the streams without one. Policies rely on that.
        """
        if self.policy.untested:
            streams = np.argwhere(self.policy.is_untested).tolist()
            return self.policy.tests_of([(arm, metric) for arm, metric in streams])
        return self._next or []

    def rounds_ahead(
        self, count: int, pending: Sequence[tuple[int, int]], waiting: Sequence[tuple[int, int, float]]
    ) -> list[list[tuple[int, int]]]:
        """Further rounds while `pending` tests are out and the results `waiting` wait for them. None means to wait."""
        arms, metrics, values = zip(*waiting, strict=True) if waiting else ((), (), ())
        normal = self._normal(np.array(metrics, np.int64), np.array(values, np.float64))
        return self.policy.propose_ahead(count, pending, list(zip(arms, metrics, normal.tolist(), strict=True)))


class Results:
    """How tests become results: a test of several metrics has a result for each part of the plan that it is about.

    The objective and the constraints are the parts of a plan. If two parts have the same metric, its one value counts
    for both. For a ratio, two values of the test make one result: the one minus the threshold times the other.
    """

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

    def with_denominators(self, entries: Entries) -> tuple[Entries, Floats]:
        """The results of tests, part by part, and for each its value or, for a ratio, what was divided by.

        A test's results follow each other, and the last one ends its round.
        """
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
        found, _ = self.with_denominators(entries)
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
