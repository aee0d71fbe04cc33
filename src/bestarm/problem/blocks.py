"""Blocks: what is measured together and shares something unknown, such as a plate, a day, a machine or an operator.

In the record, the place of a test is the number of its block times `MOST_TESTS_OF_BLOCK`, plus its position there.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

from bestarm.validation import Name, described, finite_number, value

MOST_TESTS_OF_BLOCK = 10_000
_PLATES = {6: 3, 12: 4, 24: 6, 48: 8, 96: 12, 384: 24, 1536: 48}
"""The usual plates: by the number of wells, how many columns they have."""


def _read_size(data: object) -> int:
    number = finite_number(data)
    if number != int(number) or not 2 <= number <= MOST_TESTS_OF_BLOCK:
        raise ValueError(f"must be a whole number from 2 to {MOST_TESTS_OF_BLOCK:,}: how many tests a block has")
    return int(number)


Size = Annotated[int, BeforeValidator(_read_size), described(minimum=2, maximum=MOST_TESTS_OF_BLOCK)]


@value
class Blocks:
    """Tests come in blocks of `size`. All tests of a block share something unknown; `name` says what a block is.

    Arms are compared within blocks, so what a block adds to all its tests cancels. The mean of an arm's tests of one
    metric in a block counts as one value, and a block enters when all its tests have a result or are given up.

    If a block adds the same to all arms (`same_for_all`), the n-th tests of two arms in a block are compared, and each
    such comparison counts. That takes fewer tests. State it only if no block suits one arm better than another.

    >>> plates = Blocks("plate", size=24)
    >>> plates.label(2), plates.place(0), plates.place(23)
    ('plate 3', 'A1', 'D6')
    """

    name: Name
    size: Size
    same_for_all: bool = False

    def label(self, number: int) -> str:
        """The name of a block, which is numbered from 0."""
        return f"{self.name} {number + 1}"

    def label_in(self, text: str) -> str:
        """The block that is meant by the name of a place in it, or by a name of its own.

        >>> Blocks("plate", size=24).label_in("plate 3 A1"), Blocks("plate", size=24).label_in("Monday")
        ('plate 3', 'Monday')
        """
        place = "[A-Za-z]{1,2}[0-9]{1,2}" if self.size in _PLATES else "[0-9]+"
        found = re.fullmatch(rf"({re.escape(self.name)} [0-9]+) {place}", text.strip())
        return text.strip() if found is None else found[1]

    def place(self, position: int) -> str:
        """Where a test is made in its block: a well such as "A1", row by row, if the size is that of a plate with rows
        and columns; else its number, from 1."""
        columns = _PLATES.get(self.size)
        if columns is None:
            return str(position + 1)
        row, column = divmod(position, columns)
        return f"{_row_name(row)}{column + 1}"


class BlockOrder:
    """The places of a study with blocks, as `bestarm.problem.items.ItemOrder` has those of items."""

    places = None

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    def name(self, place: int) -> str:
        """The block, and where in it a test is made."""
        number, position = divmod(place, MOST_TESTS_OF_BLOCK)
        return f"{self._blocks.label(number)} {self._blocks.place(position)}"

    def number(self, name: str) -> int:
        """Results may be of any block: it need not have been planned."""
        return 0


def _row_name(row: int) -> str:
    """A, B, …, Z, AA, AB, …"""
    first, last = divmod(row, 26)
    return f"{chr(64 + first) if first else ''}{chr(65 + last)}"


def replicates(size: int, blocks: Blocks, wells: int | None = None) -> list[int]:
    """How often each of `size` different tests, the most important first, is made in a block, or in `wells` of it.

    All are made equally often, and what is left of the wells stays empty: the difference of two means of equally many
    values that scatter alike is symmetric, however skewed they are. Where single tests are compared, it always is, and
    the first are made once more.

    >>> replicates(5, Blocks("day", size=12)), replicates(30, Blocks("day", size=4))
    ([2, 2, 2, 2, 2], [1, 1, 1, 1])
    >>> replicates(5, Blocks("day", size=12, same_for_all=True))
    [3, 3, 2, 2, 2]
    """
    wells = blocks.size if wells is None else wells
    made = min(size, wells)
    return [wells // made + (blocks.same_for_all and k < wells % made) for k in range(made)]
