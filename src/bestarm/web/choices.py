"""What a form for a new study offers: the noises, policies, bounds and orders there are here, plug-ins included."""

from __future__ import annotations

import inspect
import re
from typing import Any, get_args

from pydantic import BaseModel

from bestarm.evidence.bounds import bound_names, find_bound
from bestarm.noises import noise_choices
from bestarm.policies import all_policies
from bestarm.policies.base import Policy
from bestarm.problem import DEFAULT_BOUND, DEFAULT_POLICY, Order, Plan
from bestarm.problem.goals import GOALS, Goal
from bestarm.validation import LEAST_PROBABILITY, LONGEST_NAME, MOST, MOST_TESTS


class NumberToState(BaseModel):
    """A number that a noise needs."""

    name: str
    label: str
    default: float | None = None


class NoiseChoice(BaseModel):
    """A noise. In a plan it is its name if it needs no number, {name: number} with one, else {name: [numbers]}.

    One that is for `constraints_only` says what of a constraint is limited, and no objective can have it.
    """

    name: str
    label: str
    sentence: str
    constraints_only: bool = False
    numbers: list[NumberToState]


class NamedChoice(BaseModel):
    """A confidence bound, and the first sentence about it."""

    name: str
    sentence: str


class LabeledChoice(NamedChoice):
    """A policy, an order in which results count, or a goal, with what forms call it."""

    label: str


class Defaults(BaseModel):
    """The defaults of a plan."""

    delta: float
    policy: str
    bound: str
    order: str
    goal: str


class PlanLimits(BaseModel):
    """The longest name and the sizes of numbers that a plan takes."""

    name_length: int
    least_delta: float
    most_tests: int
    largest_number: float


class Choices(BaseModel):
    """What a plan can be made of here, with what installed packages add."""

    noises: list[NoiseChoice]
    policies: list[LabeledChoice]
    bounds: list[NamedChoice]
    orders: list[LabeledChoice]
    goals: list[LabeledChoice]
    defaults: Defaults
    limits: PlanLimits


_ORDERS: dict[Order, tuple[str, str]] = {
    "issue": (
        "in the order in which they were asked for",
        "Always right, however long tests take.",
    ),
    "arrival": (
        "as they arrive",
        "Right only if a test's duration has nothing to do with its result. Slow tests then hold up nothing.",
    ),
}


_GOALS: dict[Goal, tuple[str, str]] = {
    "best": (
        "the best feasible one, or a short list that holds it",
        "With more than one, the study ends as soon as at most that many can still be the best.",
    ),
    "any feasible": ("any feasible one", "The study ends as soon as any is sure to keep to every limit."),
    "every feasible": (
        "every feasible one",
        "Each is certain in the end to keep to every limit, or not to. What there is to make best does not matter.",
    ),
    "top": ("the best feasible ones, as many as you say", "All that are feasible, if there are fewer."),
}


def all_choices() -> dict[str, Any]:
    """All choices, and their defaults."""
    policies = all_policies()
    first = [DEFAULT_POLICY, *sorted(policies.keys() - {DEFAULT_POLICY})]
    return {
        "noises": noise_choices(),
        "policies": [
            {"name": name, "label": _label(policies[name], name), "sentence": _first_sentence(policies[name])}
            for name in first
        ],
        "bounds": [{"name": name, "sentence": _first_sentence(find_bound(name))} for name in bound_names()],
        "orders": [{"name": name, "label": _ORDERS[name][0], "sentence": _ORDERS[name][1]} for name in get_args(Order)],
        "goals": [{"name": name, "label": _GOALS[name][0], "sentence": _GOALS[name][1]} for name in GOALS],
        "defaults": {
            "delta": Plan.delta,
            "policy": DEFAULT_POLICY,
            "bound": DEFAULT_BOUND,
            "order": Plan.order,
            "goal": GOALS[0],
        },
        "limits": {
            "name_length": LONGEST_NAME,
            "least_delta": LEAST_PROBABILITY,
            "most_tests": MOST_TESTS,
            "largest_number": MOST,
        },
    }


def _label(policy: type[Policy], name: str) -> str:
    # Not inherited: a subclass of the recommended policy is another policy.
    remark = vars(policy).get("remark")
    return f"{name} ({remark})" if remark else name


def _first_sentence(what: object) -> str:
    """The first sentence of the docstring; empty if there is none."""
    paragraph = " ".join((inspect.getdoc(what) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)[0]
