"""Which values a metric has shown, and whether another one lies far outside them.

This only asks the person who typed the value. A confirmed value counts like any other, so asking changes nothing about
the guarantee.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

KEPT = 64
"""This many values, the last, are kept of each arm."""

ENOUGH = 8
"""With fewer values of the arm, those of all arms are looked at; with fewer of these, nothing is asked. Fewer often lie
close together by chance: 3 widths outside five others is 1 normal value in 700, outside eight 1 in 30,000."""

ASKED = 3.0
"""How far outside a value must lie to be asked about, as a multiple of the width of what lies between the lowest and
the highest twelfth of the others."""


class Usual(NamedTuple):
    """Where the others lie: all of them, or all but a twelfth on either side."""

    low: float
    high: float
    is_all: bool

    def words(self) -> str:
        which = "" if self.is_all else "most of "
        return f"{which}the others lie between {self.low:.6g} and {self.high:.6g}"


def far_from(value: float, others: Sequence[float], margin: float = ASKED) -> Usual | None:
    """Where the others lie, if the value lies far outside.

    >>> others = [66.0, 58.0, 74.0, 63.0, 68.0, 70.0, 61.0, 65.0]
    >>> print(far_from(661.0, others).words())
    the others lie between 58 and 74
    >>> far_from(90.0, others)
    """
    ordered = sorted(others)
    left_out = len(ordered) // 12
    low, high = ordered[left_out], ordered[-1 - left_out]
    # Values that are all the same say how large another one may be, unless they are 0.
    width = (high - low) or (ordered[-1] - ordered[0]) or abs(high)
    if width == 0.0 or low - margin * width <= value <= high + margin * width:
        return None
    is_all = not (ordered[0] < low - margin * width or ordered[-1] > high + margin * width)
    return Usual(ordered[0], ordered[-1], True) if is_all else Usual(low, high, False)


class Typical:
    """The last values of one metric, by arm."""

    __slots__ = ("_of_all", "_of_arms")

    def __init__(self) -> None:
        self._of_arms: dict[int, deque[float]] = {}
        self._of_all: deque[float] = deque(maxlen=KEPT)

    def add(self, arm: int, value: float) -> None:
        own = self._of_arms.get(arm)
        if own is None:
            own = self._of_arms[arm] = deque(maxlen=KEPT)
        own.append(value)
        self._of_all.append(value)

    def of(self, arm: int) -> Sequence[float]:
        """The last values of an arm."""
        return self._of_arms.get(arm, ())

    def far(self, arm: int, value: float, beside: Sequence[tuple[int, float]] = ()) -> Usual | None:
        """Where the others lie, if the value lies far outside. `beside` are values (arm, value) told together with it,
        which count among the others."""
        own = [*self.of(arm), *(other for whose, other in beside if whose == arm)]
        if len(own) >= ENOUGH:
            return far_from(value, own)
        every = [*self._of_all, *(other for _, other in beside)]
        return far_from(value, every) if len(every) >= ENOUGH else None
