"""The version of a study's record: what a client must have seen to be up to date."""

from __future__ import annotations

from typing import NamedTuple

from bestarm.storage.base import Storage, StudyRecord
from bestarm.study.record.clock import is_time_up


class Version(NamedTuple):
    """What a study's record looks like from outside; equal versions mean that nothing was recorded in between.

    It is the same in every server process, because it counts what is in the database.
    """

    revision: int
    archived: float | None
    issued: int
    told: int
    noted: int
    is_late: bool = False
    """Whether its time is up."""

    def __str__(self) -> str:
        archived = "" if self.archived is None else f"a{self.archived:.3f}"
        return f"{self.revision}.{self.issued}.{self.told}.{self.noted}{archived}{'t' if self.is_late else ''}"


def version_of(storage: Storage, record: StudyRecord, entered: int = 0) -> Version:
    """The version of a study whose results up to number `entered` are known."""
    key, told = record.key, entered
    if record.by_arrival:
        for part in storage.arrivals(key, entered):
            told = int(part.arrivals[-1])
    else:
        told += storage.told(key, entered)
    newest = storage.issued(key), told, storage.last_event(key)
    return Version(record.revision, record.archived, *newest, is_time_up(record))
