"""Two logs paired item by item, in an order that was drawn before anything was compared."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bestarm.kernel.state import Floats
from bestarm.problem.items import random_order
from bestarm.race.logs.log import Log
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

LEAVE_OUT = "leave-out"

Missing = Mapping[str, float] | str | None
"""What becomes of items without a result in one of the logs: what each metric counts as there, or `LEAVE_OUT`."""

_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Pairs:
    """The items that two logs have in common, in the order in which they count."""

    items: tuple[str, ...]
    metrics: tuple[str, ...]
    values: Floats
    """[item, log, metric]"""
    left_out: tuple[str, ...] = ()
    """The items that are left out because a log lacks a result."""
    filled: tuple[str, ...] = ()
    """The items for which a stated value counts."""
    seen_before: int = 0
    """How many of the items an earlier verdict has seen, in the same order."""

    @property
    def digests(self) -> list[str]:
        """For each item, what tells its name and values, up to it, from others."""
        running, found = hashlib.sha256(json.dumps(self.metrics).encode()), []
        for item, values in zip(self.items, self.values.tolist(), strict=True):
            running.update(json.dumps([item, values]).encode())
            found.append(running.hexdigest()[:16])
        return found


def pair(
    logs: Sequence[Log], metrics: Sequence[str], seed: int, missing: Missing = None, earlier: Mapping[str, Any] = {}
) -> Pairs:
    """The items of two logs in a random order, after those of an `earlier` verdict in theirs."""
    _check_contents(*logs)
    if isinstance(missing, str) and missing != LEAVE_OUT:
        raise InvalidInput("missing", missing, f"must be a value for each metric, such as accuracy=0, or {LEAVE_OUT}")
    filled: dict[str, float] = {} if missing is None or isinstance(missing, str) else dict(missing)
    lacking = {}
    for item in sorted(logs[0].items | logs[1].items):
        if reason := next(filter(None, (log.lack(item, metrics) for log in logs)), ""):
            lacking[item] = reason
    common = sorted((logs[0].items | logs[1].items) - lacking.keys())
    if lacking and missing is None:
        raise _refused(lacking, len(common) + len(lacking), metrics)
    if unknown := [metric for metric in filled if metric not in metrics]:
        raise InvalidInput("missing", unknown[0], "no limit is about this metric")
    if unstated := [metric for metric in metrics if lacking and filled and metric not in filled]:
        raise InvalidInput("missing", unstated[0], f"say what {unstated[0]!r} counts as, too")
    used = sorted({*common, *lacking}) if filled else common
    if not used:
        raise InvalidInput("candidate", logs[1].name, f"has no item in common with {logs[0].name}")
    before = [str(item) for item in earlier.get("items", ())]
    if gone := [item for item in before if item not in set(used)]:
        raise InvalidInput("--after", gone[0], "an item of the earlier verdict is no longer in both logs")
    rest = [item for item in used if item not in set(before)]
    order = [*before, *(rest[number] for number in random_order(seed, len(before), len(rest)))]

    def value(log: Log, item: str, metric: str) -> float:
        return filled[metric] if log.lack(item, [metric]) else log.value(item, metric)

    rows = [[[value(log, item, metric) for metric in metrics] for log in logs] for item in order]
    found = Pairs(
        tuple(order),
        tuple(metrics),
        np.array(rows),
        () if filled else tuple(lacking),
        tuple(lacking) if filled else (),
        len(before),
    )
    if before and found.digests[len(before) - 1] != earlier.get("digest"):
        reason = "the values of its items, the metrics or what is missing have changed since; gate without it"
        raise InvalidInput("--after", UNSTATED, reason)
    return found


def _check_contents(base: Log, new: Log) -> None:
    other = {}
    for item, known in sorted(base.contents.items()):
        others = new.contents.get(item, {})
        if differ := [part for part in known if part in others and known[part] != others[part]]:
            other[item] = differ[0]
    if other:
        item, part = next(iter(other.items()))
        reason = f"is not the same item in both logs: its {part} differs ({len(other):,} such items)"
        raise InvalidInput("item", item, f"{reason}; logs must be of the same items", shown=quoted(item))


def _refused(lacking: Mapping[str, str], items: int, metrics: Sequence[str]) -> InvalidInput:
    listed = [f"{quoted(item)} {reason}" for item, reason in [*lacking.items()][:_SHOWN]]
    rest = [f"and {len(lacking) - _SHOWN:,} more"] if len(lacking) > _SHOWN else []
    advice = (
        f"--missing {metrics[0]}=0 says what such an item counts as; --missing {LEAVE_OUT} leaves them out of both, "
        "which is right only if that has nothing to do with their results"
    )
    sentence = f"missing: {len(lacking):,} of {items:,} items lack a result; {advice}"
    return InvalidInput("missing", UNSTATED, sentence, sentence="\n  ".join([sentence, *listed, *rest]))
