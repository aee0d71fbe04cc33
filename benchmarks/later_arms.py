"""Arms that come later, on items: `python benchmarks/later_arms.py [RUNS]`.

Two arms are right on 60% and on 40% of 240 items. When 60 places of the order have been met, an arm comes:

- *tuned*: right on all items that were met, and on one item less than the better arm in all;
- *better*, *worse*: right on 80% and on 30% of the items, at random.

It prints how many of the studies, at delta = 0.05 and with a reserve of 0.2, are wrong within 600 further tests, as
they are and if what was met before counted as evidence about the new arm, too; and how many tests of the new arm, and
of the others, those that ended took after it came. `repeats` draws the items again and again.
"""

from __future__ import annotations

import itertools
import sys
from typing import NamedTuple

import numpy as np

import bestarm as ba
from bestarm.evidence.items import place_of_next
from bestarm.policies.certify import Certify
from bestarm.policies.decisions import Stop

ITEMS, MET, MOST = 240, 60, 600


class Course(NamedTuple):
    """How a study went on after the arm came."""

    answer: int | None
    is_over: bool
    tests: list[int]
    """By arm."""


class World:
    """Whether each arm is right on each item, and what has been measured."""

    def __init__(self, repeats: bool, seed: int) -> None:
        self._random, self._repeats = np.random.default_rng(seed), repeats
        order = self._random.integers(ITEMS, size=10**4) if repeats else self._random.permutation(ITEMS)
        self._order: list[int] = order.tolist()
        self.right = [self._some(0.6), self._some(0.4)]
        self._made: list[tuple[int, int]] = []

    def _some(self, share: float) -> list[bool]:
        return [k < share * ITEMS for k in self._random.permutation(ITEMS).tolist()]

    @property
    def met(self) -> int:
        return 1 + max((place for _, place in self._made), default=-1)

    def add(self, kind: str) -> None:
        """Bring an arm."""
        if kind != "tuned":
            self.right.append(self._some({"better": 0.8, "worse": 0.3}[kind]))
            return
        met = {self._order[place] for place in range(self.met)}
        others = [k for k in self._random.permutation(ITEMS).tolist() if k not in met]
        right = met | {*others[: sum(self.right[0]) - 1 - len(met)]}
        self.right.append([k in right for k in range(ITEMS)])

    def go_on(self, since: int, most: int, until: int = 10**9) -> Course:
        """Up to so many tests, or until so many places have been met."""
        names = ["good", "bad", "new"][: len(self.right)]
        arms = [ba.Arm(name, added=int(name == "new"), since=since if name == "new" else 0) for name in names]
        objective = ba.maximize("right", noise=ba.Bernoulli())
        plan = ba.Plan(arms, objective, items=ITEMS, repeats=self._repeats, delta=0.05, reserve=0.2)
        policy = Certify(Certify.new_setting(plan, plan.delta, plan.bound), len(arms), 1)
        for arm, place in self._made:
            self._tell(policy, arm, place)
        before = len(self._made)
        while len(self._made) < before + most and self.met < until:
            decision = policy.propose()
            if isinstance(decision, Stop):
                return Course(decision.arm, True, policy.streams.counts[:, 0].tolist())
            for arm, metric in decision:
                place = int(place_of_next(policy.setting, policy.streams, arm, metric))
                self._made.append((arm, place))
                self._tell(policy, arm, place)
        return Course(None, False, policy.streams.counts[:, 0].tolist())

    def _tell(self, policy: Certify, arm: int, place: int) -> None:
        policy.tell_together([(arm, 0, float(self.right[arm][self._order[place]]))], [place])


def main(runs: int) -> None:
    print(f"{'items':8} {'arm':7} {'what was met':12} {'wrong':>9} {'ended':>6} {'of it':>7} {'of others':>9}")
    for repeats, kind, counts in itertools.product((False, True), ("tuned", "better", "worse"), (False, True)):
        if kind != "tuned" and counts:
            continue
        wrong, of_it, of_others = 0, [], []
        for seed in range(runs):
            world = World(repeats, seed)
            before = sum(world.go_on(0, 10**6, MET).tests)
            world.add(kind)
            course = world.go_on(0 if counts else world.met, MOST)
            best = max(range(3), key=lambda arm: sum(world.right[arm]))
            wrong += course.is_over and course.answer != best
            if course.is_over:
                of_it.append(course.tests[2])
                of_others.append(sum(course.tests[:2]) - before)
        means = [f"{np.mean(tests):.0f}" if tests else "" for tests in (of_it, of_others)]
        how = "counted" if counts else "no evidence"
        words = "repeats" if repeats else "a set"
        print(f"{words:8} {kind:7} {how:12} {wrong:4} of {runs} {len(of_it):6} {means[0]:>7} {means[1]:>9}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
