"""Is the same shown whichever engine computes it? Every kind of study that is accepted, and all that is shown of one.

What is shown of a small study is interpreted, and compiled of a large one. A user must not see the difference.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from tests.tools.knowledge import World, results_of

from bestarm.analysis.standing.arms import findings_of, standings
from bestarm.analysis.standing.knowledge import differences_of, open_questions_of, regret_at_most
from bestarm.analysis.standing.quantiles import RawValues
from bestarm.noises.base import NoiseModel
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.bounded import Bounded
from bestarm.noises.exact import Exact
from bestarm.noises.gaussian import Gaussian
from bestarm.noises.quantile import Quantile
from bestarm.noises.symmetric import Symmetric
from bestarm.policies import all_policies, confidence, policy_for
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.problem import Arm, Plan, at_most, maximize
from bestarm.problem.measurements import measurement
from bestarm.validation import InvalidInput

Engine = Literal["interpreted", "compiled"]
ENGINES: tuple[Engine, ...] = ("interpreted", "compiled")
_NEVER = 10**9
MOMENTS = (1, 6)
"""After so many rounds everything that is shown is looked at, and at the end."""
ROUNDS = 24


class Kind(NamedTuple):
    """What tells one kind of study from another."""

    policy: str
    goal: str
    objective: str
    constraint: str
    items: str
    reserve: str

    @property
    def name(self) -> str:
        return "/".join(self)


_NOISES: dict[str, NoiseModel] = {
    "gaussian": Gaussian(1.0),
    "symmetric": Symmetric(),
    "bounded": Bounded(0.0, 10.0),
    "bernoulli": Bernoulli(),
    "exact": Exact(),
}
_GOALS: dict[str, dict[str, Any]] = {
    "best": {},
    "short list": {"top": 2},
    "top": {"goal": "top", "top": 2},
    "any feasible": {"goal": "any feasible"},
}
_ITEMS: dict[str, dict[str, Any]] = {"no items": {}, "set": {"items": 24}, "repeats": {"items": 5, "repeats": True}}
_CONSTRAINTS = ("none", "mixed", "together", "quantile", "relative", "relative and other noise")
_RESERVE = ("no reserve", "reserve")


def _noises_of(kind: Kind) -> list[NoiseModel]:
    """Of the objective, then of the constraints."""
    own = _NOISES[kind.objective]
    other: NoiseModel = Bernoulli() if kind.objective != "bernoulli" else Gaussian(1.0)
    more: dict[str, list[NoiseModel]] = {
        "none": [],
        "mixed": [own, other],
        "together": [own, other],
        "quantile": [Quantile(0.8)],
        "relative": [own],
        "relative and other noise": [other, own],
    }
    return [own, *more[kind.constraint]]


def plan_of(kind: Kind) -> Plan:
    """A small study of this kind, with means that keep it going for a while."""
    noises = _noises_of(kind)
    names = ["p", *(f"c{k}" for k in range(1, len(noises)))]
    is_relative = kind.constraint.startswith("relative")
    constraints = []
    for name, noise in zip(names[1:], noises[1:], strict=True):
        middle = 0.5 if noise.is_whole else 5.0
        if is_relative and name == "c1":
            constraints.append(at_most(name, noise=noise, relative_to_baseline=1.1, slack=0.01))
        else:
            constraints.append(at_most(name, middle, noise=noise, slack=0.01))
    arms = []
    for k, offset in enumerate((0.5, 0.42, 0.3, 0.1)):
        # Of a quantile, the mean is the share of results beyond the threshold.
        scale = [1.0 if noise.is_whole else 0.6 if noise.is_share else 10.0 for noise in noises]
        means = {"p": offset * scale[0]}
        means |= {name: (0.6 - 0.5 * offset) * unit for name, unit in zip(names[1:], scale[1:], strict=True)}
        is_new, is_gone = kind.reserve == "reserve" and k == 3, kind.reserve == "reserve" and k == 1
        arms.append(Arm(f"arm {k}", means, weight=1.0 + (k == 2), added=int(is_new), retired=is_gone))
    return Plan(
        name=kind.name,
        arms=tuple(arms),
        objective=maximize("p", noise=noises[0], tolerance=0.02),
        constraints=tuple(constraints),
        baseline="arm 2" if is_relative else None,
        measurements=(measurement(*names),) if kind.constraint == "together" else (),
        policy=kind.policy,
        delta=0.2,
        bound="mixture",
        reserve=0.3 if kind.reserve == "reserve" else 0.0,
        **_GOALS[kind.goal],
        **_ITEMS[kind.items],
    )


@functools.cache
def accepted() -> dict[str, Plan]:
    """By name: a study of every kind that is accepted."""
    found = {}
    for parts in itertools.product(sorted(all_policies()), _GOALS, _NOISES, _CONSTRAINTS, _ITEMS, _RESERVE):
        kind = Kind(*parts)
        with contextlib.suppress(InvalidInput):
            plan = plan_of(kind)
            policy_for(plan, plan.policy)
            found[kind.name] = plan
    return found


@functools.cache
def pairwise() -> dict[str, Plan]:
    """As few of them as it takes, about, for every two features that go together to be in one of them."""
    pairs = {name: set(itertools.combinations(enumerate(name.split("/")), 2)) for name in accepted()}
    missing = set().union(*pairs.values())
    chosen = {}
    while missing:
        name = max(pairs, key=lambda one: len(pairs[one] & missing))
        chosen[name] = accepted()[name]
        missing -= pairs[name]
    return chosen


@contextlib.contextmanager
def shown_by(engine: Engine) -> Iterator[None]:
    """Have everything that is shown computed by this engine, however many streams there are."""
    before = confidence.COMPILE_STREAMS, confidence.WAIT_STREAMS
    confidence.COMPILE_STREAMS = confidence.WAIT_STREAMS = 0 if engine == "compiled" else _NEVER
    try:
        yield
    finally:
        confidence.COMPILE_STREAMS, confidence.WAIT_STREAMS = before


def all_shown(plan: Plan, policy: Policy, stop: Stop | None, raw: RawValues) -> dict[str, str]:
    """Everything that is shown of a study at a moment, by what it is, each to the last digit."""
    leader, sure = policy.present_answer(stop)
    found = findings_of(policy, stop)
    arms = range(policy.arms)
    everything: dict[str, Any] = {
        "leader": leader,
        "confidence": sure,
        "counts": policy.streams.counts,
        **found._asdict(),
        "feasible": found.feasible,
        "limits": [policy.contrasts(k) for k in plan.relative],
        "regret": [policy.regret(arm, found) if found.feasible[arm] else None for arm in arms],
        "regret_at_most": regret_at_most(plan, policy, found, leader, stop),
        "differences": [differences_of(plan, policy, arm, stop) for arm in arms],
        "certificates": policy.open_certificates(leader, found),
        "none feasible": policy.open_certificates(None, found),
        "open": open_questions_of(plan, policy, found, leader)[0],
        "standings": standings(plan, policy, found, raw),
    }
    return {name: repr(_listed(value)) for name, value in everything.items()}


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_listed(one) for one in value] if isinstance(value, list) else value


class Moment(NamedTuple):
    """What is shown of a study after some rounds, by engine."""

    rounds: int
    shown: dict[Engine, dict[str, str]]


def moments_of(plan: Plan, engines: tuple[Engine, ...] = ENGINES, seed: int = 0) -> Iterator[Moment]:
    """What each engine shows of one and the same simulated study."""
    world = World(plan, seed)
    kind = policy_for(plan, plan.policy)
    policy = kind(kind.new_setting(plan, plan.delta, plan.bound), *world.means.shape, seed=seed)
    raw = RawValues(plan)
    shown_before: dict[Engine, Any] = {}
    decision: list[tuple[int, int]] | Stop | None = policy.decide()
    for round_ in range(1, ROUNDS + 1):
        assert isinstance(decision, list)
        rows, values = results_of(world, policy, decision)
        if not rows:
            return
        ends = np.zeros(len(rows), np.int8)
        ends[-1] = 1
        told = np.array(rows)
        placed = [*_placed(policy, rows)]
        places = np.array([place for _, _, place in placed])
        raw.extend(told[:, 0], told[:, 1], np.array([world.value(*row) for row in placed]), places)
        decision = policy.advance(told, np.array(values), ends)
        is_last = isinstance(decision, Stop) or round_ == ROUNDS
        if round_ in MOMENTS or is_last:
            stop = decision if isinstance(decision, Stop) else None
            shown = {}
            for engine in engines:
                # An engine computes anew only what has changed since it was asked last.
                own = copy.deepcopy(policy)
                if engine in shown_before:
                    vars(own)["intervals"] = shown_before[engine]
                with shown_by(engine):
                    shown[engine] = all_shown(plan, own, stop, copy.deepcopy(raw))
                if "intervals" in vars(own):
                    shown_before[engine] = vars(own)["intervals"]
            yield Moment(round_, shown)
        if is_last:
            return


def _placed(policy: Policy, rows: list[tuple[int, ...]]) -> Iterator[tuple[int, int, int]]:
    """The rows with the place of each result in its stream."""
    made = policy.streams.counts.copy()
    for arm, metric, *_ in rows:
        yield arm, metric, int(made[arm, metric])
        made[arm, metric] += 1
