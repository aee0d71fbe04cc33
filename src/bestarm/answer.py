"""What a study can conclude, with its confidence and its reasons."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

State = Literal["certified", "no_feasible_arm", "budget_spent"]


@dataclasses.dataclass(frozen=True)
class Answer:
    """The conclusion of a study.

    `state` says whether `arm` is certified to be feasible and best, or it is certified that no arm is feasible, or the
    budget ended the study first: then `arm` is the leader (None if no arm looked feasible) and nothing is certified.
    A certified answer is wrong with probability at most `delta`, as long as measurements are independent and scatter as
    stated; `confidence` is how sure the evidence makes us.

    >>> print(Answer("certified", "150 mg", delta=0.05, confidence=0.953, tests=5211, cost=5211.0))
    150 mg: feasible and best, with 95 % confidence, after 5,211 tests
    >>> print(Answer("budget_spent", "150 mg", delta=0.05, confidence=0.62, tests=2000, cost=2000.0))
    not certified: the budget is spent after 2,000 tests; 150 mg leads, with 62 % confidence
    """

    state: State
    arm: str | None
    delta: float
    confidence: float
    tests: int
    cost: float
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Why each arm is or is not the answer, e.g. "infeasible: adverse event 0.61 > 0.5, evidence 1 : 4,300"."""

    def __str__(self) -> str:
        if self.state == "budget_spent":
            leads = "no arm looks feasible" if self.arm is None else f"{self.arm} leads"
            sure = f"{100 * self.confidence:.0f} % confidence"
            return f"not certified: the budget is spent after {self.tests:,} tests; {leads}, with {sure}"
        conclusion = "no arm is feasible" if self.arm is None else f"{self.arm}: feasible and best"
        return f"{conclusion}, with {100 * (1 - self.delta):.6g} % confidence, after {self.tests:,} tests"
