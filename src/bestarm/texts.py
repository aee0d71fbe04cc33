"""Texts and values of others as people may safely be shown them, on a terminal and in an error's one line."""

from __future__ import annotations

import re
import reprlib
import unicodedata

LONGEST_QUOTE = 80

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
    """What Python calls a value, cut where it is long. Of a whole number too long for Python to write, its size."""

    def repr_int(self, x: int, level: int) -> str:
        return f"a whole number of {x.bit_length():,} bits" if x.bit_length() > 4096 else super().repr_int(x, level)


_quote = _Quote()
_quote.maxstring = _quote.maxother = LONGEST_QUOTE
quoted = _quote.repr
