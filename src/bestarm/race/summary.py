"""What a race came to, in words and figures: one row for each command, then what is certain."""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
from collections.abc import Iterator

from bestarm.answer import Difference, void_words
from bestarm.race.limits import METRICS, SHARES
from bestarm.race.pauses import called
from bestarm.race.plans import CANDIDATE
from bestarm.race.race import Outcome
from bestarm.race.ratios import ratio_of, ratio_words
from bestarm.race.runs import Run
from bestarm.race.symmetry import Found, conclusion_of, paused
from bestarm.race.units import size_words, time_words
from bestarm.texts import listed


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


def figures_of(runs: list[Run], floor: float) -> Figures:
    """Memory below `floor` cannot be seen and counts as that."""
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
        statistics.fmean(max(run.memory, floor) for run in runs),
        failed,
    )


def memory_words(size: float, floor: float) -> str:
    """A size, or that it is less than can be seen.

    >>> memory_words(3e6, 2e6), memory_words(2e6, 2e6)
    ('3 MB', '< 2 MB')
    """
    return f"< {size_words(floor)}" if size <= floor else size_words(size)


def is_gate(outcome: Outcome) -> bool:
    return outcome.question.is_gate


def found_by(outcome: Outcome) -> Found:
    """What a race came to: void if the results contradict what the guarantee rests on."""
    return "void" if outcome.status.guarantee == "void" else decided_by(outcome)


def decided_by(outcome: Outcome) -> Found:
    """The same, ignoring contradicted assumptions. A verdict that rests on symmetry is withheld if pauses speak
    against symmetry."""
    return conclusion_of(outcome).found


def verdict(outcome: Outcome) -> str:
    """The conclusion in one sentence."""
    status = outcome.status
    after = f"after {status.tests:,} runs"
    sure = f"with {100 * (1 - outcome.delta):g} % confidence"
    conclusion = conclusion_of(outcome)
    if status.guarantee == "void":
        return f"VOID: {_seems(outcome)} {after}; {void_words(status.void_because)}."
    if conclusion.withheld:
        return f"UNDECIDED {after}: {conclusion.withheld}. --at-most pauses=… or --assume range decides."
    end = f"{conclusion.exception}, {sure}, {after}.{_counted(outcome)}"
    if status.state == "no_feasible_arm":
        return f"No command meets every limit{end}"
    if status.state == "certified":
        if not is_gate(outcome):
            return f"CERTIFIED: {status.answer} {_is_best(outcome)}{end}"
        if status.answer == outcome.question.baseline:
            return f"REFUTED: the candidate does not meet every limit{end}"
        return f"CERTIFIED: {status.answer} meets every limit{end}"
    leads = f"{status.leader} leads" if status.leader and not is_gate(outcome) else "the limits may hold or not"
    how = "stopped" if outcome.is_interrupted else "the budget is spent"
    return f"UNDECIDED: {how} {after}, and no answer is certain; {leads}."


def _seems(outcome: Outcome) -> str:
    """What a race came to, where nothing is guaranteed."""
    if not is_gate(outcome):
        return f"{outcome.status.leader} leads" if outcome.status.leader else "no command seems to meet every limit"
    found = {"certified": "seems to meet every limit", "refuted": "seems not to meet every limit"}
    return f"the candidate {found.get(decided_by(outcome), 'may meet every limit or not')}"


def _counted(outcome: Outcome) -> str:
    """Which means a verdict is about, if large values are cut off."""
    cut = [f"more {metric} than {METRICS[metric].words(top)}" for metric, top in outcome.ceilings.items()]
    return f" Means are those in which {listed(cut)} {'counts' if len(cut) == 1 else 'count'} as that." if cut else ""


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
    if is_gate(outcome) or leader is None or conclusion_of(outcome).withheld or found_by(outcome) == "void":
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
            scale, words, floor, counted = 1.0, METRICS[limit.metric].words, 0.0, ""
            if limit.metric == "memory":
                floor = outcome.records.floor
                words = functools.partial(memory_words, floor=floor)
                if _has_unseen(outcome):
                    counted = f" (less than {size_words(floor)} counts as that)"
            # A value below the floor has no multiples.
            if limit.is_relative and baseline is not None and baseline.metrics[place].mean > floor:
                scale, words = baseline.metrics[place].mean, _times
            mean, low, high = (
                words(number / scale) if math.isfinite(number) and scale else "?"
                for number in (stands.mean, stands.low, stands.high)
            )
            yield f"{arm.name}: {limit.words}{counted}: {stands.verdict}; measured {mean}, interval {low} to {high}"


def history_lines(outcome: Outcome) -> Iterator[str]:
    """What happened before this race: it was decided earlier, or it replaces an older one."""
    yield from filter(None, (outcome.afresh, outcome.decided))


def _has_unseen(outcome: Outcome) -> bool:
    """Whether some run needed less memory than can be seen."""
    return any(run.memory <= outcome.records.floor for _, run in outcome.records.runs.values())


def _in_question(outcome: Outcome) -> str | None:
    """The command that the verdict is about."""
    return outcome.contestants[-1].name if is_gate(outcome) else outcome.status.leader


def verdict_words(outcome: Outcome) -> dict[str, str]:
    """What is certain of each command, in a word."""
    if not is_gate(outcome):
        # "Worse" rests on symmetry, and nothing is certain if the guarantee is void.
        doubted = {"worse": "open"} if conclusion_of(outcome).withheld else {}
        is_void = found_by(outcome) == "void"
        words = {arm.name: doubted.get(arm.verdict, arm.verdict) for arm in outcome.status.arms}
        return {name: "leads" if name == outcome.status.leader else "open" for name in words} if is_void else words
    found = {"certified": "passes", "refuted": "fails", "undecided": "open", "void": "void"}[found_by(outcome)]
    return {one.name: "baseline" if one.name == outcome.question.baseline else found for one in outcome.contestants}


def _times(ratio: float) -> str:
    return f"{ratio:.4g}x"


def note_lines(outcome: Outcome) -> Iterator[str]:
    """What the answer rests on, what was cut off, and the seed."""
    yield _assumption(outcome)
    if outcome.is_own_timeout:
        yield (
            f"No --timeout was stated: a run that takes longer than {time_words(outcome.timeout)}, ten times the "
            "slowest first run or more, is stopped and counts as that."
        )
    if outcome.cutoffs:
        yield _pause_words(outcome)
    stopped = sum(run.timed_out for _, run in outcome.records.runs.values())
    if stopped:
        others = [metric for metric in outcome.question.metrics if metric not in ("time", CANDIDATE, *SHARES)]
        also = f"; in {' and '.join(others)} they count as the most that there is" if others else ""
        yield f"{stopped:,} runs took longer than {time_words(outcome.timeout)}, were stopped, and count as that{also}."
    if "memory" in outcome.question.metrics and _has_unseen(outcome):
        floor = size_words(outcome.records.floor)
        yield f"Memory below {floor} cannot be seen, and counts as {floor}."
    for metric, top in outcome.ceilings.items():
        if metric != "time" or not outcome.is_own_timeout:
            yield f"More {metric} than {METRICS[metric].words(top)} counts as that, also in the certified mean."
    yield f"The order of runs was drawn with --seed {outcome.status.seed}."
    warnings = outcome.status.health.through("race").warnings
    for sentence in warnings:
        yield f"Warning: {sentence}"
    if not warnings:
        yield f"Health of the data: no sign of trouble, {outcome.status.health.checks:,} checks."


def _assumption(outcome: Outcome) -> str:
    if outcome.question.assumed == "range":
        return "Assumed: runs are independent of each other. Nothing is assumed of how they scatter."
    return (
        "Assumed: runs are independent of each other, and the difference between runs of two commands scatters as far "
        "above its mean as below, except for pauses. --assume range does without the second, and takes many times the "
        "runs."
    )


def _pause_words(outcome: Outcome) -> str:
    """What a pause is, and how many there were."""
    cutoffs = {
        name: " or ".join(f"{METRICS[metric].words(cutoff)} {_called(metric)}" for metric, cutoff in of_one.items())
        for name, of_one in outcome.cutoffs.items()
    }
    counts = (f"more than {cutoff} of {name}, in {paused(outcome, name).words}" for name, cutoff in cutoffs.items())
    return f"Counted as {called(outcome.question.watched)}: {'; '.join(counts)}."
