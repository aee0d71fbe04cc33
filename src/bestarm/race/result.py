"""How a race ended: every run, where its study stands, and what that proves.

A verdict may rest on symmetry. This says what it does not cover, and when it is withheld.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Literal

from bestarm.analysis.health.notes import remark_words
from bestarm.analysis.standing.arms import ArmStanding
from bestarm.analysis.status.status import Status
from bestarm.answer import DECIDED, Difference
from bestarm.problem import Plan
from bestarm.race.contestants import Contestant
from bestarm.race.limits import time_words
from bestarm.race.pauses import (
    Cutoffs,
    Pauses,
    beyond_cutoff,
    command_on,
    cutoff_words,
    noun_for_pauses,
    pauses_of,
    pooled,
    rarer_than,
)
from bestarm.race.plans import MACHINE, Question, is_benchmark
from bestarm.race.run_log import RunLog
from bestarm.race.runs import Run

Found = Literal["certified", "refuted", "undecided", "void", "measured"]
"""What a race came to; one command alone is only measured."""

LIKE_THESE = "machines like these"

_LEAST = 2
"""The least N worth stating: "rarer than 1 in 1" says nothing."""


@dataclasses.dataclass(frozen=True)
class Conclusion:
    """What a race came to, and what that does not cover."""

    found: Found
    """What was found, even if the results contradict what the guarantee rests on."""
    exception: str = ""
    """The part of the verdict that says what it does not cover."""
    presumption: str = ""
    """The part that says which pauses were seen, and what they are taken for. These are covered."""
    pauses_rarer_than: int | None = None
    """N if the verdict holds except for pauses that are rarer than 1 in N."""
    withheld: str | None = None
    """Why there is no verdict, though the study has its answer."""


@dataclasses.dataclass(frozen=True)
class RaceResult:
    """How a race ended: where its study stands, and every run."""

    contestants: tuple[Contestant, ...]
    question: Question
    plan: Plan
    status: Status
    differences: dict[str, Difference]
    run_log: RunLog
    timeout: float
    is_own_timeout: bool
    """Whether the timeout was chosen here, because none was stated."""
    ceilings: dict[str, float]
    cutoffs: Cutoffs
    """The cutoff of each command and metric. A run above it pauses."""
    decided_before: str = ""
    """When it was decided, and whether files have changed since, if that was before this process began."""
    replaces: str = ""
    """Why there is a new study, if there is an older one of the same race."""
    is_interrupted: bool = False
    machines: tuple[str, ...] = ("",)
    """The machines, as they were named."""
    lost: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """By machine: why it was left out."""

    @property
    def delta(self) -> float:
        """A bound on the probability that anything is wrong: the verdict, what it says of pauses, or the interval of a
        ratio. Each has its share."""
        return self.question.delta

    @property
    def delta_of_ratios(self) -> float:
        """The share of the intervals of ratios between commands."""
        return self.question.delta_of_ratios(len(self.contestants), self.plan.blocks)

    @property
    def is_benchmark(self) -> bool:
        """Whether nothing is asked: one command alone, without limits."""
        return is_benchmark(self.question, len(self.contestants))

    @property
    def found(self) -> Found:
        """What the race came to: void if the results contradict what the guarantee rests on."""
        return "void" if self.status.guarantee == "void" else self.conclusion.found

    @functools.cached_property
    def conclusion(self) -> Conclusion:
        found = self._found_by_study
        favored = self._favored(found)
        what = noun_for_pauses(self.question.watched)
        far = "as far off as" if self.question.is_about_all else "up to"
        bounds: list[int] = []
        seen: list[str] = []
        pairs: list[str] = []
        are_usual = False
        for name in favored:
            own = self.pauses(name)
            rest = [one.name for one in self.contestants if one.name != name]
            limit = self._certified_limit(name)
            if self.stopped(name) and limit is None and "time" in self.question.watched:
                return Conclusion(
                    "undecided", withheld=f"{self.stopped_words(name)}, so how long they take is not known"
                )
            if own.count and limit is None:
                others = pooled([self.pauses(other) for other in rest])
                whose = rest[0] if len(rest) == 1 else "the others"
                are_usual = are_usual or own.are_usual
                if not own.can_scatter_like(others):
                    has = f"{name} is {beyond_cutoff(what)}" if own.are_usual else f"{name} has {what}"
                    seen_here = f"{has} in {own.words} ({far} {own.longest}), {whose} in {others.words}"
                    return Conclusion("undecided", withheld=f"{seen_here}, so symmetry cannot be assumed")
                seen.append(f"{own.words} of {name} against {others.words} of {whose}")
                pairs.append(f"{name} no more than {whose}")
            else:
                alpha = self.question.delta_of_each_claim(len(self.contestants))
                stated = 0 if limit is None else math.floor(1.0 / limit + 1e-9)
                is_known = bool(self.cutoffs) and not own.count
                seen_none = rarer_than(own.runs, alpha) if is_known else 0
                bounds.append(max(stated, seen_none))
        what_was_seen = beyond_cutoff(what) if are_usual else what
        alike = (
            f" ({what_was_seen}: {'; '.join(seen)}; assumed, as chance allows: they strike {' and '.join(pairs)})"
            if seen
            else ""
        )
        if not bounds:
            return Conclusion(found, presumption=alike)
        rarest = min(bounds) if min(bounds) >= _LEAST else None
        if rarest is not None and found == "certified" and not seen and self._is_outweighed(1.0 / rarest):
            return Conclusion(found)
        whose = "" if favored == (self.status.answer,) and found == "certified" else f" of {' or '.join(favored)}"
        rare = "" if rarest is None else f" rarer than 1 in {rarest:,}"
        return Conclusion(found, f", except for {what}{whose}{rare}", alike, rarest)

    @property
    def over_machines(self) -> str:
        """The machines whose mean a verdict is about, if there are several."""
        blocks = self.plan.blocks
        return "" if blocks is None else LIKE_THESE if blocks.name == MACHINE else "these machines"

    @property
    def remark(self) -> str:
        """What readers of the study alone must know about its answer; empty if it holds as it stands."""
        conclusion, watched = self.conclusion, ", ".join(sorted(self.question.watched))
        if conclusion.withheld:
            return remark_words("broken", watched, conclusion.withheld)
        words = f"{conclusion.exception}{conclusion.presumption}"
        if self.status.state not in DECIDED or not words:
            return ""
        return remark_words("doubtful", watched, f"the verdict holds {words.removeprefix(', ').strip()}")

    @property
    def _found_by_study(self) -> Found:
        if self.is_benchmark:
            return "measured"
        if self.status.state not in DECIDED:
            return "undecided"
        return "refuted" if self.status.answer is None else "certified"

    def _favored(self, found: Found) -> tuple[str, ...]:
        """The commands whose pauses could make a verdict wrong, because it rests on symmetry. The winner may be slower
        than it seems. So may the baseline, where another command fails a limit relative to it."""
        question, arms = self.question, self.status.arms
        if not question.symmetric or len(arms) < 2 or found == "undecided":
            return ()
        answer, baseline = self.status.answer, question.baseline
        places = range(1, len(question.limits) + 1)
        relative = [place for place in places if question.limits[place - 1].is_relative]
        alone = [place for place in places if place not in relative]
        names = []
        wins_by_it = any(arm.verdict == "worse" for arm in arms) or bool(relative and answer != baseline)
        if found == "certified" and answer is not None and wins_by_it:
            names.append(answer)
        out = [arm for arm in arms if arm.name != baseline and arm.verdict == "infeasible"]
        if relative and baseline is not None and not all(_violates(arm, alone) for arm in out):
            names.append(baseline)
        if names and question.is_about_all:
            return tuple(one.name for one in self.contestants)
        return tuple(dict.fromkeys(names))

    def pauses(self, name: str, metric: str | None = None) -> Pauses:
        """The pauses of a command, in any metric or in one."""
        known = self.question.known
        runs: dict[str, list[Run]] = {machine: [] for machine in self.machines}
        for run in self.run_log.of(name):
            runs.setdefault(run.on, []).append(run)
        found = []
        for on, made in runs.items():
            cutoffs = self.cutoffs.get(command_on(name, on), {})
            watched = {one: limit for one, limit in cutoffs.items() if metric in (None, cutoff_words(one)[0])}
            found.append(pauses_of(made, watched, known))
        return pooled(found)

    def stopped(self, name: str) -> int:
        """How many runs of a command were stopped at the timeout."""
        return sum(run.timed_out for run in self.run_log.of(name))

    def stopped_words(self, name: str) -> str:
        """How many of its runs were stopped, and when."""
        stopped, runs = self.stopped(name), len(self.run_log.of(name))
        were = "was" if stopped == 1 else "were"
        return f"{stopped:,} of {runs:,} runs of {name} {were} stopped after {time_words(self.timeout)}"

    def _certified_limit(self, name: str) -> float | None:
        """A share of pauses that the command is certified to stay below, if any."""
        [arm] = [arm for arm in self.status.arms if arm.name == name]
        limits = enumerate(self.question.limits, start=1)
        stated = [(limit.value, arm.metrics[place].verdict) for place, limit in limits if limit.metric == "pauses"]
        return min((share for share, stands in stated if stands == "holds"), default=None)

    def _is_outweighed(self, share: float) -> bool:
        """Whether a candidate passes even if that share of its runs pause until the timeout."""
        if not self.question.is_gate:
            return False
        [arm] = [arm for arm in self.status.arms if arm.name == self.status.answer]
        for place, limit in enumerate(self.question.limits, start=1):
            if limit.is_relative:
                stands = arm.metrics[place]
                room = (stands.threshold or 0.0) - stands.high
                if limit.metric != "time" or limit.side != "at_most" or not share * self.timeout < (1.0 - share) * room:
                    return False
        return True


def _violates(arm: ArmStanding, places: list[int]) -> bool:
    return any(arm.metrics[place].verdict == "violated" for place in places)
