"""What was tried and what happened, counted, as a table."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from pathlib import Path

HEADINGS = ("fault", "database", "times", "no answer", "then done", "repeated", "lost", "twice", "torn", "stuck")
LEAST = 2
"""How often everything is tried, however little time there is."""

BEGIN, END = "<!-- torture: begin -->", "<!-- torture: end -->"


@dataclasses.dataclass
class Row:
    """One fault on one database."""

    fault: str
    database: str
    times: int = 0
    silent: int | None = None
    """How often the call had no answer; None where calls are not looked at one by one."""
    done: int | None = None
    """How many of these had been recorded nevertheless."""
    repeated: int | None = None
    lost: int = 0
    twice: int = 0
    torn: int = 0
    stuck: int = 0
    """How often the study could not go on, or did not agree with its record."""
    complaints: list[str] = dataclasses.field(default_factory=list)
    by_deed: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def is_bad(self) -> bool:
        return bool(self.lost or self.twice or self.torn or self.stuck)

    def goes_on(self, times: int, until: float) -> bool:
        """Whether to try again: up to a number of times or until the time is over, but at least twice."""
        return self.times < min(times, LEAST) or (self.times < times and time.monotonic() < until)

    def complain(self, kind: str, text: str) -> None:
        """Count something that must not happen."""
        setattr(self, kind, getattr(self, kind) + 1)
        self.complaints.append(f"{self.fault}, {self.database}: {kind}: {text}")

    def cells(self) -> list[str]:
        counts = (self.times, self.silent, self.done, self.repeated, self.lost, self.twice, self.torn, self.stuck)
        return [self.fault, self.database, *("–" if count is None else f"{count:,}" for count in counts)]


def table(rows: list[Row]) -> str:
    """As Markdown."""
    lines = [HEADINGS, ("---", "---", *["---:"] * (len(HEADINGS) - 2)), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def write(page: Path, text: str) -> None:
    """Put a text between the markers in a page."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: has no place for the table, between {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
