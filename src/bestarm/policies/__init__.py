"""One algorithm a file. A policy named "my-policy" is found in the module `my_policy` here, in an installed package's
entry point of the group `bestarm.policies`, or is handed over as a class; there is no list to edit."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import entry_points

from bestarm.policies.base import Policy
from bestarm.validation import InvalidInput

_GROUP = "bestarm.policies"


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


def all_policies() -> dict[str, type[Policy]]:
    """Every policy that can be chosen by name."""
    found = {policy.name: policy for info in pkgutil.iter_modules(__path__) for policy in _in_module(info.name)}
    for entry in entry_points(group=_GROUP):
        found.setdefault(entry.name, entry.load())
    return found


def find_policy(policy: str | type[Policy]) -> type[Policy]:
    """The policy of that name; a class is its own answer."""
    if isinstance(policy, type) and issubclass(policy, Policy):
        return policy
    known = all_policies()
    if policy not in known:
        raise InvalidInput("policy", policy, f"no such policy; there are {', '.join(sorted(known))}", sorted(known))
    return known[policy]
