"""Names, numbers and times on a terminal. A name is shown as it is, whatever it holds, and cannot garble the screen."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bestarm.texts import VOID_STYLE, shown, side_by_side

WIDE = 100_000
"""Columns of a file or a pipe, where nothing wraps or is shortened."""
VERDICT_STYLES = {"feasible": "bold blue", "infeasible": "red", "worse": "dim", "open": "yellow"}
VERDICT_STYLES |= dict.fromkeys(("retired", "baseline"), "dim")


def print_json(data: Any) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))


def print_rows(rows: Iterable[Any], *, json_lines: bool) -> None:
    """Rows as a list in JSON, or as JSON lines."""
    if not json_lines:
        print_json([*rows])
        return
    for row in rows:
        print(json.dumps(row, ensure_ascii=False))


def complain(error: object, kind: str = "error") -> None:
    """Print an error. Names that others chose cannot control the terminal. Lists of lines stay lists of lines."""
    lines = [shown(line) for line in str(error).split("\n  ")]
    print(f"{kind}:", "\n  ".join(lines), file=sys.stderr)


STYLES: dict[str, dict[str, Any]] = {
    "auto": {},
    "basic": {"no_color": True, "force_terminal": False},
    "full": {"force_terminal": True},
    "nocolor": {"no_color": True},
    "color": {"force_terminal": False, "color_system": "standard"},
    "none": {"quiet": True, "force_terminal": False},
}
"""What a console does with colors and with lines that are redrawn."""


def plain_console(*, stderr: bool = False, style: str = "auto") -> Console:
    """A console that reads no text as markup."""
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if is_terminal or "COLUMNS" in os.environ else WIDE
    return Console(markup=False, emoji=False, highlight=False, width=width, stderr=stderr, **STYLES[style])


def say_at_once() -> None:
    """Show a sign of life before everything is loaded. What follows takes its place."""
    if sys.stderr.isatty():
        print("starting…", end="\r", file=sys.stderr, flush=True)


def say(text: str, style: str | None = None) -> None:
    """Print one line, however long it is."""
    plain_console().print(shown(text), soft_wrap=True, style=style)


def literal(text: str) -> str:
    """The text for a console that reads markup, with all markup and control characters escaped."""
    return escape(shown(text))


def new_table(*headings: str, right: tuple[str, ...] = ()) -> Table:
    """A table in which long names wrap and nothing is cut off. Columns named in `right` hold numbers."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return table


def print_gate(gate: Any, words: Any, *headings: str, stderr: bool) -> None:
    """What a gate found, in the words of its module: a table with a row for each limit, the verdict, and notes."""
    console, table = plain_console(stderr=stderr), new_table(*headings, right=headings[2:])
    for row in words.rows(gate):
        table.add_row(*map(shown, row))
    console.print(table)
    console.print()
    console.print(shown(words.verdict(gate)), soft_wrap=True, style=VOID_STYLE if gate.found == "void" else None)
    for line in words.notes(gate):
        console.print(f"  {shown(line)}", soft_wrap=True)


def rows_table(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """What something found, a row for each figure, for a console that reads markup."""
    table = Table(title=literal(title), show_header=False, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    for name, text in rows:
        table.add_row(literal(name), literal(text))
    return table


def figures(*numbers: float) -> list[str]:
    """Numbers with four digits, or as many as tell them apart. A dash stands for unknown or infinite."""
    texts = side_by_side(*numbers)
    return [text if math.isfinite(number) else "–" for number, text in zip(numbers, texts, strict=True)]


def percent(share: float) -> str:
    """A share. It reads 100% only if it is exactly that."""
    return f"{100 * share:.3g}%" if share >= 1.0 or share < 0.9995 else "over 99.9%"


def moment(seconds: float) -> str:
    """A time, to the second, in the time zone of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def age(seconds: float) -> str:
    """How long ago, in the largest unit that fits."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {unit}{'s'[: number - 1]}"
    return "now"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def state_words(state: str, guarantee: str | None = None) -> str:
    """A study's state as people say it, and whether its guarantee is void.

    >>> state_words("no_feasible_arm"), state_words("void", "void"), state_words("running", "void")
    ('no feasible arm', 'guarantee void', 'running, guarantee void')
    """
    words = [] if state == "void" else [state.replace("_", " ")]
    return ", ".join([*words, "guarantee void"] if guarantee == "void" else words)
