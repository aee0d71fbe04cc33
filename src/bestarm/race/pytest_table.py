"""The table of gates and benchmarks at the end of a run of pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bestarm.race.limits import time_words
from bestarm.race.limits_found import multiple
from bestarm.texts import in_columns

_FIGURES = ("min", "mean", "stddev", "median", "max")


def table(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """A row for each gate and benchmark, by test: what a call takes and, of a gate, what it came to.

    >>> figures = {"min": 0.001, "mean": 0.002, "stddev": 0.0, "median": 0.002, "max": 0.003, "rounds": 5}
    >>> print(table([("test_parse", figures)]))
    test        min   mean  stddev  median  max   rounds
    test_parse  1 ms  2 ms  0 s     2 ms    3 ms  5
    """
    has_gates = any("found" in row for _, row in rows)
    gates = ("ratio", "interval", "at most", "verdict") if has_gates else ()
    heads = ("test", *_FIGURES, "rounds", *gates)
    return in_columns([heads, *((name, *_cells(row), *(_of_gate(row) if gates else ())) for name, row in rows)])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    if not row.get("rounds"):
        return ("–",) * len(_FIGURES) + ("0",)
    return (*(time_words(row[name]) for name in _FIGURES), f"{row['rounds']:,}")


def _of_gate(row: Mapping[str, Any]) -> tuple[str, ...]:
    if "found" not in row:
        return ("",) * 4
    low, high = row["low"], row["high"]
    ends = [None if end is None else multiple(end) for end in (low, high)]
    interval = "unknown" if ends == [None, None] else f"{ends[0] or '0x'} to {ends[1] or '?'}"
    ratio = "–" if row["ratio"] is None else multiple(row["ratio"])
    return ratio, interval, multiple(row["at_most"]), row["found"]
