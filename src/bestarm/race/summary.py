"""What a race came to, in words and figures: one row for each command, then what is certain."""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from bestarm.answer import Difference, void_words
from bestarm.noises.shares import Share
from bestarm.race.limits import SHARES, Limit, Metric, size_words, time_words
from bestarm.race.limits_found import known_of, limit_verdict, multiple, ratio_interval_of, ratio_to
from bestarm.race.pauses import beyond_cutoff, command_on, cutoff_words, noun_for_pauses
from bestarm.race.plans import CANDIDATE, Question
from bestarm.race.ratios import Interval
from bestarm.race.result import LIKE_THESE, RaceResult
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
    own: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """By name: the means of the metrics of the user's own."""


def figures_of(runs: list[Run], floor: float, own: Sequence[Metric] = ()) -> Figures:
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
        {metric.name: mean_of(runs, metric.name) for metric in own},
    )


def mean_of(runs: Sequence[Run], metric: str) -> float:
    """The mean over the runs that yielded the metric, or over all of their trials; NaN if none did."""
    shares = [share for run in runs if isinstance(share := run.own.get(metric), Share)]
    if shares:
        return sum(share.k for share in shares) / sum(share.n for share in shares)
    values = [value for run in runs if not math.isnan(value := run.value(metric))]
    return statistics.fmean(values) if values else math.nan


def mean_and_deviation(runs: Sequence[Run], metric: str, floor: float) -> tuple[float, float]:
    """Over the runs that yielded the metric; NaN where there are too few. Memory below `floor` counts as `floor`."""
    least = floor if metric == "memory" else -math.inf
    values = [max(value, least) for run in runs if not math.isnan(value := run.value(metric))]
    deviation = statistics.stdev(values) if len(values) > 1 else math.nan
    return statistics.fmean(values) if values else math.nan, deviation


def memory_words(size: float, floor: float) -> str:
    """A size, or that it is less than can be seen.

    >>> memory_words(3e6, 2e6), memory_words(2e6, 2e6)
    ('3 MB', '< 2 MB')
    """
    return f"< {size_words(floor)}" if size <= floor else size_words(size)


def verdict(result: RaceResult) -> str:
    """The conclusion in one sentence."""
    status, is_sample = result.status, result.over_machines == LIKE_THESE
    after = f"after {status.tests:,} runs{_on_machines(result)}"
    if result.is_benchmark:
        return f"MEASURED: {result.contestants[0].name} alone, {len(result.run_log.runs):,} runs; nothing is compared."
    sure = f"with {100 * (1 - result.delta):g}% confidence"
    conclusion = result.conclusion
    if status.guarantee == "void":
        return f"VOID: {_void_summary(result)} {after}; {void_words(status.void_because)}."
    if conclusion.withheld:
        return f"UNDECIDED {after}: {conclusion.withheld}. --at-most pauses=… or --assume range decides."
    end = f"{conclusion.exception}{conclusion.presumption}, {sure}, {after}.{_ceiling_sentence(result)}"
    if conclusion.found == "refuted":
        whose = "REFUTED: the candidate does not meet" if result.question.is_gate else "No command meets"
        return f"{whose} every limit{end}"
    if conclusion.found == "certified":
        phrase = "meets every limit" if _is_judged_alone(result) else _best_phrase(result)
        return f"CERTIFIED: {status.answer} {phrase}{end}"
    is_led = status.leader and not _is_judged_alone(result)
    leads = f"{status.leader} leads" if is_led else "the limits may hold or not"
    if all(run.timed_out for _, run in result.run_log.runs.values()):
        leads = f"every run was stopped after {time_words(result.timeout)}, so nothing is known of how long one takes"
    how = "stopped" if result.is_interrupted else "every machine was used" if is_sample else "the budget is spent"
    return f"UNDECIDED: {how} {after}, and no answer is certain; {leads}."


def _is_judged_alone(result: RaceResult) -> bool:
    """Whether all that is asked is if a command meets its limits."""
    return result.question.is_gate or len(result.contestants) == 1


def _on_machines(result: RaceResult) -> str:
    """How many machines made runs, if they are several."""
    made = {run.on for _, run in result.run_log.runs.values()}
    return f" on {len(made)} machine{'s' * (len(made) != 1)}" if result.over_machines else ""


def machine_lines(result: RaceResult) -> Iterator[str]:
    """What a verdict on several machines is about, what each yielded, and which were left out."""
    if result.over_machines:
        blocks = "machine" if result.over_machines == LIKE_THESE else "round on all machines"
        yield f"The verdict is about the mean over {result.over_machines}; the runs of each {blocks} count as one."
    metric = "time" if result.question.is_gate else result.question.objective
    for machine in filter(None, result.machines):
        runs = {
            one.name: [run for run in result.run_log.of(one.name) if run.on == machine] for one in result.contestants
        }
        means = [
            f"{name} {result.question.known[metric].words(mean_of(made, metric))}"
            for name, made in runs.items()
            if made
        ]
        made = sum(map(len, runs.values()))
        yield f"On {machine}: {made:,} runs; mean {phrase_of(metric)}: {', '.join(means) or '–'}"
    for reason in result.lost.values():
        yield f"Left out: {reason}"


def _void_summary(result: RaceResult) -> str:
    """What a race came to, where nothing is guaranteed."""
    if not _is_judged_alone(result):
        return f"{result.status.leader} leads" if result.status.leader else "no command seems to meet every limit"
    found = {"certified": "seems to meet every limit", "refuted": "seems not to meet every limit"}
    whose = "the candidate" if result.question.is_gate else result.contestants[0].name
    return f"{whose} {found.get(result.conclusion.found, 'may meet every limit or not')}"


def _ceiling_sentence(result: RaceResult) -> str:
    cut = [f"more {metric} than {result.question.known[metric].words(top)}" for metric, top in result.ceilings.items()]
    return f" Means are those in which {listed(cut)} {'counts' if len(cut) == 1 else 'count'} as that." if cut else ""


def phrase_of(metric: str) -> str:
    """A metric in a sentence."""
    return f"{metric} time" if metric in ("user", "system") else metric


def _best_phrase(result: RaceResult) -> str:
    objective, tolerance = result.question.objective, result.status.tolerance
    most = "lowest" if result.question.goal == "minimize" else "highest"
    among = " of all that meet every limit" if result.plan.constraints else ""
    if tolerance:
        near = result.question.known[objective].words(tolerance)
        return f"has a mean {phrase_of(objective)} within {near} of the {most}{among}"
    return f"has the {most} mean {phrase_of(objective)}{among}"


def difference_lines(result: RaceResult) -> Iterator[str]:
    """How much better the leader is than each other command: at least, at most, and measured."""
    objective, leader = result.question.objective, result.status.leader
    if result.question.is_gate or leader is None or result.conclusion.withheld or result.found == "void":
        return
    for name, limits in result.differences.items():
        if objective in result.question.symmetric and result.stopped(leader) and result.stopped(name):
            yield f"{result.stopped_words(leader)}, and {result.stopped_words(name)}: how they differ is not known"
            continue
        line = _difference_sentence(leader, name, limits, result.question)
        if limits.estimate is not None:
            line = f"{line}; measured {result.question.known[objective].words(limits.estimate)}"
        yield line


def _difference_sentence(leader: str, name: str, limits: Difference, question: Question) -> str:
    """By how much two commands differ. Where it is not certain which is better, that is said."""
    objective = question.objective
    of = f"of {phrase_of(objective)}"
    words = question.known[objective].words
    least, most = (words(abs(end)) if math.isfinite(end) else None for end in (limits.low, limits.high))
    if limits.low >= 0.0:
        return f"{leader} is better than {name} by {least} {'or more' if most is None else f'to {most}'} {of}"
    if limits.high <= 0.0:
        return f"{leader} is worse than {name} by {most} {'or more' if least is None else f'to {least}'} {of}"
    ends = [f"{end} {word}" for end, word in ((least, "worse"), (most, "better")) if end is not None]
    known = f": {leader} is at most {' or '.join(ends)}" if ends else ""
    return f"it is not certain yet by how much {leader} and {name} differ in {phrase_of(objective)}{known}"


def limit_lines(result: RaceResult) -> Iterator[str]:
    """Where the leader, or the candidate of a gate, stands with each limit, and what keeps the others out, or open."""
    if result.found == "void":
        return
    baseline = {arm.name: arm for arm in result.status.arms}.get(result.question.baseline or "")
    judged = result.contestants[-1].name if result.question.is_gate else result.status.leader
    for arm in result.status.arms:
        for place, limit in enumerate(result.question.limits, start=1):
            stands = arm.metrics[place]
            is_open = result.found == "undecided" and arm.verdict == stands.verdict == "open"
            is_shown = is_open or arm.name == judged or stands.verdict == "violated"
            if not stands.tests or not is_shown or (limit.is_relative and arm is baseline):
                continue
            words, floor, counted = limit.kind.words, 0.0, ""
            if limit.metric == "memory":
                floor = result.run_log.floor
                words = functools.partial(memory_words, floor=floor)
                if _has_unseen(result):
                    counted = f" (less than {size_words(floor)} counts as that)"
            if limit.margin and stands.threshold is not None:
                counted += f" ({words(stands.threshold)})"
            mean, ends = stands.mean, known_of(result, arm.name, limit, stands.low, stands.high)
            ratio = None
            if limit.is_relative and not limit.margin and baseline is not None:
                ratio = ratio_to(result, stands, baseline.metrics[place], limit)
            if ratio is not None:
                # Where no interval of the ratio is known, the baseline's mean is taken as it was measured.
                scale, words = stands.mean / ratio, multiple
                scaled = Interval(ends.low / scale, ends.high / scale)
                mean, ends = ratio, ratio_interval_of(result, arm.name, place) or scaled
            measured, low, high = (words(number) if math.isfinite(number) else "?" for number in (mean, *ends))
            found = limit_verdict(result, limit, stands)
            interval = f"interval{_without_pauses(result, arm.name, limit)} {low} to {high}"
            yield f"{arm.name}: {limit.words}{counted}: {found}; measured {measured}, {interval}"


def _without_pauses(result: RaceResult, name: str, limit: Limit) -> str:
    """Which runs the interval of a limit is about, where it rests on symmetry: pauses of one command break that."""
    if not limit.is_relative or limit.metric not in result.question.symmetric:
        return ""
    found = [result.pauses(one, limit.metric) for one in (name, result.question.baseline) if one]
    has_pauses = any(pauses.count and not pauses.are_usual for pauses in found)
    return f" without {noun_for_pauses({limit.metric})}" if has_pauses else ""


def history_lines(result: RaceResult) -> Iterator[str]:
    """What happened before this race: it was decided earlier, or it replaces an older one."""
    yield from filter(None, (result.replaces, result.decided_before))


def _has_unseen(result: RaceResult) -> bool:
    """Whether some run needed less memory than can be seen."""
    return any(run.memory <= result.run_log.floor for _, run in result.run_log.runs.values())


def verdicts_shown(result: RaceResult) -> dict[str, str]:
    """What is certain of each command, in the words of a race."""
    words, answer = verdict_words(result), result.status.answer
    if result.found == "certified" and not result.question.is_gate and answer is not None:
        is_alone = len(result.contestants) == 1
        # With a tolerance, another may be better by less than that.
        words[answer] = "within its limits" if is_alone else "answer" if result.status.tolerance else "best"
    return {name: verdict_shown(word, result.question.objective) for name, word in words.items()}


def verdict_shown(verdict: str, metric: str) -> str:
    """A verdict in the words of a race.

    >>> verdict_shown("worse", "time"), verdict_shown("worse", "memory"), verdict_shown("infeasible", "time")
    ('slower', 'worse', 'over a limit')
    """
    # A command that can be the best, and perhaps is within all limits, may still not be it.
    words = {"infeasible": "over a limit", "feasible": "open"}
    of_time = {"worse": "slower", "best": "fastest"} if metric == "time" else {}
    return {**words, **of_time}.get(verdict, verdict)


def verdict_words(result: RaceResult) -> dict[str, str]:
    """What is certain of each command, in a word of its study."""
    if result.is_benchmark:
        return {result.contestants[0].name: "measured"}
    if not result.question.is_gate:
        # "Worse" rests on symmetry, and nothing is certain if the guarantee is void.
        doubted = {"worse": "open"} if result.conclusion.withheld else {}
        if result.status.tolerance:
            # All that is certain is that they are not better by more than that.
            doubted |= {"worse": "not needed"}
        is_void = result.found == "void"
        words = {arm.name: doubted.get(arm.verdict, arm.verdict) for arm in result.status.arms}
        return {name: "leads" if name == result.status.leader else "open" for name in words} if is_void else words
    found = {"certified": "passes", "refuted": "fails", "undecided": "open", "void": "void"}[result.found]
    return {one.name: "baseline" if one.name == result.question.baseline else found for one in result.contestants}


def note_lines(result: RaceResult) -> Iterator[str]:
    """What the answer rests on, what was cut off, and the seed."""
    yield from machine_lines(result)
    yield _assumption(result)
    if share := result.question.tolerance_share:
        amount = result.question.known[result.question.objective].words(result.question.tolerance)
        yield f"The tolerance is {100 * share:g}% of the smallest value of a first run, which does not count: {amount}."
    if result.run_log.later and not result.is_benchmark:
        yield f"{result.run_log.later:,} more runs were made after that, as was asked, and change nothing about it."
    if result.is_own_timeout:
        yield (
            f"No --timeout was stated: a run that takes longer than {time_words(result.timeout)}, ten times the "
            "slowest first run or more, is stopped and counts as that."
        )
    if result.cutoffs:
        yield from _pause_words(result)
    counts = {one.name: count for one in result.contestants if (count := result.stopped(one.name))}
    stopped = sum(counts.values())
    if stopped:
        others = [metric for metric in result.question.metrics if metric not in ("time", CANDIDATE, *SHARES)]
        worst = "worst" if result.question.enlarged or result.question.own else "most"
        also = f"; in {' and '.join(others)} they count as the {worst} that there is" if others else ""
        whose = ", ".join(f"{count:,} of {name}" for name, count in counts.items())
        longer = f"took longer than {time_words(result.timeout)}, {'was' if stopped == 1 else 'were'} stopped"
        yield f"{stopped:,} run{'s' * (stopped != 1)} {longer}, and count{'s' * (stopped == 1)} as that{also}: {whose}."
    if "memory" in result.question.metrics and _has_unseen(result):
        floor = size_words(result.run_log.floor)
        yield f"Memory below {floor} cannot be seen, and counts as {floor}."
    for metric, top in result.ceilings.items():
        if metric != "time" or not result.is_own_timeout:
            words = result.question.known[metric].words
            yield f"More {metric} than {words(top)} counts as that, also in the certified mean."
    yield f"The order of runs was drawn with --seed {result.status.seed}."
    if result.is_benchmark:
        return
    warnings = result.status.health.through("race").warnings
    for sentence in warnings:
        yield f"Warning: {sentence}"
    if not warnings:
        yield f"Health of the data: no sign of trouble, {result.status.health.checks:,} checks."


def _assumption(result: RaceResult) -> str:
    if result.is_benchmark:
        return "Assumed: runs are independent of each other. Nothing is assumed of how they scatter, or compared."
    if not result.question.symmetric or len(result.contestants) == 1:
        return "Assumed: runs are independent of each other. Nothing is assumed of how they scatter."
    alike = " Ratios assume that commands scatter alike, in proportion to their means."
    return (
        "Assumed: runs are independent of each other, and the difference between runs of two commands scatters as far "
        "above its mean as below, except for pauses. --assume range does without the second, and takes many times the "
        f"runs.{alike if result.delta_of_ratios else ''}"
    )


def _range_words(metric: Metric, values: Sequence[float]) -> str:
    """A value, or from which to which it is on different machines."""
    low, high = metric.words(min(values)), metric.words(max(values))
    return low if low == high else f"{low} to {high} (by machine)"


def _pause_words(result: RaceResult) -> Iterator[str]:
    """What a pause is, and how many there were. Where most runs are beyond the cutoff, these are no pauses."""
    nouns, rare = noun_for_pauses(result.question.watched), []
    for one in result.contestants:
        keys = [command_on(one.name, machine) for machine in result.machines]
        of_one = [result.cutoffs[key] for key in keys if key in result.cutoffs]
        cutoffs = []
        for cutoff in of_one[0]:
            metric, side = cutoff_words(cutoff)
            ends = _range_words(result.question.known[metric], [of[cutoff] for of in of_one])
            cutoffs.append(f"{side} than {ends} {phrase_of(metric)}")
        pauses, ends = result.pauses(one.name), " or ".join(cutoffs)
        if not pauses.are_usual:
            rare.append(f"{ends} of {one.name}, in {pauses.words}")
        elif result.stopped(one.name) < pauses.count:
            yield (
                f"{pauses.words} of {one.name} are {beyond_cutoff(nouns)} ({ends}). So such runs are usual; the "
                "first ones, which set the cutoff, were unusual."
            )
    if rare:
        yield f"Counted as {nouns}: {'; '.join(rare)}."
