"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: Set[int]) -> list[str]:
    """The lines of a table, in which columns with these places are flush left and all others flush right.

    >>> print(*markdown_table(["What", "Size"], [["a|b", "5 B"]], {0}), sep="\\n")
    | What | Size |
    |:---|---:|
    | a\\|b | 5 B |
    """
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    sides = "|".join(":---" if place in left else "---:" for place in range(len(heads)))
    return [f"| {' | '.join(heads)} |", f"|{sides}|", *(f"| {' | '.join(row)} |" for row in escaped)]
