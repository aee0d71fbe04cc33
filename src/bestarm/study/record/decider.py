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
from bestarm.policies import policy_for
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
        setting = policy.new_setting(plan, plan.delta, plan.bound, references(plan))
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
