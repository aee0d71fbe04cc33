"""Copies of whole studies: everything that a storage keeps of one, as plain rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from bestarm.validation import InvalidInput


class Part(NamedTuple):
    """Rows of one table, in the table's order. The study's number is not among the columns: it differs elsewhere."""

    table: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Copies:
    """The part of a storage that copies studies. By default it cannot."""

    url: str

    def dump(self, key: int) -> Iterator[Part]:
        """Everything of a study, its own entry first. Equal for equal studies, in whichever database they are."""
        raise InvalidInput("storage", self.url, "cannot copy whole studies; use SQLite or PostgreSQL")

    def restore(self, parts: Iterable[Part]) -> int:
        """A study from what `dump` gave, all or nothing; returns its number. `NameTaken` if one has its name."""
        raise InvalidInput("storage", self.url, "cannot take copies of studies; use SQLite or PostgreSQL")
