"""What remains of a study, as simulated, and in words."""

from __future__ import annotations

import dataclasses
import math
from html import escape
from typing import Any, Literal

from bestarm.analysis.standing.knowledge import about
from bestarm.texts import shown

OutlookState = Literal["simulated", "too early"]

Lines = list[tuple[str, str]]
"""What a line is about, in a word or two, and what it says."""


@dataclasses.dataclass(frozen=True)
class Outlook:
    """Tests and cost still to come: half of such studies end within `median_…`, nine in ten within `p90_…`.

    Infinite if the simulation ended first, or if the budget ended more than half, or more than one in ten. `answers`
    has the share of the simulated studies that ended with each arm, or with "none". If its `state` is "too early",
    nothing is known yet: the numbers are NaN.

    >>> print(Outlook(100, 718.0, 1300.0, 718.0, 1300.0, {"150 mg": 0.98, "100 mg": 0.02}))
    about 720 tests to go (9 in 10: at most 1,300)
    98 of 100 simulated continuations end with 150 mg, 2 with 100 mg
    """

    runs: int
    median_tests: float
    p90_tests: float
    median_cost: float
    p90_cost: float
    answers: dict[str, float]
    state: OutlookState = "simulated"
    after: int = 0
    """The number of tests whose results it knows."""
    basis: str = ""
    """What else it rests on: a study whose `Status.basis` is another has changed in kind, and this is not about it."""
    made: float = dataclasses.field(default=0.0, compare=False)
    """When it was made, in seconds since 1970."""
    at_budget: float = 0.0
    """The share of the simulated studies that the budget ended without an answer."""

    def __str__(self) -> str:
        return "\n".join(shown(text) for _, text in outlook_lines(self))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines())

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is infinite is None."""
        data = dataclasses.asdict(self)
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in data.items()}


ABOUT_FORECASTS = (
    "Continuations are simulated from here on, in worlds that the results leave possible. The "
    "forecasts are calibrated: half of simulated studies, and 9 in 10, ended within them."
)


def outlook_lines(outlook: Outlook) -> Lines:
    """How many tests remain, and what the answer is likely to be."""
    likely = [("likely", answers_words(outlook))] if outlook.state == "simulated" else []
    return [("forecast", to_go_words(outlook)), *likely]


def to_go_words(outlook: Outlook) -> str:
    """How many tests remain, as simulated."""
    if outlook.state == "too early":
        return "too early to say, as there are only a few results of each metric"
    if math.isinf(outlook.median_tests) and outlook.at_budget:
        return "probably more tests to go than the budget leaves"
    if math.isinf(outlook.median_tests):
        return (
            "no end in sight: two are almost tied, or a mean is almost on its threshold; a tolerance or a slack "
            "settles such questions"
        )
    far = "9 in 10: more than the budget leaves" if outlook.at_budget else "1 in 10: far more"
    most = far if math.isinf(outlook.p90_tests) else f"9 in 10: at most {about(outlook.p90_tests)}"
    return f"about {about(outlook.median_tests)} tests to go ({most})"


_STOPPED = "stop at the budget without an answer"


def answers_words(outlook: Outlook) -> str:
    """What the simulated continuations end with, the most frequent answer first."""
    often = sorted(outlook.answers.items(), key=lambda item: -item[1])
    named = [("none feasible" if name == "none" else name, share) for name, share in often]
    # Two answers are named.
    counts = [(f"with {name}", round(share * outlook.runs)) for name, share in named[:2]]
    counts += [("with others", round(sum(share for _, share in named[2:]) * outlook.runs))]
    stopped = round(outlook.at_budget * outlook.runs)
    counts += [("without an answer", outlook.runs - sum(count for _, count in counts) - stopped), (_STOPPED, stopped)]
    (first, most), *rest = [(what, count) for what, count in counts if count]
    more = "".join(f", {count:,} {what}" for what, count in rest)
    ends = first.replace("stop", "stops", 1) if most == 1 else first
    if first != _STOPPED:
        ends = f"end{'s' if most == 1 else ''} {first}"
    return f"{most:,} of {outlook.runs:,} simulated continuations {ends}{more}"
