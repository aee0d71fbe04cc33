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
    if getattr(problem, "reserve", 0.0):
        return _with_reserve(problem, found)
    if problem.items is None or found.uses_items:
        return found
    known = _registry.built_in  # loads them all
    on_items = next((kind for kind in found.__subclasses__() if kind.uses_items), None)
    if on_items is None:
        able = [name for name, kind in known.items() if any(sub.uses_items for sub in kind.__subclasses__())]
        reason = f"does not compare arms item by item; choose {', '.join(able)}, or leave out items"
        raise InvalidInput("policy", found.name, reason, able)
    return on_items


def _with_reserve(problem: Problem, found: type[Policy]) -> type[Policy]:
    """The policy that shares delta with arms that come later."""
    from bestarm.policies.certify import Certify
    from bestarm.policies.certify_with_reserve import CertifyWithReserve

    if issubclass(found, CertifyWithReserve) or found is Certify:
        return CertifyWithReserve
    reserve = getattr(problem, "reserve", 0.0)
    reason = f"policy {found.name!r} shares delta among the arms that it knows; only 'certify' keeps some for later"
    raise InvalidInput("reserve", reserve, reason)


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
