"""One algorithm per file. A policy named "my-policy" is found in the module `my_policy` here or through an installed
package's entry point of the group `bestarm.policies`. In Python, a class works too. There is no list to edit."""

from __future__ import annotations

from collections.abc import Callable

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
    if _suits(found, problem):
        return found
    known = _registry.built_in  # loads them all
    others = (kind for kind in _descendants(found) if kind.uses_items == (problem.items is not None))
    chosen = next((kind for kind in others if kind.asked == problem.asks), None)
    if chosen is None:
        kinds = [found, *_descendants(found)]
        if any(kind.asked == problem.asks for kind in kinds) and found.name in known:
            if any(kind.uses_items for kind in kinds):
                reason = f"{found.name} cannot find that by items yet; leave out items, or ask for the best arm"
                raise InvalidInput("goal", problem.goal, reason)
            able = _able(lambda kind: kind.uses_items)
            reason = f"does not compare arms item by item; choose {', '.join(able)}, or leave out items"
            raise InvalidInput("policy", found.name, reason, able)
        able = _able(lambda kind: kind.asked == problem.asks)
        top = f" and top = {problem.top}" if problem.asks == "short list" else ""
        reason = f"does not decide studies with the goal {problem.goal!r}{top}; choose {', '.join(able)}"
        raise InvalidInput("policy", found.name, reason, able)
    return chosen


def _suits(kind: type[Policy], problem: Problem) -> bool:
    return kind.asked == problem.asks and (problem.items is None or kind.uses_items)


def _descendants(kind: type[Policy]) -> list[type[Policy]]:
    """The subclasses without a name of their own: the same policy, for other problems."""
    direct = [sub for sub in kind.__subclasses__() if "name" not in vars(sub)]
    return [*direct, *(below for sub in direct for below in _descendants(sub))]


def _able(is_able: Callable[[type[Policy]], bool]) -> list[str]:
    """The built-in policies that are able to, themselves or as a subclass."""
    return [name for name, kind in _registry.built_in.items() if any(map(is_able, (kind, *_descendants(kind))))]


def _with_reserve(problem: Problem, found: type[Policy]) -> type[Policy]:
    """The policy that shares delta with arms that come later."""
    from bestarm.policies.certify import Certify
    from bestarm.policies.certify_with_reserve import CertifyWithReserve

    reserve = getattr(problem, "reserve", 0.0)
    if problem.asks != "best":
        raise InvalidInput("goal", problem.goal, "cannot be combined with a reserve; leave out one of the two")
    if issubclass(found, CertifyWithReserve) or found is Certify:
        return CertifyWithReserve
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
