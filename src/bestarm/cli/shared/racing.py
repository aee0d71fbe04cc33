"""What `race` and `gate` show: the table while commands run, and what the race came to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bestarm.analysis.status.status import compact_line
from bestarm.cli.shared.show import new_table, plain_console
from bestarm.race.contestants import Contestant
from bestarm.race.limits import time_words
from bestarm.race.result import RaceResult
from bestarm.race.run_log import RunLog
from bestarm.race.summary import (
    difference_lines,
    figures_of,
    history_lines,
    limit_lines,
    memory_words,
    note_lines,
    verdict,
    verdict_words,
)
from bestarm.study import Study
from bestarm.texts import VOID_STYLE, shown

_EVERY = 0.5
_EVERY_LINE = 5.0
_WIDE = 120
"""Columns of a terminal that has room for all figures."""


class LiveTable:
    """The table while a race is on. It is drawn between runs and never during one, which it would disturb."""

    def __init__(self, contestants: Sequence[Contestant]) -> None:
        self._contestants = contestants
        self._console = plain_console(stderr=True)
        is_live = self._console.is_terminal
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if is_live else None
        self._shown = time.monotonic()

    def __enter__(self) -> LiveTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, study: Study, run_log: RunLog) -> None:
        now = time.monotonic()
        if now - self._shown < (_EVERY_LINE if self._live is None else _EVERY):
            return
        self._shown = now
        status = study.status()
        style = VOID_STYLE if status.guarantee == "void" else ""
        line = Text(shown(f"{status.headline}; {compact_line(status)}"), style=style)
        if self._live is None:
            self._console.print(line, soft_wrap=True)
        else:
            verdicts = {arm.name: arm.verdict for arm in status.arms}
            table = _results(self._contestants, verdicts, run_log, is_wide=self._console.width >= _WIDE)
            self._live.update(Group(table, line), refresh=True)


def _results(
    contestants: Sequence[Contestant], verdicts: Mapping[str, str], run_log: RunLog, *, is_wide: bool
) -> Table:
    """A row for each command: its runs in figures, as far as there is room, and what is certain of it."""
    times = ["mean", "stddev", *(["min", "max", "user", "system"] if is_wide else [])]
    numbers = ("runs", *("± sd" if name == "stddev" else name for name in times), "memory", "failed")
    table = new_table("command", *numbers, "verdict", right=numbers)
    for column in table.columns[1:]:
        column.no_wrap = True
    for one in contestants:
        found = figures_of(run_log.of(one.name), run_log.floor)
        seconds: list[float | None] = [getattr(found, name) for name in times]
        cells = ["–" if number is None else time_words(number) for number in seconds]
        memory = "–" if found.memory is None else memory_words(found.memory, run_log.floor)
        table.add_row(shown(one.name), f"{found.runs:,}", *cells, memory, f"{found.failures:,}", verdicts[one.name])
    return table


def print_result(result: RaceResult, console: Console) -> None:
    """The table, the verdict, and what it rests on."""
    is_wide = console.width >= _WIDE
    console.print(_results(result.contestants, verdict_words(result), result.run_log, is_wide=is_wide))
    console.print()
    style = VOID_STYLE if result.status.guarantee == "void" else None
    console.print(shown(verdict(result)), soft_wrap=True, style=style)
    for lines in (history_lines(result), limit_lines(result), difference_lines(result), note_lines(result)):
        for line in lines:
            console.print(f"  {shown(line)}", soft_wrap=True)
