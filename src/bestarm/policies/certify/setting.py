"""The setting of `certify`: that of every policy, with what the features of a study add to it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from bestarm.evidence.combine import LOG_HALF
from bestarm.evidence.items import UNLIMITED
from bestarm.kernel.elementary import log
from bestarm.kernel.state import (
    ABSENT,
    JUDGED,
    ON_ITEMS,
    RELATIVE,
    RESERVED,
    TRACKING,
    Floats,
    Items,
    Judge,
    Relative,
    Reserve,
    Setting,
    Tracking,
)
from bestarm.kernel.tournament import NO_ARM
from bestarm.noises.base import NoiseModel
from bestarm.noises.bounded import Bounded
from bestarm.noises.registry import kind_of, tracked_kind
from bestarm.noises.streams import ABOVE
from bestarm.policies.levels import rules_of, shares_with_reserve
from bestarm.policies.setting import new_setting
from bestarm.policies.slices import slices_of
from bestarm.problem import Arm, Constraint, Problem, at_most, maximize
from bestarm.problem.changing import first_places
from bestarm.problem.goals import ASKED
from bestarm.problem.items import count_of

ODDS = 2.0
"""What a bet on the sign of a difference gains if there is one item."""
ODDS_OF_CONTRASTS = 1.5
"""The same for a contrast. It could be 2. But limits are often closer than values scatter, and then some more results
should be seen that could lie beyond them."""


def certify_setting(problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Setting:
    """The setting in which `certify` decides `problem`."""
    setting = new_setting(problem, delta, bound, reference)
    log_members = math.log(problem.top) if problem.asks == "top" else 0.0
    aside = NO_ARM if problem.set_aside is None else problem.set_aside
    setting = setting._replace(goal=ASKED.index(problem.asks), top=problem.top, aside=aside, log_members=log_members)
    if problem.relative:
        setting = setting._replace(limits=RELATIVE, relative=_relative(problem))
    if problem.items is not None:
        setting = setting._replace(pairing=ON_ITEMS, items=_items(problem, delta, bound))
    if problem.judged:
        setting = setting._replace(judging=JUDGED)
    if getattr(problem, "reserve", 0.0):
        setting = _with_reserve(setting, problem)
    if is_tracked(problem):
        return _tracked(setting, problem)
    pooled = pooled_noise(problem)
    if pooled is not None:
        setting = setting._replace(pooled=setting._replace(kind=np.full(1, kind_of(type(pooled)))))
    return setting


def pooled_noise(problem: Problem) -> NoiseModel | None:
    """The noise of results of several arms in one stream, where each arm is compared with its challengers, as
    `bestarm.policies.certify.challengers` says; else None. With two arms there is nothing to gain, and with a tolerance
    the proof fails."""
    if is_tracked(problem):
        return None
    is_plain = problem.items is None and not getattr(problem, "reserve", 0.0) and rules_of(problem) > 1
    asks_best = problem.asks == "best" and not problem.constraints and len(problem.arms) > 2
    return problem.objective.noise.pooled() if is_plain and asks_best and not problem.objective.tolerance else None


# ----------------------------------------------------------------------------------------------------------- baseline


def _relative(problem: Problem) -> Relative:
    factor, margin = np.zeros((2, len(problem.parts)))
    for k in problem.relative:
        factor[k] = problem.constraints[k - 1].threshold
        margin[k] = problem.constraints[k - 1].margin or 0.0
    return Relative(problem.arm_names.index(problem.baseline or problem.arm_names[0]), factor, margin)


# -------------------------------------------------------------------------------------------------------------- items


def _items(problem: Problem, delta: float, bound: str) -> Items:
    assert problem.items is not None
    return Items(
        places=UNLIMITED if problem.repeats else count_of(problem.items),
        # Where the leader is as good as an arm up to the tolerance, it is good enough.
        differences=new_setting(_differences(problem), delta, bound, ties=ABOVE),
        contrasts=new_setting(_contrasts(problem), delta, bound) if problem.relative else ABSENT,
        capacity=0 if problem.blocks is None else problem.blocks.size,
        is_each_compared=int(problem.blocks is not None and problem.blocks.same_for_all),
        is_scatter_free=int(
            problem.blocks is not None and problem.noise_between(problem.objective.noise).is_scatter_free
        ),
        judge=_no_scores(problem) if problem.judged else ABSENT,
        slices=slices_of(problem, range(count_of(problem.items))) if problem.inside is not None else ABSENT,
    )


def _no_scores(problem: Problem) -> Judge:
    """Room for the scores of judges, to be filled in before the first result."""
    shape = len(problem.arms), len(problem.parts)
    return Judge(np.full((*shape, count_of(problem.items or 0)), np.nan), np.full(shape, np.nan))


def _on_items_of(problem: Problem, between: NoiseModel, odds: float) -> NoiseModel:
    return between.on_one_item(odds) if problem.repeats and problem.items == 1 else between


def _differences(problem: Problem) -> Problem:
    """A problem whose one constraint is how much the leader is better than an arm on the same item."""
    noise = _on_items_of(problem, problem.noise_between(problem.objective.noise), ODDS)
    return Problem(
        arms=problem.arm_names,
        objective=maximize("performance", noise=noise),
        constraints=[at_most("lead", -problem.objective.tolerance, noise=noise, judge=problem.objective.judge)],
        items=problem.items,
        repeats=problem.repeats,
    )


def _contrasts(problem: Problem) -> Problem:
    """A problem whose constraints are about the contrasts. Those that are not relative are never looked at."""
    plain = [Bounded(*noise.range) if noise.words else noise for noise in problem.noises]
    constraints = [
        Constraint(
            str(k),
            _on_items_of(problem, problem.noise_between(part.noise, part.threshold), ODDS_OF_CONTRASTS),
            None if part.at_most is None else 0.0,
            None if part.at_least is None else 0.0,
            slack=part.slack,
            weight=part.weight,
            judge=part.judge,
            where=part.where,
        )
        if part.relative_to_baseline
        else dataclasses.replace(part, metric=str(k), noise=plain[k], per=None if part.per is None else f"under {k}")
        for k, part in enumerate(problem.constraints, start=1)
    ]
    return Problem(
        arms=[Arm(arm.name, weight=arm.weight) for arm in problem.arms],
        objective=maximize("0", noise=plain[0]),
        constraints=constraints,
        items=problem.items,
        attributes=problem.attributes,
        repeats=problem.repeats,
    )


# ------------------------------------------------------------------------------------------------------------ reserve


def _with_reserve(setting: Setting, plan: Problem) -> Setting:
    """`docs/certificates/arms.md` says how delta is shared with arms that come later. Theorem A.2 proves that the
    answer is wrong with probability at most delta whatever arms come and go, and whenever."""
    reserve: float = getattr(plan, "reserve", 0.0)
    came = np.array([arm.added for arm in plan.arms])
    share, is_reduced = shares_with_reserve(plan), any(arm.retired and not arm.added for arm in plan.arms)
    # Half of the reserve is for arms that come later, and half for retiring one of the first. Each half is divided
    # equally between certificates about one arm and those about two.
    alone = np.where(came == 0, share, 0.25 * share)
    if is_reduced:
        again = 0.25 * reserve * share / (1.0 - reserve)
        alone = np.where(came == 0, np.minimum(share, again), alone)
    level = -log(setting.delta * alone)
    kept = Reserve(
        came=came,
        is_retired=plan.is_retired.astype(np.int8),
        rarity=-log(share),
        is_reduced=int(is_reduced),
        first_pairs=-math.log(0.5 * setting.delta * reserve) + 2.0 * math.log1p(-reserve),
        later_pairs=-math.log(setting.delta / 8.0),
        first=first_places(plan),
        since=np.array([arm.since for arm in plan.arms]),
    )
    return setting._replace(level=level, rejecting=level.copy(), sharing=RESERVED, reserve=kept)


# ----------------------------------------------------------------------------------------------------------- tracking


def is_tracked(problem: Problem) -> bool:
    """Whether tests are chosen by tracking."""
    return getattr(problem, "options", {}).get("sampling") == "tracking"


def refusal(problem: Problem) -> str | None:
    """Why tests cannot be tracked: Theorem T.2 is not known to hold; None if they can."""
    excluded = {
        "goal 'best' and top = 1": problem.asks != "best",
        "plans of rules 2": rules_of(problem) == 1,
        "arms that are not compared on items": problem.items is not None,
        "limits that do not depend on a baseline": bool(problem.relative),
        "arms that neither come nor go": getattr(problem, "reserve", 0.0) > 0.0,
        "metrics that are tested separately": any(problem.leads[k] != k for k in range(len(problem.parts))),
        "Gaussian noise and rates": any(tracked_kind(part.noise) is None for part in problem.parts),
    }
    needed = [condition for condition, is_broken in excluded.items() if is_broken]
    return f"tracking is only for {', '.join(needed)}" if needed else None


def _tracked(setting: Setting, problem: Problem) -> Setting:
    """With evidence that grows as fast as the information in the results, but for their logarithm."""
    rest = [1.0 - math.exp(weight) for weight in setting.log_weight.tolist()]
    # If there are several constraints, one half is for their sum, and one for their product.
    log_weight = setting.log_weight + (LOG_HALF if len(problem.constraints) > 1 else 0.0)
    return setting._replace(
        kind=np.array([tracked_kind(part.noise) for part in problem.parts]),
        log_weight=log_weight,
        sampling=TRACKING,
        tracking=Tracking(setting.log_weight, log(np.array(rest))),
    )
