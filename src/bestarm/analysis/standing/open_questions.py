"""What an answer still lacks, in the user's terms: one question for each certificate that is open."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

from bestarm.policies.open_certificates import MOST_SHOWN as MOST_LISTED

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
    whole = max(math.ceil(number), 1)
    return f"{int(float(f'{whole:.2g}')):,}"


def progress_of(
    questions: Sequence[OpenQuestion], *, arms: int, constraints: int, candidates: int, is_done: bool
) -> float:
    """How much there is of all the evidence that the likeliest answer needs, from 0 to 1: the mean over its
    certificates, closed ones included.

    The weakest open certificate alone is a poor measure of how far a study is: in studies of drug-bernoulli and
    exp1-c it fell three to eight times as far in all, with the luck of one stream and with every new leader.

    >>> one = OpenQuestion("holds", "b", "cost", None, 0.4, 20.0)
    >>> progress_of([one], arms=4, constraints=1, candidates=2, is_done=False)  # three rivals are beaten
    0.85
    """
    if is_done:
        return 1.0
    if not questions:
        return 0.0
    has_leader = any(question.kind != "infeasible" for question in questions)
    needed = max(constraints + arms - 1 if has_leader else arms, len(questions))
    # If many certificates are open, only those that may take longest are listed. The others are taken to be like them.
    is_cut = len(questions) >= MOST_LISTED
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
