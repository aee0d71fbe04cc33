"""Gates with true means: is one arm within its limits, of its own or relative to a baseline?"""

from __future__ import annotations

from typing import Any

import bestarm as ba

DELTA = 0.2
NOISES: dict[str, tuple[Any, float | None]] = {
    "gaussian": (ba.Gaussian(0.3), None),
    "bernoulli": (ba.Bernoulli(), None),
    "symmetric": (ba.Symmetric(), 0.2),
    "bounded": (ba.Bounded(0.0, 1.0), 0.2),
}
ITEMS: dict[str, dict[str, Any]] = {"": {}, "again": {"items": 1, "repeats": True}, "set": {"items": 80}}
LIMITS = ("of its own", "relative", "relative twice", "both kinds", "own, beside a baseline")


def gate(
    noise: str, limits: str, miss: float, items: str = "", *, rules: int = 2, goal: str = "any feasible"
) -> ba.Plan:
    """Is the new arm, whose first metric misses its limit by so much, within its limits? The baseline is not within
    limits of its own."""
    of_noise, spread = NOISES[noise]
    relative, own = {"relative_to_baseline": 1.25}, {"threshold": 0.5}
    kinds = {"relative": [relative], "relative twice": [relative, relative], "both kinds": [relative, own]}
    stated = [
        ba.at_most(metric, noise=of_noise, **kind)  # type: ignore[arg-type]
        for metric, kind in zip(("cost", "waste"), kinds.get(limits, [own]), strict=False)
    ]
    metrics = ("candidate", *(part.metric for part in stated))
    spreads = None if spread is None else dict.fromkeys(metrics[1:], spread)
    old, new = (
        ba.Arm(name, dict(zip(metrics, means, strict=False)), spreads=spreads)
        for name, means in (("old", (0.0, 0.4, 0.6)), ("new", (1.0, 0.5 + miss, 0.2)))
    )
    has_baseline = limits != "of its own"
    return ba.Plan(
        arms=[old, new] if has_baseline else [new],
        objective=ba.maximize("candidate", noise=ba.Exact()),
        constraints=stated,
        measurements=[ba.Measurement(metrics)],
        baseline="old" if has_baseline else None,
        goal=goal,  # type: ignore[arg-type]
        rules=rules,
        delta=DELTA,
        **ITEMS[items],
    )
