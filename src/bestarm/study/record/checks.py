"""Checks whether a study can be made, and tests asked for, as requested. Errors are in the user's words."""

from __future__ import annotations

import json
import math
import operator
import shlex
import weakref
from datetime import UTC, datetime
from typing import Any, get_args

import numpy as np

from bestarm.evidence.bounds import find_bound
from bestarm.parsing import read_json
from bestarm.policies import find_policy, policy_for
from bestarm.problem import Plan
from bestarm.problem.checks import check_limits
from bestarm.storage.base import Aside, Entries, Issued, Pending, Storage, StudyRecord
from bestarm.storage.columns import NO_ITEM
from bestarm.storage.errors import OutcomeUnknown
from bestarm.storage.projects import DEFAULT_PROJECT, check_project
from bestarm.study.intake.names import user_here
from bestarm.study.record.seeds import Seeds
from bestarm.texts import first_ten, quoted
from bestarm.validation import InvalidInput, NotFound, exact

LONGEST_LEASE = 1e9
MOST_DAYS = 10_000.0
MOST_HELD = 1_000
HELD_PER_STREAM = 10
MOST_BLOCKS_HELD = 20

ASIDES: tuple[Aside, ...] = get_args(Aside)


def check_can_be_decided(plan: Plan) -> None:
    """Raise `InvalidInput` if the plan's policy or confidence bound is not available here, or not for its goal."""
    policy_for(plan, plan.policy)
    find_bound(plan.bound)


_PLANS: weakref.WeakValueDictionary[str, Plan] = weakref.WeakValueDictionary()
"""By text, the plans that are in use: a large one takes seconds to read."""


class UnreadableStudy(InvalidInput):
    """The study's plan cannot be read here: it is damaged, or a program made it that allowed what this one does not."""

    kind = "unreadable study"


def read_plan(record: StudyRecord) -> Plan:
    """The plan of a study."""
    try:
        # A damaged database can hold anything in place of numbers.
        for seed in (record.seed, record.order_seed):
            if operator.index(seed) not in range(2**64):
                raise ValueError(f"{seed} is not a seed")
        for time in (record.created, record.archived or 0.0):
            datetime.fromtimestamp(time, UTC)
        plan = _PLANS.get(record.plan) or Plan.from_record(read_json(record.plan))
        _PLANS[record.plan] = plan
        return plan
    except (TypeError, ValueError, OSError, OverflowError, RecursionError) as error:
        raise UnreadableStudy("study", record.name, f"its plan cannot be read: {error}") from None


def check_tests(plan: Plan, entries: Entries, places: range | None) -> None:
    """As `check_test`, for many at once."""
    is_known = (entries.arms >= 0) & (entries.arms < len(plan.arms)) & np.isin(entries.metrics, [*plan.yields])
    items = entries.items if len(entries.items) else np.full(len(entries.ids), NO_ITEM)
    if places is not None:
        is_known &= (items >= places.start) & (items < places.stop)
    if not is_known.all():
        columns = entries.ids, entries.arms, entries.metrics, items
        check_test(plan, Issued(*(int(column[is_known.argmin()]) for column in columns)), places)


def check_test(plan: Plan, test: Issued | Pending, places: range | None) -> None:
    """Raise `InvalidInput` if a test of the record is of an arm, a metric or an item that the study does not have:
    compiled code would write out of bounds.

    The places of items are in `places`. None in a study without items.
    """
    known = {"arm": range(len(plan.arms)), "metric": plan.yields} | ({} if places is None else {"item": places})
    for kind, numbers in known.items():
        if getattr(test, kind) not in numbers:
            reason = f"test {test.id} is of {kind} number {getattr(test, kind)}, and there is none"
            raise damaged_record(plan, reason)


def damaged_record(plan: Plan, reason: str) -> InvalidInput:
    """What to raise if a study's record contradicts its plan."""
    return InvalidInput("study", plan.name, f"its record is damaged ({reason}); restore the database from a copy")


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


def new_record(
    storage: Storage,
    plan: Plan,
    seeds: Seeds,
    key: str | None = None,
    *,
    author: str | None,
    project: str = DEFAULT_PROJECT,
    was_read: bool = False,
) -> StudyRecord:
    """A new study in `storage`, one for each `key`, made by `author`, who by default is this program's user.

    A plan that `was_read` from data holds nothing that the record does not, and is not read again.
    """
    if plan.delta > 0.5:
        reason = (
            "is the probability of a wrong answer that you accept, and can be at most 0.5; was "
            f"{1.0 - plan.delta:.6g} meant, for an answer that is right with probability {exact(plan.delta)}?"
        )
        raise InvalidInput("delta", plan.delta, reason)
    check_limits(plan)
    # A policy that must see all results of a round before the next takes them in together anyway.
    by_arrival = plan.order == "arrival" and find_policy(plan.policy).plans_ahead()
    seed = seeds.seed
    options: dict[str, Any] = {"author": author or user_here()} if storage.notes_authors else {}
    if check_project(project) != DEFAULT_PROJECT:
        if not storage.keeps_projects:
            raise InvalidInput("project", project, f"the storage {storage.url!r} keeps no projects")
        options["project"] = project
    if seeds.items_seed is not None:
        if storage.keeps_items_seed:
            options["items_seed"] = seeds.items_seed
        else:
            # The proof rests on the order of items, and on no choice of the policy.
            seed = seeds.items_seed
    text = json.dumps(plan.to_data(), ensure_ascii=False)
    if was_read:
        _PLANS[text] = plan
    try:
        return storage.create_study(
            plan.name,
            text,
            seed,
            by_arrival=by_arrival,
            request=key or "",
            **options,
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
    of_blocks = 0 if plan.blocks is None else MOST_BLOCKS_HELD * plan.blocks.size
    return of_blocks + MOST_HELD + HELD_PER_STREAM * len(plan.arms) * len(plan.metrics)


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


def check_reason(reason: object) -> str:
    """The reason for which a test is given up or made again, or a result corrected: the log and the report show it."""
    if not isinstance(reason, str) or not reason.strip():
        shown = quoted(reason)
        raise InvalidInput(
            "reason", reason, 'must be stated, for the log and the report: "the well dried"', shown=shown
        )
    return reason


def check_last(last: object) -> None:
    """Raise `InvalidInput` for a number of events that no database can be asked for."""
    if last is not None and (isinstance(last, bool) or not isinstance(last, int) or not 1 <= last < 2**63):
        raise InvalidInput("last", last, "must be a whole number from 1 to 2^63 - 1", shown=quoted(last))


def check_lease(lease: object) -> None:
    if not (_is_number(lease) and 0 < lease <= LONGEST_LEASE):  # type: ignore[operator]
        raise InvalidInput("lease", lease, "must be a positive number of seconds", shown=quoted(lease))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
