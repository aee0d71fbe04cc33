"""What a storage must do to copy whole studies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bestarm.storage.rows import Part
from bestarm.validation import InvalidInput


class Copies:
    """The part of a storage that copies studies. By default it cannot."""

    url: str

    def dump(self, key: int) -> Iterator[Part]:
        """Everything of a study, its own entry first. Equal for equal studies, in whichever database they are."""
        raise InvalidInput("storage", self.url, "cannot copy whole studies; use SQLite or PostgreSQL")

    def restore(self, parts: Iterable[Part], *, by: str = "") -> list[int]:
        """Studies from what `dump` gave, one after another: all of them, or nothing. Returns their numbers.

        `NameTaken` if a study has the name of one. `by` is who does it, for the audit: an act remains of each.
        """
        raise InvalidInput("storage", self.url, "cannot take copies of studies; use SQLite or PostgreSQL")
