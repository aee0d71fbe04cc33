"""One algorithm per file. A policy named "my-policy" is found in the module `my_policy` here or through an installed
package's entry point of the group `bestarm.policies`. In Python, a class works too. There is no list to edit."""

from __future__ import annotations

import importlib
import pkgutil

from bestarm.plugins import Plugin, plugins
from bestarm.policies.base import Policy
from bestarm.validation import InvalidInput


def _in_module(module_name: str) -> list[type[Policy]]:
    module = importlib.import_module(f"{__name__}.{module_name}")
    return [
        item
        for item in vars(module).values()
        if isinstance(item, type)
        and issubclass(item, Policy)
        and item.__module__ == module.__name__
        and "name" in vars(item)
    ]


def _built_in() -> dict[str, type[Policy]]:
    return {policy.name: policy for info in pkgutil.iter_modules(__path__) for policy in _in_module(info.name)}


def _complaint(loaded: object) -> str | None:
    if isinstance(loaded, type) and issubclass(loaded, Policy):
        return None
    return "it is not a subclass of bestarm.Policy"


def policy_plugins() -> dict[str, Plugin]:
    """The policies of installed packages, broken ones too, except those with the name of a built-in policy."""
    taken = _built_in()
    return {name: found for name, found in plugins("bestarm.policies", _complaint).items() if name not in taken}


def all_policies() -> dict[str, type[Policy]]:
    """Every policy that can be chosen by name. Broken plug-ins are left out; `policy_plugins` has them."""
    working = {name: found.load() for name, found in policy_plugins().items() if found.error is None}
    return {**_built_in(), **working}


def find_policy(policy: str | type[Policy]) -> type[Policy]:
    """The policy of that name; a class is returned as is. Plug-ins are loaded only if no built-in policy has the name.

    >>> find_policy("certify").name
    'certify'
    """
    if isinstance(policy, type) and issubclass(policy, Policy):
        return policy
    built_in = _built_in()
    if policy in built_in:
        return built_in[policy]
    installed = policy_plugins()
    if policy in installed:
        found: type[Policy] = installed[policy].load()
        return found
    broken = [f"{name} ({error})" for name, found in installed.items() if (error := found.error)]
    without = f"; broken: {', '.join(broken)}" if broken else ""
    known = sorted(all_policies())
    raise InvalidInput("policy", policy, f"no such policy; there are {', '.join(known)}{without}", known)
