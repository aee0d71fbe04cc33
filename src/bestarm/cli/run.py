"""`bestarm run`: make a study's tests with a command of the user's, and show how it goes."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bestarm.cli.shared.arguments import AsJson, Database, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import check_text
from bestarm.cli.shared.show import plain_console, print_json, shown

if TYPE_CHECKING:
    from bestarm.analysis.status import Status
    from bestarm.storage.base import Storage
    from bestarm.study import Study
    from bestarm.study.continuations import Outlook

_EVERY = 0.5
_EVERY_PLAIN = 5.0
_OUTLOOK_EVERY = 15.0
_RATE_SECONDS = 60.0


@study_command(place=220)
def run(
    name: StudyName,
    command: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Prints a number, or of several metrics a JSON object or lines `name value`; {arm}, {metric}, {test}, "
            "{study} and, with items, {item} are filled in.",
        ),
    ],
    workers: Annotated[int, typer.Option(metavar="N", help="How many tests to make at once.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End a command that takes longer.", show_default="never")
    ] = None,
    failed_as: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[METRIC=]VALUE",
            help="Count a failure (another exit status than 0) as this value.",
            show_default=False,
        ),
    ] = None,
    timeout_as: Annotated[
        list[str] | None,
        typer.Option(metavar="[METRIC=]VALUE", help="Count a time-out as this value.", show_default=False),
    ] = None,
    retry: Annotated[
        int,
        typer.Option(
            metavar="N", help="Failures have nothing to do with results: make a failed test again, up to N times."
        ),
    ] = 0,
    shell: Annotated[
        bool, typer.Option("--shell", help="Run the command in a shell, which gets names as variables.")
    ] = False,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Make the tests with a command of yours until the answer is certain.

    A failure stops the run, unless you say what it counts (--failed-as, --timeout-as), or that it has nothing to do
    with the result (--retry).
    """
    from concurrent.futures import ThreadPoolExecutor

    from bestarm.study import Study
    from bestarm.study.command import Command
    from bestarm.study.failures import ON_THE_COMMAND_LINE, Declared, read_declared
    from bestarm.study.workers import drive
    from bestarm.validation import UNSTATED, InvalidInput

    if not 1 <= workers <= 10_000:
        raise InvalidInput("workers", workers, "must be a whole number from 1 to 10,000")
    # Each run is a holder of its own, so that several runs of one user keep their tests apart.
    study = Study.open(check_text("study", name), storage=db)
    items = study.plan.items
    program = Command(command, name, timeout=timeout, shell=shell, items=items is not None)
    named = items if isinstance(items, tuple) else ()
    program.check_names(study.plan.arm_names, study.plan.test_names.values(), named)
    if timeout_as and timeout is None:
        raise InvalidInput("--timeout-as", UNSTATED, "goes with --timeout SECONDS")
    declared = Declared.of(
        study.plan,
        read_declared(failed_as or [], "--failed-as"),
        read_declared(timeout_as or [], "--timeout-as"),
        retry,
        ON_THE_COMMAND_LINE,
    )
    pool = ThreadPoolExecutor(workers)
    for number in (signal.SIGTERM, signal.SIGHUP):
        # The same as Ctrl-C: commands are ended, and their tests given back.
        signal.signal(number, signal.default_int_handler)
    try:
        with Display(study, Console(stderr=True)) as display:
            answer = drive(
                study,
                lambda test, _: pool.submit(program, test),
                workers,
                declared=declared,
                says=False,
                watch=display,
            )
    except KeyboardInterrupt:
        print("stopped; the tests under way were given back, and the same command goes on", file=sys.stderr)
        raise
    finally:
        program.stop()
        pool.shutdown(cancel_futures=True)
    if as_json:
        print_json(study.status().to_dict())
    else:
        console = plain_console()
        for line in (str(answer), *(f"warning: {sentence}" for sentence in answer.warnings)):
            console.print(shown(line), soft_wrap=True)


class Display:
    """Shows how `drive` gets on: lines that are redrawn on a terminal, and printed now and then elsewhere."""

    def __init__(self, study: Study, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._holder = study.holder
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._shown = 0.0
        self._history: deque[tuple[float, int]] = deque()
        self._outlook: Outlook | None = None
        self._stop = threading.Event()
        # It opens the study for itself: a simulation must not keep the workers waiting.
        self._forecaster = threading.Thread(target=self._look_ahead, args=(study.name, study.storage), daemon=True)

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
            self._forecaster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._live is not None:
            self._live.stop()

    def __call__(self, study: Study, running: int) -> None:
        now = time.monotonic()
        if now - self._shown < (_EVERY if self._live is not None else _EVERY_PLAIN):
            return
        self._shown = now
        status = study.status()
        self._history.append((now, status.tests))
        while now - self._history[0][0] > _RATE_SECONDS:
            self._history.popleft()
        if self._live is not None:
            self._live.update(self._table(status, running), refresh=True)
        else:
            self._console.print(Text(shown(self._line(status, running))), soft_wrap=True)

    def _look_ahead(self, name: str, storage: Storage) -> None:
        from bestarm.storage.errors import StorageError
        from bestarm.study import Study

        while not self._stop.wait(1.0 if self._outlook is None else _OUTLOOK_EVERY):
            with contextlib.suppress(StorageError):
                self._outlook = Study.open(name, storage=storage).forecast()

    def _rate(self) -> float:
        (then, before), (now, tests) = self._history[0], self._history[-1]
        return (tests - before) / (now - then) if now > then else 0.0

    def _line(self, status: Status, running: int) -> str:
        return (
            f"{status.headline}; {_open_questions(status)}; {status.tests:,} tests, cost "
            f"{status.cost:,.6g}, {self._rate():.1f} tests/s, {running} under way{self._left()}"
            + (f"; waiting for {self._waits_for(status)}" if self._waits_for(status) else "")
        )

    def _waits_for(self, status: Status) -> str:
        """Somebody else's test that keeps results from counting, once that has taken longer than usual."""
        awaited = status.awaited
        if awaited is None or awaited.holder == self._holder or not awaited.is_long_out:
            return ""
        return str(awaited) if status.waiting or awaited.needs_somebody else ""

    def _left(self) -> str:
        if self._outlook is None:
            return ""
        tests, rate = self._outlook.median_tests, self._rate()
        if tests == float("inf"):
            return "; very many tests to go: see tolerance and slack"
        left = f"; about {tests:,.0f} tests to go"
        return f"{left}, {timedelta(seconds=round(tests / rate))}" if rate > 0 else left

    def _table(self, status: Status, running: int) -> Table:
        table = Table.grid(padding=(0, 2))
        rows = {
            "so far": status.headline,
            "open": _open_questions(status),
            "tests": f"{status.tests:,}, cost {status.cost:,.6g}, {self._rate():.1f} a second, {running} under way",
            "to go": self._left().removeprefix("; ") or "not known yet",
        }
        if waits := self._waits_for(status):
            rows["waiting for"] = waits
        for key, text in rows.items():
            table.add_row(Text(key, style="bold"), Text(shown(text)))
        return table


def _open_questions(status: Status) -> str:
    open_arms = [arm.name for arm in status.arms if arm.verdict == "open"]
    if not open_arms:
        return "no arm is undecided"
    named = ", ".join(open_arms[:3]) + (" …" if len(open_arms) > 3 else "")
    return f"{len(open_arms)} of {len(status.arms)} arms undecided ({named})"
