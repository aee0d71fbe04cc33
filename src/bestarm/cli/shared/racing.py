"""What `race` and `gate` share: how commands are run, the table while they run, and what is printed at the end."""

from __future__ import annotations

import dataclasses
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.text import Text

from bestarm.cli.shared.show import VOID_STYLE, new_table, plain_console, shown
from bestarm.cli.shared.verdicts import INTERRUPTED, REFUTED, UNDECIDED, VOID

if TYPE_CHECKING:
    from rich.table import Table

    from bestarm.race.contestants import Contestant
    from bestarm.race.plans import Question
    from bestarm.race.race import Conditions, Outcome
    from bestarm.race.records import Records
    from bestarm.study import Study

AtMost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LIMIT",
        help="time=2s, p99(time)=2s, failures=1% or, of the baseline, time=1.02x. memory=500MB is about the median "
        "run, mean(memory)=500MB about the mean. Metrics: time, user, system, memory, output, failures, pauses.",
        show_default=False,
    ),
]
Prepare = Annotated[
    str | None, typer.Option(metavar="COMMAND", help="Run this before each run, unmeasured.", show_default=False)
]
Warmup = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Runs of each command that do not count.",
        show_default="2, to choose a timeout and to know pauses",
    ),
]
Timeout = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Stop a run that takes longer; it counts as this time, and as failed.",
        show_default="ten times the slowest first run",
    ),
]
Shell = Annotated[
    str, typer.Option(metavar="SHELL", help="Run commands in /bin/sh (default), in another shell, or in none.")
]
Runs = Annotated[int | None, typer.Option(metavar="N", help="The most runs in all.", show_default="no limit")]
Minutes = Annotated[float, typer.Option(metavar="N", help="The most minutes.")]
Delta = Annotated[float, typer.Option(metavar="P", help="The probability of a wrong answer that you accept.")]
Assume = Annotated[
    str,
    typer.Option(
        metavar="symmetry|range",
        help="Differences between runs scatter as far up as down, except for pauses; or nothing is assumed but the "
        "timeout.",
    ),
]
IgnoreFailure = Annotated[bool, typer.Option("--ignore-failure", "-i", help="A run that fails counts like any other.")]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="Seed of the random order of runs.", show_default="drawn afresh")
]
StudyOption = Annotated[
    str | None, typer.Option("--study", metavar="NAME", help="The name of the study.", show_default="the commands")
]
RaceDatabase = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="Keep the study there; the same command goes on.", show_default="nowhere"),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Start anew; what --db has of this race is kept under its own name.")
]
ExportJson = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write JSON that scripts for hyperfine read.", show_default=False)
]
ExportCsv = Annotated[str | None, typer.Option(metavar="FILE", help="Write a CSV table.", show_default=False)]
ExportMarkdown = Annotated[str | None, typer.Option(metavar="FILE", help="Write a Markdown table.", show_default=False)]

_EVERY = 0.5
_EVERY_LINE = 5.0
_WIDE = 120
"""Columns of a terminal that has room for all figures."""


class Board:
    """The table while a race is on. It is drawn between runs and never during one, which it would disturb."""

    def __init__(self, contestants: Sequence[Contestant]) -> None:
        from rich.live import Live

        self._contestants = contestants
        self._console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        is_live = self._console.is_terminal
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if is_live else None
        self._shown = time.monotonic()

    def __enter__(self) -> Board:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, study: Study, records: Records) -> None:
        from bestarm.analysis.status.status import compact_line

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
            is_wide = self._console.width >= _WIDE
            table = results_table(self._contestants, verdicts, records, is_wide=is_wide)
            self._live.update(Group(table, line), refresh=True)


def results_table(
    contestants: Sequence[Contestant], verdicts: Mapping[str, str], records: Records, *, is_wide: bool
) -> Table:
    """A row for each command: its runs in figures, as far as there is room, and what is certain of it."""
    from bestarm.race.summary import figures_of, memory_words
    from bestarm.race.units import time_words

    times = ["mean", "stddev", *(["min", "max", "user", "system"] if is_wide else [])]
    numbers = ("runs", *("± sd" if name == "stddev" else name for name in times), "memory", "failed")
    table = new_table("command", *numbers, "verdict", right=numbers)
    for column in table.columns[1:]:
        column.no_wrap = True
    for one in contestants:
        found = figures_of(records.of(one.name), records.floor)
        seconds: list[float | None] = [getattr(found, name) for name in times]
        cells = ["–" if number is None else time_words(number) for number in seconds]
        memory = "–" if found.memory is None else memory_words(found.memory, records.floor)
        table.add_row(shown(one.name), f"{found.runs:,}", *cells, memory, f"{found.failures:,}", verdicts[one.name])
    return table


@dataclasses.dataclass(frozen=True)
class Options:
    """The arguments that `race` and `gate` share, as written."""

    at_most: Sequence[str]
    baseline: str | None
    assume: str
    delta: float
    runs: int | None
    shell: str
    prepare: str | None
    warmup: int | None
    timeout: str | None
    minutes: float
    ignore_failure: bool
    seed: int | None

    def conditions(self) -> Conditions:
        """How commands are run, checked."""
        from bestarm.race.race import Conditions
        from bestarm.race.units import read_time
        from bestarm.validation import InvalidInput

        if self.warmup is not None and not 0 <= self.warmup <= 10_000:
            raise InvalidInput("--warmup", self.warmup, "must be a whole number from 0 to 10,000")
        if not 0.0 < self.minutes <= 1e6:
            raise InvalidInput("--minutes", self.minutes, "must be a positive number")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise InvalidInput("--seed", self.seed, "must be a whole number from 0 on")
        limit = None if self.timeout is None else read_time("--timeout", self.timeout)
        return Conditions(self.shell, self.prepare, self.warmup, limit, self.minutes, self.ignore_failure, self.seed)

    def question(self, objective: str, tolerance: float = 0.0) -> Question:
        """The question, checked."""
        from bestarm.race.limits import read_limits
        from bestarm.race.plans import ASSUMED, Question
        from bestarm.validation import InvalidInput

        assumed = next((one for one in ASSUMED if one == self.assume), None)
        if assumed is None:
            raise InvalidInput("--assume", self.assume, f"must be one of {', '.join(ASSUMED)}", ASSUMED)
        if self.runs is not None and self.runs < 1:
            raise InvalidInput("--runs", self.runs, "must be a whole number from 1 on")
        limits = tuple(read_limits(self.at_most, self.baseline))
        return Question(objective, limits, self.baseline, tolerance, assumed, self.delta, self.runs)


def run_race(
    contestants: Sequence[Contestant],
    question: Question,
    conditions: Conditions,
    study: str | None,
    db: str | None,
    exports: dict[str, str | None],
    *,
    fresh: bool,
    ignore_health: bool,
) -> None:
    """Run a race, show how it goes and what it came to, and leave with the exit status that says it."""
    from bestarm.race.exports import EXPORTS
    from bestarm.race.race import Race
    from bestarm.race.summary import decided_by, found_by
    from bestarm.race.symmetry import remark_on
    from bestarm.validation import InvalidInput

    for kind, path in exports.items():
        # Better now than when the race is over.
        if path not in (None, "-") and not Path(str(path)).absolute().parent.is_dir():
            raise InvalidInput(f"--export-{kind}", path, "there is no such folder")
    for name in ("SIGTERM", "SIGHUP"):
        # The same as Ctrl-C: the command that runs is ended, and its test given back.
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    race = Race(contestants, question, conditions, study=study, db=db, fresh=fresh)
    if race.afresh:
        print(shown(race.afresh), file=sys.stderr)
    outcome: Outcome | None
    try:
        with Board(contestants) as board:
            outcome = race.run(board)
    except KeyboardInterrupt:
        goes_on = "" if db is None else "; the same command goes on"
        print(f"stopped; the run under way does not count{goes_on}", file=sys.stderr)
        outcome = race.outcome(is_interrupted=True)
        if outcome is None:
            raise
    race.remark(remark_on(outcome))
    is_piped = "-" in exports.values()
    _print(outcome, Console(stderr=True, markup=False, emoji=False, highlight=False) if is_piped else plain_console())
    for kind, path in exports.items():
        if path == "-":
            print(EXPORTS[kind](outcome), end="" if kind == "csv" else "\n")
        elif path is not None:
            Path(path).write_text(EXPORTS[kind](outcome), encoding="utf-8")
    if outcome.is_interrupted:
        raise typer.Exit(INTERRUPTED)
    found = decided_by(outcome) if ignore_health else found_by(outcome)
    raise typer.Exit({"certified": 0, "refuted": REFUTED, "undecided": UNDECIDED, "void": VOID}[found])


def _print(outcome: Outcome, console: Console) -> None:
    from bestarm.race.summary import difference_lines, history_lines, limit_lines, note_lines, verdict, verdict_words

    is_wide = console.width >= _WIDE
    console.print(results_table(outcome.contestants, verdict_words(outcome), outcome.records, is_wide=is_wide))
    console.print()
    style = VOID_STYLE if outcome.status.guarantee == "void" else None
    console.print(shown(verdict(outcome)), soft_wrap=True, style=style)
    for lines in (history_lines(outcome), limit_lines(outcome), difference_lines(outcome), note_lines(outcome)):
        for line in lines:
            console.print(f"  {shown(line)}", soft_wrap=True)
