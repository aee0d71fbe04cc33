"""One algorithm per file. A policy named "my-policy" is found in the module `my_policy` here or through an installed
package's entry point of the group `bestarm.policies`. In Python, a class works too. There is no list to edit."""

from __future__ import annotations

from collections.abc import Callable

from bestarm.kernel.state import Floats, Setting
from bestarm.plugins import Plugin, Registry
from bestarm.policies.base import Policy, goals_of
from bestarm.policies.options import as_numbers
from bestarm.problem import Problem
from bestarm.validation import InvalidInput

_registry: Registry[Policy] = Registry(__name__, Policy, "bestarm.Policy")


def policy_plugins() -> dict[str, Plugin]:
    """The policies of installed packages, broken ones too, except those with the name of a built-in policy."""
    return _registry.plugins()


def all_policies() -> dict[str, type[Policy]]:
    """Every policy that can be chosen by name. Broken plug-ins are left out; `policy_plugins` has them."""
    return _registry.all()


def policy_for(problem: Problem, policy: str | type[Policy]) -> type[Policy]:
    """The policy of that name. Raises `InvalidInput` if it cannot decide `problem`, or not with its options."""
    found = find_policy(policy)
    needed: dict[str, Callable[[type[Policy]], bool]] = {
        f"does not decide studies with the goal {problem.goal!r}{_top(problem)}; choose {{}}": (
            lambda one: problem.asks in goals_of(one)
        ),
        "does not compare arms item by item; choose {}, or leave out items": (
            lambda one: problem.items is None or one.uses_items
        ),
        "does not compare arms with a baseline; choose {}": lambda one: not problem.relative or one.uses_baseline,
        "does not know what to make of a judge; choose {}, or leave out judge": (
            lambda one: not problem.judged or one.uses_judge
        ),
        "shares all of delta among the arms there are; choose {}, or leave out reserve": (
            lambda one: not getattr(problem, "reserve", 0.0) or one.uses_reserve
        ),
    }
    for reason, is_met_by in needed.items():
        if not is_met_by(found):
            able = [name for name, one in _registry.built_in.items() if is_met_by(one)]
            raise InvalidInput("policy", found.name, reason.format(", ".join(able)), able)
    found.options_of(problem)
    return found


def setting_for(
    problem: Problem, policy: type[Policy], delta: float, bound: str, reference: Floats | None = None
) -> Setting:
    """The setting in which `policy` decides `problem`, with the options that a plan states."""
    setting = policy.new_setting(problem, delta, bound, reference)
    return setting._replace(options=as_numbers(policy.options_of(problem)))


def _top(problem: Problem) -> str:
    return f" and top = {problem.top}" if problem.asks == "short list" else ""


def find_policy(policy: str | type[Policy]) -> type[Policy]:
    """The policy of that name; a class is returned as is. Plug-ins are loaded only if no built-in policy has the name.

    >>> find_policy("certify").name
    'certify'
    """
    if isinstance(policy, type) and issubclass(policy, Policy):
        return policy
    found = _registry.find(policy)
    if found is not None:
        return found
    broken = [f"{name} ({error})" for name, plugin in policy_plugins().items() if (error := plugin.error)]
    without = f"; broken: {', '.join(broken)}" if broken else ""
    known = sorted(all_policies())
    raise InvalidInput("policy", policy, f"no such policy; there are {', '.join(known)}{without}", known)
