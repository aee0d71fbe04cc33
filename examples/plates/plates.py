"""Which formulation is best, where plates differ more than formulations? `python examples/plates/plates.py`

THE LABORATORY IS SIMULATED. `--without-blocks` measures the same wells and does not say which plate they are on.
"""

from __future__ import annotations

import dataclasses
import random
import sys

import bestarm as ba

TRUTH = {"F1": 60.0, "F2": 61.0, "F3": 66.0, "F4": 58.0, "F5": 62.0, "F6": 59.0}
"""By formulation: the mean yield, which no one knows. Wells of a plate scatter by 3 around it."""
WELL, PLATE = 3.0, 30.0
"""Standard deviations: of wells of one plate, and of what a plate adds to each of its wells."""

PROBLEM = ba.Problem(
    arms=list(TRUTH),
    arm_word="formulation",
    objective=ba.maximize("yield", noise=ba.Symmetric()),
    blocks=ba.Blocks("plate", size=24, same_for_all=True),
)


def main() -> None:
    blocks = PROBLEM.blocks if "--without-blocks" not in sys.argv else None
    plan = ba.Plan.of(dataclasses.replace(PROBLEM, blocks=blocks), budget=ba.Budget(tests=960))
    study = ba.Study.create(plan, name="plates" if blocks else "wells", storage="plates.db")
    while not study.done:
        tests = study.ask_block() if blocks else study.ask(24)
        plate = random.gauss(0, PLATE)  # what this plate adds to all of its wells
        study.tell_many([(test, TRUTH[test.arm] + plate + random.gauss(0, WELL)) for test in tests])
    print("The laboratory of this example is simulated.")
    answer = study.answer
    assert answer is not None
    print(answer)
    for name, reason in answer.reasons.items():
        print(f"  {name}: {reason}")


if __name__ == "__main__":
    main()
