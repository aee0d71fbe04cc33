"""`certify`: our own policy. It gathers evidence for the certificates of one answer, and for nothing else.

There is one class for all goals, with or without items, a baseline and a reserve. What a study uses is data: `setting`
says it in numbers, and each claim (`bestarm.evidence.claims`) chooses its evidence by them. A file for each goal has
its kernels and what is shown of it; `goal` says what that takes, `choosing` has what the kernels share, and `memory`
what is kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from bestarm.answer import odds
from bestarm.evidence.contrasts import contrast_mean, is_known
from bestarm.evidence.intervals import interval_end
from bestarm.evidence.items import UNLIMITED, with_own_differences
from bestarm.kernel.state import ABSENT, ON_ITEMS, RESERVED, SECOND_RULES, SEPARATE, TRACKING, Flags, Floats, Setting
from bestarm.kernel.tournament import NO_ARM, best
from bestarm.noises.dispatch import most_kept
from bestarm.noises.streams import ABOVE, BELOW, stream_of
from bestarm.policies.certify import (
    any_feasible,
    best_arm,
    challengers,
    depth_first,
    every_feasible,
    short_list,
    top,
    tracking,
)
from bestarm.policies.certify.challengers import evidence_against
from bestarm.policies.certify.choosing import leave_out_retired
from bestarm.policies.certify.goal import Goal
from bestarm.policies.certify.memory import Memory
from bestarm.policies.certify.setting import certify_setting, pooled_noise, refusal
from bestarm.policies.comparisons import Reasons, differences_from, margin_of, narrow, pair_levels, regret_of, survey
from bestarm.policies.confidence import Intervals, PresentAnswer, compiled_if_large, lower_level, new_intervals
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Bools, Findings, exclude_beaten, judged
from bestarm.policies.kernels import KernelPolicy, Kernels
from bestarm.policies.levels import levels_in_words, up_to_tolerance
from bestarm.policies.open_certificates import OpenCertificate
from bestarm.problem import Plan, Problem
from bestarm.problem.goals import ASKED, Asked
from bestarm.validation import InvalidInput

GOALS: dict[Asked, Goal] = {
    "best": best_arm.GOAL,
    "short list": short_list.GOAL,
    "top": top.GOAL,
    "any feasible": any_feasible.GOAL,
    "every feasible": every_feasible.GOAL,
}


MANY = 32
"""With this many constraints of all arms together, the leader is searched in depth. With fewer, there is little to gain
on average, and the longest runs get longer."""


def goal_in(setting: Setting) -> Goal:
    """The goal of a setting, with the rules of its edition."""
    if setting.sampling == TRACKING:
        return tracking.GOAL
    if setting.pooled != ABSENT:
        return challengers.goal_keeping(most_kept(setting.pooled))
    asked = ASKED[setting.goal]
    constraints = len(setting.level) * (len(setting.threshold) - 1)
    is_searched = setting.rules == SECOND_RULES and setting.pairing == SEPARATE and constraints >= MANY
    return depth_first.GOAL if asked == "best" and is_searched else GOALS[asked]


class Options(NamedTuple):
    """The parameters of `certify`."""

    sampling: Literal["default", "tracking"] = "default"
    """How tests are chosen: "tracking" has a proven limit of the number of tests, as delta falls to 0."""


class Certify(KernelPolicy):
    """Gather evidence for all that the likeliest answer claims, until it suffices, and then stop.

    The leader has the best mean among the arms that look feasible; with many arms or constraints, among those that
    are not suspect. To answer with it takes a certificate for each of its constraints and one
    against each other arm: that it is infeasible, or worse, or half of each. Each round tests one stream for each open
    certificate: the one that, by posterior draws, promises the most evidence per cost.

    Errs with probability at most delta (each certificate is an e-process, which by Ville's inequality ever reaches
    1 / alpha with probability at most alpha if it is false) when observations are independent and scatter as stated.
    `tolerance` and `slack` keep ties and means on a threshold from running forever. It needs several times fewer tests
    than the confidence bounds of the paper's algorithms allow.

    With the option `sampling = "tracking"`, tests are made in the proportions that are best for the measured means.
    Then the number of tests has a proven limit as delta falls to 0; at usual deltas it is larger.

    `propose` notes in its memory which arms the evidence has rejected or shown beaten, and seeds its
    random choices by the number of results. Asked again, it proposes the same tests.

    It decides for every goal. On items, arms are compared item by item: `streams.items` has what that takes, and a
    result is told with the place of its item, so that `tests` in `advance` has rows (arm, metric, place). Constraints
    may be relative to a baseline arm. With a reserve, a share of delta is kept for arms that come later or are retired.

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. `seed` and `run` seed the posterior draws that choose among tests; no answer rests on
        them.

    >>> import bestarm as ba
    >>> result = ba.simulate(ba.instance("exp1-a"), policy="certify", runs=20, seed=1)
    >>> print(result.answer_counts, f"{result.mean_tests:,.0f}")
    {'arm 5': 20} 1,522

    Reference: Theorem C.2 in `docs/certificates/index.md`, and the pages beside it. The evidence is a mixture as in
    S. R. Howard, A. Ramdas, J. McAuliffe and J. Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence
    sequences", Annals of Statistics 49 (2021).
    """

    name = "certify"
    remark = "recommended"
    asked = ASKED
    uses_items = uses_baseline = uses_judge = uses_reserve = True
    kernels = GOALS["best"].kernels
    Options = Options
    memory: Memory

    def __init__(self, setting: Setting, arms: int, metrics: int, *, seed: int = 0, run: int = 0) -> None:
        super().__init__(setting, arms, metrics, seed=seed, run=run)
        self._goal = goal_in(setting)
        self._is_on_items = setting.pairing == ON_ITEMS
        if setting.sharing == RESERVED:
            leave_out_retired(setting, self.memory)
        any_feasible.leave_out_baseline(setting, self.memory)

    @classmethod
    def kernels_in(cls, setting: Setting) -> Kernels:
        return goal_in(setting).kernels

    @classmethod
    def options_of(cls, problem: Problem | None = None) -> Any:
        options = super().options_of(problem)
        if options.sampling == "tracking" and problem is not None and (reason := refusal(problem)):
            raise InvalidInput("options.sampling", options.sampling, reason, ["default"])
        return options

    @classmethod
    def new_setting(cls, problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Setting:
        return certify_setting(problem, delta, bound, reference)

    @property
    def leader(self) -> int:
        """The arm with the best mean among those that look feasible, or may be for all that is known; or `NO_ARM`."""
        return int(best(self.memory.candidates))

    # ---------------------------------------------------------------------------------------------------- deciding

    @property
    def is_retired(self) -> Bools:
        """By arm. Nothing is tested or said of an arm that is retired."""
        if self.setting.sharing != RESERVED:
            return np.zeros(self.arms, np.bool_)
        retired: Bools = self.setting.reserve.is_retired != 0
        return retired

    @property
    def is_left_out(self) -> Bools:
        """By arm: whether it is retired or set aside, so that it cannot be the answer, and nothing is said of that."""
        left_out: Bools = self.is_retired | (np.arange(self.arms) == self.setting.aside)
        return left_out

    def must_be_tested(self, arm: int) -> bool:
        return not self.is_retired[arm]

    def arms_to_go_on_with(self) -> list[int]:
        if self.setting.sharing != RESERVED:
            return super().arms_to_go_on_with()
        # The others may have many results already.
        arms: list[int] = np.flatnonzero(self.is_untested.any(axis=1)).tolist()
        return arms

    @property
    def is_untested(self) -> Bools:
        return super().is_untested & ~self.is_retired[:, np.newaxis]

    def places_of(self, metric: int = 0) -> int | None:
        if not self._is_on_items or self.setting.items.places >= UNLIMITED:
            return None
        slices = self.setting.items.slices
        return self.setting.items.places if slices == ABSENT else int(slices.sizes[metric])

    def propose_ahead(
        self, count: int, pending: Sequence[tuple[int, int]], waiting: Sequence[tuple[int, int, float]] = ()
    ) -> list[list[tuple[int, int]]]:
        """Plans as if each outstanding result came out at its stream's present mean.

        This affects only which tests are proposed: certificates rest on results in the order of issue.
        """
        return self._rounds_ahead(count, pending, waiting)

    def _decision(self, size: int) -> list[tuple[int, int]] | Stop:
        decision = super()._decision(size)
        if not isinstance(decision, Stop) or decision.arm is None or self.memory.chosen == ABSENT:
            return decision
        return Stop(decision.arm, tuple(np.flatnonzero(self.memory.chosen.listed).tolist()))

    # ----------------------------------------------------------------------------------------------------- showing

    def present_answer(self, stop: Stop | None = None) -> PresentAnswer:
        """The likeliest answer and how sure we are of it. Closed certificates count as closed. With none open, the
        confidence is 1 - delta; before that it is less."""
        if stop is not None:
            return PresentAnswer(stop.arm, 1.0 - self.setting.delta)
        if self.untested:
            return super().present_answer()
        return self._goal.present_answer(self.setting, self.streams, self.memory)

    @functools.cached_property
    def intervals(self) -> Intervals:
        """The intervals shown last, so that only those of streams tested since then are computed again."""
        return new_intervals(self.arms, self.metrics)

    @classmethod
    def note_on_intervals(cls, plan: Plan, *, brief: bool = False) -> str:
        note = "An interval ends where the evidence that the mean lies inside of that end reaches "
        if pooled_noise(plan) is not None:
            level = odds(-math.log(plan.delta))
            note = f"{note}{levels_in_words(plan, plan.delta)}. Decisions come sooner, from many results taken together"
            other = f"the evidence that some other {plan.noun.one} is as good or better{up_to_tolerance(plan)}"
            return f"{note}: {other} must reach {level} to exclude one."
        note = f"{note}the level that decides"
        if not brief and not plan.reserve and cls.options_of(plan).sampling == "default":
            return f"{note}: {levels_in_words(plan, plan.delta)}."
        note = f"{note}. Decisions may come sooner, from several {plan.noun.many} or metrics taken together."
        if brief or not plan.reserve:
            return note
        return f"{note} {plan.noun.many.capitalize()} that come later have wider intervals."

    @property
    def _infeasible(self) -> Flags:
        """By arm: 1 once it is certified infeasible, or retired."""
        return self.memory.rejected if self.setting.pooled == ABSENT else np.zeros(self.arms, np.int8)

    def findings(self) -> Findings:
        """What is certified. Nothing is said of an arm that is left out."""
        memory, streams, leader = self.memory, self.streams, self.leader
        reasons = Reasons(np.zeros(self.arms, np.int64), np.zeros(self.arms), np.zeros(self.arms))
        infeasible = self._infeasible
        arguments = (infeasible, memory.beaten, leader, self.intervals, reasons)
        compiled_if_large(survey, self.setting, streams)(self.setting, streams, *arguments)
        if self.setting.pooled != ABSENT and not self.untested:
            reasons.evidence[:] = evidence_against(self.setting, streams, memory)
        holds = memory.certified != 0
        findings = Findings(
            *(self.intervals.low, self.intervals.high, holds, np.zeros_like(holds)),
            *(infeasible != 0, memory.rejected != 0),
            beaten_by=np.where(memory.beaten == leader, leader, NO_ARM),
            worst=reasons.worst,
            evidence=reasons.evidence,
            lead=reasons.lead,
            tested=streams.counts.max(axis=1) > 0,
        )
        exclude_beaten(findings, memory.beaten, leader)
        return self._of_arms_asked_about(judged(self.setting, streams.counts, findings))

    def _of_arms_asked_about(self, found: Findings) -> Findings:
        left_out, is_aside = self.is_left_out, (np.arange(self.arms) == self.setting.aside)[:, np.newaxis]
        return found._replace(
            holds=found.holds & ~is_aside,
            violated=found.violated & ~is_aside,
            infeasible=found.infeasible & ~left_out,
            excluded=found.excluded | left_out,
            tested=found.tested & ~left_out,
            beaten_by=np.where(left_out, NO_ARM, found.beaten_by),
        )

    def settled(self, found: Findings, stop: Stop) -> Findings:
        if stop.arm is None:
            return self._of_arms_asked_about(super().settled(found, stop))
        return self._of_arms_asked_about(self._goal.settled(self.setting, self.streams, self.memory, found, stop))

    def regret(self, leader: int, found: Findings) -> float:
        """From the evidence that each other arm is infeasible or not better by more."""
        memory = self.memory
        limit = compiled_if_large(regret_of, self.setting, self.streams)
        return float(limit(self.setting, self.streams, self._infeasible, memory.beaten, leader))

    @classmethod
    def regret_is_apart(cls, problem: Problem) -> bool:
        """For goal "top", for evidence that is not log-convex, and where arms are compared with their challengers, the
        limit needs a delta of its own: Proposition K.4 in `docs/certificates/known.md`, and what follows it."""
        if pooled_noise(problem) is not None:
            return True
        noise = problem.objective.noise
        if problem.items is not None:
            noise = problem.noise_between(noise)
        return problem.asks == "top" or (noise.kernels.evidence_and_slope is None and not noise.is_exact)

    def differences(self, arm: int) -> tuple[Floats, Floats]:
        """From the evidence about each pair of arms, at levels of its own; between the leader and the arms that it has
        beaten by performance alone, from what decides as well."""
        low, high = np.zeros(self.arms), np.zeros(self.arms)
        memory, leader, streams = self.memory, self.leader, self.streams
        if self._is_on_items and arm != leader:
            # The streams keep only differences from the leader.
            streams = with_own_differences(self.setting, streams)
        fill = compiled_if_large(differences_from, self.setting, streams)
        fill(self.setting, streams, arm, *pair_levels(self.setting, arm), low, high)
        # Nothing more is said of a leader that is not certified feasible.
        if leader != NO_ARM and (memory.beaten == leader).any() and memory.certified[leader, 1:].all():
            find, behind = compiled_if_large(margin_of, self.setting, self.streams), np.zeros(self.arms, np.int8)
            margin = find(self.setting, self.streams, memory.rejected, memory.beaten, leader, behind)
            narrow(low, high, arm, [leader], behind != 0, margin)
        return low, high

    def open_certificates(self, leader: int | None, found: Findings) -> list[OpenCertificate]:
        if self.untested:
            return []
        return self._goal.open_certificates(self.setting, self.streams, self.memory, leader, found)

    def interval_levels(self, arm: int, metric: int) -> tuple[float, float]:
        return float(lower_level(self.setting, arm, metric)), float(self.setting.level[arm])

    def lower(self, arm: int, metric: int) -> float:
        """Lower end of a stream's interval: the evidence that the mean lies above it has reached the arm's level."""
        level = lower_level(self.setting, arm, metric)
        return float(interval_end(stream_of(self.setting, self.streams, arm, metric), ABOVE, level))

    def upper(self, arm: int, metric: int) -> float:
        """Upper end of a stream's interval: the evidence that the mean lies below it has reached the arm's level."""
        level = float(self.setting.level[arm])
        return float(interval_end(stream_of(self.setting, self.streams, arm, metric), BELOW, level))

    def contrasts(self, metric: int) -> Floats:
        rows = [(self.setting, self.streams, arm, metric) for arm in range(self.arms)]
        return np.array([contrast_mean(*row) if is_known(*row) else math.nan for row in rows])
