"""Shows the progress of work on a study: redrawn on a terminal or in a notebook, and as lines elsewhere."""

from __future__ import annotations

import importlib
import math
import time
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from bestarm.analysis.status.status import compact_line, is_about, lines_html, progress_lines, status_html
from bestarm.storage.errors import StorageError
from bestarm.study.forecast.continuations import BackgroundForecast
from bestarm.study.live import LiveStudy
from bestarm.texts import VOID_STYLE, shown

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from bestarm.analysis.status.outlook import Lines, Outlook
    from bestarm.analysis.status.status import Status

_EVERY = 0.5
_EVERY_LINE = 5.0
_RATE_SECONDS = 60.0
_LONG = 20.0
"""A study that ends within this many seconds is not simulated."""


class Screen:
    """Where progress is shown."""

    every: float = _EVERY
    """Seconds between two looks."""

    def show(self, status: Status, work: Lines, outlook: Outlook | None) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is left to do, unless a screen says otherwise."""


class Terminal(Screen):
    """Lines that are redrawn, and removed at the end."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, status: Status, work: Lines, outlook: Outlook | None) -> None:
        lines = [("so far", status.headline), *progress_lines(status, outlook), ("tests", f"{status.tests:,}")]
        self._live.update(grid([*lines, *work], _style(status)), refresh=True)

    def close(self) -> None:
        self._live.stop()


class Printed(Screen):
    """A line now and then."""

    every = _EVERY_LINE

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, status: Status, work: Lines, outlook: Outlook | None) -> None:
        from rich.text import Text

        line = "; ".join((status.headline, compact_line(status, outlook), *(f"{name} {text}" for name, text in work)))
        self._console.print(Text(shown(line), style=_style(status)), soft_wrap=True)


class Notebook(Screen):
    """What a cell shows, redrawn."""

    def __init__(self) -> None:
        # It is there wherever notebooks are.
        ipython: Any = importlib.import_module("IPython.display")
        self._html = ipython.HTML
        self._shown = ipython.display(ipython.HTML(""), display_id=True)

    def show(self, status: Status, work: Lines, outlook: Outlook | None) -> None:
        if self._shown is not None:
            self._shown.update(self._html(status_html(status, outlook=outlook) + lines_html(work)))


def _style(status: Status) -> str:
    """The style of the headline."""
    return VOID_STYLE if status.guarantee == "void" else ""


def grid(lines: Lines, first: str = "") -> RenderableType:
    """Lines for a terminal: what each is about in a column of its own. The first one's text has the style `first`."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for k, (name, text) in enumerate(lines):
        table.add_row(Text(name, style="bold"), Text(shown(text), overflow="fold", style="" if k else first))
    return table


def _screen(console: Console | None) -> Screen:
    if console is None:
        from rich.console import Console as NewConsole

        console = NewConsole(stderr=True)
    if console.is_jupyter:
        return Notebook()
    return Terminal(console) if console.is_terminal else Printed(console)


class Display:
    """Shows how `drive` gets on; call it now and then."""

    def __init__(self, study: LiveStudy, console: Console | None = None, *, shows_end: bool = False) -> None:
        """With `shows_end`, the last state stays visible; otherwise the caller says how it ended."""
        self._study = study
        self._console = console
        self._shows_end = shows_end
        self._started = self._shown = 0.0
        self._history: deque[tuple[float, int]] = deque()
        self._to_go = math.inf
        self._forecast = BackgroundForecast(study, pays=self._takes_long)

    def __enter__(self) -> Display:
        self._screen = _screen(self._console)
        self._started = time.monotonic()
        self._forecast.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._forecast.stop()
        if self._shows_end and kind is None:
            self._look(self._study, 0)
        self._screen.close()

    def __call__(self, study: LiveStudy, running: int) -> None:
        if time.monotonic() - self._shown >= self._screen.every:
            self._look(study, running)

    def _look(self, study: LiveStudy, running: int) -> None:
        self._shown = now = time.monotonic()
        try:
            status = study.status()
        except StorageError:
            # Out of reach for now. The workers keep trying, and report it in the end.
            return
        self._history.append((now, status.tests))
        while now - self._history[0][0] > _RATE_SECONDS:
            self._history.popleft()
        self._to_go = status.tests_left
        outlook = self._forecast.outlook if status.state == "running" else None
        self._screen.show(status, self._work(status, running, outlook), outlook)

    def _work(self, status: Status, running: int, outlook: Outlook | None) -> Lines:
        """How fast it goes, and what holds it up."""
        rate = self._rate()
        # At the start, and where tests take very long, a rate says nothing yet.
        speed = f"{rate:.1f} tests a second, " if rate >= 0.05 else ""
        pace = f"{status.cost:,.6g}, {speed}{running} under way"
        is_current = outlook is not None and is_about(outlook, status)
        if outlook is not None and is_current and rate > 0 and math.isfinite(outlook.median_tests):
            pace += f", about {timedelta(seconds=round(outlook.median_tests / rate))} to go"
        lines = [("cost", pace)]
        if waits := self._waits_for(status):
            lines.append(("waiting for", waits))
        return lines

    def _waits_for(self, status: Status) -> str:
        """Another holder's test that keeps results from counting, once that has taken longer than usual."""
        awaited = status.awaited
        if awaited is None or awaited.holder == self._study.holder or not awaited.is_long_out:
            return ""
        return str(awaited) if status.waiting or awaited.needs_attention else ""

    def _rate(self) -> float:
        (then, before), (now, tests) = self._history[0], self._history[-1]
        return (tests - before) / (now - then) if now > then else 0.0

    def _takes_long(self) -> bool:
        """Whether the study goes on for long enough to simulate what remains."""
        if time.monotonic() - self._started < 3.0 or not self._history:
            return False
        return self._to_go > _LONG * self._rate()
