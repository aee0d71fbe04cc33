"""A race as JSON, CSV and tables, for scripts that were written for hyperfine: its keys, and more beside them."""

from __future__ import annotations

import csv
import functools
import io
import json
import math
from collections.abc import Iterator
from typing import Any

from bestarm.answer import plain
from bestarm.noises.shares import Share
from bestarm.race.benchmark import median_of_runs
from bestarm.race.closing import closing_line, ratio_lines, times_better
from bestarm.race.conclusions import conclusion_of
from bestarm.race.limits import TIMES, times_unit
from bestarm.race.limits_found import HEADINGS, interval_words, limits_found
from bestarm.race.result import RaceResult
from bestarm.race.summary import (
    figures_of,
    history_lines,
    mean_and_deviation,
    mean_of,
    note_lines,
    verdict,
    verdict_words,
    verdicts_shown,
)
from bestarm.race.tables import markdown_table


def as_json(result: RaceResult) -> str:
    return json.dumps({"results": list(_results(result)), "bestarm": _about(result)}, indent=2, ensure_ascii=False)


def _results(result: RaceResult) -> Iterator[dict[str, Any]]:
    verdicts = verdict_words(result)
    reasons = {arm.name: arm.reason for arm in result.status.arms}
    for one in result.contestants:
        runs = result.run_log.of(one.name)
        found = figures_of(runs, result.run_log.floor)
        own = {metric.name: [_plain(run.own.get(metric.name)) for run in runs] for metric in result.question.own}
        yield {
            # hyperfine's scripts take this for labels.
            "command": one.name if one.is_named else one.command,
            **{key: getattr(found, key) for key in ("mean", "stddev", "median", "user", "system", "min", "max")},
            "times": [run.time for run in runs],
            "memory_usage_byte": [int(run.memory) for run in runs],
            # hyperfine has nothing for a run that a signal ended.
            "exit_codes": [run.status if run.status >= 0 else None for run in runs],
            "parameters": dict(one.parameters),
            "name": one.name,
            "command_line": one.command,
            "output_byte": [run.output for run in runs],
            "timed_out": [run.timed_out for run in runs],
            **({"metrics": own} if own else {}),
            **({"machines": [run.on for run in runs]} if any(result.machines) else {}),
            "pauses": result.pauses(one.name).count,
            "verdict": verdicts[one.name],
            "reason": "" if result.is_benchmark else reasons[one.name],
        }


def _plain(value: float | Share | None) -> float | str | None:
    return str(value) if isinstance(value, Share) else value


def _about(result: RaceResult) -> dict[str, Any]:
    status, closing = result.status, closing_line(result)
    ratios = () if closing is None else ratio_lines(result)
    return {
        "state": result.found if result.is_benchmark else status.state,
        "answer": None if result.is_benchmark else status.answer,
        "leader": None if result.is_benchmark else status.leader,
        "guarantee": "none" if result.is_benchmark else status.guarantee,
        **({"median": plain(median_of_runs(result)._asdict())} if result.is_benchmark else {}),
        "closing": closing,
        "times_better": {name: plain(ratio._asdict()) for name, ratio in times_better(result).items()},
        **conclusion_of(result),
        "pauses_exceed": plain(result.cutoffs),
        "objective": result.question.objective,
        "goal": result.question.goal,
        **({"metrics": {metric.name: metric.text for metric in result.question.own}} if result.question.own else {}),
        "limits": [limit.words for limit in result.question.limits],
        "baseline": result.question.baseline,
        "timeout": result.timeout,
        "counted_up_to": result.ceilings,
        "differences": plain(result.differences),
        "arms": [] if result.is_benchmark else plain(status.arms),
        "notes": [*history_lines(result), *ratios, *note_lines(result)],
        "is_interrupted": result.is_interrupted,
        "memory_floor": result.run_log.floor,
        **({"machines": result.machines, "lost_machines": dict(result.lost)} if any(result.machines) else {}),
        **({"claim": f"the mean over {result.over_machines}"} if result.over_machines else {}),
    }


def as_csv(result: RaceResult) -> str:
    names = sorted({name for one in result.contestants for name in one.parameters})
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    figures = ("mean", "stddev", "median", "user", "system", "min", "max")
    own = result.question.own
    asked = ["output"] if "output" in result.question.metrics else []
    more = ("name", "runs", "memory", "failures", "verdict", *(metric.name for metric in own), *asked)
    writer.writerow(["command", *figures, *(f"parameter_{name}" for name in names), *more])
    verdicts = verdicts_shown(result)
    for one in result.contestants:
        runs = result.run_log.of(one.name)
        found = figures_of(runs, result.run_log.floor, own)
        writer.writerow(
            [
                one.name if one.is_named else one.command,
                *(getattr(found, key) for key in figures),
                *(one.parameters.get(name, "") for name in names),
                *(one.name, found.runs, found.memory, found.failures, verdicts[one.name]),
                *(found.own.get(metric.name, "") for metric in own),
                *(mean_of(runs, metric) if runs else "" for metric in asked),
            ]
        )
    return rows.getvalue()


def _table(result: RaceResult) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: hyperfine's columns, then ours."""
    own, floor, known = result.question.own, result.run_log.floor, result.question.known
    asked = [metric for metric in ("user", "system", "output") if metric in result.question.metrics]
    found = {one.name: figures_of(result.run_log.of(one.name), floor, own) for one in result.contestants}
    means = {name: figures.mean for name, figures in found.items() if figures.mean is not None}
    unit = times_unit() or ("ms" if min(means.values(), default=0.0) < 1.0 else "s")
    reference = means.get(result.question.reference or "", min(means.values(), default=0.0))
    words = functools.partial(_in_unit, unit=unit)
    verdicts = verdicts_shown(result)
    rows = []
    for name, figures in found.items():
        if figures.mean is None or figures.min is None or figures.max is None or figures.memory is None:
            cells = [*["–"] * 4, "0", "–", "0"]
        else:
            spread = "" if figures.stddev is None else f" ± {words(figures.stddev)}"
            relative = f"{figures.mean / reference:.2f}" if reference else "–"
            less = "< " if figures.memory <= floor else ""
            cells = [f"{words(figures.mean)}{spread}", words(figures.min), words(figures.max), relative]
            cells += [str(figures.runs), f"{less}{figures.memory / 1e6:.1f}", str(figures.failures)]
        of_asked = {metric: mean_and_deviation(result.run_log.of(name), metric, floor)[0] for metric in asked}
        cells += ["–" if math.isnan(mean) else known[metric].words(mean) for metric, mean in of_asked.items()]
        cells += [metric.words(figures.own[metric.name]) if metric.name in figures.own else "–" for metric in own]
        rows.append([name, *cells, verdicts[name]])
    times = [f"{name} [{unit}]" for name in ("Mean", "Min", "Max")]
    return [
        "Command",
        *times,
        "Relative",
        "Runs",
        "Memory [MB]",
        "Failed",
        *(metric.capitalize() for metric in asked),
        *(metric.name for metric in own),
        "Verdict",
    ], rows


def _in_unit(seconds: float, unit: str) -> str:
    return f"{seconds / TIMES[unit]:.{3 if unit == 's' else 1}f}"


def _conclusion(result: RaceResult) -> str:
    return " ".join([verdict(result), *history_lines(result)])


def as_markdown(result: RaceResult) -> str:
    """A table such as hyperfine's, and the verdict below it."""
    heads, rows = _table(result)
    quoted = [["`" + name.replace("`", "'") + "`", *cells] for name, *cells in rows]
    lines = markdown_table(heads, quoted, {0, len(heads) - 1})
    if result.question.is_gate:
        lines += ["", *_limit_rows(result)]
    return "\n".join([*lines, "", _conclusion(result), ""])


def _limit_rows(result: RaceResult) -> Iterator[str]:
    """A row for each limit of a gate."""
    found = limits_found(result)
    yield from markdown_table([word.capitalize() for word in HEADINGS], [one.cells for one in found], {0, 1, 3})
    if any(one.low is not None or one.high is not None for one in found):
        yield ""
        yield interval_words(result)


def as_asciidoc(result: RaceResult) -> str:
    """The same for AsciiDoc."""
    heads, rows = _table(result)
    columns = ",".join(["<", *[">"] * (len(heads) - 2), "<"])
    lines = [f'[cols="{columns}"]', "|===", *(f"| {head} " for head in heads)]
    for name, *cells in rows:
        plain_name = name.replace("|", "\\|").replace("`", "'")
        lines += ["", f"| `{plain_name}` ", *(f"| {cell} " for cell in cells)]
    return "\n".join([*lines, "|===", "", _conclusion(result), ""])


def as_orgmode(result: RaceResult) -> str:
    """The same for Org."""
    heads, rows = _table(result)
    lines = [f"| {' | '.join(heads)} |", f"|{'+'.join(['--'] * len(heads))}|"]
    for name, *cells in rows:
        # A vertical bar ends a cell, and nothing escapes it within verbatim text.
        lines.append(f"| ={name.replace('|', '¦')}= | {' | '.join(cells)} |")
    return "\n".join([*lines, "", _conclusion(result), ""])


EXPORTS = {
    "json": as_json,
    "csv": as_csv,
    "markdown": as_markdown,
    "asciidoc": as_asciidoc,
    "orgmode": as_orgmode,
}
