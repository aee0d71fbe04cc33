"""Values that lie far outside what their metric has shown: asked about before they count, where a person types them.

A program that calls `Study.tell` is not asked. The question depends on earlier results, but what counts does not: a
value that is confirmed is recorded as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bestarm.analysis.health.checks import is_yes_or_no
from bestarm.analysis.health.typical import Typical
from bestarm.problem import Plan
from bestarm.storage.base import Entries, Issued
from bestarm.storage.columns import Columns
from bestarm.study.intake.adding import GivenResult, read_rows
from bestarm.study.intake.names import Numbering, Test
from bestarm.study.intake.values import Result, check_metric, check_names
from bestarm.study.record.follower import Follower
from bestarm.validation import Complaint, InvalidInput, exact

MOST_CHECKED = 10_000
"""More results at once were not typed by a person, and are not asked about."""

_LAST = 4096
"""The most results checked at once: the last ones read."""

_LISTED = 20


class FarValue(InvalidInput):
    """A value that lies far outside those that its metric has shown, and is not confirmed."""

    kind = "far value"


class _Typed(NamedTuple):
    """A value of a metric, by name, and of an arm, by number. `of` is the test, if there is one."""

    of: str
    arm: int
    metric: str
    value: float


class FarValues(Follower):
    """Knows which values of a study to ask about."""

    _numbering: Numbering

    def _issued(self, test: Test | int) -> Issued:
        """The test as it was issued."""
        raise NotImplementedError

    def _start_afresh(self) -> None:
        super()._start_afresh()
        self._typical = {metric: Typical() for metric in _with_scale(self.plan)}

    def _enter(self, entries: Entries) -> None:
        super()._enter(entries)
        for metric, arm, number in self._values(entries):
            self._typical[metric].add(arm, number)

    def _values(self, entries: Entries) -> Iterator[tuple[str, int, float]]:
        """The last values (metric, arm, value) of metrics that have a scale."""
        first = max(len(entries.ids) - _LAST, 0)
        extra = entries.more[first:].tolist() if len(entries.more) else [()] * (len(entries.ids) - first)
        columns = entries.arms[first:].tolist(), entries.metrics[first:].tolist(), entries.values[first:].tolist()
        for arm, lead, value, more in zip(*columns, extra, strict=True):
            if value == value:
                for metric, number in zip(self.plan.yields[lead], (value, *(more or ())), strict=False):
                    if metric in self._typical:
                        yield metric, arm, number

    def check_far(self, told: Iterable[tuple[Test | int, Result]] = (), given: Iterable[GivenResult] = ()) -> None:
        """Raise `FarValue` if a value lies far outside those that its metric has shown. Nothing is recorded.

        `told` are results of tests, as for `tell_many`, and `given` results measured without asking, as for `add`. Ask
        the person who typed it, and if it is right record it as it is. Leave no value out, and correct none, because
        it is surprising: correct it only if it was mistyped.

        >>> import bestarm as ba
        >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Symmetric()))
        >>> study = ba.Study.create(problem, storage=":memory:")
        >>> _ = study.add([("old", "yield", value) for value in (66, 58, 74, 63, 68)])
        >>> study.check_far(given=[("old", "yield", 661)])
        Traceback (most recent call last):
        bestarm.study.record.far_values.FarValue: yield of old: 661? The others lie between 58 and 74
        """
        typed = []
        for test, value in told:
            issued = self._issued(test)
            metrics = self.plan.yields[issued.metric]
            values = dict(value) if isinstance(value, Mapping) else dict.fromkeys(metrics, value)
            if not isinstance(value, Mapping):
                check_names(metrics[:1], values)
            typed += [
                _Typed(f"test {issued.id}, ", issued.arm, metric, check_metric(self.plan, metric, number))
                for metric, number in values.items()
                if metric in metrics
            ]
        for row in read_rows(self.plan, self._numbering, given):
            metrics = self.plan.yields[row.lead]
            typed += [_Typed("", row.arm, metric, value) for metric, value in zip(metrics, row.values, strict=True)]
        self._refuse_far(typed)

    def _check_far_columns(self, rows: Columns) -> None:
        """The same for results by number."""
        if len(rows) > MOST_CHECKED:
            return
        columns = zip(rows.arms, rows.metrics, rows.values, map(rows.more, range(len(rows))), strict=True)
        self._refuse_far(
            [
                _Typed("", arm, metric, number)
                for arm, lead, value, more in columns
                for metric, number in zip(self.plan.yields[lead], (value, *more), strict=True)
            ]
        )

    def _refuse_far(self, typed: Sequence[_Typed]) -> None:
        beside: dict[str, list[tuple[int, float]]] = defaultdict(list)
        with self._lock:
            self._sync()
            # Results that wait for an earlier test have shown something, too.
            waiting: dict[str, list[tuple[int, float]]] = defaultdict(list)
            for entries in self._recorded_late():
                for metric, arm, value in self._values(entries):
                    waiting[metric].append((arm, value))
            for one in typed:
                beside[one.metric].append((one.arm, one.value))
            places: dict[str, int] = defaultdict(int)
            complaints = []
            for one in typed:
                place = places[one.metric]
                places[one.metric] += 1
                if one.metric not in self._typical:
                    continue
                # The nearest of those told with it suffice.
                together = beside[one.metric]
                near = [*together[max(place - 100, 0) : place], *together[place + 1 : place + 100]]
                near += waiting[one.metric][-100:]
                usual = self._typical[one.metric].far(one.arm, one.value, near)
                if usual is not None:
                    words = usual.words()
                    where = f"{one.of}{one.metric} of {self.plan.arm_names[one.arm]}"
                    sentence = f"{where}: {exact(one.value)}? {words[0].upper()}{words[1:]}"
                    complaints.append(Complaint(sentence, "value", one.value, words))
        if complaints:
            lines = [complaint.sentence for complaint in complaints[:_LISTED]]
            rest = [f"and {len(complaints) - _LISTED:,} more"] if len(complaints) > _LISTED else []
            raise FarValue.of(complaints[:_LISTED], "\n".join([*lines, *rest]))


def _with_scale(plan: Plan) -> list[str]:
    """The metrics of which a value can be far from others: not those of yes and no, nor those that never vary."""
    without = {
        part.metric
        for part in plan.parts
        if part.noise.is_exact or (is_yes_or_no(part.noise) and not part.noise.is_share)
    }
    return [metric for metric in plan.measured if metric not in without]
