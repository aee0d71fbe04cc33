"""Values that lie far outside what their metric has shown: asked about before they count, where a person types them.

A program that calls `Study.tell` is not asked. The question depends on earlier results, but what counts does not: a
value that is confirmed is recorded as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bestarm.analysis.health.checks import is_yes_or_no
from bestarm.analysis.health.typical import Typical
from bestarm.problem import Plan
from bestarm.storage.base import Entries
from bestarm.validation import Complaint, InvalidInput, exact

MOST_CHECKED = 10_000
"""More results at once were not typed by a person, and are not asked about."""

_LAST = 4096
"""The most results checked at once: the last ones read."""

_NEAR = 100
"""How many of the values told together with a value, before it and after it, say what is usual."""

_LISTED = 20


class FarValue(InvalidInput):
    """A value that lies far outside those that its metric has shown, and is not confirmed."""

    kind = "far value"


class Typed(NamedTuple):
    """A value of a metric, by name, and of an arm, by number. `test` is the one it is of, in words, if there is one."""

    test: str
    arm: int
    metric: str
    value: float


class TypicalValues:
    """What each metric of a study has shown so far."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        # No value of yes and no is far from others, nor one of a metric that never varies.
        parts = [(part.metric, part.noise) for part in plan.parts]
        without = {metric for metric, noise in parts if noise.is_exact or (is_yes_or_no(noise) and not noise.is_share)}
        self._typical = {metric: Typical() for metric in plan.measured if metric not in without}

    def enter(self, entries: Entries) -> None:
        for metric, arm, number in self._values(entries):
            self._typical[metric].add(arm, number)

    def _values(self, entries: Entries) -> Iterator[tuple[str, int, float]]:
        """The last values (metric, arm, value) of metrics that have a scale."""
        first = max(len(entries.ids) - _LAST, 0)
        extra = entries.more[first:].tolist() if len(entries.more) else [()] * (len(entries.ids) - first)
        columns = entries.arms[first:].tolist(), entries.metrics[first:].tolist(), entries.values[first:].tolist()
        for arm, lead, value, more in zip(*columns, extra, strict=True):
            if value == value:
                for metric, number in zip(self._plan.yields[lead], (value, *(more or ())), strict=False):
                    if metric in self._typical:
                        yield metric, arm, number

    def check(self, typed: Sequence[Typed], late: Iterable[Entries]) -> None:
        """Raise `FarValue` if a value is far from the others. `late` results have not entered, but count here."""
        told: dict[str, list[Typed]] = defaultdict(list)
        for one in typed:
            told[one.metric].append(one)
        waiting: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for metric, arm, value in (row for entries in late for row in self._values(entries)):
            waiting[metric].append((arm, value))
        place: dict[str, int] = defaultdict(int)
        complaints = []
        for one in typed:
            k = place[one.metric]
            place[one.metric] += 1
            if one.metric not in self._typical:
                continue
            together = told[one.metric]
            others = [*together[max(k - _NEAR, 0) : k], *together[k + 1 : k + _NEAR]]
            near = [*((other.arm, other.value) for other in others), *waiting[one.metric][-_NEAR:]]
            usual = self._typical[one.metric].far(one.arm, one.value, near)
            if usual is not None:
                words = usual.words()
                where = f"{one.test}{one.metric} of {self._plan.arm_names[one.arm]}"
                sentence = f"{where}: {exact(one.value)}? {words[0].upper()}{words[1:]}"
                complaints.append(Complaint(sentence, "value", one.value, words))
        if complaints:
            lines = [complaint.sentence for complaint in complaints[:_LISTED]]
            rest = [f"and {len(complaints) - _LISTED:,} more"] if len(complaints) > _LISTED else []
            raise FarValue.of(complaints[:_LISTED], "\n".join([*lines, *rest]))
