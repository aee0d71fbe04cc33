"""The seeds of a study: each is drawn at random unless it is stated.

`seed` is for the random choices of the policy, and in a race for the order of runs. `items_seed` is for the random
order of the items, which is all that is random in the proof for sets of items. If two studies had the same order, arms
could be improved on the items that the first one met, and the second one would meet these first.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

from bestarm.problem import Plan
from bestarm.storage.base import StudyRecord
from bestarm.texts import quoted
from bestarm.validation import InvalidInput


class Seeds(NamedTuple):
    """The seeds of a study. `items_seed` is None if it has no items."""

    seed: int
    items_seed: int | None

    def to_dict(self) -> dict[str, int]:
        """Those that there are, by name."""
        return {name: seed for name, seed in self._asdict().items() if seed is not None}


def fresh_seed() -> int:
    """A new random seed of 53 bits, which every JSON parser reads exactly."""
    return secrets.randbits(53)


def check_seeds(plan: Plan, seed: object, items_seed: object) -> None:
    """Raise `InvalidInput` for a seed that no database can keep, and for an order of items where there are none."""
    for field, stated in (("seed", seed), ("items_seed", items_seed)):
        if stated is not None and (isinstance(stated, bool) or not isinstance(stated, int) or not 0 <= stated < 2**63):
            raise InvalidInput(field, stated, "must be a whole number from 0 to 2^63 - 1", shown=quoted(stated))
    if items_seed is not None and plan.items is None:
        raise InvalidInput("items_seed", items_seed, "this study has no items, so there is no order of them")


def choose_seeds(plan: Plan, seed: int | None, items_seed: int | None) -> Seeds:
    """The seeds that are stated, and new ones for the others."""
    check_seeds(plan, seed, items_seed)
    if plan.items is not None and items_seed is None:
        items_seed = fresh_seed()
    return Seeds(fresh_seed() if seed is None else seed, items_seed)


def seeds_of(plan: Plan, record: StudyRecord) -> Seeds:
    """The seeds of a study: stated for a new study, they repeat its random choices and its order of items."""
    return Seeds(record.seed, None if plan.items is None else record.order_seed)


def check_same_seeds(plan: Plan, record: StudyRecord, seed: int | None, items_seed: int | None) -> None:
    """Raise `InvalidInput` if seeds are stated for a study that was made with others."""
    check_seeds(plan, seed, items_seed)
    for field, stated, kept in zip(Seeds._fields, (seed, items_seed), seeds_of(plan, record), strict=True):
        if stated not in (None, kept):
            reason = f"the study {record.name!r} was made with {kept}, which cannot change; leave it out to go on"
            raise InvalidInput(field, stated, reason)
