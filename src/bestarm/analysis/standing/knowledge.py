"""What is certain and what is open at a moment of a study, in the user's terms, from the policy that decides it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from bestarm.analysis.standing.arms import ArmStanding, findings_of, named, standings
from bestarm.analysis.standing.how_long import capped, in_whole_blocks, most_to_come, tests_to_come
from bestarm.analysis.standing.quantiles import RawValues
from bestarm.analysis.standing.terms import statistic, subject
from bestarm.answer import Difference
from bestarm.kernel.state import Floats
from bestarm.kernel.tournament import NO_ARM
from bestarm.policies.base import Policy
from bestarm.policies.comparisons import measured_leads, narrow
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Findings
from bestarm.policies.open_certificates import MOST_SHOWN
from bestarm.problem import Plan, Problem

MOST_DIFFERENCES = 1000
"""An answer among more arms than this has no list of differences."""

OpenKind = Literal["holds", "rival", "infeasible"]


@dataclasses.dataclass(frozen=True)
class OpenQuestion:
    """A certificate that the likeliest answer still lacks.

    `holds`: whether `metric` of `arm` stays on the right side of its threshold. `rival`: whether `arm` is worse than
    `against`, the leader, or infeasible. `infeasible`: whether `arm` violates a constraint, as long as no arm looks
    feasible; `metric` is then the likeliest one. `share` is how much evidence there is of what is needed, from 0 to 1,
    and `tests` about how many more tests it takes, at most as many as items leave; infinite if the measured means
    point the other way. A budget may end first.

    >>> print(OpenQuestion("holds", "150 mg", "infection", None, 0.4, 418.0))
    infection of 150 mg: about 420 tests
    >>> print(OpenQuestion("rival", "25 mg", None, "150 mg", 0.4, math.inf))
    25 mg against 150 mg: no end in sight
    """

    kind: OpenKind
    arm: str
    metric: str | None
    against: str | None
    share: float
    tests: float

    @property
    def subject(self) -> str:
        """What is open, in a few words."""
        if self.kind == "rival":
            return f"{self.arm} against {self.against}"
        return self.arm if self.metric is None else f"{self.metric} of {self.arm}"

    def __str__(self) -> str:
        if not math.isfinite(self.tests):
            return f"{self.subject}: no end in sight"
        number = about(self.tests)
        return f"{self.subject}: about {number} test{'' if number == '1' else 's'}"


_AFTER = 200
_FAR = 5.0
"""That a study may never end is said after so many tests of each arm that is left, if it takes more than so many times
the tests made to settle a question, were the measured means true. If two are equal, the measured difference is of the
size of its own error and gets smaller as that does, so that this many times is exceeded most of the time. Where they
differ, it is exceeded only long before the end."""


def endless_words(plan: Plan, questions: Sequence[OpenQuestion], tests: int, left: int) -> str:
    """That the study may never end, and what would end it. Empty if a budget ends it, or if items run out, or as long
    as it is not likely."""
    if plan.budget is not None or (plan.items is not None and not plan.repeats) or tests < _AFTER * left:
        return ""
    tied = [
        question
        for question in questions
        if question.tests > _FAR * tests
        and not (plan.objective.tolerance if question.kind == "rival" else plan.slacks.get(str(question.metric), 0.0))
    ]
    if not tied:
        return ""
    worst = max(tied, key=lambda question: question.tests)
    if worst.kind == "rival":
        tie, ends = f"{worst.arm} and {worst.against} are equal", "a tolerance"
    else:
        tie, ends = f"{worst.subject} is exactly at its limit", "a slack"
    return f"it may never end: if {tie}, no number of tests settles it; {ends} or a budget would"


def about(number: float) -> str:
    """A number of tests to two digits.

    >>> about(418.0), about(3.2), about(0.0)
    ('420', '4', '1')
    """
    return f"{int(float(f'{max(math.ceil(number), 1):.2g}')):,}"


def progress_of(problem: Problem, questions: Sequence[OpenQuestion], candidates: int) -> float:
    """How much there is of all the evidence that the likeliest answer needs, from 0 to 1: the mean over its
    certificates, closed ones included. `candidates` is how many arms can still be the answer or, if every feasible arm
    is asked for, are undecided.

    The weakest open certificate alone is a poor measure of how far a study is: in studies of drug-bernoulli and
    exp1-c it fell three to eight times as far in all, with the luck of one stream and with every new leader.
    """
    if not questions:
        return 0.0
    if problem.asks == "every feasible":
        return _progress_by_arm(problem, questions, candidates)
    # The answer must be told from all other arms, and all constraints of it must be certified.
    arms, constraints = len(problem.arms) - problem.top + 1, len(problem.constraints)
    if problem.asks == "any feasible":
        arms = 1
    elif problem.asks == "top":
        constraints *= problem.top
    has_leader = any(question.kind != "infeasible" for question in questions)
    needed = max(constraints + arms - 1 if has_leader else arms, len(questions))
    # If many certificates are open, only those that may take longest are listed. The others are taken to be like them.
    is_cut = len(questions) >= MOST_SHOWN
    still = max(len(questions), candidates - has_leader) if is_cut else len(questions)
    share = sum(question.share for question in questions) / len(questions)
    return (needed - still + still * share) / needed


def _progress_by_arm(problem: Problem, questions: Sequence[OpenQuestion], undecided: int) -> float:
    """The mean over all arms of how much there is of the evidence that decides the arm. All constraints of an arm that
    looks feasible must be certified. Arms whose certificates are not listed are taken to be like those that are."""
    lacking = sum((1.0 - one.share) / (len(problem.constraints) if one.kind == "holds" else 1) for one in questions)
    listed = len({one.arm for one in questions})
    return max(1.0 - lacking / listed * undecided / problem.arms_asked_about, 0.0)


def open_words(questions: Sequence[OpenQuestion], most: int = 3, in_all: float = math.inf) -> str:
    """What is open, the longest first, not too much of it. No question takes more tests than `in_all`.

    >>> one = OpenQuestion("holds", "b", "cost", None, 0.4, 20.0)
    >>> two = OpenQuestion("rival", "a", None, "b", 0.1, 300.0)
    >>> open_words([one, two]), open_words([one, two], most=1)
    ('a against b: about 300 tests; cost of b: about 20 tests', 'a against b: about 300 tests; and 1 more')
    """
    longest = _longest_first(questions)
    words = [str(dataclasses.replace(one, tests=min(one.tests, in_all))) for one in longest[:most]]
    if len(longest) > most:
        words.append(f"and {len(longest) - most:,} more")
    return "; ".join(words)


def regret_at_most(
    problem: Problem, policy: Policy, found: Findings, leader: int | None, stop: Stop | None
) -> float | None:
    """How far, at most, the leader is below the best feasible arm. None if there is no limit, if the leader is not
    certified feasible, or if every feasible arm is asked for: then nothing is claimed of it."""
    if leader is None or not found.feasible[leader] or problem.asks == "every feasible":
        return None
    limit = policy.regret(leader, found)
    if stop is not None and problem.asks == "best":
        limit = min(limit, problem.objective.tolerance)
    return limit if math.isfinite(limit) else None


def differences_of(problem: Problem, policy: Policy, arm: int, stop: Stop | None = None) -> dict[str, Difference]:
    """By how much, at least and at most, `arm` performs better than each other arm."""
    low, high = _limits_of_differences(problem, policy, arm, findings_of(policy, stop), stop)
    estimates = [None if math.isnan(lead) else lead for lead in measured_leads(policy.streams, arm).tolist()]
    rows = zip(problem.arm_names, low.tolist(), high.tolist(), estimates, strict=True)
    return {name: Difference(*limits) for other, (name, *limits) in enumerate(rows) if other != arm}


def _limits_of_differences(
    problem: Problem, policy: Policy, arm: int, found: Findings, stop: Stop | None
) -> tuple[Floats, Floats]:
    """The differences between arms that are shown. Once the policy has stopped, they agree with its answer. While
    it runs, they agree with how far the leader can be below the best."""
    low, high = policy.differences(arm)
    if stop is not None and stop.arm is not None and problem.asks in ("best", "top"):
        behind = found.outperformed & ~problem.is_retired
        narrow(low, high, arm, stop.arms or (stop.arm,), behind, 0.0 - problem.objective.tolerance)
    leader = policy.present_answer(stop).leader
    limit = regret_at_most(problem, policy, found, leader, stop)
    if leader is not None and limit is not None:
        is_asked = ~problem.is_retired & (np.arange(len(problem.arms)) != problem.set_aside)
        others = is_asked & (found.feasible | (not problem.constraints)) & (np.arange(len(problem.arms)) != leader)
        narrow(low, high, arm, (leader,), others, -limit)
    return low, high


def _with_leads(problem: Problem, policy: Policy, found: Findings, stop: Stop | None) -> Findings:
    """What was found, with the least by which each arm that is out performs worse than the one that is shown as
    better: the limit that is shown of their difference."""
    leader = policy.present_answer(stop).leader
    if len(problem.arms) > MOST_DIFFERENCES or leader is None:
        return found
    beaten_by, lead = found.beaten_by.copy(), found.lead.copy()
    if stop is not None and not problem.constraints:
        # An arm that is worse than some other may be worse than the answer, too.
        low, _ = _limits_of_differences(problem, policy, leader, found, stop)
        is_worse = found.excluded & ~found.infeasible & (low > 0.0)
        beaten_by[is_worse], lead[is_worse] = leader, 0.0
    has_lead = (beaten_by != NO_ARM) & ~np.isnan(lead)
    for better in np.unique(beaten_by[has_lead]).tolist():
        low, _ = _limits_of_differences(problem, policy, better, found, stop)
        lead = np.where(has_lead & (beaten_by == better), low, lead)
    return found._replace(beaten_by=beaten_by, lead=lead)


def standings_shown(
    problem: Problem, policy: Policy, found: Findings, stop: Stop | None, raw: RawValues | None
) -> tuple[ArmStanding, ...]:
    """Where the arms stand. The reasons say of differences what is shown of them elsewhere."""
    return tuple(standings(problem, policy, _with_leads(problem, policy, found, stop), raw))


def open_questions_of(
    plan: Plan, policy: Policy, found: Findings, leader: int | None
) -> tuple[tuple[OpenQuestion, ...], float]:
    """What the likeliest answer lacks, what takes longest first; and about how many tests all of that takes."""
    names, subjects = plan.arm_names, [None, *(subject(c.title, statistic(c)) for c in plan.constraints)]
    # Where tests have several trials, each is a result. Blocks are counted as wholes.
    has_trials = policy.tests_made is not None and plan.blocks is None
    each = float(policy.tests.sum() / max(policy.streams.counts.sum(), 1)) or 1.0 if has_trials else 1.0
    certificates, in_all = policy.open_certificates(leader, found), math.inf
    if plan.blocks is not None and certificates:
        certificates, in_all = in_whole_blocks(plan, policy, found, certificates)
    elif certificates:
        most = most_to_come(plan, policy, found) / each
        certificates = capped(policy, certificates, most)
        in_all = each * tests_to_come(plan, policy, found, certificates, most)
    questions = [
        OpenQuestion(
            open_one.kind,
            names[open_one.arm],
            None if open_one.metric is None else subjects[open_one.metric],
            None if open_one.against is None else names[open_one.against],
            open_one.share,
            each * open_one.tests,
        )
        for open_one in certificates
    ]
    return tuple(_longest_first(questions)), in_all


def _longest_first(questions: Sequence[OpenQuestion]) -> list[OpenQuestion]:
    return sorted(questions, key=lambda question: -question.tests)


@dataclasses.dataclass(frozen=True)
class Moment:
    """What a study knew after a number of tests: who led, which arms could still be the answer, which were certified
    infeasible, and which certificates were open."""

    tests: int
    leader: str | None
    candidates: tuple[str, ...]
    infeasible: tuple[str, ...]
    open: tuple[OpenQuestion, ...]
    is_decided: bool = False


def moment_of(problem: Plan, policy: Policy, stop: Stop | None, tests: int) -> Moment:
    """What the policy of a study knows."""
    found, leader = findings_of(policy, stop), policy.present_answer(stop).leader
    return Moment(
        tests=tests,
        leader=None if leader is None else problem.arm_names[leader],
        candidates=named(problem, found.candidates),
        infeasible=named(problem, found.infeasible),
        open=() if stop is not None else open_questions_of(problem, policy, found, leader)[0],
        is_decided=stop is not None,
    )
