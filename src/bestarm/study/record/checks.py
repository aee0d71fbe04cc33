"""Checks whether a study can be made, and tests asked for, as requested. Errors are in the user's words."""

from __future__ import annotations

import math
import shlex
from typing import get_args

from bestarm.evidence.bounds import find_bound
from bestarm.parsing import read_json
from bestarm.policies import find_policy, policy_for
from bestarm.problem import Plan
from bestarm.storage.base import Aside, Storage, StudyRecord
from bestarm.storage.errors import OutcomeUnknown
from bestarm.study.record.seeds import Seeds
from bestarm.texts import first_ten, quoted
from bestarm.validation import InvalidInput, NotFound

LONGEST_LEASE = 1e9
MOST_DAYS = 10_000.0
MOST_HELD = 1_000
HELD_PER_STREAM = 10

ASIDES: tuple[Aside, ...] = get_args(Aside)


def check_can_be_decided(plan: Plan) -> None:
    """Raise `InvalidInput` if the plan's policy or confidence bound is not available here, or not for its goal."""
    policy_for(plan, plan.policy)
    find_bound(plan.bound)


class UnreadableStudy(InvalidInput):
    """The study's plan cannot be read here: it is damaged, or a program made it that allowed what this one does not."""

    kind = "unreadable study"


def read_plan(record: StudyRecord) -> Plan:
    """The plan of a study."""
    try:
        return Plan.from_record(read_json(record.plan))
    except (ValueError, RecursionError) as error:
        raise UnreadableStudy("study", record.name, f"its plan cannot be read: {error}") from None


def why_unreadable(record: StudyRecord) -> str | None:
    """Why a study cannot be used here, or None if it can."""
    try:
        check_can_be_decided(read_plan(record))
    except InvalidInput as error:
        return str(error)
    return None


def find_record(storage: Storage, name: str) -> StudyRecord:
    """The entry of the study of that name."""
    record = storage.find_study(name)
    if record is None:
        there = [other.name for other in storage.studies()]
        raise NotFound(
            "study",
            name,
            f"no such study in {storage.url!r}; there {'are ' + first_ten(there) if there else 'is none'}",
        )
    return record


def new_record(storage: Storage, plan: Plan, seeds: Seeds, key: str | None = None) -> StudyRecord:
    """A new study in `storage`, one for each `key`."""
    # A policy that must see all results of a round before the next takes them in together anyway.
    by_arrival = plan.order == "arrival" and find_policy(plan.policy).plans_ahead()
    seed, options = seeds.seed, {}
    if seeds.items_seed is not None:
        if storage.keeps_items_seed:
            options["items_seed"] = seeds.items_seed
        else:
            # The proof rests on the order of items, and on no choice of the policy.
            seed = seeds.items_seed
    try:
        return storage.create_study(
            plan.name, plan.to_json(), seed, by_arrival=by_arrival, request=key or "", **options
        )
    except OutcomeUnknown as error:
        raise error.advised(f"`bestarm list` says whether there is a study {plan.name!r}") from error


def check_ask(n: object, days: object, lease: object) -> None:
    """Raise `InvalidInput` for an ask that cannot be granted."""
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= 10**6:
        raise InvalidInput("n", n, "must be a whole number from 1 to 1,000,000", shown=quoted(n))
    if days is not None and lease is not None:
        raise InvalidInput("days, lease: give one of them; a lease must be renewed, days need no renewal")
    if days is not None and not (_is_number(days) and (0 < days <= MOST_DAYS or days == math.inf)):  # type: ignore[operator]
        raise InvalidInput(
            "days", days, f"must be a positive number of days, at most {MOST_DAYS:,.0f}", shown=quoted(days)
        )
    if lease is not None:
        check_lease(lease)


def most_held(plan: Plan) -> int:
    """How many tests without a result one holder can have. No policy benefits from planning further ahead."""
    return MOST_HELD + HELD_PER_STREAM * len(plan.arms) * len(plan.metrics)


def holds_enough(n: int, plan: Plan, holder: str, held: int) -> InvalidInput:
    """Why a holder is handed nothing."""
    return InvalidInput(
        "n",
        n,
        f"{holder} holds {held:,} tests without a result, and a holder can hold at most {most_held(plan):,} of "
        f"this study ({MOST_HELD:,}, and {HELD_PER_STREAM} for each metric of each arm); tell results, or free "
        f"tests that will not be made with `bestarm release {shlex.quote(plan.name)} --held-by "
        f"{shlex.quote(holder)}`",
    )


def check_aside(kind: object) -> None:
    """Raise `InvalidInput` for an unknown way to end an attempt."""
    if kind not in ASIDES:
        raise InvalidInput("kind", kind, f"must be one of {', '.join(map(repr, ASIDES))}", ASIDES)


def check_last(last: object) -> None:
    """Raise `InvalidInput` for a number of events that no database can be asked for."""
    if last is not None and (isinstance(last, bool) or not isinstance(last, int) or not 1 <= last < 2**63):
        raise InvalidInput("last", last, "must be a whole number from 1 to 2^63 - 1", shown=quoted(last))


def check_lease(lease: object) -> None:
    if not (_is_number(lease) and 0 < lease <= LONGEST_LEASE):  # type: ignore[operator]
        raise InvalidInput("lease", lease, "must be a positive number of seconds", shown=quoted(lease))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
