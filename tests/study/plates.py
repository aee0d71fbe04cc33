"""Four formulations on plates that differ and drift."""

from __future__ import annotations

import random
from typing import Any

import bestarm as ba
from bestarm.study import Test

MEANS = {"F1": 0.0, "F2": 0.2, "F3": 2.5, "F4": -0.3}
PLATE = ba.Blocks("plate", size=12)


def plan(**fields: Any) -> ba.Plan:
    yields = ba.maximize("yield", noise=ba.Symmetric())
    stated: dict[str, Any] = {"arms": [*MEANS], "objective": yields, "blocks": PLATE, "delta": 0.1}
    return ba.Plan(**(stated | fields))


def block_of(test: Test) -> str:
    assert test.item is not None
    return test.item.rsplit(" ", 1)[0]


def measured(test: Test, seed: int = 0) -> float:
    """What a test gives: the plate adds ten times what measurements scatter, and plates drift."""
    number = int(block_of(test).split()[-1])
    plate = random.Random(f"{seed} {number}").gauss(0.5 * number, 10.0)
    return MEANS[test.arm] + plate + random.Random(f"{seed} {test.item}").gauss(0.0, 1.0)


def finish(study: ba.Study) -> ba.Answer:
    while not study.done:
        study.tell_many([(test, measured(test)) for test in study.ask_block()])
    assert study.answer is not None
    return study.answer
