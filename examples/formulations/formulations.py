"""All formulations that are good enough: `python examples/formulations/formulations.py`.

The laboratory is simulated. A real one would fill in sheets (`bestarm ask formulations -o sheet.csv`), and nothing else
would change.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import bestarm as ba

TRUTH = {
    "standard": (90.0, 0.30),
    "F1": (89.5, 0.35),
    "F2": (86.0, 0.20),
    "F3": (93.0, 0.40),
    "F4": (91.0, 0.70),
    "F5": (90.0, 0.30),
    "F6": (85.0, 0.90),
    "F7": (89.0, 0.25),
    "F8": (87.3, 0.30),
}
"""By formulation: the mean yield and the mean impurity, which no one knows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, help="at most so many batches, instead of what the study file says")
    parser.add_argument("--seed", type=int, default=1, help="of the simulated laboratory and of the study")
    options = parser.parse_args()
    plan = ba.Plan.load(Path(__file__).with_name("formulations.toml"))
    study = ba.Study.create(plan, storage="formulations.db", seed=options.seed, budget=options.tests)
    laboratory = random.Random(options.seed)
    while not study.done:
        # A plate has 24 wells.
        for test in study.ask(24):
            mean_yield, impurity = TRUTH[test.arm]
            study.tell(test, {"yield": laboratory.gauss(mean_yield, 1.5), "impurity": laboratory.gauss(impurity, 0.1)})
        print(study.status().headline)
    answer = study.answer
    assert answer is not None
    print(answer)
    for name, reason in answer.reasons.items():
        print(f"  {name}: {reason}")


if __name__ == "__main__":
    main()
