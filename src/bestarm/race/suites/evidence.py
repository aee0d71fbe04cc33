"""The evidence about each benchmark of a suite, by what old and new took in pairs of runs.

A benchmark is within its limit r if new minus r times old has a mean below 0. One study in memory, whose arms are the
benchmarks, asks of every one of them whether it is; these verdicts share `delta_of_names`. Beside that, all benchmarks
together are within their limits once each has evidence for `delta_of_all`, which is much less: Theorem R.5
in `docs/certificates/races.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bestarm.analysis.status.status import Status
from bestarm.evidence.claims import constraint_evidence
from bestarm.kernel.state import Floats
from bestarm.noises.streams import BELOW
from bestarm.noises.symmetric import Symmetric
from bestarm.policies.certify import Certify
from bestarm.policies.findings import Bools
from bestarm.problem import Constraint, Plan
from bestarm.problem.items import MOST_REPEATED, ItemOrder
from bestarm.race.ratios import Interval, ratio_interval
from bestarm.study import Study
from bestarm.validation import LONGEST_NAME

_EXCESS = "excess"
_LIMIT = 1
"""The number of the constraint among the metrics of the study."""


class Evidence:
    """What is known of each benchmark. Differences are divided by `scales`, which are known before the first pair."""

    def __init__(
        self,
        names: Sequence[str],
        limits: Sequence[float],
        scales: Sequence[float],
        *,
        delta_of_names: float,
        delta_of_all: float,
        seed: int,
    ) -> None:
        self.limits = np.array(limits, float)
        self._scales = np.array(scales, float)
        self._old: list[Floats] = []
        self._new: list[Floats] = []
        self._arms = _arms(names)
        self._level = math.log(len(names) / delta_of_names)
        self._level_of_all = math.log(1.0 / delta_of_all)
        self._largest = np.full(len(names), -math.inf)
        plan = Plan(
            arms=self._arms,
            constraints=[Constraint(_EXCESS, Symmetric(), 0.0)],
            # An item is a place in the order of pairs. Results of one pair may depend on each other.
            items=MOST_REPEATED,
            repeats=True,
            name="suite",
            delta=delta_of_names,
            goal="every feasible",
        )
        self._study = Study.create(plan, storage=":memory:", seed=seed)
        self._order = ItemOrder(MOST_REPEATED, True, self._study.record.order_seed)

    @property
    def pairs(self) -> int:
        return len(self._old)

    @property
    def old(self) -> Floats:
        """[pair, benchmark]: what the baseline took."""
        return np.array(self._old).reshape(-1, len(self._arms))

    @property
    def new(self) -> Floats:
        """[pair, benchmark]: what the candidate took."""
        return np.array(self._new).reshape(-1, len(self._arms))

    def enter(self, old: Sequence[float], new: Sequence[float]) -> None:
        """Take in a run of both."""
        self._old.append(np.array(old, float))
        self._new.append(np.array(new, float))
        excess = ((self._new[-1] - self.limits * self._old[-1]) / self._scales).tolist()
        item = self._order.name(self.pairs - 1)
        self._study.add([(arm, _EXCESS, value, item) for arm, value in zip(self._arms, excess, strict=True)])
        policy = self._policy
        with np.errstate(over="ignore", invalid="ignore"):
            for arm in range(len(self._arms)):
                found = constraint_evidence(policy.setting, policy.streams, arm, _LIMIT, BELOW)
                if self._largest[arm] < found < math.inf:
                    self._largest[arm] = found

    @property
    def _policy(self) -> Certify:
        """The study's policy, which has taken in all results."""
        _ = self._study.done
        policy = self._study._decider.policy
        assert isinstance(policy, Certify)
        return policy

    @property
    def refuted(self) -> Bools:
        """By benchmark: whether it is certain to exceed its limit."""
        found: Bools = self._policy.memory.rejected != 0
        return found

    @property
    def certified(self) -> Bools:
        """By benchmark: whether it is certain to be within its limit, whatever the others are."""
        found: Bools = (self._policy.memory.certified[:, _LIMIT] != 0) & ~self.refuted
        return found

    @property
    def all_within(self) -> bool:
        """Whether it is certain that all of them are within their limits."""
        return bool((self._largest >= self._level_of_all).all() and not self.refuted.any())

    def status(self) -> Status:
        """The study's own status, for what it says of its guarantee."""
        return self._study.status()

    def intervals(self) -> list[Interval]:
        """By benchmark: between what its ratio of new to old lies, by the evidence that decides it by name."""
        columns = zip(self.new.T.tolist(), self.old.T.tolist(), self.limits.tolist(), strict=True)
        return [
            ratio_interval(new, old, limit, self._level, self._level) or Interval(0.0, math.inf)
            for new, old, limit in columns
        ]


def _arms(names: Sequence[str]) -> list[str]:
    """The names of benchmarks as arms can have them."""
    arms: list[str] = []
    for number, name in enumerate(names, start=1):
        line = "".join(one if one.isprintable() else " " for one in name).strip()[:LONGEST_NAME].strip()
        arms.append(line if line and line not in arms else f"benchmark {number}")
    return arms
