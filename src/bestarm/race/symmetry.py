"""Verdicts that rest on symmetry: what they do not cover, and when they are withheld."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from bestarm.analysis.health.notes import remark_words
from bestarm.analysis.standing.arms import ArmStanding
from bestarm.answer import DECIDED
from bestarm.race.pauses import Pauses, called, pauses_of, pooled, rarer_than
from bestarm.race.race import Outcome

Found = Literal["certified", "refuted", "undecided", "void"]

_LEAST = 2
"""The least N worth stating: "rarer than 1 in 1" says nothing."""


@dataclasses.dataclass(frozen=True)
class Conclusion:
    """What a race came to, and what that does not cover."""

    found: Found
    exception: str = ""
    """The part of the verdict that says what it does not cover."""
    pauses_rarer_than: int | None = None
    """N if the verdict holds except for pauses that are rarer than 1 in N."""
    withheld: str | None = None
    """Why there is no verdict, though the study has its answer."""


def conclusion_of(outcome: Outcome) -> Conclusion:
    found = _found_by_study(outcome)
    favored = _favored(outcome, found)
    what = called(outcome.question.watched)
    bounds: list[int] = []
    seen: list[str] = []
    for name in favored:
        own, rest = paused(outcome, name), _rest(outcome, name)
        limit = _certified_limit(outcome, name)
        if own.count and limit is None:
            others = pooled([paused(outcome, other) for other in rest])
            whose = rest[0] if len(rest) == 1 else "the others"
            if not own.can_scatter_like(others):
                reason = (
                    f"{name} has {what} in {own.words} (up to {own.longest}), {whose} in {others.words}, so symmetry "
                    "cannot be assumed"
                )
                return Conclusion("undecided", withheld=reason)
            seen.append(f"{own.words} of {name} against {others.words} of {whose}")
        else:
            alpha = outcome.question.delta_of_pauses / len(outcome.contestants)
            stated = 0 if limit is None else math.floor(1.0 / limit + 1e-9)
            is_known = bool(outcome.cutoffs) and not own.count
            seen_none = rarer_than(own.runs, alpha) if is_known else 0
            bounds.append(max(stated, seen_none))
    alike = f" ({what}: {'; '.join(seen)}; taken to strike all alike)" if seen else ""
    if not bounds:
        return Conclusion(found, alike)
    rarest = min(bounds) if min(bounds) >= _LEAST else None
    if rarest is not None and found == "certified" and not seen and _is_outweighed(outcome, 1.0 / rarest):
        return Conclusion(found)
    whose = "" if favored == (outcome.status.answer,) and found == "certified" else f" of {' or '.join(favored)}"
    rare = "" if rarest is None else f" rarer than 1 in {rarest:,}"
    return Conclusion(found, f", except for {what}{whose}{rare}{alike}", rarest)


def remark_on(outcome: Outcome) -> str:
    """What those who read the study without its race must know of its answer; empty if it holds as it stands."""
    conclusion, watched = conclusion_of(outcome), ", ".join(sorted(outcome.question.watched))
    if conclusion.withheld:
        return remark_words("broken", watched, conclusion.withheld)
    if outcome.status.state not in DECIDED or not conclusion.exception:
        return ""
    return remark_words("doubtful", watched, f"the verdict holds {conclusion.exception.removeprefix(', ').strip()}")


def _found_by_study(outcome: Outcome) -> Found:
    """A gate is refuted if the answer is the baseline: then the candidate fails a limit."""
    status, question = outcome.status, outcome.question
    if status.state not in DECIDED:
        return "undecided"
    is_refuted = status.answer is None or (question.is_gate and status.answer == question.baseline)
    return "refuted" if is_refuted else "certified"


def _favored(outcome: Outcome, found: Found) -> tuple[str, ...]:
    """The commands whose pauses could make a verdict wrong, because it rests on symmetry. The winner may be slower than
    it seems; and so may the baseline, where another command fails a limit relative to it."""
    question, arms = outcome.question, outcome.status.arms
    if not question.rests_on_symmetry or len(arms) < 2 or found == "undecided":
        return ()
    answer, baseline = outcome.status.answer, question.baseline
    places = range(1, len(question.limits) + 1)
    relative = [place for place in places if question.limits[place - 1].is_relative]
    alone = [place for place in places if place not in relative]
    names = []
    if found == "certified" and answer is not None:
        wins_by_it = any(arm.verdict == "worse" for arm in arms) or bool(relative and answer != baseline)
        names += [answer] if wins_by_it else []
    out = [arm for arm in arms if arm.name != baseline and arm.verdict == "infeasible"]
    if relative and baseline is not None and not all(_violates(arm, alone) for arm in out):
        names.append(baseline)
    return tuple(dict.fromkeys(names))


def _violates(arm: ArmStanding, places: list[int]) -> bool:
    return any(arm.metrics[place].verdict == "violated" for place in places)


def paused(outcome: Outcome, name: str) -> Pauses:
    return pauses_of(outcome.records.of(name), outcome.cutoffs.get(name, {}))


def _rest(outcome: Outcome, name: str) -> list[str]:
    return [one.name for one in outcome.contestants if one.name != name]


def _certified_limit(outcome: Outcome, name: str) -> float | None:
    """A share of pauses that the command is certified to stay below, if any."""
    [arm] = [arm for arm in outcome.status.arms if arm.name == name]
    limits = enumerate(outcome.question.limits, start=1)
    stated = [(limit.value, arm.metrics[place].verdict) for place, limit in limits if limit.metric == "pauses"]
    return min((share for share, stands in stated if stands == "holds"), default=None)


def _is_outweighed(outcome: Outcome, share: float) -> bool:
    """Whether a candidate passes even if that share of its runs pause until the timeout."""
    if not outcome.question.is_gate:
        return False
    [arm] = [arm for arm in outcome.status.arms if arm.name == outcome.status.answer]
    for place, limit in enumerate(outcome.question.limits, start=1):
        if limit.is_relative:
            stands = arm.metrics[place]
            room = (stands.threshold or 0.0) - stands.high
            if limit.metric != "time" or not share * outcome.timeout < (1.0 - share) * room:
                return False
    return True
