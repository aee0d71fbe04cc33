"""What one test yields, what it is made on, and what it costs, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bestarm.analysis.status.blocks import about_blocks
from bestarm.answer import DECIDED, all_names
from bestarm.problem import Arm, Problem
from bestarm.problem.items import count_of
from bestarm.texts import listed
from bestarm.validation import exact


def about_tests(problem: Problem) -> list[str]:
    """Sentences on what one test yields and what it is made on; none if each metric is measured on its own.

    >>> import bestarm as ba
    >>> time, memory = ba.minimize("time", noise=ba.Bounded(0, 9)), ba.at_most("memory", 5, noise=ba.Bounded(0, 9))
    >>> together = ba.measurement("time", "memory")
    >>> about_tests(ba.Problem(["a", "b"], time, [memory], measurements=[together]))
    ['One test gives time and memory together, all or none.']
    """
    together = [listed(metrics) for metrics in problem.yields.values() if len(metrics) > 1]
    alone = [metrics[0] for metrics in problem.yields.values() if len(metrics) == 1]
    sentences = [f"One test gives {metrics} together, all or none." for metrics in together]
    if together and alone:
        sentences.append(f"Measured alone: {listed(alone)}.")
    if costly := [words for arm in problem.arms for words in _costs_of(arm)]:
        sentences.append(f"What a test costs depends on the {problem.noun.one}: {all_names(costly)}.")
    if problem.blocks is not None:
        sentences.append(about_blocks(problem.blocks, problem.noun))
    elif problem.items is not None and problem.repeats:
        sentences.append(
            f"Each measurement is made on one of {number_of_items(problem.items)}, drawn at random again and again, "
            f"in the same order for every {problem.noun.one}; the question is about the mean over all items and over "
            "the scatter of each."
        )
    elif problem.items is not None:
        sentences.append(
            f"Each {problem.noun.one} is measured on the same {number_of_items(problem.items)}, in the same random "
            "order; the question is about the mean over these items."
        )
    for judge, metrics in judged_by(problem):
        sentences.append(f"First {judge} scores every {problem.noun.one} on every item; then {metrics} is measured.")
    return sentences


def after_words(state: str, counted: int, recorded: int) -> str:
    """What became of the results that are recorded besides those that count; empty if there are none.

    >>> after_words("certified", 241, 272), after_words("running", 302, 310), after_words("running", 310, 310)
    ('; 31 more came after the decision', '; 8 more wait for others', '')
    """
    what = (
        "came after the decision" if state in DECIDED else "wait for others" if state == "running" else "do not count"
    )
    return f"; {recorded - counted:,} more {what}" if recorded > counted else ""


def judged_by(problem: Problem) -> Iterator[tuple[str, str]]:
    """By judge: the metrics that it judges, in words."""
    for judge, parts in problem.judged.items():
        yield judge, listed(dict.fromkeys(problem.parts[k].metric for k in parts), "or")


def _costs_of(arm: Arm) -> list[str]:
    by_metric = arm.cost.items() if isinstance(arm.cost, Mapping) else [("", arm.cost)]
    costs = [(f" for {metric}" if metric else "", times) for metric, times in by_metric if times != 1.0]
    return [f"{arm.name} {exact(times)} times what is stated{where}" for where, times in costs]


def number_of_items(items: int | tuple[str, ...]) -> str:
    return "1 item" if count_of(items) == 1 else f"{count_of(items):,} items"
