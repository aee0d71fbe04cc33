"""`bestarm history`: the verdicts that gates added to a file with `--history`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bestarm.cli.shared.arguments import AsJson
from bestarm.cli.shared.command import command
from bestarm.cli.shared.files import writing
from bestarm.cli.shared.show import counted, new_table, plain_console, print_json, say
from bestarm.errors import InvalidInput
from bestarm.texts import shown

if TYPE_CHECKING:
    from bestarm.race.history import Line

_WIDTH = 20
"""The letters that a drawing of an interval takes."""
_ROOM = 100
"""Columns of a terminal that has room for drawings."""
_ROOM_FOR_LINES = 80
"""With fewer columns, commits are left out, and cells take a line for each word rather than breaking words."""


@command(place=7)
def history(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file that gates wrote to with --history.")],
    study: Annotated[str | None, typer.Option(metavar="NAME", help="Only the gates of this study.")] = None,
    last: Annotated[int, typer.Option(metavar="N", help="How many gates, the newest.")] = 50,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it to .png, .svg or .pdf.")] = None,
    otava: Annotated[Path | None, typer.Option(metavar="FILE", help="Write CSV for Apache Otava.")] = None,
    bencher: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the latest gate of each study in Bencher Metric Format.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the verdicts of earlier gates, and draw their ratios and intervals.

    Nothing is claimed about how they differ: each is about two programs measured together.
    """
    from bestarm.race.history import as_bencher, as_otava, read

    if last < 1:
        raise InvalidInput("--last", last, "must be a whole number from 1 on")
    lines, unread = read(path)
    names = list(dict.fromkeys(line["study"] for line in lines))
    if study is not None and study not in names:
        raise InvalidInput("--study", study, "no gate in this file has this name", names)
    lines = [line for line in lines if study in (None, line["study"])][-last:]
    if as_json:
        print_json(lines)
    else:
        _print(lines, unread)
    if plot is not None:
        from bestarm.race.history_plot import draw

        draw(lines, plot)
    for out, text in ((otava, as_otava), (bencher, as_bencher)):
        if out is not None:
            with writing(out) as file:
                file.write(text(lines))


def _print(lines: Sequence[Line], unread: int) -> None:
    from bestarm.race.history import NO_CLAIM, by_limit, figure_of, limit_in, verdict_on
    from bestarm.race.limits_found import multiple

    console = plain_console()
    several = ["machine"] if len({line.get("machine") for line in lines}) > 1 else []
    drawn = ["drawn"] if console.width >= _ROOM else []
    commit = ["commit"] if console.width >= _ROOM_FOR_LINES else []
    for (study, limit), rows in by_limit(lines).items():
        console.print(shown(f"{study}: {limit}"), soft_wrap=True)
        heads = ("time", *commit, *several, "gate", "limit", "measured", "interval", *drawn)
        table = new_table(*heads, right=("measured",))
        ends = [end for _, one in rows for end in (figure_of(one), one["low"], one["high"]) if end is not None]
        for line, one in rows:
            words = multiple if limit_in(one).is_multiple else limit_in(one).words
            figure = figure_of(one)
            # A line of a gate that --db kept is no new measurement.
            found = f"{line['found']}, as before" if line.get("is_decided_before") else line["found"]
            table.add_row(
                *(shown(line["time"][:16].replace("T", " ")), *(shown((line.get(at) or "–")[:8]) for at in commit)),
                *(shown(line.get(field) or "–") for field in several),
                *(shown(found), shown(verdict_on(line, one))),
                *("–" if figure is None else words(figure), limit_in(one).interval),
                *(_drawn(one["low"], figure, one["high"], ends) for _ in drawn),
            )
        for column in table.columns[:-1] if not commit else ():
            column.width = max(len(word) for cell in (column.header, *column.cells) for word in str(cell).split())
        console.print(table)
        console.print()
    unread_words = f" {counted(unread, 'line')} of the file cannot be read." if unread else ""
    say(f"{counted(len(lines), 'gate')}.{unread_words} {NO_CLAIM}")


def _drawn(low: float | None, figure: float | None, high: float | None, ends: Sequence[float]) -> str:
    """An interval as a line of letters, on the scale of all that are listed.

    >>> _drawn(1.0, 1.5, 2.0, [0.0, 1.0, 1.5, 2.0, 3.0])
    '       ├──●──┤       '
    """
    least, most = min(ends, default=0.0), max(ends, default=0.0)
    if not least < most:
        return ""

    def place(number: float) -> int:
        return round((number - least) / (most - least) * _WIDTH)

    letters: list[Any] = [" "] * (_WIDTH + 1)
    first, final = (0 if low is None else place(low)), (_WIDTH if high is None else place(high))
    if low is not None or high is not None:
        letters[first : final + 1] = "─" * (final + 1 - first)
    for number, letter in ((low, "├"), (high, "┤"), (figure, "●")):
        if number is not None:
            letters[place(number)] = letter
    return "".join(letters)
