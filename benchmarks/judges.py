"""How many labels a cheap judge saves, and how often an answer is wrong.

    python benchmarks/judges.py                  # the table of docs/how-to/cheap-judge.md
    python benchmarks/judges.py --runs 100       # a tenth of it

Three arms, 2,000 items, labels of 0 and 1, delta = 0.05. The judge is biased against the best arm and in favor of the
others, as far as its mistakes allow: it takes one of the others for the best in every study, and trusting it always
errs, unless it agrees with 99%. Each row has the same labels and orders of items, decided with the judge and without.
In the last rows the best two arms differ by one item in 2,000, so that there is nothing to see before the end, and
every early answer is luck.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

import bestarm as ba
from bestarm.kernel.state import Floats
from bestarm.policies import find_policy
from bestarm.simulation.engine import Job

ITEMS = 2_000
DELTA = 0.05
CLEAR = (1600, 1500, 1400)
"""By arm, the best first: how many items its label is 1 on."""
TIED = (1600, 1599, 1400)
AGREEMENTS = (0.5, 0.8, 0.9, 0.95, 0.97, 0.99)
LIKENESS = 0.5
"""How much of what makes an item hard is the same for all arms: a correlation."""


def labels_of(random: np.random.Generator, ones: Sequence[int]) -> Floats:
    """[arm, item]: labels of items, some of which are hard for all arms."""
    common, own = random.standard_normal(ITEMS), random.standard_normal((len(ones), ITEMS))
    ease = np.sqrt(LIKENESS) * common + np.sqrt(1.0 - LIKENESS) * own
    ranks = (-ease).argsort(axis=1).argsort(axis=1)
    return np.where(ranks < np.array(ones)[:, np.newaxis], 1.0, 0.0)


def scores_of(random: np.random.Generator, labels: Floats, agreement: float) -> Floats:
    """[arm, item]: what the judge says. It errs against the first arm, and for the others; if it agrees with half of
    the labels, by chance alone."""
    if agreement == 0.5:
        rates = np.array([0.45, *[0.55] * (len(labels) - 1)])
        return np.where(random.uniform(size=labels.shape) < rates[:, np.newaxis], 1.0, 0.0)
    scores, wrong = labels.copy(), round((1.0 - agreement) * labels.shape[1])
    for arm, row in enumerate(labels):
        judged = np.flatnonzero(row == (1.0 if arm == 0 else 0.0))
        scores[arm, random.choice(judged, wrong, replace=False)] = 0.0 if arm == 0 else 1.0
    return scores


@dataclasses.dataclass(frozen=True)
class Labelling(Job):
    """Studies whose items have labels and scores."""

    ones: tuple[int, ...] = CLEAR
    agreement: float = 0.5

    def drawn(self, run: int) -> tuple[Floats, Floats]:
        """The labels and the scores of a run, in its random order of items."""
        random = np.random.default_rng((self.seed, run))
        labels = labels_of(random, self.ones)
        return labels, scores_of(np.random.default_rng((self.seed, run, 1)), labels, self.agreement)

    def world(self, run: int, room: int) -> Floats:
        labels, scores = self.drawn(run)
        if self.problem.judged:
            judge = self.setting.items.judge
            judge.scores[:, 0] = scores
            judge.means[:, 0] = scores.mean(axis=1)
        return labels[:, np.newaxis, :]


def job_of(ones: tuple[int, ...], agreement: float, judge: str | None) -> Labelling:
    arms = [ba.Arm(f"arm {k + 1}", means={"label": count / ITEMS}) for k, count in enumerate(ones)]
    objective = ba.maximize("label", noise=ba.Bernoulli(), judge=judge)
    problem = ba.Problem(arms=arms, objective=objective, items=ITEMS)
    fields: dict[str, Any] = {"delta": DELTA, "bound": "paper", "seed": 1, "max_tests": 10**9}
    return Labelling(problem, find_policy("certify"), ones=ones, agreement=agreement, **fields)


@functools.cache
def _alone(ones: tuple[int, ...], runs: int) -> tuple[float, int]:
    """The mean number of labels without a judge, and how many answers were wrong."""
    outcomes = job_of(ones, 0.5, None).simulate(0, runs).outcomes
    return float(outcomes.tests.mean()), int((outcomes.answers != 0).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description="What a cheap judge saves.")
    parser.add_argument("--runs", type=int, default=1_000, help="studies in each row (default: 1,000)")
    runs = parser.parse_args().runs
    print(
        "| best arms | the judge agrees on | labels without it | with it | ratio | wrong without | with | trusting it |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for ones, agreements in ((CLEAR, AGREEMENTS), (TIED, (0.5, 0.9, 0.97))):
        for agreement in agreements:
            job = job_of(ones, agreement, "score")
            outcomes = job.simulate(0, runs).outcomes
            alone, wrong_alone = _alone(ones, runs)
            trusting = sum(job.drawn(run)[1].mean(axis=1).argmax() != 0 for run in range(runs))
            best = " and ".join(f"{count / ITEMS:.2%}" for count in ones[:2])
            labels, wrong = float(outcomes.tests.mean()), int((outcomes.answers != 0).sum())
            print(
                f"| {best} | {agreement:.0%} | {alone:,.0f} | {labels:,.0f} | {labels / alone:.2f} | {wrong_alone} |"
                f" {wrong} | {trusting} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
