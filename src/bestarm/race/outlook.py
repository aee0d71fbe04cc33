"""How many runs a race still takes, and how long, from what has been measured."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

import numpy as np

from bestarm.analysis.standing.knowledge import about
from bestarm.analysis.status.status import Status, evidence_words
from bestarm.noises.self_normalized import fewest
from bestarm.policies.certify.setting import ODDS, ODDS_OF_CONTRASTS
from bestarm.policies.levels import levels_of
from bestarm.problem import Plan
from bestarm.race.continuations import CONTINUATIONS, Floats, pairs_in_all
from bestarm.race.plans import Question
from bestarm.race.run_log import RunLog
from bestarm.texts import listed

_QUANTILES = (0.1, 0.5, 0.9)
_NARROW = 1.5
"""A range is shown where its ends differ by more than this factor."""


class Range(NamedTuple):
    """What 1 in 10 continuations fall short of, half of them, and 9 in 10; infinite where they do not end."""

    low: float
    middle: float
    high: float

    @property
    def is_narrow(self) -> bool:
        """Whether the middle says enough."""
        return self.high <= _NARROW * self.low

    @classmethod
    def of(cls, values: Floats) -> Range:
        return cls(*np.quantile(values, _QUANTILES, method="inverted_cdf").tolist())


class Outlook(NamedTuple):
    """What is still to come: runs, and the seconds that they take."""

    runs: Range
    seconds: Range


_UNKNOWN = Range(math.inf, math.inf, math.inf)
UNKNOWN = Outlook(_UNKNOWN, _UNKNOWN)


def outlook_of(plan: Plan, status: Status, run_log: RunLog) -> Outlook:
    """What a race still takes, by continuations that are drawn. The leader must be told from
    each command that is still open; its runs serve for all of them."""
    leader, metric = status.leader, plan.objective.metric
    names = [one.arm for one in status.open if one.kind == "rival"]
    if leader is None or plan.constraints or plan.items is None or not names:
        return UNKNOWN
    level = float(levels_of(plan, plan.delta).certifying[plan.arm_names.index(leader)])
    own, tolerance = run_log.of(leader), plan.objective.tolerance
    rng = np.random.default_rng(len(run_log.runs))
    to_come: dict[str, Floats] = {leader: np.ones(CONTINUATIONS)}
    for name in names:
        pairs = zip(run_log.of(name), own, strict=False)
        leads = [rival.value(metric) - run.value(metric) + tolerance for rival, run in pairs]
        needed = pairs_in_all(leads, level, rng)
        to_come[name] = np.maximum(needed - len(run_log.of(name)), 1.0)
        to_come[leader] = np.maximum(to_come[leader], needed - len(own))
    times = {name: statistics.fmean(run.time for run in run_log.of(name)) for name in to_come if run_log.of(name)}
    if times.keys() != to_come.keys():
        return UNKNOWN
    runs, seconds = sum(to_come.values()), sum(to_come[name] * times[name] for name in times)
    return Outlook(Range.of(np.asarray(runs)), Range.of(np.asarray(seconds)))


def shortage_words(plan: Plan, question: Question, most: float) -> str:
    """What to say if no answer can become certain with at most so many runs of each command; empty if one can. Of races
    with limits nothing is said: commands may exceed them before they are told apart."""
    compared = [limit.metric if limit.is_relative else "" for limit in question.limits]
    compared = compared if question.is_gate else [question.objective, *compared]
    is_simple = question.is_gate or not question.limits
    if plan.items is None or len(plan.arms) < 2 or not is_simple or not question.symmetric.issuperset(compared):
        return ""
    levels = levels_of(plan, plan.delta)
    if question.is_gate:
        needed = fewest(float(min(*levels.certifying, *levels.rejecting)), ODDS_OF_CONTRASTS)
    else:
        needed = fewest(float(levels.certifying.min()), ODDS)
    runs = int(min(most, math.inf if question.runs is None else question.runs // len(plan.arms), needed))
    if runs >= needed:
        return ""
    are = "run of each command is" if runs == 1 else "runs of each command are"
    return f"{runs} {are} too few for a certain answer, which takes {needed} or more"


def progress_words(plan: Plan, status: Status, run_log: RunLog, seconds_left: float) -> str:
    """How far a race is, in one line: its runs, about how many it takes in all, who leads, and what is open."""
    made = f"{len(run_log.runs):,}"
    runs = f"{made} run{'s' * (made != '1')}"
    if len(plan.arms) == 1 and not plan.constraints:
        return runs
    if status.guarantee == "void":
        return f"{runs}; {status.headline}"
    outlook = outlook_of(plan, status, run_log)
    if math.isfinite(outlook.runs.middle):
        runs = f"{made} of about {about(len(run_log.runs) + outlook.runs.middle)} runs"
        runs = f"{runs}, {_to_go_words(outlook.seconds, seconds_left)}"
    elif status.open:
        runs = f"{runs}, {evidence_words(status)}"
    is_gate = plan.goal == "any feasible"
    leads = f"{status.leader} leads" if status.leader and not is_gate else ""
    asked = [one for one in status.open if one.kind == "holds" or not is_gate]
    names = [one.subject if one.kind == "holds" else one.arm for one in asked]
    return "; ".join(filter(None, (runs, leads, f"still open: {listed(names)}" if names else "")))


def _to_go_words(seconds: Range, seconds_left: float) -> str:
    """How long it still takes, as a range where it is not known well.

    >>> _to_go_words(Range(12.0, 15.0, 17.0), 300.0), _to_go_words(Range(12.0, 40.0, 190.0), 300.0)
    ('15 s to go', '12 s to 3 min to go')
    >>> _to_go_words(Range(12.0, 40.0, 190.0), 60.0), _to_go_words(Range(12.0, 40.0, 190.0), 30.0)
    ('12 s or more to go', 'probably more than there is time for')
    """
    if seconds.low > seconds_left:
        return "more than there is time for"
    if seconds.middle > seconds_left:
        return "probably more than there is time for"
    if seconds.high > seconds_left:
        return f"{_duration(seconds.low)} or more to go"
    if seconds.is_narrow or _duration(seconds.low) == _duration(seconds.high):
        return f"{_duration(seconds.middle)} to go"
    return f"{_duration(seconds.low)} to {_duration(seconds.high)} to go"


def _duration(seconds: float) -> str:
    """About how long.

    >>> _duration(0.2), _duration(12.3), _duration(200.0), _duration(9000.0)
    ('1 s', '13 s', '3 min', '2.5 h')
    """
    if seconds < 99.5:
        return f"{max(math.ceil(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970.0 else f"{seconds / 3600:.2g} h"
