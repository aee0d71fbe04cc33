"""What is in a study's record, freshly read, and whether the study agrees with it."""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple

import bestarm as ba
from bestarm.storage.base import History, Pending, Storage
from bestarm.study.record.decider import Decider


class Seen(NamedTuple):
    """A study's whole record, at one moment."""

    history: dict[int, History]
    given: Counter[float | None]
    """How many tests have this as their first outcome."""
    noted: Counter[tuple[str, int | None, str]]
    """Lines of the log, by kind, test and holder."""
    pending: list[Pending]
    names: list[str]
    """The names of all studies."""
    now: float

    @classmethod
    def of(cls, study: ba.Study) -> Seen:
        storage, key = study.storage, study.record.key
        history = {row.id: row for row in storage.history(key)}
        return cls(
            history=history,
            given=Counter(row.outcomes[0].value for row in history.values() if row.outcomes),
            noted=Counter((event.kind, event.test, event.holder) for event in storage.log(key)),
            pending=storage.pending(key),
            names=[record.name for record in storage.studies()],
            now=time.time(),
        )

    def outcomes(self, test: int) -> list[float | None]:
        """Everything that was ever told for a test, corrected or not."""
        return [outcome.value for outcome in self.history[test].outcomes] if test in self.history else []


def faults(study: ba.Study, seen: Seen) -> list[str]:
    """What is wrong with a record, or with what the study concludes from it."""
    found = []
    if list(seen.history) != list(range(1, len(seen.history) + 1)):
        found.append("the tests are not numbered from 1 on")
    status = study.status()
    decider = replayed(study.storage, study)
    own = study._decider
    if (own.policy.streams.counts != decider.policy.streams.counts).any() or (
        own.policy.streams.sums != decider.policy.streams.sums
    ).any():
        found.append("what counts is not what the record says")
    if own.stop != decider.stop:
        found.append("the answer is not what the record says")
    told = sum(bool(row.outcomes) and row.outcomes[-1].value is not None for row in seen.history.values())
    if status.tests != told:
        found.append(f"{status.tests} results are shown, and {told} are recorded")
    return found


def replayed(storage: Storage, study: ba.Study) -> Decider:
    """The record read from the start, by a policy that knows nothing yet."""
    record = study.record
    decider = Decider(study.plan, record.seed, by_arrival=record.by_arrival)
    for part in storage.arrivals(record.key, 0) if record.by_arrival else storage.entries(record.key, 0):
        decider.enter(part)
    return decider
