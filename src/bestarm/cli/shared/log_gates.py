"""`bestarm gate --eval`: its options, and what it shows."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from bestarm.cli.shared.arguments import ColumnNames
from bestarm.cli.shared.files import writing
from bestarm.cli.shared.show import plain_console, print_gate
from bestarm.errors import UNSTATED, InvalidInput
from bestarm.texts import shown

if TYPE_CHECKING:
    from bestarm.problem import Constraint
    from bestarm.race.logs.gate import LogGate

_LOGS = "Logs of evaluations"


@dataclasses.dataclass(frozen=True)
class LogOptions:
    """The options of a gate on logs, as written."""

    log_of_baseline: Annotated[
        str | None,
        typer.Option(
            "--eval",
            metavar="LOG",
            help="The candidate is a log of an evaluation, and this the baseline's: a file of inspect_ai, "
            "lm-evaluation-harness, promptfoo or OpenAI evals, a CSV file, or a folder of logs. FILE::NAME is one of "
            "several arms in a file.",
            rich_help_panel=_LOGS,
        ),
    ] = None
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="METRIC=LOW..HIGH",
            help="The range of a metric's values.",
            show_default="0 to 1 where all are 0 or 1",
            rich_help_panel=_LOGS,
        ),
    ] = None
    symmetric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC",
            help="A metric without a range, whose values and differences scatter as far up as down.",
            rich_help_panel=_LOGS,
        ),
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=VALUE|leave-out",
            help="What an item counts as that lacks a result in one of the logs, or that it is left out.",
            show_default="refused",
            rich_help_panel=_LOGS,
        ),
    ] = None
    columns: ColumnNames = None
    after: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What an earlier verdict wrote with --export-json: its items come first, in its order.",
            rich_help_panel=_LOGS,
        ),
    ] = None

    def constraints(self, logs: Any, at_most: list[str], at_least: list[str]) -> list[Constraint]:
        """The limits, with the noise that the logs and the options imply."""
        from bestarm.race.logs.limits import noise_of, read_limit, read_ranges

        written = [read_limit("at_least", text) for text in at_least]
        written += [read_limit("at_most", text) for text in at_most]
        if not written:
            raise InvalidInput("--at-least", UNSTATED, "say what passes: --at-least accuracy=-1pp")
        ranges, symmetric = read_ranges(self.ranges or ()), self.symmetric or []
        limited = [limit.metric for limit in written if limit.noise is None]
        for option, names in (("--range", [*ranges]), ("--symmetric", symmetric)):
            if unused := [name for name in names if name not in limited]:
                raise InvalidInput(option, unused[0], "no limit on a mean is about this metric")
        noises = [limit.noise or noise_of(limit.metric, logs, ranges, symmetric) for limit in written]
        return [limit.constrain(noise) for limit, noise in zip(written, noises, strict=True)]

    def run(
        self,
        candidate: str,
        at_most: list[str],
        at_least: list[str],
        delta: float,
        seed: int | None,
        exports: dict[str, str],
    ) -> LogGate:
        """Read the logs, decide, and show what it came to."""
        from bestarm.race.logs import words
        from bestarm.race.logs.formats import read
        from bestarm.race.logs.gate import decide

        if not 0.0 < delta < 1.0:
            raise InvalidInput("--delta", delta, "must lie strictly between 0 and 1")
        from bestarm.study.files.exchange import read_columns

        columns = read_columns(self.columns)
        logs = read(self.log_of_baseline, "--eval", columns), read(candidate, "LOG", columns)
        limits = self.constraints(logs, at_most, at_least)
        gate = decide(logs, limits, delta=delta, seed=seed, missing=self._missing(), after=self._earlier())
        is_aside = "-" in exports.values()
        console = plain_console(stderr=is_aside)
        console.print(shown(f"{words.sides(gate)}: {len(gate.pairs.items):,} items"), soft_wrap=True)
        console.print()
        numbers = ("baseline", "candidate", "apart", "for items like these")
        print_gate(gate, words, "limit", "verdict", *numbers, stderr=is_aside)
        for kind, path in exports.items():
            with writing(Path(path)) as file:
                file.write(words.EXPORTS[kind](gate) + "\n")
        return gate

    def _missing(self) -> dict[str, float] | str | None:
        from bestarm.parsing import read_decimal
        from bestarm.race.logs.pairs import LEAVE_OUT

        given = self.missing or []
        if given in ([], [LEAVE_OUT]):
            return LEAVE_OUT if given else None
        found = {}
        for text in given:
            metric, _, value = text.rpartition("=")
            try:
                found[metric.strip()] = read_decimal(value)
            except ValueError:
                reason = f"must be METRIC=VALUE for each metric, such as accuracy=0, or {LEAVE_OUT} alone"
                raise InvalidInput("--missing", text, reason) from None
        return found

    def _earlier(self) -> dict[str, Any] | None:
        from bestarm.parsing import Malformed, read_json, read_text

        if self.after is None:
            return None
        try:
            found = read_json(read_text(self.after))
        except (OSError, UnicodeDecodeError, Malformed) as error:
            raise InvalidInput("--after", self.after, f"cannot be read: {error}") from None
        if not isinstance(found, dict) or not {"items", "digest"} <= found.keys():
            raise InvalidInput("--after", self.after, "is not what --export-json of a gate on logs wrote")
        return found


def refuse_others(options: Any, allowed: tuple[str, ...], of: str) -> None:
    """Raise `InvalidInput` for an option that was stated and means nothing here."""
    stated = get_type_hints(type(options), include_extras=True)
    for field in dataclasses.fields(options):
        if field.name not in allowed and getattr(options, field.name) != field.default:
            [about] = stated[field.name].__metadata__
            # The name that an option is given comes first; without one, it has that of its field.
            name = about.default if isinstance(about.default, str) else f"--{field.name.replace('_', '-')}"
            raise InvalidInput(name, UNSTATED, f"is for {of}")
