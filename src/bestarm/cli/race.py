"""`bestarm race` and `gate`: which command is best within limits, and is the new one no worse than the old?"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.shared.command import PAIR, command
from bestarm.cli.shared.show import plain_console
from bestarm.cli.shared.verdicts import INTERRUPTED, REFUTED, UNDECIDED, VOID, IgnoreHealth, stop_on_signals
from bestarm.errors import UNSTATED, InvalidInput
from bestarm.texts import shown

if TYPE_CHECKING:
    from bestarm.race.contestants import Contestant
    from bestarm.race.plans import Question
    from bestarm.race.race import Conditions
    from bestarm.race.result import RaceResult


@dataclasses.dataclass(frozen=True)
class Options:
    """The options that `race` and `gate` share, as written."""

    at_most: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIMIT",
            help="time=2s, p99(time)=2s, failures=1% or, of the baseline, time=1.02x. memory=500MB is about the median "
            "run, mean(memory)=500MB about the mean. Metrics: time, user, system, memory, output, failures, pauses.",
        ),
    ] = None
    prepare: Annotated[str | None, typer.Option(metavar="COMMAND", help="Run this before each run, unmeasured.")] = None
    warmup: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Runs of each command that do not count.",
            show_default="2, to choose a timeout and to know pauses",
        ),
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
        str, typer.Option(metavar="SHELL", help="Run commands in /bin/sh (default), in another shell, or in none.")
    ] = "default"
    delta: Annotated[float, typer.Option(metavar="P", help="The probability of a wrong answer that you accept.")] = 0.05
    runs: Annotated[int | None, typer.Option(metavar="N", help="The most runs in all.", show_default="no limit")] = None
    minutes: Annotated[float, typer.Option(metavar="N", help="The most minutes.")] = 5.0
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

    def conditions(self) -> Conditions:
        """How commands are run, checked."""
        from bestarm.race.limits import read_time
        from bestarm.race.race import Conditions

        if self.warmup is not None and not 0 <= self.warmup <= 10_000:
            raise InvalidInput("--warmup", self.warmup, "must be a whole number from 0 to 10,000")
        if not 0.0 < self.minutes <= 1e6:
            raise InvalidInput("--minutes", self.minutes, "must be a positive number")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise InvalidInput("--seed", self.seed, "must be a whole number, 0 or more")
        limit = None if self.timeout is None else read_time("--timeout", self.timeout)
        return Conditions(self.shell, self.prepare, self.warmup, limit, self.minutes, self.ignore_failure, self.seed)

    def question(self, objective: str, baseline: str | None, tolerance: float = 0.0) -> Question:
        """The question, checked."""
        from bestarm.race.limits import read_limits
        from bestarm.race.plans import ASSUMED, Question

        assumed = next((one for one in ASSUMED if one == self.assume), None)
        if assumed is None:
            raise InvalidInput("--assume", self.assume, f"must be one of {', '.join(ASSUMED)}", ASSUMED)
        if self.runs is not None and self.runs < 1:
            raise InvalidInput("--runs", self.runs, "must be a whole number from 1 on")
        limits = tuple(read_limits(self.at_most or [], baseline))
        return Question(objective, limits, baseline, tolerance, assumed, self.delta, self.runs)

    def run(self, contestants: Sequence[Contestant], question: Question) -> None:
        """Run a race, show how it goes and what it came to, and leave with the exit status that says it."""
        from bestarm.cli.shared.racing import LiveTable, print_result
        from bestarm.race.exports import EXPORTS
        from bestarm.race.race import Race

        conditions = self.conditions()
        exports = {kind: path for kind in EXPORTS if (path := getattr(self, f"export_{kind}")) is not None}
        for kind, path in exports.items():
            # Better now than when the race is over.
            if path != "-" and not Path(path).absolute().parent.is_dir():
                raise InvalidInput(f"--export-{kind}", path, "there is no such folder")
        stop_on_signals()
        race = Race(contestants, question, conditions, study=self.study, db=self.db, fresh=self.fresh)
        if race.replaces:
            print(shown(race.replaces), file=sys.stderr)
        result: RaceResult | None
        try:
            with LiveTable(contestants) as table:
                result = race.run(table)
        except KeyboardInterrupt:
            goes_on = "" if self.db is None else "; the same command goes on"
            print(f"stopped; the run under way does not count{goes_on}", file=sys.stderr)
            result = race.result(is_interrupted=True)
            if result is None:
                raise
        race.remark(result.remark)
        print_result(result, plain_console(stderr="-" in exports.values()))
        for kind, path in exports.items():
            if path == "-":
                print(EXPORTS[kind](result), end="" if kind == "csv" else "\n")
            else:
                Path(path).write_text(EXPORTS[kind](result), encoding="utf-8")
        if result.is_interrupted:
            raise typer.Exit(INTERRUPTED)
        found = result.conclusion.found if self.ignore_health else result.found
        raise typer.Exit({"certified": 0, "refuted": REFUTED, "undecided": UNDECIDED, "void": VOID}[found])


@command(place=5)
def race(
    commands: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="Each in quotes.")],
    minimize: Annotated[str, typer.Option(metavar="METRIC", help="time, user, system, memory or output.")] = "time",
    baseline: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="What limits such as time=1.02x are relative to.")
    ] = None,
    names: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME", help="Names of the commands, in order.")
    ] = None,
    parameter_list: Annotated[
        list[str] | None,
        typer.Option("--parameter-list", "-L", metavar=PAIR, help="Fill in {NAME} with each of A,B,C."),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="How close to the best is good enough: 5ms.", show_default="none"),
    ] = None,
    *,
    options: Options,
) -> None:
    """Find the best of several commands, within limits, with as few runs as possible.

    Exit status: 0 if an answer is certified, except for pauses rarer than the verdict says; 3 if it is certain that no
    command meets every limit; 4 if the budget is spent before anything is certain, or if the answer pauses and the
    others do not; 5 if the runs contradict what the guarantee rests on.
    """
    from bestarm.race.contestants import contestants_of, with_baseline
    from bestarm.race.limits import METRICS, read_objective

    contestants = contestants_of(commands, names or [], parameter_list or [])
    contestants, base = with_baseline(contestants, baseline)
    objective = read_objective(minimize)
    near = 0.0 if tolerance is None else METRICS[objective].read("--tolerance", tolerance)
    options.run(contestants, options.question(objective, base, near))


@command(place=6)
def gate(
    candidate: Annotated[str, typer.Argument(metavar="COMMAND", help="In quotes.")],
    baseline: Annotated[str, typer.Option(metavar="COMMAND", help="What the candidate is compared with.")],
    *,
    options: Options,
) -> None:
    """Let a command pass only if it is certain not to be worse than another by more than you allow.

    Exit status: 0 if it is certain that the candidate meets every limit, except for pauses rarer than the verdict says;
    3 if it is certain that it does not; 4 if the budget is spent before either is, or if the candidate pauses and the
    baseline does not; 5 if the runs contradict what the guarantee rests on. --at-most pauses=1% makes sure that pauses
    are rare.
    """
    from bestarm.race.contestants import contestants_of
    from bestarm.race.plans import CANDIDATE

    if not options.at_most:
        raise InvalidInput("--at-most", UNSTATED, "say what passes: --at-most time=1.02x")
    old, new = contestants_of([baseline, candidate], [] if baseline != candidate else ["baseline", "candidate"])
    options.run([old, new], options.question(CANDIDATE, old.name))
