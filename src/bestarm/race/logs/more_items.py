"""How many more items would settle a gate on logs: the study goes on with items drawn from those seen."""

from __future__ import annotations

import copy
import dataclasses
import math

import numpy as np

from bestarm.kernel.state import Floats
from bestarm.policies.kernels import KernelPolicy
from bestarm.storage.base import Entries
from bestarm.study import Study
from bestarm.study.record.decider import Decider, Results

TIMES, MOST = 20, 50_000
"""A continuation is given up at that many times the items there are now, or once it has so many."""
_GROWTH = 1.15
"""A continuation looks whenever its items have grown by that much."""
_FEWEST = 10
"""With fewer items, what was seen says too little of what is to come."""


@dataclasses.dataclass(frozen=True)
class MoreItems:
    """What simulated continuations came to. `half` and `most` are the further items within which half of them, and nine
    in ten, had a verdict; infinite where too many were given up after `limit` items in all."""

    runs: int
    half: float
    most: float
    limit: int
    certified: int
    refuted: int

    @property
    def open(self) -> int:
        return self.runs - self.certified - self.refuted


def results_of(study: Study) -> Entries:
    """All results of a study of pairs, part by part."""
    parts = zip(*study.storage.entries(study.record.key, 0), strict=True)
    return Results(study.plan).with_denominators(Entries(*map(np.concatenate, parts)))[0]


def copied(decider: Decider) -> Decider:
    """A copy that goes on by itself."""
    return copy.deepcopy(decider, {id(part): part for part in (decider.policy.setting, decider._plan)})


def items_to_settle(study: Study, items: int, candidate: str, *, seed: int, runs: int) -> MoreItems | None:
    """Simulate `runs` continuations of a study of pairs. None if there are too few items to go by.

    In each, items have other frequencies, which those seen leave possible (Rubin's Bayesian bootstrap). What no item
    has shown yet does not come.
    """
    if items < _FEWEST:
        return None
    rows, start = results_of(study), study._decider
    if isinstance(start.policy, KernelPolicy):
        start.policy.compile(wait=True)
    limit, found = min(TIMES * items, max(MOST, 2 * items)), []
    for run in range(runs):
        random = np.random.default_rng((seed, run))
        found.append(_ends(copied(start), rows, items, limit, random))
    more: Floats = np.array([number for number, _ in found])
    answers = [answer for number, answer in found if math.isfinite(number)]
    is_candidate = [answer is not None and study.plan.arm_names[answer] == candidate for answer in answers]
    half, most = (float(np.quantile(more, share, method="higher")) for share in (0.5, 0.9))
    return MoreItems(runs, half, most, limit, sum(is_candidate), len(answers) - sum(is_candidate))


def _ends(
    decider: Decider, rows: Entries, items: int, limit: int, random: np.random.Generator
) -> tuple[float, int | None]:
    """After how many further items a continuation has its verdict, and the arm that it names; infinity if never."""
    each = len(rows.ids) // items
    shares = random.dirichlet(np.ones(items))
    count = items
    while count < limit:
        more = min(max(1, round((_GROWTH - 1.0) * count)), limit - count)
        drawn = random.choice(items, more, p=shares)
        at = (drawn[:, None] * each + np.arange(each)).ravel()
        places = np.repeat(np.arange(count, count + more), each)
        ends = np.zeros(len(at), np.int8)
        ends[-1] = 1
        columns = {"arms": rows.arms[at], "metrics": rows.metrics[at], "values": rows.values[at], "items": places}
        numbers = len(rows.ids) * (1 + places)
        decider.enter(rows._replace(ids=numbers, ends=ends, told=rows.told[at], arrivals=rows.arrivals[at], **columns))
        count += more
        if decider.stop is not None:
            return float(count - items), decider.stop.arm
    return math.inf, None
