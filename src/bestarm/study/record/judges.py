"""The scores of judges in a study's record: which are told, which are missing, and how the policy learns of them.

Scores are results like any other: tests hand them out or they are imported, and they can be corrected. They are told
before the first label, so that nothing about labels can have changed them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from bestarm.kernel.state import Floats, Judge
from bestarm.policies.base import Policy
from bestarm.policies.setting import cost_of_counts, to_normal
from bestarm.problem import Plan
from bestarm.problem.items import ItemOrder, count_of
from bestarm.storage.base import Entries
from bestarm.storage.columns import Columns
from bestarm.study.intake.blocks import some_of
from bestarm.validation import InvalidInput


class JudgeScores:
    """The scores of all judges, in the user's terms: [arm, judge, item's place], NaN where one is missing."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._judges = [*plan.judged]
        places = count_of(plan.items or 0) if self._judges else 0
        self.scores: Floats = np.full((len(plan.arms), len(self._judges), places), np.nan)
        self.cost = 0.0
        """What they have cost."""

    def split(self, entries: Entries) -> tuple[Entries, Entries]:
        """The outcomes of tests of judges, and those of all others."""
        is_score = entries.metrics >= len(self._plan.parts)
        return some_of(entries, is_score), some_of(entries, ~is_score)

    def count_in(self, entries: Entries) -> int:
        """How many outcomes are of tests of judges."""
        return int((entries.metrics >= len(self._plan.parts)).sum())

    def enter(self, entries: Entries, policy: Policy) -> float:
        """Take in outcomes of tests of judges, and return what they cost. Once they are complete, the policy knows
        them."""
        more = entries.more if len(entries.more) else [()] * len(entries.ids)
        columns = (entries.arms, entries.metrics, entries.items, entries.values)
        for arm, lead, place, value, others in zip(*(column.tolist() for column in columns), more, strict=True):
            if value == value:
                for judge, score in zip(self._plan.judges[lead], (value, *(others or ())), strict=True):
                    self.scores[arm, self._judges.index(judge), place] = score
        # Counted, and not added up: sums of decimals are rounded.
        before, told = self.cost, (~np.isnan(self.scores)).sum(axis=2)
        leads = self._plan.judges
        counts = told[:, [self._judges.index(names[0]) for names in leads.values()]]
        self.cost = cost_of_counts(counts, self._plan.arm_costs[:, [*leads]])
        policy.cost_of_scores = self.cost
        if self.is_complete:
            self._fill(policy)
        return self.cost - before

    def _fill(self, policy: Policy) -> None:
        judge: Judge = policy.setting.items.judge
        for name, parts in self._plan.judged.items():
            of_judge = self.scores[:, self._judges.index(name)]
            for part in parts:
                judge.scores[:, part] = to_normal(self._plan, policy.setting, part, of_judge)
                judge.means[:, part] = judge.scores[:, part].mean(axis=1)

    @property
    def is_complete(self) -> bool:
        return not np.isnan(self.scores).any()

    @property
    def told(self) -> dict[str, int]:
        """By judge: how many scores there are."""
        counts: list[int] = (~np.isnan(self.scores)).sum(axis=(0, 2)).tolist()
        return dict(zip(self._judges, counts, strict=True))

    def tests(self, count: int) -> list[tuple[int, int]]:
        """Tests of judges for as many places as there are, arm by arm, but at most `count` for each. The study's items
        say which places are free."""
        places = min(count, self.scores.shape[2])
        return [(arm, lead) for arm, lead in self._unfinished() for _ in range(places)]

    def _unfinished(self) -> Iterator[tuple[int, int]]:
        for arm, (lead, names) in itertools.product(range(len(self._plan.arms)), self._plan.judges.items()):
            if np.isnan(self.scores[arm, self._judges.index(names[0])]).any():
                yield arm, lead

    def check_labels(self, columns: Columns, places: Iterable[int], order: ItemOrder) -> None:
        """Raise `InvalidInput` if there are labels among results at these places, and scores are still missing."""
        labels = [lead for lead in columns.metrics if lead < len(self._plan.parts)]
        if not labels or self.is_complete:
            return
        missing = np.isnan(self.scores)
        for arm, lead, place in zip(columns.arms, columns.metrics, places, strict=True):
            for judge in self._plan.judges.get(lead, ()):
                missing[arm, self._judges.index(judge), place] = False
        if missing.any():
            arm, judge, place = np.argwhere(missing)[0].tolist()
            label = self._plan.test_names[labels[0]]
            of = f"{self._judges[judge]!r} of {self._plan.arm_names[arm]!r} on {order.name(place)!r}"
            reason = (
                f"cannot be recorded before every score of the judges is: {int(missing.sum()):,} of "
                f"{missing.size:,} are missing, such as {of}"
            )
            raise InvalidInput("metric", label, reason)
