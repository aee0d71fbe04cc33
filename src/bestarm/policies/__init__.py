"""One algorithm per file. A policy named "my-policy" is found in the module `my_policy` here or through an installed
package's entry point of the group `bestarm.policies`. In Python, a class works too. There is no list to edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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
    needed = _Abilities(
        problem.asks, problem.items is not None, bool(problem.relative), bool(getattr(problem, "reserve", 0.0))
    )
    if _abilities(found).include(needed):
        return found
    known = _registry.built_in  # loads them all
    chosen = next((kind for kind in _descendants(found) if _abilities(kind) == needed), None)
    if chosen is None:
        raise _unable(problem, found, needed, known)
    return chosen


class _Abilities(NamedTuple):
    """What a problem needs of a policy, or what a policy can do."""

    asked: str
    items: bool
    baseline: bool
    reserve: bool

    def include(self, needed: _Abilities) -> bool:
        pairs = zip(self[1:], needed[1:], strict=True)
        return self.asked == needed.asked and all(has or not needs for has, needs in pairs)


def _abilities(kind: type[Policy]) -> _Abilities:
    return _Abilities(kind.asked, kind.uses_items, kind.uses_baseline, kind.uses_reserve)


def _descendants(kind: type[Policy]) -> list[type[Policy]]:
    """The subclasses without a name of their own: the same policy, for other problems."""
    direct = [sub for sub in kind.__subclasses__() if "name" not in vars(sub)]
    return [*direct, *(below for sub in direct for below in _descendants(sub))]


def _unable(
    problem: Problem, found: type[Policy], needed: _Abilities, known: Mapping[str, type[Policy]]
) -> InvalidInput:
    """What to raise if neither the policy nor a subclass of it decides such problems."""
    own = [_abilities(kind) for kind in (found, *_descendants(found))]
    top = f" and top = {problem.top}" if needed.asked == "short list" else ""
    usual = needed._replace(asked="best", items=False, baseline=False, reserve=False)
    lacking = {
        usual._replace(asked=needed.asked): f"does not decide studies with the goal {problem.goal!r}{top}; choose {{}}",
        usual._replace(items=needed.items): "does not compare arms item by item; choose {}, or leave out items",
        usual._replace(baseline=needed.baseline): "does not compare arms with a baseline; choose {}",
        usual._replace(reserve=needed.reserve): "shares all of delta among the arms there are; choose {}, or leave out "
        "reserve",
    }
    for alone, reason in lacking.items():
        if not any(one.include(alone) for one in own):
            able = [
                name
                for name, kind in known.items()
                if any(_abilities(one).include(alone) for one in (kind, *_descendants(kind)))
            ]
            return InvalidInput("policy", found.name, reason.format(", ".join(able)), able)
    features = {
        "goal": needed.asked != "best" and f"the goal {problem.goal!r}{top}",
        "items": needed.items and "items",
        "baseline": needed.baseline and "constraints relative to a baseline",
        "reserve": needed.reserve and "a reserve",
    }
    (field, _), *_ = present = [(field, words) for field, words in features.items() if words]
    both = " and ".join(str(words) for _, words in present)
    return InvalidInput(
        field, getattr(problem, field), f"{found.name} cannot decide studies with {both}; leave out one"
    )


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
