"""A small problem for live studies."""

from __future__ import annotations

import bestarm as ba

NOISE = ba.Gaussian(1.0)


def two_arms(**options: object) -> ba.Plan:
    return ba.Plan(
        arms=(ba.Arm("a"), ba.Arm("b")),
        objective=ba.maximize("gain", noise=NOISE),
        constraints=(ba.at_most("harm", 0.5, noise=ba.Bernoulli(), cost=3.0),),
        **options,  # type: ignore[arg-type]
    )
