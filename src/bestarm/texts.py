"""Texts and values of others as people may safely be shown them, on a terminal and in an error's one line."""

from __future__ import annotations

import math
import re
import reprlib
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

LONGEST_QUOTE = 80
VOID_STYLE = "yellow"
"""The style of a terminal line that says that a guarantee is void: amber."""

# They would turn the rest of the line around.
_TURNING = {*"\u061c\u200e\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}
_UNSAFE = ("Cc", "Cs", "Zl", "Zp")


def shown(text: str) -> str:
    """The text, with what a terminal would obey written out.

    >>> print(shown("safe \\x1b[31mred\\nnext"))
    safe \\x1b[31mred\\nnext
    """
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if c in _TURNING or unicodedata.category(c) in _UNSAFE else c for c in text
    )


# A spreadsheet takes what begins so for a formula, in the letters of East Asian keyboards too.
_FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠]")


def cell(text: str) -> str:
    """A text as it is put into a CSV file: an apostrophe keeps a spreadsheet from taking it for a formula.

    >>> cell("=1+1"), cell("'=1+1"), cell("'twas"), cell("150 mg")
    ("'=1+1", "''=1+1", "'twas", '150 mg')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def from_cell(text: str) -> str:
    """What `cell` was given.

    >>> from_cell("'=1+1"), from_cell("'twas")
    ('=1+1', "'twas")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


class _Quote(reprlib.Repr):
    """What Python calls a value, cut where it is long. For a whole number too long for Python to write, its size."""

    def repr_int(self, x: int, level: int) -> str:
        return f"a whole number of {x.bit_length():,} bits" if x.bit_length() > 4096 else super().repr_int(x, level)


_quote = _Quote()
_quote.maxstring = _quote.maxother = LONGEST_QUOTE
quoted = _quote.repr


def listed(words: Iterable[str], joint: str = "and") -> str:
    """Words or names with `joint` before the last. The common part of numbered names is shown once.

    >>> listed(["a", "b", "c"]), listed(["arm 1", "arm 12"], "or"), listed(["a"])
    ('a, b and c', 'arm 1 or 12', 'a')
    >>> print(listed(["small, long", "large, long"]))
    "small, long" and "large, long"
    """
    names = list(words)
    heads = {name.rpartition(" ")[0] for name in names}
    tails = [name.rpartition(" ")[2] for name in names]
    if any("," in name and name[0] not in "'\"" for name in names):
        # A comma would seem to end the name.
        names = [f'"{name}"' for name in names]
    elif len(heads) == 1 and heads != {""} and all(tail.isdecimal() for tail in tails):
        names = [names[0], *tails[1:]]
    return f" {joint} ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "none"


def first_ten(names: Sequence[str]) -> str:
    """Names, quoted, not too many of them.

    >>> first_ten("abc")
    "'a', 'b', 'c'"
    """
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def side_by_side(*values: float, least: int = 4) -> list[str]:
    """Numbers as texts that can be told apart: with two digits more than they have in common.

    >>> side_by_side(0.61234, 0.5)
    ['0.6123', '0.5']
    >>> side_by_side(1000000000.2512, 1000000000.3)
    ['1000000000.251', '1000000000.3']
    """
    finite = [value for value in values if math.isfinite(value)]
    size, spread = max(map(abs, finite), default=0.0), max(finite, default=0.0) - min(finite, default=0.0)
    digits = least
    if 0.0 < spread < math.inf:
        common = math.floor(math.log10(size)) - math.floor(math.log10(spread))
        digits = min(max(least, common + 2), 17)
    return [f"{value:.{digits}g}" for value in values]


def in_columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts as lines whose columns are aligned.

    >>> print(in_columns([("日本", "1,200"), ("cost", "7")]))
    日本  1,200
    cost  7
    """
    from rich.cells import cell_len

    safe = [[shown(text) for text in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*safe, strict=True)]
    lines = [[text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)] for row in safe]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def html_table(rows: Iterable[Sequence[str]], heads: Sequence[str] = ()) -> str:
    """The same as a table for a notebook; no text in it is taken for markup.

    >>> html_table([("arm", "<b>")])
    '<table><tbody><tr><td>arm</td><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
