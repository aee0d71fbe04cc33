"""`bestarm gate --suite`: its options, and what it shows."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.shared.files import stated_exports, writing
from bestarm.cli.shared.show import counted, plain_console, print_gate
from bestarm.errors import UNSTATED, InvalidInput

if TYPE_CHECKING:
    from bestarm.race.suites.gate import Comparison
    from bestarm.race.suites.result import SuiteGate

_SUITES = "Suites of benchmarks"
_KINDS = ("bencher", "github", "benchstat", "junit")
_EVERY_LINE = 30.0
"""Seconds between lines that say how it goes, where no terminal shows it."""


@dataclasses.dataclass(frozen=True)
class SuiteOptions:
    """The options of a gate on a suite of benchmarks, as written."""

    suite: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Both commands run benchmarks, and each benchmark is to take at most 1.05 times as long as in the "
            "baseline: pytest, criterion, google-benchmark, go or json (Bencher Metric Format). --at-most 1.1x is for "
            "all of them, --at-most NAME=1.2x for one.",
            rich_help_panel=_SUITES,
        ),
    ] = None
    export_bencher: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the candidate's times for Bencher.", rich_help_panel=_SUITES),
    ] = None
    export_github: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write the candidate's times for github-action-benchmark.", rich_help_panel=_SUITES
        ),
    ] = None
    export_benchstat: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write every run for benchstat.", rich_help_panel=_SUITES)
    ] = None
    export_junit: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the verdicts as tests in JUnit's XML.", rich_help_panel=_SUITES),
    ] = None

    def run(
        self,
        commands: Sequence[str],
        at_most: Sequence[str],
        *,
        shell: str,
        prepare: str | None,
        timeout: float | None,
        warmup: int | None,
        delta: float,
        seed: int | None,
        minutes: float,
        pairs: int | None,
        exports: dict[str, str],
    ) -> SuiteGate:
        """Run both programs, baseline first, in pairs, and show what it came to."""
        from bestarm.race.suites import words
        from bestarm.race.suites.exports import EXPORTS
        from bestarm.race.suites.gate import AT_MOST, FIRST_RUNS, fewest_pairs, gate_suite
        from bestarm.race.suites.programs import Program
        from bestarm.race.suites.readers import suite_of

        assert self.suite is not None
        kind, files = suite_of(self.suite), {**exports, **stated_exports(self, _KINDS)}
        for_all, limits = _limits(at_most)
        baseline, candidate = (Program(one, kind, shell=shell, prepare=prepare) for one in commands)
        # A delta that is none is refused below.
        if pairs is not None and 0.0 < delta < 1.0 and pairs < (needed := fewest_pairs(delta)):
            few = f"{counted(pairs, 'pair')} of runs {'is' if pairs == 1 else 'are'} too few for a certain verdict"
            print(f"{few}, which takes {needed} or more", file=sys.stderr)
        with _progress() as watch:
            gate = gate_suite(
                baseline.run,
                candidate.run,
                at_most=AT_MOST if for_all is None else for_all,
                limits=limits,
                delta=delta,
                minutes=minutes,
                pairs=pairs,
                timeout=timeout,
                warmup=FIRST_RUNS if warmup is None else warmup,
                seed=seed,
                watch=watch,
            )
        numbers = ("limit", "baseline", "candidate", "ratio")
        print_gate(gate, words, "benchmark", "verdict", *numbers, stderr="-" in files.values())
        for name, path in files.items():
            with writing(Path(path)) as file:
                file.write(EXPORTS[name](gate).rstrip("\n") + "\n")
        return gate


def _limits(texts: Sequence[str]) -> tuple[float | None, dict[str, float]]:
    """The limit of all benchmarks, and those of single ones."""
    from bestarm.race.limits import read_multiple, refuse_comma

    for_all, limits = None, {}
    for text in texts:
        name, _, amount = text.rpartition("=")
        refuse_comma("--at-most", text, amount)
        factor = read_multiple(amount)
        if factor is None:
            reason = "must be a multiple of the baseline: 1.05x for all benchmarks, or NAME=1.2x for one"
            raise InvalidInput("--at-most", text, reason)
        if (not name and for_all is not None) or name.strip() in limits:
            raise InvalidInput("--at-most", text, "states a limit twice")
        if name:
            limits[name.strip()] = factor
        else:
            for_all = factor
    return for_all, limits


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[Comparison], None]]:
    """Says on standard error how it goes, between pairs of runs."""
    console, said = plain_console(stderr=True), time.monotonic()
    if console.is_terminal:
        print("the first runs, which do not count …", end="", file=sys.stderr, flush=True)

    def watch(found: Comparison) -> None:
        nonlocal said
        line = f"{counted(found.pairs, 'pair')} of runs, {found.decided:,} of {found.compared:,} benchmarks decided"
        if console.is_terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - said >= _EVERY_LINE:
            said = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    try:
        yield watch
    finally:
        if console.is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def commands_of(candidate: str, baseline: str | None) -> list[str]:
    """The two programs, the baseline first."""
    if baseline is None:
        raise InvalidInput("--baseline", UNSTATED, "state the command that runs the benchmarks of the old program")
    for field, command in (("COMMAND", candidate), ("--baseline", baseline)):
        if not command.strip():
            raise InvalidInput(field, command, "must not be empty")
    return [baseline, candidate]
