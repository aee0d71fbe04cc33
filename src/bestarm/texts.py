"""Texts and values of others as people may safely be shown them, on a terminal and in an error's one line."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import itertools
import math
import re
import reprlib
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any

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


def last_lines(text: str, most: int = 3) -> str:
    """The last lines of what a program said, as a part of a sentence.

    >>> last_lines("sleep: invalid time interval\\n\\nTry --help.\\n")
    'sleep: invalid time interval / Try --help'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-most:]).removesuffix(".")


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


@dataclasses.dataclass(frozen=True)
class Noun:
    """What a study calls its arms: one of them, and several.

    >>> Noun.of("dose"), Noun.of("batch").many, Noun.of("recipe family").many, Noun.of("mouse/mice").many
    (Noun(one='dose', many='doses'), 'batches', 'recipe families', 'mice')
    >>> Noun.of("dose").a, Noun.of("option").a, Noun.of("dose").counted(1), Noun.of("dose").counted(1200)
    ('a dose', 'an option', '1 dose', '1,200 doses')
    >>> Noun.of("Plättchen").counted(20)
    '20 Plättchen'
    """

    one: str = "arm"
    many: str = "arms"

    @classmethod
    @functools.cache
    def of(cls, word: str) -> Noun:
        """By a word such as "dose". Its plural follows English rules, unless it is stated ("mouse/mice") or the word
        has letters that English has not ("Plättchen")."""
        one, _, many = word.partition("/")
        if not many and not one.isascii():
            many = one
        elif not many and re.search("(s|x|z|ch|sh)$", one):
            many = f"{one}es"
        elif not many:
            many = f"{one[:-1]}ies" if re.search("[^aeiou]y$", one) else f"{one}s"
        return cls(one, many)

    @property
    def a(self) -> str:
        """With the indefinite article."""
        return f"{'an' if self.one[0] in 'aeiouAEIOU' else 'a'} {self.one}"

    def counted(self, number: int) -> str:
        """A number of them."""
        return f"{number:,} {self.one if number == 1 else self.many}"


ARM = "arm"
"""What studies call an arm unless they say otherwise."""


def first_ten(names: Sequence[str]) -> str:
    """Names, quoted, not too many of them.

    >>> first_ten("abc")
    "'a', 'b', 'c'"
    """
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def stated(value: Any) -> str:
    """What is stated of a data class, with at most ten entries of a list, for `repr`."""
    fields = [(field, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init]
    # An empty list states nothing, and pydantic keeps a default inside of what describes the field.
    shown_fields = [
        f"{field.name}={_ten(one)}"
        for field, one in fields
        if one not in (None, (), {}) and one != getattr(field.default, "default", field.default)
    ]
    return f"{type(value).__name__}({', '.join(shown_fields)})"


def _ten(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = [f"{name!r}: {_ten(one)}" for name, one in itertools.islice(value.items(), 10)]
        return f"{{{', '.join(pairs)}{_and_more(value)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_ten, value[:10]))}{_and_more(value)}]"
    return stated(value) if dataclasses.is_dataclass(value) else repr(value)


def _and_more(values: Collection[Any]) -> str:
    return f", … {len(values) - 10:,} more" if len(values) > 10 else ""


def side_by_side(*values: float, least: int = 4) -> list[str]:
    """Numbers as texts that can be told apart: with two digits more than they have in common.

    >>> side_by_side(0.61234, 0.5)
    ['0.6123', '0.5']
    >>> side_by_side(1000000000.2512, 1000000000.3)
    ['1000000000.251', '1000000000.3']
    >>> side_by_side(6.057e-05, 99.97), side_by_side(-2e-9, 0.00004512), side_by_side(2345678.0)
    (['0', '99.97'], ['0', '0.00004512'], ['2346000'])
    """
    finite = [value for value in values if math.isfinite(value)]
    size, spread = max(map(abs, finite), default=0.0), max(finite, default=0.0) - min(finite, default=0.0)
    digits = least
    if 0.0 < spread < math.inf:
        common = math.floor(math.log10(size)) - math.floor(math.log10(spread))
        digits = min(max(least, common + 2), 17)
    # What is far below the digits shown of the others is nothing beside them.
    least_shown = spread * 10.0**-digits if 0.0 < spread < math.inf else 0.0
    return [_plain(value if abs(value) >= least_shown else 0.0, digits) for value in values]


def _plain(value: float, digits: int) -> str:
    """A number with so many digits, without an exponent unless it is very small or large, and never minus zero."""
    text = f"{value:.{digits}g}"
    if "e" not in text or not 1e-9 <= abs(value) < 1e9:
        return "0" if text == "-0" else text
    return f"{decimal.Decimal(text):f}"


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
