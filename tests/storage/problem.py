"""A problem whose answer is known, and its measurements."""

from __future__ import annotations

import numpy as np

import bestarm as ba

DELTA = 1e-6
"""A study may err with this probability; the tests here make ten or so."""
MEANS = {"safe": (2.0, -1.5), "bold": (4.0, 1.5), "poor": (0.0, -1.5)}


def problem() -> ba.Problem:
    """Its answer is "safe"."""
    return ba.Problem(
        arms=tuple(ba.Arm(name, {"gain": gain, "risk": risk}) for name, (gain, risk) in MEANS.items()),
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("risk", 0.0, noise=ba.Gaussian(1.0)),),
    )


def measure(test: ba.Test) -> float:
    return MEANS[test.arm][("gain", "risk").index(test.metric)] + float(np.random.default_rng(test.id).normal())
