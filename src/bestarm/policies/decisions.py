"""What a policy may decide: tests to make, or the end of the study."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Stop(NamedTuple):
    """The end of a study: the best feasible arm, or None if no arm is feasible.

    Where several arms are the answer, `arms` has them all, and `arm` is the one of them that leads.
    """

    arm: int | None
    arms: tuple[int, ...] = ()


class EmptyProposal(RuntimeError):
    """A policy proposed no test and gave no answer. This is a mistake in the policy: the study would never end."""

    def __init__(self, policy: str) -> None:
        super().__init__(
            f"policy {policy!r} proposed an empty batch: it must propose one test at least, or stop with an answer"
        )
        self.policy = policy

    def __reduce__(self) -> tuple[Any, ...]:
        """How to send it from one process to another."""
        return type(self), (self.policy,)


# Random words wrap around, and NaN has no effect. Compiled code is silent about both, so interpreted code is, too.
def wrapping() -> np.errstate:
    return np.errstate(over="ignore", invalid="ignore")
