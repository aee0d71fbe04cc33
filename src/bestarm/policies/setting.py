"""From a problem in the user's terms to the setting that policies see."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bestarm.evidence.bounds import find_bound
from bestarm.evidence.combine import JOINT_WEIGHTS, WEIGHTS
from bestarm.kernel.elementary import log
from bestarm.kernel.packing import in_normal_form
from bestarm.kernel.state import FIRST_RULES, SECOND_RULES, Floats, Ints, Setting
from bestarm.kernel.tables import tabulate
from bestarm.noises.base import NoiseModel
from bestarm.noises.mixture import mixture_table
from bestarm.noises.registry import kind_of
from bestarm.noises.streams import BELOW, TUNING, Law
from bestarm.policies.levels import levels_of, rules_of
from bestarm.problem import Constraint, Problem


@functools.lru_cache(maxsize=32)
def _radius_table(bound: str, alpha: float) -> Floats:
    return tabulate(lambda n: find_bound(bound)(n, alpha))


@functools.cache
def _count_tables() -> tuple[Floats, Floats, Floats]:
    return tabulate(lambda n: np.sqrt(2.0 * log(n))), tabulate(lambda n: 1.0 / np.sqrt(n)), mixture_table()


def references(problem: Problem, first: float = 0.0) -> Floats:
    """By metric, what values are best kept relative to, so that no digit is lost where it matters.

    Noises choose it near a constraint's threshold, and near `first`, some value of the objective in the user's terms.
    """
    signs = problem.signs.tolist()
    landmarks = [part.limit if isinstance(part, Constraint) else first for part in problem.parts]
    rows = zip(problem.noises, signs, landmarks, strict=True)
    found = np.array([noise.reference(sign, landmark) for noise, sign, landmark in rows])
    # A multiple of a value relative to a reference would be relative to another reference.
    found[[*problem.relative]] = 0.0
    return found


def true_references(problem: Problem) -> Floats:
    """The references of a simulation: the objective's is the first arm's true mean."""
    return references(problem, float(problem.true_means()[0, 0]))


def shares(problem: Problem) -> list[tuple[int, Any]]:
    """The constraints, with their numbers, for which only the share of results beyond the threshold counts."""
    return [(index, part) for index, part in enumerate(problem.parts) if part.noise.is_share]


def to_normal(problem: Problem, setting: Setting, metric: Any, value: Any) -> Any:
    """A user's value of a metric in normal form. Takes arrays too."""
    with np.errstate(over="ignore", invalid="ignore"):
        normal = problem.signs[metric] * value - setting.reference[metric]
    for index, part in shares(problem):
        counted = part.noise.counted(value, part.threshold, part.at_least is None)
        normal = np.where(np.equal(metric, index), counted, normal)[()]
    return in_normal_form(value, normal, problem.signs[metric], setting.reference[metric])


def to_user(problem: Problem, setting: Setting, metric: Any, value: Any) -> Any:
    """A value in normal form in the user's terms. Takes arrays too."""
    with np.errstate(over="ignore", invalid="ignore"):
        # What is added makes 0 of -0.0.
        return problem.signs[metric] * (value + setting.reference[metric]) + 0.0


def laws(problem: Problem, reference: Floats, noises: Sequence[NoiseModel] | None = None) -> list[Law]:
    """The noise of every metric in normal form, or of what takes its place."""
    rows = zip(
        noises_of(problem) if noises is None else noises,
        problem.signs.tolist(),
        reference.tolist(),
        # A difference to the baseline is compared with its margin, and a result with neither.
        [
            (0.0 if part.relative_to_baseline else part.limit) if isinstance(part, Constraint) else None
            for part in problem.parts
        ],
        strict=True,
    )
    found = []
    for noise, sign, relative_to, limit in rows:
        law, tuning = noise.law(sign, relative_to), noise.tuning(limit)
        if tuning:
            law = law._replace(numbers=(*law.numbers, *[0.0] * (TUNING - len(law.numbers)), *tuning))
        found.append(law)
    return found


def cost_of_counts(counts: Ints, costs: Floats) -> float:
    """What so many tests cost; both are [arm, test]. In most studies a test of each arm costs the same, and then no
    more is rounded than the products."""
    return float(counts.sum(axis=0) @ costs[0]) + float((counts * (costs - costs[0])).sum())


def _following(problem: Problem) -> Ints:
    """By part: the next part of its bundle, or -1."""
    following = np.full(len(problem.parts), -1)
    for bundle in problem.bundles:
        chain = problem.in_order(bundle)
        following[chain[:-1]] = chain[1:]
    return following


def noises_of(problem: Problem, ties: int = BELOW) -> list[NoiseModel]:
    """By part: the noise that decides. A set of items, each measured once, has a noise of its own: once all items are
    measured, a mean that equals c lies on the side `ties` of it."""
    if problem.items is None or problem.repeats:
        return [*problem.noises]
    return [
        part.noise.of_set(count, ties=ties) if part.judge is None else part.noise.of_judged_set(count, ties=ties)
        for part, count in zip(problem.parts, problem.item_counts, strict=True)
    ]


def new_setting(
    problem: Problem, delta: float, bound: str, reference: Floats | None = None, *, ties: int = BELOW
) -> Setting:
    """The setting in which `problem` is decided.

    Confidence radii share delta equally among the streams, as in the paper; levels of evidence share it as
    `bestarm.policies.levels` says. Live studies and simulations keep values relative to `references(…)`. Without a
    reference, a value in normal form is just the user's value times the metric's sign, which is handier for telling a
    policy by hand.
    """
    form, rules = problem.normal_form(), rules_of(problem)
    reference = np.zeros(len(form.sign)) if reference is None else reference.copy()
    # The objective has no threshold; its entry is never read.
    threshold = np.concatenate([[0.0], form.threshold[1:] - reference[1:]])
    streams = len(problem.arms) * len(problem.metrics)
    root_log, inverse_root, mixture = _count_tables()
    deciding = [noise.under(rules) for noise in noises_of(problem, ties)]
    noises = laws(problem, reference, deciding)
    most_numbers = max(len(law.numbers) for law in noises)
    levels = levels_of(problem, delta)
    constraint_weights = np.array([1.0, *(constraint.weight for constraint in problem.constraints)])
    constraint_weights[1:] /= constraint_weights[1:].sum()
    heads = np.array(problem.leads)
    first, joint = heads == np.arange(len(heads)), heads[1:] == 0
    # On items, streams of different tests also depend on each other.
    ways = JOINT_WEIGHTS if joint.all() or problem.items is not None else WEIGHTS
    log_worse, log_both = log(ways).tolist()
    return Setting(
        reference=reference,
        threshold=threshold,
        slack=form.slack,
        log_weight=log(constraint_weights),
        sigma=form.sigma,
        inverse_sigma=1.0 / form.sigma,
        cost=np.where(first, form.cost, 0.0),
        inverse_cost=1.0 / form.cost,
        lead=heads,
        following=_following(problem),
        queue=np.array(problem.queues),
        is_bundled=int(not first.all()),
        kind=np.array([kind_of(type(noise)) for noise in deciding]),
        low=np.array([law.low for law in noises]),
        high=np.array([law.high for law in noises]),
        width=np.array([law.width for law in noises]),
        numbers=np.array([(*law.numbers, *[0.0] * (most_numbers - len(law.numbers))) for law in noises]),
        level=levels.certifying,
        rejecting=levels.rejecting,
        log_worse=log_worse,
        log_both=log_both,
        is_joint=int(joint.any()),
        tolerance=problem.objective.tolerance,
        delta=delta,
        radius=_radius_table(bound, delta / streams),
        root_log=root_log,
        inverse_root=inverse_root,
        mixture=mixture,
        rules=FIRST_RULES if rules == 1 else SECOND_RULES,
    )
