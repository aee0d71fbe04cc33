"""Slices: the items that share a value of an attribute, such as the questions about law, and limits on them alone.

A constraint with `where` is about the items that have these values. In the order of all items they are in a random
order, too, so that a slice is a set of items of its own. `for_each` stands for one constraint for every value of an
attribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator

from bestarm.texts import first_ten
from bestarm.validation import InvalidInput, Name, described, parse_name

Membership = npt.NDArray[np.bool_]
Means = npt.NDArray[np.float64]

_NO_TEXT = 'must be a text such as "law"; write "unknown" where it is not known'


def _read_value(data: object) -> str:
    """A value of an attribute. Numbers and booleans are read as study files write them."""
    if isinstance(data, bool):
        return str(data).lower()
    if isinstance(data, int):
        return str(data)
    if not isinstance(data, str):
        raise ValueError(_NO_TEXT)
    return parse_name(data)


Value = Annotated[Name, BeforeValidator(_read_value)]


def _read_column(data: object) -> object:
    """The values of a column of a data frame, as a list."""
    return data.tolist() if hasattr(data, "tolist") else data


Attributes = Mapping[Name, Annotated[tuple[Value, ...], BeforeValidator(_read_column)]]
"""By attribute: its value for each item, in the order in which the items are stated."""


def _read_where(data: object) -> object:
    if data is not None and not (isinstance(data, Mapping) and data):
        raise ValueError('must name an attribute and its value, such as {"topic": "law"}')
    return data


Where = Annotated[Annotated[Mapping[Name, Value], described(minProperties=1)] | None, BeforeValidator(_read_where)]
"""The values of attributes that items of a slice have."""


def where_words(where: Mapping[str, str]) -> str:
    """Which items, in a few words.

    >>> where_words({"topic": "law", "language": "de"})
    'where topic = law and language = de'
    """
    return f"where {' and '.join(f'{attribute} = {value}' for attribute, value in where.items())}"


# ------------------------------------------------------------------------------------------------------------- items


def _unknown(attributes: Attributes | None, field: str, name: str) -> InvalidInput:
    known = [*(attributes or {})]
    if known:
        return InvalidInput(field, name, f"no such attribute; the attributes are {first_ten(known)}", known)
    reason = "items have no attributes; state them by name, with a value for each item"
    return InvalidInput(field, name, f'{reason}: attributes = {{{name!r}: ["law", …]}}')


def column_of(attributes: Attributes | None, field: str, name: str) -> tuple[str, ...]:
    """The values of an attribute. `field` says where it is named."""
    values = (attributes or {}).get(name)
    if values is None:
        raise _unknown(attributes, field, name)
    return values


def members_of(where: Mapping[str, str], attributes: Attributes | None, count: int, field: str = "where") -> Membership:
    """By item: whether it is in the slice."""
    inside = np.ones(count, np.bool_)
    for name, value in where.items():
        values = column_of(attributes, field, name)
        if value not in values:
            known = [*dict.fromkeys(values)]
            raise InvalidInput(f"{field}.{name}", value, f"no item has it; the values are {first_ten(known)}", known)
        inside &= np.array(values) == value
    if not inside.any():
        raise InvalidInput(field, dict(where), "no item is in this slice")
    return inside


def membership(
    wheres: Sequence[Mapping[str, str] | None], attributes: Attributes | None, count: int
) -> Membership | None:
    """[part, item]: the items that count for a part. None if all do for every part."""
    if not any(wheres):
        return None
    return np.array([members_of(where or {}, attributes, count) for where in wheres])


class Cells:
    """The items by the slices that they are in: those of a cell are in the same ones."""

    def __init__(self, inside: Membership) -> None:
        patterns, self.of_item = np.unique(inside, axis=1, return_inverse=True)
        self.of_item = self.of_item.ravel()
        """By item: its cell."""
        self.inside = patterns
        """[part, cell]: whether the items of a cell count for a part."""
        self.sizes = np.bincount(self.of_item, minlength=patterns.shape[1])

    def means(
        self, parts: Sequence[int], stated: Sequence[float], ends: tuple[float, float], *, is_rate: bool
    ) -> Means:
        """By cell: means with which those of `parts`, which have the same metric, are as `stated`, as far as they can
        be. Cells of which nothing more is stated differ as little as possible."""
        inside = self.inside[[*parts]]
        weights = inside * self.sizes
        first = stated[0]
        away = np.linalg.lstsq(
            weights @ inside.T.astype(float), weights.sum(axis=1) * (np.array(stated) - first), rcond=None
        )
        found: Means = np.clip(first + away[0] @ inside, *ends)
        return np.round(found * self.sizes) / self.sizes if is_rate else found

    def mean_of(self, part: int, cells: Means) -> float:
        """The mean over the items that count for a part."""
        weights = self.inside[part] * self.sizes
        return float(weights @ cells / weights.sum())
