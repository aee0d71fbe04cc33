"""How many digits a number needs where it is shown."""

from __future__ import annotations

import math
from collections.abc import Iterable

MOST_DIGITS = 17


def digits_for(numbers: Iterable[float], least: int) -> int:
    """How many digits tell numbers apart that are shown side by side: two more than they have in common."""
    finite = [number for number in numbers if math.isfinite(number)]
    size, spread = max(map(abs, finite), default=0.0), max(finite, default=0.0) - min(finite, default=0.0)
    if not 0.0 < spread < math.inf:
        return least
    common = math.floor(math.log10(size)) - math.floor(math.log10(spread))
    return min(max(least, common + 2), MOST_DIGITS)


def side_by_side(*numbers: float, least: int = 4) -> list[str]:
    """Numbers as texts that can be told apart.

    >>> side_by_side(0.61234, 0.5)
    ['0.6123', '0.5']
    >>> side_by_side(1000000000.2512, 1000000000.3)
    ['1000000000.251', '1000000000.3']
    """
    digits = digits_for(numbers, least)
    return [f"{number:.{digits}g}" for number in numbers]
