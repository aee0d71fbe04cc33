"""The policy of one study, brought up to date with its record.

Results enter in the order in which their tests were issued, throughout the study, so that how long a test takes cannot
bias the answer. The policy decides at the end of each round. In a study by arrival, whose plan says that durations have
nothing to do with results, they enter as they come, and the policy decides after each one. Either way, what is decided
depends only on the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from bestarm.evidence.items import places_so_far, with_blocks
from bestarm.kernel.packing import trials
from bestarm.kernel.state import ABSENT, Flags, Floats, Ints, Slices
from bestarm.policies import policy_for, setting_for
from bestarm.policies.base import Policy
from bestarm.policies.confidence import COMPILE_STREAMS, WAIT_STREAMS
from bestarm.policies.decisions import Stop
from bestarm.policies.kernels import KernelPolicy
from bestarm.policies.setting import references, to_normal
from bestarm.policies.slices import in_order
from bestarm.problem import Plan
from bestarm.storage.base import Entries, Pending
from bestarm.study.intake.blocks import entering
from bestarm.study.record.checks import damaged_record
from bestarm.study.record.turns import InTurn

COMPILE_BACKLOG = 2000
COMPILE_RESULTS = 20_000
"""With this many results at once, or in all, compiled code pays off, and is waited for. On large problems it pays off,
too, but where a person is watching they go on interpreted until it is there."""


class Decider:
    """A study's policy, what it has been told, and its decision."""

    def __init__(self, plan: Plan, seed: int, *, by_arrival: bool = False, slices: Slices = ABSENT) -> None:
        policy = policy_for(plan, plan.policy)
        setting = in_order(setting_for(plan, policy, plan.delta, plan.bound, references(plan)), slices)
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

    @property
    def has_trials(self) -> bool:
        """Whether some test had several trials."""
        return self.policy.tests_made is not None and self._plan.blocks is None

    def pass_over(self, entries: Entries) -> None:
        """Note that all outcomes up to these have been seen."""
        numbers = entries.arrivals if self._by_arrival else entries.ids
        self.entered = max(self.entered, int(numbers[-1]) if len(numbers) else 0)

    def enter(self, entries: Entries) -> None:
        """Take in the outcomes that follow number `entered`, in order: the results of a test after each other, as
        `Results` spreads them."""
        self.pass_over(entries)
        if self.stop is not None or not len(entries.ids):
            return
        self._count += len(entries.ids)
        is_long = len(entries.ids) >= COMPILE_BACKLOG or self._count >= COMPILE_RESULTS
        streams = self.policy.streams.counts.size
        if is_long or streams >= COMPILE_STREAMS:
            self._compile(wait=is_long or streams >= WAIT_STREAMS)
        columns = (entries.arms, entries.metrics)
        tests = np.column_stack(columns if self._plan.items is None else (*columns, entries.items))
        ends = self.policy.setting.following[entries.metrics] < 0 if self._by_arrival else entries.ends
        normal = self._normal(entries.metrics, entries.values, enter=True)
        if self._plan.blocks is not None:
            self._enter_blocks(tests, normal)
            return
        self._take(self._advance(tests, normal, ends.astype(np.int8)))

    def _advance(self, tests: Ints, normal: Floats, ends: Flags) -> list[tuple[int, int]] | Stop | None:
        """Take in results. If they stand for several trials, evidence counts the trials; budgets and costs count
        the tests."""
        policy, counts = self.policy, trials(normal)
        if policy.tests_made is None and int(counts.max()) == 1:
            return policy.advance(tests, normal, ends)
        made, before = policy.tests.copy(), int(policy.streams.counts.sum())
        decision = policy.advance(tests, normal, ends)
        rows = np.flatnonzero(~np.isnan(normal))
        entered = np.searchsorted(np.cumsum(counts[rows]), int(policy.streams.counts.sum()) - before, side="right")
        np.add.at(made, tuple(tests[rows[:entered], :2].T), 1)
        policy.tests_made = made
        return decision

    def _enter_blocks(self, tests: Ints, normal: Floats) -> None:
        """Take in whole blocks, and count the tests of those that were needed."""
        assert self._plan.blocks is not None
        new = entering(self._plan.blocks, tests, normal, int(places_so_far(self.policy.streams)))
        counts = self.policy.tests.copy()
        self.policy.streams = with_blocks(self.policy.streams, new.compared, new.values)
        self._take(self.policy.advance(new.results, new.means, new.ends))
        is_counted = ~np.isnan(normal) & (new.last <= places_so_far(self.policy.streams))
        np.add.at(counts, tuple(tests[is_counted, :2].T), 1)
        self.policy.tests_made = counts
        self.policy.blocks_made += len(np.unique(new.last[is_counted]))

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
        if self.policy.untested and self._plan.blocks is not None:
            # It fills a block with what has been tested least.
            first = self.policy.decide()
            return [] if isinstance(first, Stop) else first
        if self.policy.untested:
            streams = np.argwhere(self.policy.is_untested).tolist()
            return self.policy.tests_of([(arm, metric) for arm, metric in streams])
        return self._next or []

    def rounds_ahead(
        self, count: int, pending: Sequence[tuple[int, int]], waiting: Sequence[tuple[int, int, float]]
    ) -> list[list[tuple[int, int]]]:
        """Further rounds while `pending` tests are out and the results `waiting` wait for them. None means to wait."""
        if len(waiting) >= COMPILE_BACKLOG:
            self._compile(wait=True)
        arms, metrics, values = zip(*waiting, strict=True) if waiting else ((), (), ())
        normal = self._normal(np.array(metrics, np.int64), np.array(values, np.float64))
        return self.policy.propose_ahead(count, pending, list(zip(arms, metrics, normal.tolist(), strict=True)))


class Results:
    """How tests become results: a test of several metrics has a result for each part of the plan that it is about.

    The objective and the constraints are the parts of a plan. If two parts have the same metric, its one value counts
    for both. For a ratio, two values of the test make one result: the one minus the threshold times the other. A part
    about a slice has a result only of tests on items of the slice, at the rank of the item there.
    """

    def __init__(self, plan: Plan, slices: Slices = ABSENT) -> None:
        self._plan = plan
        self._slices = slices
        self.in_turn = InTurn(slices)
        is_plain = all(len(bundle) == 1 == len(plan.yields[bundle[0]]) for bundle in plan.bundles)
        self._is_plain = is_plain and slices == ABSENT
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
        items = entries.items[rows] if len(entries.items) else entries.items
        if self._slices != ABSENT:
            items = self._slices.ranks[parts, items]
            found, under = (np.where(items < 0, np.nan, figures) for figures in (found, under))
        made = entries._replace(
            ids=entries.ids[rows],
            arms=entries.arms[rows],
            metrics=parts,
            values=np.where(self._ratios[parts], found - self._factors[parts] * under, found),
            ends=ends,
            told=entries.told[rows],
            arrivals=entries.arrivals[rows],
            holders=entries.holders[rows] if len(entries.holders) else entries.holders,
            items=items,
            issued=entries.issued[rows] if len(entries.issued) else entries.issued,
            more=entries.more[:0],
            given=entries.given[:0],
        )
        return made, under

    def out(self, pending: Iterable[Pending]) -> list[tuple[int, int]]:
        """What pending tests will tell, as a policy asks for it: with slices, one that is on an item of several slices
        stands for a test of each."""
        if self._slices == ABSENT:
            return [(test.arm, test.metric) for test in pending]
        parts = {
            bundle[0]: [part for part in bundle if self._plan.queues[part] == part] for bundle in self._plan.bundles
        }
        ranks = self._slices.ranks
        return [
            (test.arm, part)
            for test in pending
            for part in parts[test.metric]
            if test.item is not None and ranks[part, test.item] >= 0
        ]

    def of_tests(self, parts: Iterable[Entries]) -> list[tuple[int, int, float]]:
        """The results (arm, metric, value) of tests that have one."""
        found = [self.with_denominators(entries)[0] for entries in parts]
        rows = (zip(one.arms.tolist(), one.metrics.tolist(), one.values.tolist(), strict=True) for one in found)
        return [(arm, metric, value) for part in rows for arm, metric, value in part if value == value]

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
                said = f"test {entries.ids[row]} has {1 + len(more or ())} values, and {1 + count} belong to it"
                raise damaged_record(self._plan, said)
            values[row, 1 : 1 + count] = more
        return values
