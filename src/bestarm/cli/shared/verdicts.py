"""Exit statuses that say what was found, not that something went wrong. Scripts and pipelines rely on them."""

from __future__ import annotations

import dataclasses
import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bestarm.analysis.status.status import Status
    from bestarm.cli.shared.opening import AnyStudy

REFUTED = 3
"""It is certain that no command meets every limit, or that the candidate of a gate does not."""
UNDECIDED = 4
"""No answer is certified: the study is running, or its budget is spent."""
VOID = 5
"""The results contradict what the guarantee rests on."""
INTERRUPTED = 130
"""Ctrl-C, or a signal that is handled like it, as shells have it."""

VERDICTS = (REFUTED, UNDECIDED, VOID)

EXITS = {"certified": 0, "measured": 0, "refuted": REFUTED, "undecided": UNDECIDED, "void": VOID}
"""By what a race or a gate found."""

IgnoreHealth = Annotated[
    bool, typer.Option("--ignore-health", help="Exit as if the results did not contradict what the guarantee rests on.")
]
"""It changes the exit status alone: what is printed still says that the guarantee is void."""


def exit_status(status: Status, *, ignore_health: bool) -> int:
    """What a study's exit status says of its answer."""
    from bestarm.answer import DECIDED

    if status.guarantee == "void" and not ignore_health:
        return VOID
    if status.state not in DECIDED:
        return UNDECIDED
    return REFUTED if status.answer is None else 0


def status_data(study: AnyStudy, status: Status) -> dict[str, Any]:
    """What `--json` prints of a study: its status and, once it has one, its answer, as in Python."""
    answer = study.answer
    if answer is not None:
        answer = dataclasses.replace(answer, warnings=status.health.through("file").warnings)
    return {**status.to_dict(), "conclusion": None if answer is None else answer.to_dict()}


def stop_on_signals() -> None:
    """Treat a request to end like Ctrl-C: commands that run are ended, and their tests given back."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
