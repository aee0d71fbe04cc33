"""What metrics are measured in."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from bestarm.validation import Name

Unit = Annotated[Name | None, BeforeValidator(lambda given: None if given == "" else given)]
"""The unit of a metric, such as "ms". Nothing is computed from it."""


def in_unit(name: str, unit: str | None) -> str:
    """A name with its unit, as headings of sheets, tables and charts show it.

    >>> in_unit("time", "ms"), in_unit("rate", None)
    ('time (ms)', 'rate')
    """
    return name if unit is None else f"{name} ({unit})"
