"""The closing line of a race: how many times as fast the leader is as each other command, and which are tied.

The ratio r of two commands is that of their means, if X - r Y scatters as far up as down for their runs at the same
places of the order, as it does if they scatter alike, in proportion to their means, however skewed that is. A part of
delta is kept for the limits of ratios: with probability 1 - delta the answer is right and so are all of them, at all
times at once (Proposition R.6 in `docs/certificates/races.md`).
"""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Iterator, Sequence

from bestarm.race.intervals import Estimate, ratio_of, ratio_of_stopped
from bestarm.race.pauses import noun_for_pauses
from bestarm.race.result import RaceResult
from bestarm.race.summary import phrase_of
from bestarm.texts import listed

_RARE = 20
"""Pauses rarer than 1 in so many runs are left to the verdict to name."""

_OF_AHEAD = 0.9
"""The part of the share for ratios to the command that was ahead in the first runs, which do not count."""


def ratio_between(result: RaceResult, one: str, other: str) -> Estimate | None:
    """How many times as much a command needs as another. None where nothing can be said of it: without symmetry, on
    several machines, if a verdict is withheld or void, or if it is not known what a run needed: it needed nothing, or
    no more memory than can be told apart. A command whose runs were stopped takes at least so many times as much."""
    if not result.delta_of_ratios or result.found == "void" or result.conclusion.withheld:
        return None
    names = [contestant.name for contestant in result.contestants]
    if names.index(one) > names.index(other):
        # The evidence is not quite the same the other way round, and each pair has its share of delta once.
        found = ratio_between(result, other, one)
        return None if found is None else found.inverse
    own, others = _values(result, one), _values(result, other)
    if result.question.objective == "memory" and min(*own, *others) <= result.run_log.floor:
        return None
    if not own or not others or not all(value > 0.0 for value in (*own, *others)):
        return None
    alpha = _alpha(result, one, other)
    is_stopped, other_is_stopped = result.stopped(one) > 0, result.stopped(other) > 0
    if not is_stopped and not other_is_stopped:
        return ratio_of(own, others, alpha)
    # What another metric than the time would have come to is not known.
    if (is_stopped and other_is_stopped) or result.question.objective != "time":
        return None
    return ratio_of_stopped(own, others, alpha) if is_stopped else ratio_of_stopped(others, own, alpha).inverse


def _alpha(result: RaceResult, one: str, other: str) -> float:
    """The probability of error for each limit of a ratio. All together have the share of ratios."""
    commands, share, ahead = len(result.contestants), result.delta_of_ratios, result.run_log.about.get("ahead")
    if commands == 2 or ahead is None:
        return share / (commands * (commands - 1))
    if ahead in (one, other):
        return _OF_AHEAD * share / (2 * (commands - 1))
    return (1.0 - _OF_AHEAD) * share / ((commands - 1) * (commands - 2))


def _values(result: RaceResult, name: str) -> list[float]:
    """What each run of a command needed, in the order of its runs."""
    metric = result.question.objective
    least = result.run_log.floor if metric == "memory" else 0.0
    return [max(run.value(metric), least) for run in result.run_log.of(name)]


def times_better(result: RaceResult) -> dict[str, Estimate]:
    """By command: how many times as good the leader is. The larger mean is divided by the smaller, if it is better."""
    leader = result.status.leader
    if result.question.is_gate or leader is None:
        return {}
    is_small = result.question.goal == "minimize"
    rivals = [one.name for one in result.contestants if one.name != leader]
    found = {name: ratio_between(result, *((name, leader) if is_small else (leader, name))) for name in rivals}
    # The answer itself says that no other is better that keeps to the limits.
    is_best = result.found == "certified" and not result.status.tolerance
    lawful = {arm.name for arm in result.status.arms if all(limit.verdict == "holds" for limit in arm.metrics[1:])}
    return {
        name: ratio.within(1.0, math.inf) if is_best and name in lawful and ratio.high >= 1.0 else ratio
        for name, ratio in found.items()
        if ratio is not None
    }


def closing_line(result: RaceResult) -> str | None:
    """The outcome in one line; None if there is none."""
    ratios, leader = times_better(result), result.status.leader
    if not ratios or leader is None:
        return None
    verdicts = {arm.name: arm.verdict for arm in result.status.arms}
    out = [name for name in verdicts if verdicts[name] == "infeasible"]
    # A command that is better than the leader, but may be over a limit, is no equal of it.
    ahead = [name for name in ratios if verdicts[name] == "open" and ratios[name].high < 1.0]
    tied = [name for name in ratios if name not in (*out, *ahead) and _is_tied(result, verdicts[name], ratios[name])]
    behind = [name for name in ratios if name not in (*out, *ahead, *tied)]
    if not tied:
        parts = [_lead_words(result, leader, {name: ratios[name] for name in behind})] if behind else []
    else:
        together = [one.name for one in result.contestants if one.name in (leader, *tied)]
        are = "is" if len(behind) == 1 else "are"
        parts = [_tie_words(result, leader, together), f"{listed(behind)} {are} {_worse(result)}" if behind else ""]
    parts += [f"{_lead_words(result, name, {leader: ratios[name].inverse})}, and may be over a limit" for name in ahead]
    parts += [f"{listed(out)} {'is' if len(out) == 1 else 'are'} over a limit"] if out else []
    line = "; ".join(filter(None, parts))
    return f"{line}{_exception(result)}" if line else None


def _exception(result: RaceResult) -> str:
    """The exception of the verdict, if it is a large one: the line may be read without the verdict."""
    conclusion = result.conclusion
    if not conclusion.exception or (conclusion.pauses_rarer_than or 0) >= _RARE:
        return ""
    rare = "" if conclusion.pauses_rarer_than is None else f" rarer than 1 in {conclusion.pauses_rarer_than}"
    return f", except for {noun_for_pauses(result.question.watched)}{rare}"


def ratio_lines(result: RaceResult) -> Iterator[str]:
    """Which runs the ratios of the closing line are about, where one of two commands made more of them."""
    runs = {one.name: len(result.run_log.of(one.name)) for one in result.contestants}
    leads, verdicts = runs[result.status.leader or ""], {arm.name: arm.verdict for arm in result.status.arms}
    shared = {name: min(made, leads) for name, made in runs.items() if made != leads and verdicts[name] != "infeasible"}
    if shared:
        firsts = listed([f"the first {count:,} with {name}" for name, count in shared.items()])
        yield f"Ratios are those of the means over the runs that two commands made in turns: {firsts}."


def _worse(result: RaceResult) -> str:
    return "slower" if result.question.objective == "time" else "worse"


def _is_tied(result: RaceResult, verdict: str, ratio: Estimate) -> bool:
    """Whether it is open if a command is worse than the leader: by their ratio and, unless a tolerance has settled
    that, by the verdict."""
    return not ratio.low > 1.0 and (verdict != "worse" or bool(result.status.tolerance))


def _lead_words(result: RaceResult, leader: str, ratios: dict[str, Estimate]) -> str:
    """By how many times the leader is better than each other command, the closest first."""
    rivals = sorted(ratios.items(), key=lambda item: item[1].value)
    if result.question.objective == "time":
        leads = [_faster_words(result, name, ratio) for name, ratio in rivals]
        return f"{leader} is {_joined(leads)}"
    metric = phrase_of(result.question.objective)
    if result.question.goal == "maximize":
        leads = [f"{_times(ratio.value)} the {metric} of {name}{_ends_words(ratio)}" for name, ratio in rivals]
        return f"{leader} has {_joined(leads)}"
    what = f"the {metric} of {leader}"
    needs = [
        f"{name} needs {_times(ratio.value)} {what if k == 0 else 'that'}{_ends_words(ratio)}"
        for k, (name, ratio) in enumerate(rivals)
    ]
    return _joined(needs)


def _faster_words(result: RaceResult, name: str, ratio: Estimate) -> str:
    """How many times as fast the leader is as a command. If runs of that were stopped, what was measured is too low."""
    if not result.stopped(name):
        return f"{_times(ratio.value)} as fast as {name}{_ends_words(ratio)}"
    least = _times(ratio.low, decimal.ROUND_FLOOR) if ratio.low > 0.0 else "1×"
    faster = "faster than" if least == "1×" else f"at least {least} as fast as"
    return f"{faster} {name} ({result.stopped_words(name)})"


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _tie_words(result: RaceResult, leader: str, names: Sequence[str]) -> str:
    """How close commands are known to be to each other. It is a tie only if that is an answer: it is certified that the
    leader is at most the tolerance worse than the best."""
    together, close, tolerance = _joined(names), "", result.status.tolerance
    pairs = [ratio_between(result, *pair) for pair in itertools.combinations(names, 2)]
    known = [pair for pair in pairs if pair is not None and pair.is_known and pair.low > 0.0]
    words = result.question.known[result.question.objective].words
    if len(known) == len(pairs):
        share = max(max(pair.high, 1.0 / pair.low) - 1.0 for pair in known)
        least = min(sum(values) / len(values) for values in (_values(result, name) for name in names))
        close = f"within {_percent(share)} (about {words(share * least)}) of each other"
    if result.found == "certified" and tolerance:
        rest = _joined([name for name in names if name != leader])
        settled = f"{leader} is at most {words(tolerance)} {_worse(result)} than {rest}"
        return f"TIE: {settled}{f', and they are {close}' if close else ''}"
    if close:
        return f"Not told apart: {together} are {close}"
    stopped = [result.stopped_words(name) for name in names if result.stopped(name)]
    why = f"{listed(stopped)}, so how close they are is not known" if stopped else ""
    return f"{together} are not told apart; {why or 'how close they are takes more runs to tell'}"


def _percent(share: float) -> str:
    """Rounded up to two digits.

    >>> _percent(0.0461), _percent(0.3)
    ('4.7%', '30%')
    """
    return f"{_rounded(100.0 * share, 2, decimal.ROUND_CEILING)}%"


def _ends_words(ratio: Estimate) -> str:
    """The interval, rounded outward.

    >>> _ends_words(Estimate(5.31, 4.98, 5.71)), _ends_words(Estimate(5.31, 4.98, math.inf))
    (' (4.9–5.8×)', ' (4.9× or more)')
    """
    if not math.isfinite(ratio.high):
        return f" ({_times(ratio.low, decimal.ROUND_FLOOR)} or more)" if ratio.low > 1.0 else ""
    low, high = _times(ratio.low, decimal.ROUND_FLOOR), _times(ratio.high, decimal.ROUND_CEILING)
    return f" ({low.removesuffix('×')}–{high})"


def _times(number: float, rounding: str = decimal.ROUND_HALF_EVEN) -> str:
    """A multiple with two digits, with more if it is close to 1.

    >>> _times(11.26), _times(5.31), _times(1.126), _times(1.0126)
    ('11×', '5.3×', '1.13×', '1.013×')
    """
    digits = 2 if number >= 2.0 else 3 if abs(number - 1.0) >= 0.095 else 4
    return f"{_rounded(number, digits, rounding)}×"


def _rounded(number: float, digits: int, rounding: str) -> str:
    found = decimal.Context(prec=digits, rounding=rounding).create_decimal(repr(number))
    return f"{found.normalize():f}"
