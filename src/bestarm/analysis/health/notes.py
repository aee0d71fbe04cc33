"""What the checks of a study's results say, in plain words."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

from bestarm.analysis.health.advice import Door, advice

HealthKind = Literal[
    "scatter", "outlier", "skewness", "drift", "dependence", "together", "worker", "not exact", "too wide", "remark"
]
Severity = Literal["broken", "doubtful", "hint"]


@dataclasses.dataclass(frozen=True)
class HealthNote:
    """Something that the results of a study say about what its guarantee rests on.

    `severity` is "broken" if the results contradict an assumption of the guarantee, "doubtful" if something is odd that
    need not touch it, and "hint" if the study only takes more tests than it needs. `metric` and `arm` say where; `arm`
    is None if it is not one arm alone. `seen` says what was seen, and `effect` what that does to the guarantee.
    `sentence` has all of it, and what to do in the words of a `door`: Python, a study file, or a race.

    >>> note = HealthNote("outlier", "doubtful", "yield", "b", "test 7 gave 93", "If this happens, σ is wrong.")
    >>> print(note)
    doubtful: yield of b: test 7 gave 93. If this happens, σ is wrong. If it was mistyped, correct it.
    >>> note.reason
    'test 7 gave 93 (yield of b)'
    """

    kind: HealthKind
    severity: Severity
    metric: str
    arm: str | None
    seen: str
    effect: str
    door: Door = "python"

    @property
    def where(self) -> str:
        return self.metric if self.arm is None else f"{self.metric} of {self.arm}"

    @property
    def reason(self) -> str:
        """What was seen and where, as it can follow "because"."""
        return f"{self.seen} ({self.where})"

    @property
    def sentence(self) -> str:
        return " ".join(filter(None, (f"{self.where}: {self.seen}.", self.effect, advice(self.kind, self.door))))

    def through(self, door: Door) -> HealthNote:
        """The same note in the words of another interface."""
        return dataclasses.replace(self, door=door)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the sentence in place of the door that it is for."""
        data = dataclasses.asdict(self) | {"sentence": self.sentence}
        del data["door"]
        return data

    def __str__(self) -> str:
        return f"{self.severity}: {self.sentence}"


def remark_words(severity: Literal["broken", "doubtful"], metric: str, seen: str) -> str:
    """A remark on an answer, as it stands in a study's log."""
    return f"{severity}: {metric}: {seen}"


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
    def void_because(self) -> tuple[str, ...]:
        """The assumptions of the guarantee that the results contradict. If there are any, the guarantee is void."""
        return tuple(note.reason for note in self.notes if note.severity == "broken")

    def through(self, door: Door) -> Health:
        """The same in the words of another interface."""
        return Health(self.checks, tuple(note.through(door) for note in self.notes))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of all notes but hints."""
        return tuple(note.sentence for note in self.notes if note.severity != "hint")

    def __str__(self) -> str:
        return "\n".join(map(str, self.notes)) or f"no sign of trouble: {self.checks:,} checks"


def with_remark(health: Health, remark: str) -> Health:
    """Add a remark on the answer, as `remark_words` writes it. A remark that cannot be read changes nothing.

    >>> with_remark(Health(12), "broken: time: one command pauses").void_because
    ('one command pauses (time)',)
    """
    said, metric, seen = [*remark.split(": ", 2), "", ""][:3]
    severities: tuple[Severity, ...] = get_args(Severity)
    severity = next((one for one in severities if one == said), None)
    if severity is None:
        return health
    notes = (*health.notes, HealthNote("remark", severity, metric, None, seen, ""))
    return Health(health.checks, tuple(sorted(notes, key=lambda note: severities.index(note.severity))))
