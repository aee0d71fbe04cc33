"""One algorithm per file. A policy named "my-policy" is found in the module `my_policy` here or through an installed
package's entry point of the group `bestarm.policies`. In Python, a class works too. There is no list to edit."""

from __future__ import annotations

from bestarm.plugins import Plugin, Registry
from bestarm.policies.base import Policy
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
    """The policy of that name as it decides `problem`. Raises `InvalidInput` if it cannot."""
    found = find_policy(policy)
    needed = problem.items is not None, bool(problem.relative)
    if all(has or not needs for has, needs in zip(_abilities(found), needed, strict=True)):
        return found
    known = _registry.built_in  # loads them all
    for kind in _descendants(found):
        if _abilities(kind) == needed:
            return kind
    able = [name for name, kind in known.items() if any(_abilities(sub) == needed for sub in _descendants(kind))]
    if problem.relative and not any(kind.uses_baseline for kind in _descendants(found)):
        reason = f"does not compare arms with a baseline; choose {', '.join(able)}"
    else:
        reason = f"does not compare arms item by item; choose {', '.join(able)}, or leave out items"
    raise InvalidInput("policy", found.name, reason, able)


def _abilities(policy: type[Policy]) -> tuple[bool, bool]:
    return policy.uses_items, policy.uses_baseline


def _descendants(policy: type[Policy]) -> list[type[Policy]]:
    below = policy.__subclasses__()
    return [*below, *(further for kind in below for further in _descendants(kind))]


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
