"""What the checks of a study's results say, in plain words."""

from __future__ import annotations

import dataclasses
from typing import Literal

HealthKind = Literal[
    "scatter", "outlier", "skewness", "drift", "dependence", "together", "worker", "not exact", "too wide"
]
Severity = Literal["broken", "doubtful", "hint"]


@dataclasses.dataclass(frozen=True)
class HealthNote:
    """Something that the results of a study say about what its guarantee rests on.

    `severity` is "broken" if the results contradict an assumption of the guarantee, "doubtful" if something is odd that
    need not touch it, and "hint" if the study only takes more tests than it needs. `metric` and `arm` say where; `arm`
    is None if it is not one arm alone. `sentence` says what was seen, what that does to the guarantee, and what to do.

    >>> note = HealthNote("drift", "broken", "yield", None, "yield: later results are larger than earlier ones. …")
    >>> print(note)
    broken: yield: later results are larger than earlier ones. …
    """

    kind: HealthKind
    severity: Severity
    metric: str
    arm: str | None
    sentence: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.sentence}"


@dataclasses.dataclass(frozen=True)
class Health:
    """How many things were checked in a study's results, and what was found, the gravest first.

    If everything the guarantee rests on is true, the checks of one study together say "broken" in at most one study in
    a thousand.

    >>> print(Health(12))
    no sign of trouble: 12 checks
    """

    checks: int = 0
    notes: tuple[HealthNote, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of all notes but hints."""
        return tuple(note.sentence for note in self.notes if note.severity != "hint")

    def __str__(self) -> str:
        return "\n".join(map(str, self.notes)) or f"no sign of trouble: {self.checks:,} checks"
