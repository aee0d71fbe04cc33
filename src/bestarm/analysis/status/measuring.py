"""What one test yields, and what it is made on, in plain words."""

from __future__ import annotations

from bestarm.problem import Problem
from bestarm.problem.items import count_of
from bestarm.texts import enumerated


def yields_several(problem: Problem) -> bool:
    """Whether there is a test that yields several metrics."""
    return any(len(metrics) > 1 for metrics in problem.yields.values())


def about_tests(problem: Problem) -> list[str]:
    """Sentences on the measurements and the items of a problem; none if each metric is measured on its own.

    >>> import bestarm as ba
    >>> time, memory = ba.minimize("time", noise=ba.Bounded(0, 9)), ba.at_most("memory", 5, noise=ba.Bounded(0, 9))
    >>> together = ba.measurement("time", "memory")
    >>> about_tests(ba.Problem(["a", "b"], time, [memory], measurements=[together]))
    ['One test yields time and memory together, all or none.']
    """
    return [*_measurements(problem), *_items(problem)]


def _measurements(problem: Problem) -> list[str]:
    if not yields_several(problem):
        return []
    together = [enumerated(metrics) for metrics in problem.yields.values() if len(metrics) > 1]
    alone = [metrics[0] for metrics in problem.yields.values() if len(metrics) == 1]
    sentences = [f"One test yields {metrics} together, all or none." for metrics in together]
    if alone:
        sentences.append(f"Measured alone: {enumerated(alone)}.")
    return sentences


def _items(problem: Problem) -> list[str]:
    if problem.items is None:
        return []
    count = f"{count_of(problem.items):,} item{'s'[: count_of(problem.items) - 1]}"
    if problem.repeats:
        return [
            f"Each measurement is made on one of {count}, drawn at random again and again, in the same order for every "
            "arm; the question is about the mean over all items and over the scatter of each."
        ]
    return [
        f"Each arm is measured on the same {count}, in the same random order; the question is about the mean over "
        "these items."
    ]
