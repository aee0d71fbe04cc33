"""A race as JSON, CSV and Markdown, for scripts that were written for hyperfine: its keys, and more beside them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from bestarm.analysis.status.status import plain
from bestarm.race.result import RaceResult
from bestarm.race.summary import figures_of, history_lines, note_lines, verdict, verdict_words


def as_json(result: RaceResult) -> str:
    return json.dumps({"results": list(_results(result)), "bestarm": _about(result)}, indent=2, ensure_ascii=False)


def _results(result: RaceResult) -> Iterator[dict[str, Any]]:
    verdicts = verdict_words(result)
    reasons = {arm.name: arm.reason for arm in result.status.arms}
    for one in result.contestants:
        runs = result.run_log.of(one.name)
        found = figures_of(runs, result.run_log.floor)
        yield {
            "command": one.command,
            **{key: getattr(found, key) for key in ("mean", "stddev", "median", "user", "system", "min", "max")},
            "times": [run.time for run in runs],
            "memory_usage_byte": [int(run.memory) for run in runs],
            # hyperfine has nothing for a run that a signal ended.
            "exit_codes": [run.status if run.status >= 0 else None for run in runs],
            "parameters": dict(one.parameters),
            "name": one.name,
            "output_byte": [run.output for run in runs],
            "timed_out": [run.timed_out for run in runs],
            "pauses": result.pauses(one.name).count,
            "verdict": verdicts[one.name],
            "reason": reasons[one.name],
        }


def _about(result: RaceResult) -> dict[str, Any]:
    status = result.status
    return {
        "state": status.state,
        "answer": status.answer,
        "leader": status.leader,
        "guarantee": status.guarantee,
        "void_because": list(status.void_because),
        "found": result.found,
        "verdict": verdict(result),
        "pauses_rarer_than": result.conclusion.pauses_rarer_than,
        "pauses_exceed": plain(result.cutoffs),
        "delta": result.delta,
        "runs": status.tests,
        "seed": status.seed,
        "objective": result.question.objective,
        "limits": [limit.words for limit in result.question.limits],
        "baseline": result.question.baseline,
        "timeout": result.timeout,
        "counted_up_to": result.ceilings,
        "differences": plain(result.differences),
        "arms": plain(status.arms),
        "notes": [*history_lines(result), *note_lines(result)],
        "is_interrupted": result.is_interrupted,
        "is_decided_before": bool(result.decided_before),
        "memory_floor": result.run_log.floor,
    }


def as_csv(result: RaceResult) -> str:
    names = sorted({name for one in result.contestants for name in one.parameters})
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    figures = ("mean", "stddev", "median", "user", "system", "min", "max")
    more = ("name", "runs", "memory", "failures", "verdict")
    writer.writerow(["command", *figures, *(f"parameter_{name}" for name in names), *more])
    verdicts = verdict_words(result)
    for one in result.contestants:
        found = figures_of(result.run_log.of(one.name), result.run_log.floor)
        writer.writerow(
            [
                one.command,
                *(getattr(found, key) for key in figures),
                *(one.parameters.get(name, "") for name in names),
                *(one.name, found.runs, found.memory, found.failures, verdicts[one.name]),
            ]
        )
    return rows.getvalue()


def as_markdown(result: RaceResult) -> str:
    """A table such as hyperfine's, and the verdict below it."""
    verdicts = verdict_words(result)
    lines = [
        "| Command | Runs | Mean [ms] | Min [ms] | Max [ms] | Memory [MB] | Failed | Verdict |",
        "|:---|---:|---:|---:|---:|---:|---:|:---|",
    ]
    for one in result.contestants:
        found = figures_of(result.run_log.of(one.name), result.run_log.floor)
        if found.mean is None or found.min is None or found.max is None or found.memory is None:
            cells = ["0", *["–"] * 4, "0"]
        else:
            spread = "" if found.stddev is None else f" ± {1e3 * found.stddev:.1f}"
            times = (f"{1e3 * found.mean:.1f}{spread}", f"{1e3 * found.min:.1f}", f"{1e3 * found.max:.1f}")
            less = "< " if found.memory <= result.run_log.floor else ""
            cells = [str(found.runs), *times, f"{less}{found.memory / 1e6:.1f}", str(found.failures)]
        name = one.name.replace("|", "\\|").replace("`", "'")
        lines.append(f"| `{name}` | {' | '.join(cells)} | {verdicts[one.name]} |")
    return "\n".join([*lines, "", " ".join([verdict(result), *history_lines(result)]), ""])


EXPORTS = {"json": as_json, "csv": as_csv, "markdown": as_markdown}
