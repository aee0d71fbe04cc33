"""How many trees, if the forest must fit into 5 MB? `python examples/hyperparameters/hyperparameters.py`

The forest reads handwritten digits, from the data set that comes with scikit-learn.
"""

from __future__ import annotations

import pickle

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import bestarm as ba

TREES = {"1 tree": 1, "5 trees": 5, "80 trees": 80, "1,000 trees": 1000}
PIXELS, DIGITS = load_digits(return_X_y=True)
TRAIN, HELD_OUT = train_test_split(np.arange(len(DIGITS)), test_size=800, random_state=1, stratify=DIGITS)

PROBLEM = ba.Problem(
    arms=list(TREES),
    arm_word="forest",
    items=[f"digit {k}" for k in HELD_OUT],
    objective=ba.maximize("accuracy", noise=ba.Bernoulli(), tolerance=0.02),
    # It never varies, so one look at each forest settles it.
    constraints=[ba.at_most("size", 5.0, noise=ba.Exact(), unit="MB")],
)


def main() -> None:
    forests = {
        name: RandomForestClassifier(trees, random_state=1).fit(PIXELS[TRAIN], DIGITS[TRAIN])
        for name, trees in TREES.items()
    }

    def measure(forest: str, metric: str, item: str) -> float:
        if metric == "size":
            return len(pickle.dumps(forests[forest])) / 1e6
        row = int(item.removeprefix("digit "))
        return float(forests[forest].predict(PIXELS[[row]])[0] == DIGITS[row])

    answer = ba.identify(PROBLEM, measure, name="hyperparameters", storage="hyperparameters.db")
    print(answer)
    for name, reason in answer.reasons.items():
        print(f"  {name}: {reason}")
    print(f"Tests: {answer.tests:,}; all digits with all forests are {len(TREES) * len(HELD_OUT):,}")


if __name__ == "__main__":
    main()
