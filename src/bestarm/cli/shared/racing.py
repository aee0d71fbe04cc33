"""What `race` and `gate` show: the table while commands run, and what the race came to."""

from __future__ import annotations

import dataclasses
import math
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bestarm.cli.shared.show import new_table
from bestarm.race.benchmark import benchmark_lines
from bestarm.race.closing import closing_line, ratio_lines
from bestarm.race.contestants import Contestant
from bestarm.race.exports import EXPORTS
from bestarm.race.limits import time_words
from bestarm.race.outlook import progress_words
from bestarm.race.plans import Question
from bestarm.race.result import RaceResult
from bestarm.race.run_log import RunLog
from bestarm.race.runs import Run
from bestarm.race.summary import (
    difference_lines,
    figures_of,
    history_lines,
    limit_lines,
    mean_and_deviation,
    memory_words,
    note_lines,
    verdict,
    verdict_shown,
    verdicts_shown,
)
from bestarm.study import Study
from bestarm.texts import VOID_STYLE, shown

_EVERY = 0.5
_EVERY_LINE = 5.0
_WIDE = 120
"""Columns of a terminal that has room for all figures."""
_BETWEEN = 3
"""Columns between two columns of a table."""
_UNKNOWN = "–"
_LEAST_NAME = 16
"""Columns of a command's name, however little room there is."""


class LiveTable:
    """The table while a race is on. It is drawn between runs and never during one, which it would disturb."""

    def __init__(
        self,
        contestants: Sequence[Contestant],
        console: Console,
        question: Question,
        minutes: float = math.inf,
    ) -> None:
        self._contestants = contestants
        self._deadline = time.monotonic() + 60.0 * minutes
        self._question = question
        self._console = console
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
        line = Text(shown(progress_words(study.plan, status, run_log, self._deadline - now)), style=style)
        if self._live is None:
            self._console.print(line, soft_wrap=True)
        else:
            asked = self._question.objective
            verdicts = {arm.name: verdict_shown(arm.verdict, asked) for arm in status.arms}
            table = _results(self._contestants, verdicts, run_log, self._question, self._console)
            self._live.update(Group(table, line), refresh=True)


def _results(
    contestants: Sequence[Contestant],
    verdicts: Mapping[str, str],
    run_log: RunLog,
    question: Question,
    console: Console,
) -> Table:
    """A row for each command: its runs in figures, as far as there is room, and what is certain of it."""
    width = console.width
    found = {one.name: _cells(run_log.of(one.name), run_log.floor, question, width >= _WIDE) for one in contestants}
    for name, cells in found.items():
        cells["verdict"] = verdicts[name]
    shown_ones = {heading: heading for cells in found.values() for heading in cells}
    if all(cells["failed"] == "0" for cells in found.values()):
        del shown_ones["failed"]
    rows = [[cells[heading] for heading in shown_ones] for cells in found.values()]
    widths = [max(map(len, column)) for column in zip(shown_ones, *rows, strict=True)]
    room = max(width - sum(widths) - _BETWEEN * len(widths) - 1, _LEAST_NAME)
    table = new_table("command", *shown_ones, right=tuple(one for one in shown_ones if one != "verdict"))
    for column in table.columns[1:]:
        # Where there is no room at all, figures take two lines rather than being cut off.
        column.no_wrap = sum(widths) + _BETWEEN * len(widths) + _LEAST_NAME < width
    names = [shown(name) for name in found]
    for name, row in zip(_names_within(names, room) if console.is_terminal else names, rows, strict=True):
        table.add_row(name, *row)
    return table


def _cells(runs: list[Run], floor: float, question: Question, is_wide: bool) -> dict[str, str]:
    """The figures of a command, by heading: what the question is about comes first, and the mean time beside it."""
    found = figures_of(runs, floor, question.own)
    asked = "time" if question.is_gate else question.objective
    cells = {"runs": f"{found.runs:,}"}
    if asked == "time":
        cells |= {"mean": _shown_time(found.mean), "± sd": _shown_time(found.stddev)}
        cells |= {"min": _shown_time(found.min), "max": _shown_time(found.max)} if is_wide else {}
    else:
        mean, deviation = mean_and_deviation(runs, asked, floor)
        words = question.known[asked].words
        first = memory_words(mean, floor) if asked == "memory" and runs else words(mean)
        cells |= {asked: first, "± sd": words(deviation), "mean time": _shown_time(found.mean)}
    for metric in ("user", "system", "output"):
        if metric != asked and (metric in question.metrics or (is_wide and metric != "output")):
            cells[metric] = question.known[metric].words(mean_and_deviation(runs, metric, floor)[0])
    if asked != "memory":
        cells["memory"] = "–" if found.memory is None else memory_words(found.memory, floor)
    cells["failed"] = f"{found.failures:,}"
    cells |= {one.name: one.words(found.own.get(one.name, math.nan)) for one in question.own if one.name != asked}
    return {heading: _UNKNOWN if "nan" in cell.split() else cell for heading, cell in cells.items()}


def _shown_time(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else time_words(seconds)


def _names_within(names: Sequence[str], room: int) -> list[str]:
    """Names, shortened in the middle where they are too long, unless some could not be told apart any more.

    >>> _names_within(["gzip -9 --keep --stdout archive.tar", "true"], 20)
    ['gzip -9 --…chive.tar', 'true']
    """
    half = (room - 1) // 2
    short = [name if len(name) <= room else f"{name[: room - half - 1]}…{name[-half:]}" for name in names]
    return short if len({*short}) == len({*names}) else list(names)


def _say(console: Console, text: str, indent: str = "") -> None:
    """Print a line. A terminal gets it in lines that end with a word; everything else gets it as it is."""
    if console.is_terminal:
        lines = textwrap.TextWrapper(console.width - 1, indent, f"{indent}  ", break_on_hyphens=False)
        lines.break_long_words = False
        text = lines.fill(text)
    else:
        text = f"{indent}{text}"
    console.print(text, soft_wrap=True)


def start_words(commands: int, first_runs: int) -> str:
    """What comes before the first run that counts.

    >>> start_words(3, 2), start_words(1, 0)
    ('starting: 2 warm-up runs of each of 3 commands', 'starting: 1 command')
    """
    which = "1 command" if commands == 1 else f"{commands:,} commands"
    if not first_runs:
        return f"starting: {which}"
    runs = "1 warm-up run" if first_runs == 1 else f"{first_runs:,} warm-up runs"
    return f"starting: {runs} of {which if commands == 1 else f'each of {which}'}"


def in_order(result: RaceResult, order: str) -> RaceResult:
    """The result with its commands in this order, those without a run last."""
    if order != "mean-time":
        return result

    def mean(one: Contestant) -> float:
        times = [run.time for run in result.run_log.of(one.name)]
        return sum(times) / len(times) if times else math.inf

    return dataclasses.replace(result, contestants=tuple(sorted(result.contestants, key=mean)))


def print_result(result: RaceResult, console: Console) -> None:
    """The table, the outcome in one line, the verdict, and what it rests on."""
    if result.is_benchmark:
        console.print(shown(result.contestants[0].name), soft_wrap=True, style="bold")
        for name, words in benchmark_lines(result):
            _say(console, f"{name:<8}  {shown(words)}", "  ")
        return
    console.print(_results(result.contestants, verdicts_shown(result), result.run_log, result.question, console))
    console.print()
    closing = closing_line(result)
    if closing is not None:
        console.print(shown(closing), soft_wrap=True, style="bold")
    style = VOID_STYLE if result.status.guarantee == "void" else None
    console.print(shown(verdict(result)), soft_wrap=True, style=style)
    differences = difference_lines(result) if closing is None else ratio_lines(result)
    for lines in (history_lines(result), limit_lines(result), differences, note_lines(result)):
        for line in lines:
            _say(console, shown(line), "  ")


def write_exports(result: RaceResult, exports: Mapping[str, str]) -> None:
    """Write the files, by kind; `-` is standard output."""
    for kind, path in exports.items():
        if path == "-":
            print(EXPORTS[kind](result), end="" if kind == "csv" else "\n")
        else:
            Path(path).write_text(EXPORTS[kind](result), encoding="utf-8")
