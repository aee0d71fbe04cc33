"""What a study can conclude."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Answer:
    """The conclusion of a study: the best feasible arm, or None if no arm is feasible.

    It is wrong with probability at most `delta`, as long as measurements are independent and scatter as stated.

    >>> print(Answer("150 mg", delta=0.05, tests=64211, cost=64211.0))
    150 mg: feasible and best, with 95 % confidence, after 64,211 tests
    """

    arm: str | None
    delta: float
    tests: int
    cost: float

    def __str__(self) -> str:
        conclusion = "no arm is feasible" if self.arm is None else f"{self.arm}: feasible and best"
        return f"{conclusion}, with {100 * (1 - self.delta):.6g} % confidence, after {self.tests:,} tests"
