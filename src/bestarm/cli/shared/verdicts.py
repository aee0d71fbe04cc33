"""Exit statuses that say what was found, not that something went wrong. Scripts and pipelines rely on them."""

from __future__ import annotations

REFUTED = 3
"""It is certain that no command meets every limit; of a gate, that the candidate does not."""
UNDECIDED = 4
"""The budget is spent, and nothing is certain."""
INTERRUPTED = 130
"""Ctrl-C, or a signal that is handled like it, as shells have it."""

VERDICTS = (REFUTED, UNDECIDED)
