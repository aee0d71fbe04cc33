"""What is certain and what is open at a moment of a study, in the user's terms, from the policy that decides it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

from bestarm.analysis.standing.arms import findings_of, named
from bestarm.analysis.standing.terms import statistic, subject
from bestarm.answer import Difference
from bestarm.policies.base import Policy
from bestarm.policies.comparisons import measured_leads, narrow
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Findings
from bestarm.policies.open_certificates import MOST_SHOWN
from bestarm.problem import Problem

MOST_DIFFERENCES = 1000
"""An answer among more arms than this has no list of differences."""

OpenKind = Literal["holds", "rival", "infeasible"]


@dataclasses.dataclass(frozen=True)
class OpenQuestion:
    """A certificate that the likeliest answer still lacks.

    `holds`: whether `metric` of `arm` stays on the right side of its threshold. `rival`: whether `arm` is worse than
    `against`, the leader, or infeasible. `infeasible`: whether `arm` violates a constraint, as long as no arm looks
    feasible; `metric` is then the likeliest one. `share` is how much evidence there is of what is needed, from 0 to 1,
    and `tests` about how many more tests it takes; infinite if the measured means point the other way.

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


def about(number: float) -> str:
    """A number of tests to two digits.

    >>> about(418.0), about(3.2), about(0.0)
    ('420', '4', '1')
    """
    return f"{int(float(f'{max(math.ceil(number), 1):.2g}')):,}"


def progress_of(problem: Problem, questions: Sequence[OpenQuestion], candidates: int) -> float:
    """How much there is of all the evidence that the likeliest answer needs, from 0 to 1: the mean over its
    certificates, closed ones included.

    The weakest open certificate alone is a poor measure of how far a study is: in studies of drug-bernoulli and
    exp1-c it fell three to eight times as far in all, with the luck of one stream and with every new leader.
    """
    if not questions:
        return 0.0
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


def open_words(questions: Sequence[OpenQuestion], most: int = 3) -> str:
    """What is open, the longest first, not too much of it.

    >>> one = OpenQuestion("holds", "b", "cost", None, 0.4, 20.0)
    >>> two = OpenQuestion("rival", "a", None, "b", 0.1, 300.0)
    >>> open_words([one, two]), open_words([one, two], most=1)
    ('a against b: about 300 tests; cost of b: about 20 tests', 'a against b: about 300 tests; and 1 more')
    """
    longest = sorted(questions, key=lambda question: -question.tests)
    words = [str(question) for question in longest[:most]]
    if len(longest) > most:
        words.append(f"and {len(longest) - most:,} more")
    return "; ".join(words)


def regret_at_most(
    problem: Problem, policy: Policy, found: Findings, leader: int | None, stop: Stop | None
) -> float | None:
    """How far, at most, the leader is below the best feasible arm. None if there is no limit, or the leader is not
    certified feasible: then nothing is claimed of it."""
    if leader is None or not found.feasible[leader]:
        return None
    limit = policy.regret(leader, found)
    if stop is not None and problem.asks == "best":
        limit = min(limit, problem.objective.tolerance)
    return limit if math.isfinite(limit) else None


def differences_of(problem: Problem, policy: Policy, arm: int, stop: Stop | None = None) -> dict[str, Difference]:
    """By how much, at least and at most, `arm` performs better than each other arm. Once the policy has stopped, this
    agrees with its answer."""
    low, high = policy.differences(arm)
    if stop is not None and stop.arm is not None and problem.asks in ("best", "top"):
        behind = findings_of(policy, stop).outperformed & ~problem.is_retired
        narrow(low, high, arm, stop.arms or (stop.arm,), behind, 0.0 - problem.objective.tolerance)
    estimates = [None if math.isnan(lead) else lead for lead in measured_leads(policy.streams, arm).tolist()]
    rows = zip(problem.arm_names, low.tolist(), high.tolist(), estimates, strict=True)
    return {name: Difference(*limits) for other, (name, *limits) in enumerate(rows) if other != arm}


def open_questions_of(
    problem: Problem, policy: Policy, found: Findings, leader: int | None
) -> tuple[OpenQuestion, ...]:
    """What the likeliest answer lacks."""
    names, subjects = problem.arm_names, [None, *(subject(c.title, statistic(c)) for c in problem.constraints)]
    return tuple(
        OpenQuestion(
            open_one.kind,
            names[open_one.arm],
            None if open_one.metric is None else subjects[open_one.metric],
            None if open_one.against is None else names[open_one.against],
            open_one.share,
            open_one.tests,
        )
        for open_one in policy.open_certificates(leader, found)
    )


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


def moment_of(problem: Problem, policy: Policy, stop: Stop | None, tests: int) -> Moment:
    """What the policy of a study knows."""
    found, leader = findings_of(policy, stop), policy.present_answer(stop).leader
    return Moment(
        tests=tests,
        leader=None if leader is None else problem.arm_names[leader],
        candidates=named(problem, found.candidates),
        infeasible=named(problem, found.infeasible),
        open=() if stop is not None else open_questions_of(problem, policy, found, leader),
        is_decided=stop is not None,
    )
