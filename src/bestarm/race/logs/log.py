"""The log of an evaluation, whatever wrote it: the values of every item, metric by metric."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

LETTERS_RANGE = (0.0, 1.0)
"""What grades such as "correct", "partially correct" and "incorrect" count as."""


@dataclasses.dataclass
class Log:
    """What a log says of the items that were evaluated."""

    name: str
    program: str = "a frame"
    """What wrote it."""
    values: dict[str, dict[str, list[float]]] = dataclasses.field(default_factory=dict)
    """By item and metric: a value for each epoch."""
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    """By item: why some epoch of it has no values."""
    contents: dict[str, dict[str, set[str]]] = dataclasses.field(default_factory=dict)
    """By item: what is the same in two logs only if they mean the same item, such as its target, by name and digest."""
    ranges: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    """By metric: the range of its values, where the format says it."""

    def add(self, item: str, values: Mapping[str, Any], **content: object) -> None:
        """Take in what one epoch of an item came to. NaN stands for what is no number."""
        row = self.values.setdefault(item, {})
        for metric, value in values.items():
            is_number = isinstance(value, bool | int | float) and math.isfinite(value)
            row.setdefault(metric, []).append(float(value) if is_number else math.nan)
        for part, told in content.items():
            if told is not None:
                # Some editions of a program write a number as a text.
                text = json.dumps(told, sort_keys=True, default=str) if isinstance(told, dict | list) else str(told)
                known = self.contents.setdefault(item, {}).setdefault(part, set())
                known.add(hashlib.sha256(text.encode(errors="replace")).hexdigest())

    def take(self, part: Log, prefix: str) -> None:
        """Take in another log, whose items get a prefix."""
        self.program = part.program
        self.values |= {f"{prefix}{item}": row for item, row in part.values.items()}
        self.failed |= {f"{prefix}{item}": reason for item, reason in part.failed.items()}
        self.contents |= {f"{prefix}{item}": content for item, content in part.contents.items()}
        self.ranges |= part.ranges

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those with a number on some item."""
        rows = (pair for row in self.values.values() for pair in row.items())
        return tuple(dict.fromkeys(metric for metric, values in rows if not all(map(math.isnan, values))))

    @property
    def items(self) -> set[str]:
        return self.values.keys() | self.failed.keys()

    @property
    def epochs(self) -> int:
        """The most values of one metric that an item has."""
        return max((len(values) for row in self.values.values() for values in row.values()), default=0)

    def lack(self, item: str, metrics: Iterable[str]) -> str:
        """Why there is no value of an item for each metric and epoch; empty if there is."""
        if item not in self.items:
            return f"is not in {self.name}"
        if item in self.failed:
            return f"has no result in {self.name}: {self.failed[item]}"
        row = self.values[item]
        without = next((metric for metric in metrics if math.isnan(sum(row.get(metric, [math.nan])))), None)
        return "" if without is None else f"has no number as {without!r} in {self.name}"

    def value(self, item: str, metric: str) -> float:
        """The mean of an item over its epochs."""
        return statistics.fmean(self.values[item][metric])
