"""What to do about a finding, in the words of the reader's interface (the door): each has its own options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Door = Literal["python", "file", "race"]
"""Python, a study file (and what shows such studies: commands, dashboard, report), and `bestarm race` or `gate`."""

_ANEW = "in a new study, and import these results."
_SCATTER = "State a larger standard deviation, {larger}, or a noise that needs none, {none}, " + _ANEW
_SKEWNESS = "State a range with a limit for extreme results, {range}, or ask for a quantile, {quantile}, " + _ANEW
_NOT_EXACT = "State how results scatter, for example {noise}, " + _ANEW

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
        "python": "Make every measurement afresh (restart, clear caches, new samples, random order).",
        "race": "Have every run start from the same state (--prepare), on an idle machine, and race again.",
    },
    "together": {
        "python": "Make every measurement afresh, or measure each arm once on each plate, and state the plates as "
        "items.",
        "race": "Have every run start from the same state (--prepare), on an idle machine, and race again.",
    },
    "worker": "Find out what they do differently, and have one way of measuring.",
    "outlier": {
        "python": "If it was mistyped, correct it.",
        "race": "If the command pauses, --at-most pauses=1% limits how often.",
    },
}
"""By kind of finding, and by door where doors differ; one that is not there has the words of Python."""


def advice(kind: str, door: Door) -> str:
    """What to do about a finding; empty if its effect says all.

    >>> advice("skewness", "race")
    "Race again with --assume range, or limit a quantile in place of the mean: --at-most 'p99(time)=…'."
    """
    found = _ADVICE.get(kind, "")
    return found if isinstance(found, str) else found.get(door, found["python"])
