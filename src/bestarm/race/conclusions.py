"""What a race or gate came to as data: the same words and figures in files, the history, pytest and Python."""

from __future__ import annotations

from typing import Any

from bestarm.answer import plain
from bestarm.race.limits_found import limits_found
from bestarm.race.result import RaceResult
from bestarm.race.summary import verdict


def conclusion_of(result: RaceResult) -> dict[str, Any]:
    """What every way to ask for a gate says of it, as JSON has it."""
    return {
        "found": result.found,
        "verdict": verdict(result),
        "void_because": list(result.status.void_because),
        "pauses_rarer_than": result.conclusion.pauses_rarer_than,
        "delta": result.delta,
        "runs": len(result.run_log.runs) if result.is_benchmark else result.status.tests,
        "seed": result.status.seed,
        **({"limits_found": plain(limits_found(result))} if result.question.is_gate else {}),
        "is_decided_before": bool(result.decided_before),
    }
