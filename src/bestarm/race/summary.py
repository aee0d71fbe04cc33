"""What a race came to, in words and figures: one row for each command, then what is certain."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator
from typing import Literal

from bestarm.answer import Difference
from bestarm.race.limits import METRICS
from bestarm.race.plans import CANDIDATE
from bestarm.race.race import Outcome
from bestarm.race.ratios import ratio_of, ratio_words
from bestarm.race.runs import Run
from bestarm.race.units import time_words

Found = Literal["certified", "refuted", "undecided"]


@dataclasses.dataclass(frozen=True)
class Figures:
    """The runs of one command in figures, as hyperfine has them. None where there are too few runs."""

    runs: int
    mean: float | None = None
    stddev: float | None = None
    median: float | None = None
    user: float | None = None
    system: float | None = None
    min: float | None = None
    max: float | None = None
    memory: float | None = None
    failures: int = 0


def figures_of(runs: list[Run]) -> Figures:
    times = [run.time for run in runs]
    failed = sum(run.failed for run in runs)
    if not runs:
        return Figures(0)
    return Figures(
        len(runs),
        statistics.fmean(times),
        statistics.stdev(times) if len(times) > 1 else None,
        statistics.median(times),
        statistics.fmean(run.user for run in runs),
        statistics.fmean(run.system for run in runs),
        min(times),
        max(times),
        statistics.fmean(run.memory for run in runs),
        failed,
    )


def is_gate(outcome: Outcome) -> bool:
    return outcome.question.objective == CANDIDATE


def found_by(outcome: Outcome) -> Found:
    """What a race came to. A gate is refuted if the answer is the baseline: then the candidate fails a limit."""
    state = outcome.status.state
    if state == "certified":
        return "refuted" if is_gate(outcome) and outcome.status.answer == outcome.question.baseline else "certified"
    return "refuted" if state == "no_feasible_arm" else "undecided"


def verdict(outcome: Outcome) -> str:
    """The conclusion in one sentence."""
    status, plan = outcome.status, outcome.plan
    after = f"after {status.tests:,} runs"
    sure = f"with {100 * (1 - plan.delta):g} % confidence"
    if status.state == "no_feasible_arm":
        return f"No command meets every limit, {sure}, {after}."
    if status.state == "certified":
        if not is_gate(outcome):
            return f"CERTIFIED: {status.answer} {_is_best(outcome)}, {sure}, {after}."
        if status.answer == outcome.question.baseline:
            return f"REFUTED: the candidate does not meet every limit, {sure}, {after}."
        return f"CERTIFIED: {status.answer} meets every limit, {sure}, {after}."
    leads = f"{status.leader} leads" if status.leader and not is_gate(outcome) else "the limits may hold or not"
    return f"UNDECIDED: the budget is spent {after}, and nothing is certain; {leads}."


def _called(metric: str) -> str:
    """A metric in a sentence."""
    return f"{metric} time" if metric in ("user", "system") else metric


def _is_best(outcome: Outcome) -> str:
    objective, tolerance = outcome.question.objective, outcome.status.tolerance
    among = " of all that meet every limit" if outcome.plan.constraints else ""
    if tolerance:
        return f"has a mean {_called(objective)} within {METRICS[objective].words(tolerance)} of the least{among}"
    return f"has the least mean {_called(objective)}{among}"


def difference_lines(outcome: Outcome) -> Iterator[str]:
    """How much better the leader is than each other command: at least, at most, and measured."""
    objective, leader = outcome.question.objective, outcome.status.leader
    if is_gate(outcome) or leader is None:
        return
    stands = {arm.name: arm.metrics[0] for arm in outcome.status.arms}
    for name, limits in outcome.differences.items():
        line = _differ(leader, name, limits, objective)
        if limits.estimate is not None:
            ratio = ratio_of(limits, stands[leader], stands[name])
            is_time = METRICS[objective].words is time_words
            times = "" if ratio is None else f", {ratio_words(ratio, 'as fast' if is_time else 'as good')}"
            line = f"{line}; measured {METRICS[objective].words(limits.estimate)}{times}"
        yield line


def _differ(leader: str, name: str, limits: Difference, objective: str) -> str:
    """By how much two commands differ. Where it is not certain which is better, that is said."""
    of = f"of {_called(objective)}"
    words = METRICS[objective].words
    least, most = (words(abs(end)) if math.isfinite(end) else None for end in (limits.low, limits.high))
    if limits.low >= 0.0:
        return f"{leader} is better than {name} by {least} {'or more' if most is None else f'to {most}'} {of}"
    if limits.high <= 0.0:
        return f"{leader} is worse than {name} by {most} {'or more' if least is None else f'to {least}'} {of}"
    ends = [f"{end} {word}" for end, word in ((least, "worse"), (most, "better")) if end is not None]
    known = f": {leader} is at most {' or '.join(ends)}" if ends else ""
    return f"it is not certain yet by how much {leader} and {name} differ in {_called(objective)}{known}"


def limit_lines(outcome: Outcome) -> Iterator[str]:
    """Where the leader, or the candidate of a gate, stands with each limit, and what keeps the others out."""
    baseline = {arm.name: arm for arm in outcome.status.arms}.get(outcome.question.baseline or "")
    for arm in outcome.status.arms:
        for place, limit in enumerate(outcome.question.limits, start=1):
            stands = arm.metrics[place]
            is_shown = arm.name == _in_question(outcome) or stands.verdict == "violated"
            if not stands.tests or not is_shown or (limit.is_relative and arm is baseline):
                continue
            scale, words = 1.0, METRICS[limit.metric].words
            if limit.is_relative and baseline is not None:
                scale, words = baseline.metrics[place].mean, _times
            mean, low, high = (
                words(number / scale) if math.isfinite(number) and scale else "?"
                for number in (stands.mean, stands.low, stands.high)
            )
            yield f"{arm.name}: {limit.words}: {stands.verdict}; measured {mean}, interval {low} to {high}"


def _in_question(outcome: Outcome) -> str | None:
    """The command that people want to know about."""
    return outcome.contestants[-1].name if is_gate(outcome) else outcome.status.leader


def verdict_words(outcome: Outcome) -> dict[str, str]:
    """What is certain of each command, in a word."""
    if not is_gate(outcome):
        return {arm.name: arm.verdict for arm in outcome.status.arms}
    found = {"certified": "passes", "refuted": "fails", "undecided": "open"}[found_by(outcome)]
    return {one.name: "baseline" if one.name == outcome.question.baseline else found for one in outcome.contestants}


def _times(ratio: float) -> str:
    return f"{ratio:.4g}x"


def note_lines(outcome: Outcome) -> Iterator[str]:
    """What the answer rests on, and what was cut off."""
    yield _assumption(outcome)
    if outcome.is_own_timeout:
        yield (
            f"No --timeout was stated: a run that takes longer than {time_words(outcome.timeout)}, ten times the "
            "slowest first run or more, is stopped and counts as that."
        )
    stopped = sum(run.timed_out for _, run in outcome.records.runs.values())
    if stopped:
        yield f"{stopped:,} runs took longer than {time_words(outcome.timeout)}, were stopped, and count as that."
    for metric, top in outcome.ceilings.items():
        if metric != "time":
            yield f"More {metric} than {METRICS[metric].words(top)} counts as that."
    for sentence in outcome.status.health.warnings:
        yield f"Warning: {sentence}"
    if not outcome.status.health.warnings:
        yield f"Health of the data: no sign of trouble, {outcome.status.health.checks:,} checks."


def _assumption(outcome: Outcome) -> str:
    if outcome.question.assumed == "range":
        return "Assumed: runs are independent of each other. Nothing is assumed of how they scatter."
    return (
        "Assumed: runs are independent of each other, and the difference between runs of two commands scatters as far "
        "above its mean as below. --assume range does without the second, and takes many times the runs."
    )
