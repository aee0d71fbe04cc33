"""How slices are stated: attributes from data frames, one constraint for each value, and what does not go together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic_core import ArgsKwargs

from bestarm.problem.items import count_of
from bestarm.problem.parts import Constraint
from bestarm.problem.question import Question
from bestarm.problem.slice_means import is_rate
from bestarm.problem.slices import column_of, members_of
from bestarm.texts import first_ten
from bestarm.validation import InvalidInput

MOST_SLICES = 200
"""The most constraints about slices that a problem can have."""


def read_fields(given: Any) -> Any:
    """The fields of a problem, by name or as they are passed in Python."""
    is_plain = isinstance(given, dict)
    return read_items(given) if is_plain else ArgsKwargs(given.args, read_items(given.kwargs or {}))


def read_items(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a problem, where items may be a column or an array of names, or a data frame: a column `item`, or
    its index, has their names, and what constraints say of attributes is in columns of theirs."""
    frame: Any = fields.get("items")
    if not (hasattr(frame, "columns") and hasattr(frame, "index")):
        return {**fields, "items": frame.tolist()} if hasattr(frame, "tolist") else fields
    table: Any = frame
    columns = [*map(str, table.columns)]
    names = table["item"] if "item" in columns else table.index
    # A table that names no items has them numbered by pandas.
    is_counted = "item" not in columns and names.tolist() == [*range(len(table))]
    named = fields.get("attributes") or {}
    wanted = {name for part in fields.get("constraints") or () for name in _attributes_of(part)} - named.keys()
    if missing := sorted(wanted - {*columns}):
        raise InvalidInput("where", missing[0], f"no such attribute; the columns of items are {first_ten(columns)}")
    found = {name: table[name].tolist() for name in columns if name in wanted}
    items = len(table) if is_counted else names.tolist()
    return {**fields, "items": items, "attributes": {**named, **found} or None}


def _attributes_of(part: Any) -> list[str]:
    """The attributes that a constraint names."""
    stated = part if isinstance(part, Mapping) else {name: getattr(part, name, None) for name in ("where", "for_each")}
    each = stated.get("for_each")
    return [*(stated.get("where") or ()), *([] if each is None else [each])]


def one_by_one(problem: Question) -> tuple[Constraint, ...]:
    """The constraints, with one for every value of an attribute in place of each that is stated for all of them."""
    found: list[Constraint] = []
    for index, part in enumerate(problem.constraints):
        if part.for_each is None:
            found.append(part)
            continue
        where, field = part.where or {}, f"constraints[{index}]"
        values = column_of(problem.attributes, f"{field}.for_each", part.for_each)
        inside = members_of(where, problem.attributes, len(values), f"{field}.where")
        each = dict.fromkeys(value for value, is_in in zip(values, inside.tolist(), strict=False) if is_in)
        found += [dataclasses.replace(part, for_each=None, where={**where, part.for_each: value}) for value in each]
    return tuple(found)


def check_slices(problem: Question) -> None:
    """Raises `InvalidInput` if attributes and slices do not go with the rest of the problem."""
    for name, values in (problem.attributes or {}).items():
        if problem.items is None or problem.blocks is not None:
            raise InvalidInput(
                "attributes", [name], "can only be stated of items; state items, how many or their names"
            )
        if len(values) != count_of(problem.items):
            reason = f"has {len(values):,} values; it needs one for each of the {count_of(problem.items):,} items"
            raise InvalidInput(f"attributes[{name!r}]", [*values[:3]], reason)
    sliced = [(index, part) for index, part in enumerate(problem.constraints) if part.where is not None]
    if len(sliced) > MOST_SLICES:
        raise InvalidInput("constraints", len(sliced), f"at most {MOST_SLICES} of them can be about slices")
    for index, part in sliced:
        field = f"constraints[{index}].where"
        if problem.blocks is not None or problem.items is None:
            raise InvalidInput(field, dict(part.where or {}), "needs items, which have attributes")
        if problem.repeats:
            reason = "needs items that are measured once each; leave out repeats: a slice is a set of items"
            raise InvalidInput(field, dict(part.where or {}), reason)
        if problem.judged:
            reason = "does not go with a judge, whose scores are compared over all items; leave out one"
            raise InvalidInput(field, dict(part.where or {}), reason)
        if part.noise.is_exact:
            reason = "an exact metric is the same on every item, so that there is nothing to say of a slice"
            raise InvalidInput(field, dict(part.where or {}), reason)
        members_of(part.where or {}, problem.attributes, count_of(problem.items), field)


def check_means(problem: Question) -> None:
    """Raises `InvalidInput` if the means that an arm states of slices contradict each other."""
    if problem.cells is None:
        return
    for index, arm in enumerate(problem.arms):
        given = arm.means or {}
        known = [
            given.get(label, part.mean_of(given)) for label, part in zip(problem.metrics, problem.parts, strict=True)
        ]
        if any(mean is None or isinstance(mean, tuple) for mean in known):
            continue
        possible = problem.together(np.array([known], float), [{*given}])[0].tolist()
        for k, (label, mean) in enumerate(zip(problem.metrics, possible, strict=True)):
            if label not in given or isinstance(given[label], tuple):
                continue
            rounding = (
                0.5 * problem.cells.inside[k].sum() / problem.item_counts[k] if is_rate(problem.parts[k]) else 1e-6
            )
            if abs(mean - known[k]) > rounding + 1e-9 * abs(mean):
                reason = "cannot be true together with the other means of this metric, over all items and over slices"
                raise InvalidInput(f"arms[{index}].means[{label!r}]", known[k], f"{reason}; {mean:.4g} could")
