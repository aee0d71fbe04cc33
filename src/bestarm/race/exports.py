"""A race as JSON, CSV and Markdown, for scripts that were written for hyperfine: its keys, and more beside them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from bestarm.analysis.status.status import plain
from bestarm.race.race import Outcome
from bestarm.race.summary import figures_of, found_by, history_lines, note_lines, verdict, verdict_words
from bestarm.race.symmetry import conclusion_of, paused


def as_json(outcome: Outcome) -> str:
    return json.dumps({"results": list(_results(outcome)), "bestarm": _about(outcome)}, indent=2, ensure_ascii=False)


def _results(outcome: Outcome) -> Iterator[dict[str, Any]]:
    verdicts = verdict_words(outcome)
    reasons = {arm.name: arm.reason for arm in outcome.status.arms}
    for one in outcome.contestants:
        runs = outcome.records.of(one.name)
        found = figures_of(runs, outcome.records.floor)
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
            "pauses": paused(outcome, one.name).count,
            "verdict": verdicts[one.name],
            "reason": reasons[one.name],
        }


def _about(outcome: Outcome) -> dict[str, Any]:
    status = outcome.status
    return {
        "state": status.state,
        "answer": status.answer,
        "leader": status.leader,
        "guarantee": status.guarantee,
        "void_because": list(status.void_because),
        "found": found_by(outcome),
        "verdict": verdict(outcome),
        "pauses_rarer_than": conclusion_of(outcome).pauses_rarer_than,
        "pauses_exceed": plain(outcome.cutoffs),
        "delta": outcome.delta,
        "runs": status.tests,
        "seed": status.seed,
        "objective": outcome.question.objective,
        "limits": [limit.words for limit in outcome.question.limits],
        "baseline": outcome.question.baseline,
        "timeout": outcome.timeout,
        "counted_up_to": outcome.ceilings,
        "differences": plain(outcome.differences),
        "arms": plain(status.arms),
        "notes": [*history_lines(outcome), *note_lines(outcome)],
        "is_interrupted": outcome.is_interrupted,
        "is_decided_before": bool(outcome.decided),
        "memory_floor": outcome.records.floor,
    }


def as_csv(outcome: Outcome) -> str:
    names = sorted({name for one in outcome.contestants for name in one.parameters})
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    figures = ("mean", "stddev", "median", "user", "system", "min", "max")
    more = ("name", "runs", "memory", "failures", "verdict")
    writer.writerow(["command", *figures, *(f"parameter_{name}" for name in names), *more])
    verdicts = verdict_words(outcome)
    for one in outcome.contestants:
        found = figures_of(outcome.records.of(one.name), outcome.records.floor)
        writer.writerow(
            [
                one.command,
                *(getattr(found, key) for key in figures),
                *(one.parameters.get(name, "") for name in names),
                *(one.name, found.runs, found.memory, found.failures, verdicts[one.name]),
            ]
        )
    return rows.getvalue()


def as_markdown(outcome: Outcome) -> str:
    """A table such as hyperfine's, and the verdict below it."""
    verdicts = verdict_words(outcome)
    lines = [
        "| Command | Runs | Mean [ms] | Min [ms] | Max [ms] | Memory [MB] | Failed | Verdict |",
        "|:---|---:|---:|---:|---:|---:|---:|:---|",
    ]
    for one in outcome.contestants:
        found = figures_of(outcome.records.of(one.name), outcome.records.floor)
        if found.mean is None or found.min is None or found.max is None or found.memory is None:
            cells = ["0", *["–"] * 4, "0"]
        else:
            spread = "" if found.stddev is None else f" ± {1e3 * found.stddev:.1f}"
            times = (f"{1e3 * found.mean:.1f}{spread}", f"{1e3 * found.min:.1f}", f"{1e3 * found.max:.1f}")
            less = "< " if found.memory <= outcome.records.floor else ""
            cells = [str(found.runs), *times, f"{less}{found.memory / 1e6:.1f}", str(found.failures)]
        name = one.name.replace("|", "\\|").replace("`", "'")
        lines.append(f"| `{name}` | {' | '.join(cells)} | {verdicts[one.name]} |")
    return "\n".join([*lines, "", " ".join([verdict(outcome), *history_lines(outcome)]), ""])


EXPORTS = {"json": as_json, "csv": as_csv, "markdown": as_markdown}
