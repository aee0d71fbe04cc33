"""What a race came to, in words and figures: one row for each command, then what is certain."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import math
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from bestarm.analysis.standing.arms import MetricStanding
from bestarm.answer import Difference, void_words
from bestarm.race.limits import METRICS, SHARES, size_words, time_words
from bestarm.race.pauses import noun_for_pauses
from bestarm.race.plans import CANDIDATE
from bestarm.race.result import RaceResult
from bestarm.race.runs import Run
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


def verdict(result: RaceResult) -> str:
    """The conclusion in one sentence."""
    status = result.status
    after = f"after {status.tests:,} runs"
    sure = f"with {100 * (1 - result.delta):g}% confidence"
    conclusion = result.conclusion
    if status.guarantee == "void":
        return f"VOID: {_void_summary(result)} {after}; {void_words(status.void_because)}."
    if conclusion.withheld:
        return f"UNDECIDED {after}: {conclusion.withheld}. --at-most pauses=… or --assume range decides."
    end = f"{conclusion.exception}, {sure}, {after}.{_ceiling_sentence(result)}"
    if conclusion.found == "refuted":
        whose = "REFUTED: the candidate does not meet" if result.question.is_gate else "No command meets"
        return f"{whose} every limit{end}"
    if conclusion.found == "certified":
        phrase = "meets every limit" if result.question.is_gate else _best_phrase(result)
        return f"CERTIFIED: {status.answer} {phrase}{end}"
    leads = f"{status.leader} leads" if status.leader and not result.question.is_gate else "the limits may hold or not"
    how = "stopped" if result.is_interrupted else "the budget is spent"
    return f"UNDECIDED: {how} {after}, and no answer is certain; {leads}."


def _void_summary(result: RaceResult) -> str:
    """What a race came to, where nothing is guaranteed."""
    if not result.question.is_gate:
        return f"{result.status.leader} leads" if result.status.leader else "no command seems to meet every limit"
    found = {"certified": "seems to meet every limit", "refuted": "seems not to meet every limit"}
    return f"the candidate {found.get(result.conclusion.found, 'may meet every limit or not')}"


def _ceiling_sentence(result: RaceResult) -> str:
    cut = [f"more {metric} than {METRICS[metric].words(top)}" for metric, top in result.ceilings.items()]
    return f" Means are those in which {listed(cut)} {'counts' if len(cut) == 1 else 'count'} as that." if cut else ""


def _phrase(metric: str) -> str:
    """A metric in a sentence."""
    return f"{metric} time" if metric in ("user", "system") else metric


def _best_phrase(result: RaceResult) -> str:
    objective, tolerance = result.question.objective, result.status.tolerance
    among = " of all that meet every limit" if result.plan.constraints else ""
    if tolerance:
        return f"has a mean {_phrase(objective)} within {METRICS[objective].words(tolerance)} of the lowest{among}"
    return f"has the lowest mean {_phrase(objective)}{among}"


def difference_lines(result: RaceResult) -> Iterator[str]:
    """How much better the leader is than each other command: at least, at most, and measured."""
    objective, leader = result.question.objective, result.status.leader
    if result.question.is_gate or leader is None or result.conclusion.withheld or result.found == "void":
        return
    stands = {arm.name: arm.metrics[0] for arm in result.status.arms}
    for name, limits in result.differences.items():
        line = _difference_sentence(leader, name, limits, objective)
        if limits.estimate is not None:
            ratio = ratio_of(limits, stands[leader], stands[name])
            is_time = METRICS[objective].words is time_words
            times = "" if ratio is None else f", {ratio_words(ratio, 'as fast' if is_time else 'as good')}"
            line = f"{line}; measured {METRICS[objective].words(limits.estimate)}{times}"
        yield line


def _difference_sentence(leader: str, name: str, limits: Difference, objective: str) -> str:
    """By how much two commands differ. Where it is not certain which is better, that is said."""
    of = f"of {_phrase(objective)}"
    words = METRICS[objective].words
    least, most = (words(abs(end)) if math.isfinite(end) else None for end in (limits.low, limits.high))
    if limits.low >= 0.0:
        return f"{leader} is better than {name} by {least} {'or more' if most is None else f'to {most}'} {of}"
    if limits.high <= 0.0:
        return f"{leader} is worse than {name} by {most} {'or more' if least is None else f'to {least}'} {of}"
    ends = [f"{end} {word}" for end, word in ((least, "worse"), (most, "better")) if end is not None]
    known = f": {leader} is at most {' or '.join(ends)}" if ends else ""
    return f"it is not certain yet by how much {leader} and {name} differ in {_phrase(objective)}{known}"


class Ratio(NamedTuple):
    """The other's mean divided by the leader's: measured, at least and at most. Infinite: there is no limit."""

    estimate: float
    low: float
    high: float


def ratio_of(limits: Difference, leader: MetricStanding, other: MetricStanding) -> Ratio | None:
    """The ratio of two means of which smaller is better. None if the leader's is 0.

    The other's mean is the leader's, m, plus the difference d, so the ratio is 1 + d / m. The limits of d hold. m is
    taken as it was measured, because a race assumes nothing of how the runs of one command scatter. So the limits of
    the ratio are about right.
    """
    if not (leader.tests and other.tests and leader.mean > 0.0):
        return None
    # What a run needs is never negative.
    low, high = (max(1.0 + end / leader.mean, 0.0) for end in (limits.low, limits.high))
    return Ratio(other.mean / leader.mean, low, high)


def ratio_words(ratio: Ratio, how: str) -> str:
    """As "about 1.93× as fast (1.12× to 2.57×)". Ends are rounded outward.

    >>> ratio_words(Ratio(1.934, 1.128, 2.561), "as fast"), ratio_words(Ratio(3.0, 1.5, math.inf), "as good")
    ('about 1.93× as fast (1.12× to 2.57×)', 'about 3× as good (1.5× or more)')
    """
    measured, low = _rounded(ratio.estimate, decimal.ROUND_HALF_EVEN), _rounded(ratio.low, decimal.ROUND_FLOOR)
    high = "or more" if math.isinf(ratio.high) else f"to {_rounded(ratio.high, decimal.ROUND_CEILING)}"
    limits = "" if ratio.low <= 0.0 and math.isinf(ratio.high) else f" ({low} {high})"
    return f"about {measured} {how}{limits}"


def _rounded(number: float, rounding: str) -> str:
    digits = decimal.Context(prec=3, rounding=rounding).create_decimal(repr(number))
    return f"{digits.normalize():f}×"


def limit_lines(result: RaceResult) -> Iterator[str]:
    """Where the leader, or the candidate of a gate, stands with each limit, and what keeps the others out."""
    baseline = {arm.name: arm for arm in result.status.arms}.get(result.question.baseline or "")
    judged = result.contestants[-1].name if result.question.is_gate else result.status.leader
    for arm in result.status.arms:
        for place, limit in enumerate(result.question.limits, start=1):
            stands = arm.metrics[place]
            is_shown = arm.name == judged or stands.verdict == "violated"
            if not stands.tests or not is_shown or (limit.is_relative and arm is baseline):
                continue
            scale, words, floor, counted = 1.0, METRICS[limit.metric].words, 0.0, ""
            if limit.metric == "memory":
                floor = result.run_log.floor
                words = functools.partial(memory_words, floor=floor)
                if _has_unseen(result):
                    counted = f" (less than {size_words(floor)} counts as that)"
            # A value below the floor has no multiples.
            if limit.is_relative and baseline is not None and baseline.metrics[place].mean > floor:
                scale, words = baseline.metrics[place].mean, "{:.4g}x".format
            mean, low, high = (
                words(number / scale) if math.isfinite(number) and scale else "?"
                for number in (stands.mean, stands.low, stands.high)
            )
            yield f"{arm.name}: {limit.words}{counted}: {stands.verdict}; measured {mean}, interval {low} to {high}"


def history_lines(result: RaceResult) -> Iterator[str]:
    """What happened before this race: it was decided earlier, or it replaces an older one."""
    yield from filter(None, (result.replaces, result.decided_before))


def _has_unseen(result: RaceResult) -> bool:
    """Whether some run needed less memory than can be seen."""
    return any(run.memory <= result.run_log.floor for _, run in result.run_log.runs.values())


def verdict_words(result: RaceResult) -> dict[str, str]:
    """What is certain of each command, in a word."""
    if not result.question.is_gate:
        # "Worse" rests on symmetry, and nothing is certain if the guarantee is void.
        doubted = {"worse": "open"} if result.conclusion.withheld else {}
        is_void = result.found == "void"
        words = {arm.name: doubted.get(arm.verdict, arm.verdict) for arm in result.status.arms}
        return {name: "leads" if name == result.status.leader else "open" for name in words} if is_void else words
    found = {"certified": "passes", "refuted": "fails", "undecided": "open", "void": "void"}[result.found]
    return {one.name: "baseline" if one.name == result.question.baseline else found for one in result.contestants}


def note_lines(result: RaceResult) -> Iterator[str]:
    """What the answer rests on, what was cut off, and the seed."""
    yield _assumption(result)
    if result.is_own_timeout:
        yield (
            f"No --timeout was stated: a run that takes longer than {time_words(result.timeout)}, ten times the "
            "slowest first run or more, is stopped and counts as that."
        )
    if result.cutoffs:
        yield _pause_words(result)
    stopped = sum(run.timed_out for _, run in result.run_log.runs.values())
    if stopped:
        others = [metric for metric in result.question.metrics if metric not in ("time", CANDIDATE, *SHARES)]
        also = f"; in {' and '.join(others)} they count as the most that there is" if others else ""
        yield f"{stopped:,} runs took longer than {time_words(result.timeout)}, were stopped, and count as that{also}."
    if "memory" in result.question.metrics and _has_unseen(result):
        floor = size_words(result.run_log.floor)
        yield f"Memory below {floor} cannot be seen, and counts as {floor}."
    for metric, top in result.ceilings.items():
        if metric != "time" or not result.is_own_timeout:
            yield f"More {metric} than {METRICS[metric].words(top)} counts as that, also in the certified mean."
    yield f"The order of runs was drawn with --seed {result.status.seed}."
    warnings = result.status.health.through("race").warnings
    for sentence in warnings:
        yield f"Warning: {sentence}"
    if not warnings:
        yield f"Health of the data: no sign of trouble, {result.status.health.checks:,} checks."


def _assumption(result: RaceResult) -> str:
    if result.question.assumed == "range":
        return "Assumed: runs are independent of each other. Nothing is assumed of how they scatter."
    return (
        "Assumed: runs are independent of each other, and the difference between runs of two commands scatters as far "
        "above its mean as below, except for pauses. --assume range does without the second, and takes many times the "
        "runs."
    )


def _pause_words(result: RaceResult) -> str:
    """What a pause is, and how many there were."""
    cutoffs = {
        name: " or ".join(f"{METRICS[metric].words(cutoff)} {_phrase(metric)}" for metric, cutoff in of_one.items())
        for name, of_one in result.cutoffs.items()
    }
    counts = (f"more than {cutoff} of {name}, in {result.pauses(name).words}" for name, cutoff in cutoffs.items())
    return f"Counted as {noun_for_pauses(result.question.watched)}: {'; '.join(counts)}."
