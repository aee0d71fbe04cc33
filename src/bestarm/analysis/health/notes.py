"""What the checks of a study's results say, in plain words, and what to do about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

HealthKind = Literal[
    "scatter", "outlier", "skewness", "drift", "dependence", "together", "worker", "not exact", "too wide", "remark"
]
Severity = Literal["broken", "doubtful", "hint"]
_SEVERITIES: tuple[Severity, ...] = get_args(Severity)

Door = Literal["python", "file", "race"]
"""The interface that advice is for, since each has its own options: Python, a study file (and what shows such studies:
commands, dashboard, report), and `bestarm race` or `gate`."""

_NEW_STUDY = "in a new study, and import these results."
_SCATTER = "State a larger standard deviation, {larger}, or a noise that needs none, {none}, " + _NEW_STUDY
_SKEWNESS = "State a range with a limit for extreme results, {range}, or ask for a quantile, {quantile}, " + _NEW_STUDY
_TOGETHER = (
    "Start every measurement from the same state, or state what they share, such as a plate or a day, in a new study: "
    "{blocks}, without {same}."
)
_NOT_EXACT = "State how results scatter, for example {noise}, " + _NEW_STUDY

_ADVICE: Mapping[str, Mapping[Door, str] | str] = {
    "scatter": {
        "python": _SCATTER.format(larger="ba.Gaussian(…)", none="ba.Symmetric()"),
        "file": _SCATTER.format(larger="noise = { gaussian = … }", none='noise = "symmetric"'),
    },
    "skewness": {
        "python": _SKEWNESS.format(range="ba.Bounded(low, high)", quantile="ba.Quantile(0.99)"),
        "file": _SKEWNESS.format(range="noise = { bounded = [low, high] }", quantile="noise = { quantile = 0.99 }"),
        "race": "Race again with --assume range, or limit a quantile in place of the mean: --at-most 'p99(time)=…'.",
    },
    "not exact": {
        "python": _NOT_EXACT.format(noise="ba.Symmetric()"),
        "file": _NOT_EXACT.format(noise='noise = "symmetric"'),
    },
    "drift": {
        "python": "Find out what changes over time, and start a new study when it has stopped.",
        "race": "Find out what changes over time (another program, the clock of the processor, a cache that fills: "
        "--warmup, --prepare), and race again when it has stopped.",
    },
    "dependence": {
        "python": "Start every measurement from the same state (restart, clear caches, new samples, random order).",
        "race": "Have every run start from the same state (--prepare), on an idle machine, and race again.",
    },
    "together": {
        "python": _TOGETHER.format(blocks="blocks=ba.Blocks(…)", same="same_for_all=True"),
        "file": _TOGETHER.format(blocks="[blocks]", same="same_for_all"),
        "race": "Have every run start from the same state (--prepare), on an idle machine, and race again.",
    },
    "worker": "Find out what they do differently, and have one way of measuring.",
    "outlier": {
        "python": "If it was mistyped, correct it.",
        "race": "If the command pauses, --at-most pauses=1% limits how often.",
    },
}
"""By kind of finding, and by interface where they differ; one that is not there has the words of Python."""


def advice(kind: str, door: Door) -> str:
    """What to do about a finding; empty if its effect says all.

    >>> advice("skewness", "race")
    "Race again with --assume range, or limit a quantile in place of the mean: --at-most 'p99(time)=…'."
    """
    found = _ADVICE.get(kind, "")
    return found if isinstance(found, str) else found.get(door, found["python"])


@dataclasses.dataclass(frozen=True)
class HealthNote:
    """Something that the results of a study say about what its guarantee rests on.

    `severity` is "broken" if the results contradict an assumption of the guarantee, "doubtful" if something is odd that
    need not touch it, and "hint" if the study only takes more tests than it needs. `metric` and `arm` say where; `arm`
    is None if it is not one arm alone. `seen` says what was seen, and `effect` what that does to the guarantee.
    `sentence` has all of it, and what to do in the words of an interface, the `door`.

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

    @property
    def word(self) -> str:
        """The severity, as it is shown. A remark on what a verdict leaves open casts no doubt on the rest.

        >>> print(HealthNote("remark", "doubtful", "time", None, "the verdict holds except for pauses", ""))
        note: time: the verdict holds except for pauses.
        """
        return "note" if self.kind == "remark" and self.severity == "doubtful" else self.severity

    def __str__(self) -> str:
        return f"{self.word}: {self.sentence}"


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
    severity = next((one for one in _SEVERITIES if one == said), None)
    if severity is None:
        return health
    return Health(health.checks, gravest_first([*health.notes, HealthNote("remark", severity, metric, None, seen, "")]))


def gravest_first(notes: Iterable[HealthNote]) -> tuple[HealthNote, ...]:
    return tuple(sorted(notes, key=lambda note: _SEVERITIES.index(note.severity)))
