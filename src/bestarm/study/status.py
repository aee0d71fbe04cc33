"""Where a study stands, at a glance."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

from bestarm.answer import good_words, leads_words, left_words, percent
from bestarm.study.standing import ArmStanding

StudyState = Literal["running", "certified", "no_feasible_arm", "budget_spent"]


@dataclasses.dataclass(frozen=True)
class Status:
    """Where a study stands.

    `answer` is what was certified, None as long as nothing is; `leader` is the present best arm. `tests` and `cost` are
    those of all results recorded, of which `waiting` wait for the result of a test issued earlier before they count.
    `candidates` are the arms that can still be the answer, `feasible` those certified so, as in `Answer`.
    """

    study: str
    state: StudyState
    answer: str | None
    leader: str | None
    confidence: float
    tests: int
    cost: float
    pending: int
    waiting: int
    arms: tuple[ArmStanding, ...]
    tolerance: float = 0.0
    slack: Mapping[str, float] = dataclasses.field(default_factory=dict)
    candidates: tuple[str, ...] = ()
    feasible: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The state in a few words."""
        sure = percent(self.confidence)
        match self.state:
            case "certified":
                return f"{self.answer} is {good_words(self.tolerance, self.slack)}"
            case "no_feasible_arm":
                return "no arm is feasible"
            case "budget_spent":
                leads = leads_words(self.leader, self.confidence, self.feasible, self.slack)
                left = left_words(len(self.arms), self.candidates)
                return f"the budget is spent and no answer is certified; {leads}; {left}"
        if not self.tests:
            return "running: no results yet"
        if self.leader is None:
            return f"running: no arm looks feasible so far, confidence {sure}"
        return f"running: {self.leader} leads, confidence {sure} so far"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `bestarm status --json` prints it: what is not known or infinite is None."""
        plain: dict[str, Any] = _plain(dataclasses.asdict(self))
        return plain


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _plain(item) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(item) for item in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
