"""The options that `race` and `gate` share, and what comes of them."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bestarm.cli.shared.files import check_writable, stated_exports
from bestarm.cli.shared.show import STYLES, plain_console
from bestarm.cli.shared.verdicts import EXITS, INTERRUPTED, IgnoreHealth, stop_on_signals
from bestarm.errors import InvalidInput
from bestarm.texts import shown

if TYPE_CHECKING:
    from bestarm.race.contestants import Contestant
    from bestarm.race.limits import Metrics
    from bestarm.race.plans import Question
    from bestarm.race.race import Conditions
    from bestarm.race.runs import Streams


_KINDS = ("json", "csv", "markdown", "asciidoc", "orgmode")
_UNITS = {"microsecond": "us", "millisecond": "ms", "second": "s"}


@dataclasses.dataclass(frozen=True)
class Options:
    """The options that `race` and `gate` share, as written."""

    at_most: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIMIT",
            help="time=2s, p99(time)=2s, failures=1% or, of the baseline, time=1.02x or time=baseline+5ms. "
            "memory=500MB is about the median run, mean(memory)=500MB about the mean. Metrics: time, user, system, "
            "memory, output, failures, pauses.",
        ),
    ] = None
    at_least: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIMIT",
            help="rps=1000 or, of the baseline, rps=0.98x. Of logs accuracy=-1pp: at most one percentage point below "
            "the baseline. accuracy=80%, p10(score)=3, score=baseline-0.5, score=0.98x.",
        ),
    ] = None
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=READER",
            help="A metric that the commands print: p99\\[ms]=json:.latency.p99, rps=regex:Requests/sec: ([0-9.]+), "
            "score\\[0..10]=last-line, ok\\[share]=json:.ok.",
        ),
    ] = None
    on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="Run the commands on this machine, by ssh, or by a command that runs what is written after it: "
            "'docker exec -i box'. Several at the same time, if stated again: then the mean over them counts.",
            show_default="here",
        ),
    ] = None
    runs_per_machine: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="The machines are a sample: each makes N runs of each command, which count as one, and the verdict is "
            "about machines like these.",
            show_default="as many as it takes, about these machines",
        ),
    ] = None
    warmup: Annotated[
        int | None,
        typer.Option(
            "--warmup",
            "-w",
            metavar="N",
            help="Runs of each command that do not count; more where more must be learned from them.",
            show_default="2 to know pauses, else 1 to choose a timeout",
        ),
    ] = None
    delta: Annotated[float, typer.Option(metavar="P", help="The probability of a wrong answer that you accept.")] = 0.05
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs",
            "-r",
            metavar="N",
            help="Make exactly N runs of each command. Those that --db keeps are among them.",
            show_default="as many as it takes",
        ),
    ] = None
    min_runs: Annotated[
        int | None, typer.Option("--min-runs", "-m", metavar="N", help="Make at least N runs of each command.")
    ] = None
    max_runs: Annotated[
        int | None, typer.Option("--max-runs", "-M", metavar="N", help="Make at most N runs of each command.")
    ] = None
    total_runs: Annotated[
        int | None,
        typer.Option(metavar="N", help="The most runs of all commands together.", show_default="no limit"),
    ] = None
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="The most minutes.", show_default="5; more if --runs take longer")
    ] = None
    setup: Annotated[
        str | None,
        typer.Option(
            "--setup",
            "-s",
            metavar="COMMAND",
            help="Run this before all runs, or before each if parameters make it differ.",
        ),
    ] = None
    prepare: Annotated[
        list[str] | None,
        typer.Option(
            "--prepare",
            "-p",
            metavar="COMMAND",
            help="Run this before each run, unmeasured. Once for all commands, or once for each.",
        ),
    ] = None
    conclude: Annotated[
        list[str] | None,
        typer.Option("--conclude", "-C", metavar="COMMAND", help="The same after each run."),
    ] = None
    cleanup: Annotated[
        str | None, typer.Option("--cleanup", "-c", metavar="COMMAND", help="Run this after all runs.")
    ] = None
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Stop a run that takes longer; it counts as this time, and as failed.",
            show_default="ten times the slowest first run",
        ),
    ] = None
    shell: Annotated[
        str | None,
        typer.Option(
            "--shell",
            "-S",
            metavar="SHELL",
            help="Run commands in /bin/sh (default), in another shell, or in none.",
            show_default="default",
        ),
    ] = None
    no_shell: Annotated[bool, typer.Option("-N", help="The same as --shell none.")] = False
    input_from: Annotated[
        str,
        typer.Option("--input", metavar="FILE", help="What commands read; null is nothing."),
    ] = "null"
    output_to: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="WHERE",
            help="Where output goes: pipe counts it and throws it away; null, a file, or inherit, which shows it.",
            show_default="pipe",
        ),
    ] = None
    show_output: Annotated[bool, typer.Option("--show-output", help="The same as --output inherit.")] = False
    assume: Annotated[
        str,
        typer.Option(
            metavar="symmetry|range",
            help="Differences between runs scatter as far up as down, except for pauses; or nothing is assumed but the "
            "timeout.",
        ),
    ] = "symmetry"
    ignore_failure: Annotated[
        bool, typer.Option("--ignore-failure", "-i", help="A run that fails counts like any other.")
    ] = False
    ignore_health: IgnoreHealth = False
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed of the random order of runs.", show_default="random")
    ] = None
    study: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the study.", show_default="the commands")
    ] = None
    db: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Keep the study there; the same command goes on.", show_default="nowhere"),
    ] = None
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over; what --db has of this race is kept under its own name.")
    ] = False
    export_json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write JSON that scripts for hyperfine read.")
    ] = None
    export_csv: Annotated[str | None, typer.Option(metavar="FILE", help="Write a CSV table.")] = None
    export_markdown: Annotated[str | None, typer.Option(metavar="FILE", help="Write a Markdown table.")] = None
    export_asciidoc: Annotated[str | None, typer.Option(metavar="FILE", help="Write an AsciiDoc table.")] = None
    export_orgmode: Annotated[str | None, typer.Option(metavar="FILE", help="Write an Org table.")] = None
    time_unit: Annotated[
        str | None,
        typer.Option(
            "--time-unit",
            "-u",
            metavar="UNIT",
            help="microsecond, millisecond or second, for what is shown and for tables; JSON and CSV have seconds.",
            show_default="the one that fits",
        ),
    ] = None
    style: Annotated[
        str,
        typer.Option(
            metavar="STYLE",
            help="auto; basic: no colors, nothing redrawn; full: both; nocolor: redrawn without colors; color: the "
            "reverse; none: no text.",
        ),
    ] = "auto"

    def conditions(self) -> Conditions:
        """How commands are run, checked."""
        from bestarm.race.limits import read_time
        from bestarm.race.race import Conditions

        if self.warmup is not None and not 0 <= self.warmup <= 10_000:
            raise InvalidInput("--warmup", self.warmup, "must be a whole number from 0 to 10,000")
        if self.minutes is not None and not 0.0 < self.minutes <= 1e6:
            raise InvalidInput("--minutes", self.minutes, "must be a positive number")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise InvalidInput("--seed", self.seed, "must be a whole number, 0 or more")
        limit = None if self.timeout is None else read_time("--timeout", self.timeout)
        self._check_machines()
        how = (self._shell, self.warmup, limit, self.minutes, self.ignore_failure, self.seed)
        least, most = self._runs_of_each()
        return Conditions(*how, tuple(self.on or ()), self.runs_per_machine, least, most, self._streams)

    @property
    def _shell(self) -> str:
        if self.no_shell and self.shell not in (None, "none"):
            raise InvalidInput("--shell", self.shell, "and -N, which is --shell none, cannot both be")
        return "none" if self.no_shell else self.shell or "default"

    @property
    def _streams(self) -> Streams:
        from bestarm.race.runs import Streams

        if self.show_output and self.output_to not in (None, "inherit"):
            raise InvalidInput(
                "--output", self.output_to, "and --show-output, which is --output inherit, cannot both be"
            )
        to = "inherit" if self.show_output else self.output_to or "pipe"
        if to == "inherit" and self.on:
            raise InvalidInput("--output", to, "what commands print on other machines cannot be shown; name a file")
        if self.input_from != "null" and not self.on and not Path(self.input_from).is_file():
            raise InvalidInput("--input", self.input_from, "there is no such file")
        if to not in ("null", "pipe", "inherit") and not self.on:
            check_writable("--output", to)
        return Streams(self.input_from, "null" if to == "inherit" else to, to == "inherit")

    def _runs_of_each(self) -> tuple[int, float]:
        """The least and the most runs of each command."""
        given = {"--runs": self.runs, "--min-runs": self.min_runs, "--max-runs": self.max_runs}
        stated = {name: number for name, number in given.items() if number is not None}
        for name, number in stated.items():
            if not 1 <= number <= 1_000_000:
                raise InvalidInput(name, number, "must be a whole number from 1 to 1,000,000")
            if len(self.on or ()) > 1 or self.runs_per_machine is not None:
                reason = "is for one machine; on several, --total-runs or --runs-per-machine limits them"
                raise InvalidInput(name, number, reason)
        if self.runs is not None and len(stated) > 1:
            raise InvalidInput("--runs", self.runs, f"says how many; leave out {list(stated)[1]}")
        least, most = self.runs or self.min_runs or 0, self.runs or self.max_runs or math.inf
        if least > most:
            raise InvalidInput("--min-runs", least, f"must not be more than --max-runs {most:g}")
        return least, most

    def around(self) -> dict[str, list[str]]:
        """What is run before and after runs."""
        once = {"setup": self.setup, "cleanup": self.cleanup}
        each = {"prepare": self.prepare, "conclude": self.conclude}
        return {name: [text] for name, text in once.items() if text is not None} | {
            name: texts for name, texts in each.items() if texts
        }

    def _check_machines(self) -> None:
        machines, each = len(self.on or ()), self.runs_per_machine
        if each is None:
            return
        if not 1 <= each <= 1000:
            raise InvalidInput("--runs-per-machine", each, "must be a whole number from 1 to 1,000")
        needed = math.ceil(-math.log2(self.delta))
        if machines < needed:
            reason = (
                f"takes {needed} machines (--on) or more with --delta {self.delta:g}, and there are {machines}: all "
                "runs on a machine count as one, which at most doubles the evidence"
            )
            raise InvalidInput("--runs-per-machine", each, reason)

    def question(
        self,
        objective: str,
        baseline: str | None,
        tolerance: tuple[float, float] = (0.0, 0.0),
        goal: Literal["minimize", "maximize"] = "minimize",
        reference: str | None = None,
    ) -> Question:
        """The question, checked."""
        from bestarm.race.limits import read_limits
        from bestarm.race.plans import ASSUMED, Question

        assumed = next((one for one in ASSUMED if one == self.assume), None)
        if assumed is None:
            raise InvalidInput("--assume", self.assume, f"must be one of {', '.join(ASSUMED)}", ASSUMED)
        if self.total_runs is not None and self.total_runs < 1:
            raise InvalidInput("--total-runs", self.total_runs, "must be a whole number from 1 on")
        known, (near, share) = self.known, tolerance
        limits = tuple(read_limits(self.at_most or [], baseline, self.at_least or [], known))
        more = (near, assumed, self.delta, self.total_runs, share, reference)
        question = Question(objective, limits, baseline, *more, goal=goal, known=known)
        if self._streams.to != "pipe" and (question.own or "output" in question.metrics):
            raise InvalidInput("--output", self.output_to or "inherit", "output is read only if it goes through a pipe")
        return question

    @property
    def known(self) -> Metrics:
        """The metrics by name, with those of the user's own."""
        from bestarm.race.own_metrics import read_metrics

        return read_metrics(self.metric or [])

    def exports(self) -> dict[str, str]:
        """The files to write, by kind."""
        return stated_exports(self, _KINDS)

    def run(
        self, contestants: Sequence[Contestant], question: Question, history: Path | None = None, order: str = "auto"
    ) -> None:
        """Run a race, show how it goes and what it came to, and leave with the exit status that says it. A gate adds
        what it came to to its `history`."""
        from bestarm.race.limits import times_in
        from bestarm.race.runs import check_can_measure

        check_can_measure(self.on or ())
        if self.time_unit not in (None, *_UNITS):
            raise InvalidInput("--time-unit", self.time_unit, f"must be one of {', '.join(_UNITS)}", tuple(_UNITS))
        if self.style not in STYLES:
            raise InvalidInput("--style", self.style, f"must be one of {', '.join(STYLES)}", tuple(STYLES))
        with times_in(_UNITS.get(self.time_unit or "")):
            self._run(contestants, question, history, order)

    def _run(self, contestants: Sequence[Contestant], question: Question, history: Path | None, order: str) -> None:
        from bestarm.cli.shared.racing import LiveTable, in_order, print_result, start_words, write_exports
        from bestarm.race.conditions import DEFAULT_MINUTES
        from bestarm.race.history import append, check, line_of
        from bestarm.race.race import Race
        from bestarm.study.work.failures import MeasurementFailed

        conditions, exports = self.conditions(), self.exports()
        if history is not None:
            check(history)
        style = "basic" if conditions.streams.is_inherited and self.style == "auto" else self.style
        stop_on_signals()
        race = Race(contestants, question, conditions, study=self.study, db=self.db, fresh=self.fresh)
        if race.replaces:
            print(shown(race.replaces), file=sys.stderr)
        result, ended = None, None
        try:
            console = plain_console(stderr=True, style=style)
            for words in (start_words(len(contestants), race.first_runs), race.shortage):
                if words and not race.is_over:
                    console.print(words, soft_wrap=True)
            with LiveTable(contestants, console, question, conditions.minutes or DEFAULT_MINUTES) as table:
                result = race.run(table)
        except (KeyboardInterrupt, MeasurementFailed) as error:
            if isinstance(error, KeyboardInterrupt):
                goes_on = "" if self.db is None else "; the same command goes on"
                print(f"stopped; the run under way does not count{goes_on}", file=sys.stderr)
            result, ended = race.result(is_interrupted=True), error
            if result is None:
                raise
        race.remark(result.remark)
        result = in_order(result, order)
        print_result(result, plain_console(stderr="-" in exports.values(), style=style))
        write_exports(result, exports)
        if isinstance(ended, MeasurementFailed):
            raise ended
        if ended is not None:
            raise typer.Exit(INTERRUPTED)
        if history is not None:
            append(history, line_of(result))
        found = result.conclusion.found if self.ignore_health else result.found
        raise typer.Exit(EXITS[found])
