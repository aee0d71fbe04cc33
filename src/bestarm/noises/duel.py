"""Verdicts of comparisons with a baseline: won, tied or lost. They are values from 0 to 1 that have names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from bestarm.kernel.state import Floats
from bestarm.noises.base import NoiseModel
from bestarm.noises.bounded import Bounded
from bestarm.validation import value

EVEN = 0.5
"""The mean of an arm that wins as often as it loses."""

_VALUES = Bounded(0.0, 1.0)


Verdict = Literal["win", "tie", "loss"]


@value
class Duel(NoiseModel):
    """Each result says how an arm's answer compared with the baseline's: "win", "tie" or "loss", which count as 1, 0.5
    and 0. The mean of several comparisons, such as one in either order of the answers, is a number between.

    >>> Duel().read_value("tie")
    0.5
    """

    name = "duel"
    label = "a comparison with the baseline (win, tie or loss)"
    about = "Each result is a win, tie or loss against the baseline."
    place = 35
    kernels = Bounded.kernels
    kept = Bounded.kept
    learns_scatter = True
    is_quadratic = False
    is_family = False
    words: ClassVar[Mapping[str, float]] = {"win": 1.0, "loss": 0.0, "tie": EVEN}

    @property
    def scale(self) -> float:
        return _VALUES.scale

    @property
    def range(self) -> tuple[float, float]:
        return _VALUES.range

    def pooled(self) -> NoiseModel:
        return _VALUES

    def tuning(self, threshold: float | None) -> tuple[float, ...]:
        return _VALUES.tuning(threshold)

    def information(self, mean: float, c: Floats, spread: float | Mapping[str, float] | None) -> Floats:
        return _VALUES.information(mean, c, spread)

    def read_value(self, value: object) -> object:
        if not isinstance(value, str):
            return value
        number = self.words.get(value.strip().casefold())
        if number is None:
            raise ValueError(self.accepted_values())
        return number

    def accepted_values(self) -> str:
        return "must be win, tie or loss, or a number from 0 to 1"

    def value_hint(self) -> str:
        return "win, tie or loss"

    def sentence(self) -> str:
        return "each result says whether the baseline was beaten: 1 if it was, 0.5 for a tie, 0 if not"
