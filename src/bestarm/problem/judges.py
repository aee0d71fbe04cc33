"""Judges: a metric that is cheap and biased, and tells much of one that is expensive.

The objective or a constraint may name a judge. Its scores of every arm on every item are told first; then the study
asks for labels, the values of the metric itself. Tests of judges are numbered after the parts of a problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bestarm.problem.measurements import Measurement, groups_of
from bestarm.problem.parts import Constraint, Objective
from bestarm.validation import exact


def judges_of(parts: Sequence[Objective | Constraint]) -> dict[str, list[int]]:
    """By judge: the numbers of the parts that name it."""
    found: dict[str, list[int]] = {}
    for k, part in enumerate(parts):
        if part.judge is not None:
            found.setdefault(part.judge, []).append(k)
    return found


def tests_of_judges(
    parts: Sequence[Objective | Constraint], measurements: Sequence[Measurement]
) -> dict[int, tuple[str, ...]]:
    """By number: the judges whose scores a test tells. Those of one measurement are told together."""
    judges = [*judges_of(parts)]
    groups = groups_of(measurements, [(judge,) for judge in judges])
    together: dict[object, list[str]] = {}
    for judge in judges:
        together.setdefault(groups[judge], []).append(judge)
    return {len(parts) + k: tuple(names) for k, names in enumerate(together.values())}


def costs_of_judges(tests: dict[int, tuple[str, ...]], measurements: Sequence[Measurement]) -> tuple[float, ...]:
    """What a test of judges costs: as its measurement says, and nothing without one."""
    costs = {metric: one.cost for one in measurements for metric in one.metrics}
    return tuple(costs.get(names[0], 0.0) for names in tests.values())


def check_score(parts: Iterable[Objective | Constraint], score: float) -> None:
    """Raises `ValueError` if a judge of these parts cannot give this score: it is on the scale of the labels."""
    for part in parts:
        low, high = part.noise.range
        if not low <= score <= high:
            of = f"the range of {part.metric!r}, which it judges"
            raise ValueError(f"must lie between {exact(low)} and {exact(high)}, {of}")
