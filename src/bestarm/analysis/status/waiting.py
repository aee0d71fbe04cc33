"""The test that everything waits for: who holds it, since when, and the command that frees it."""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Sequence
from typing import Literal

from bestarm.storage.base import Pending
from bestarm.storage.opening import default_url

AwaitedState = Literal["measuring", "held", "overdue", "free", "failed", "timed out", "refused", "lost"]
"""Its holder sends heartbeats, or need not, or is late by their own estimate; it is free; or how an attempt ended,
until it is known what that counts as."""

SHOWN_AFTER = 3.0
"""Seconds after which a test is reported as holding up others. A quick one is over before that."""


@dataclasses.dataclass(frozen=True)
class HeldResults:
    """Results on items whose turn has not come: an item before theirs has none. `words` says which one it is.

    >>> print(HeldResults.of(12, "score of new on question 7", 30))
    12 results recorded but not counted yet, for test 30 (score of new on question 7): items count in the study's order
    """

    results: int
    words: str
    test: int | None = None
    """The test that is out for that item; None if it has not been asked for."""

    @classmethod
    def of(cls, results: int, item: str, test: int | None) -> HeldResults:
        awaited = f"{item}, not asked for yet" if test is None else f"test {test} ({item})"
        late = f"{'1 result' if results == 1 else f'{results:,} results'} recorded but not counted yet"
        return cls(results, f"{late}, for {awaited}: items count in the study's order", test)

    def __str__(self) -> str:
        return self.words


@dataclasses.dataclass(frozen=True)
class Awaited:
    """A test whose result must come before later ones count. Times are in seconds since 1970."""

    test: int
    arm: str
    metric: str
    holder: str
    since: float
    due: float | None
    state: AwaitedState
    reason: str
    command: str
    """The command that frees it, if its result will not come."""
    count_command: str | None
    """The command that counts a value for it, if an attempt ended and it is not known what that counts as."""
    item: str | None = None
    """The item it is to be measured on, in a study with items."""
    give_up_command: str = ""
    """The command that gives it up, so that results that wait for it alone count at once."""
    block: str | None = None
    """What a block is called, in a study with blocks: the results of a block count together."""

    @classmethod
    def of(
        cls,
        row: Pending,
        arm: str,
        metric: str,
        *,
        study: str,
        url: str,
        metrics: Sequence[str] = (),
        item: str | None = None,
        block: str | None = None,
    ) -> Awaited:
        """The pending test `row` of a study kept at `url`, which yields `metrics` if they are several."""
        count = command("tell", study, row.id, url, *_blanks(metrics, url)) if row.aside is not None else None
        free = command("release", study, row.id, url)
        give_up = command("abandon", study, row.id, url, *(["WHY"] if url == ":memory:" else ["--reason", "WHY"]))
        known = row.holder, row.since, row.due, _state(row), row.reason
        return cls(
            row.id,
            arm,
            metric,
            *known,
            command=free,
            count_command=count,
            item=item,
            give_up_command=give_up,
            block=block,
        )

    @property
    def needs_attention(self) -> bool:
        """Whether the result may never come without help."""
        return self.state not in ("measuring", "free") and self.is_long_out

    @property
    def is_long_out(self) -> bool:
        """Whether it has been out for longer than the usual moment."""
        return time.time() - self.since > SHOWN_AFTER

    @property
    def if_given_up(self) -> str:
        """What counts once it is given up."""
        if self.block is None:
            return "later results count at once"
        return f"the results of its {self.block} count, once no other test of it is out"

    @property
    def _if_lost(self) -> str:
        """What to do if the result will not come."""
        return (
            f"if its result will not come: {self.give_up_command} ({self.if_given_up}), or {self.command} (it "
            "is made again, and they wait for it)"
        )

    def __str__(self) -> str:
        on = "" if self.item is None else f" on {self.item}"
        what = f"test {self.test} ({self.metric} of {self.arm}{on})"
        ago = _duration(time.time() - self.since)
        match self.state:
            case "free":
                goes_on = "what measured goes on with it if started again; else ask for it, or give it up"
                return f"{what}, which is free: {goes_on}: {self.give_up_command}"
            case "measuring":
                return f"{what}, which {self.holder} has been measuring for {ago}"
            case "held":
                return f"{what}, which {self.holder} has held for {ago}; {self._if_lost}"
            case "overdue":
                late = _duration(time.time() - (self.due or 0.0))
                return f"{what}, which {self.holder} has held for {ago} and wanted to tell {late} ago; {self._if_lost}"
        how = {"refused": "gave a value that was refused", "lost": "was lost with its process"}.get(self.state)
        said = f": {self.reason}" if self.reason else ""
        return (
            f"{what}, whose attempt by {self.holder} {how or self.state} {ago} ago{said}; to count a value for it: "
            f"{self.count_command}; to have it made again, if that has nothing to do with results: {self.command}"
        )


def _blanks(metrics: Sequence[str], url: str) -> list[str]:
    """Where the values of a test are to be put in."""
    if len(metrics) < 2:
        return ["VALUE"]
    if url == ":memory:":
        return ["{" + ", ".join(f"{metric!r}: VALUE" for metric in metrics) + "}"]
    return [shlex.quote(f"{metric}=VALUE") for metric in metrics]


def command(verb: str, study: str, test: int, url: str, *more: str) -> str:
    """A command about a test, ready to paste."""
    if url == ":memory:":
        return f"study.{verb}({', '.join([str(test), *more])})"
    return " ".join(["bestarm", verb, shlex.quote(study), str(test), *more]) + where_option(url)


def where_option(url: str) -> str:
    """What a command says of where a study is."""
    return "" if url == default_url() else f" --db {shlex.quote(url)}"


def is_unresolved(row: Pending) -> bool:
    """Whether a test needs attention: it is overdue, or it is not known what its failure counts as."""
    return row.aside is not None or _is_overdue(row)


def _is_overdue(row: Pending) -> bool:
    return row.due is not None and row.due < time.time()


def _state(row: Pending) -> AwaitedState:
    if row.aside is not None:
        return row.aside
    if row.expires == 0.0:
        return "free"
    if _is_overdue(row):
        return "overdue"
    return "held" if row.expires == float("inf") else "measuring"


def _duration(seconds: float) -> str:
    for size, word in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {word}s"
    return f"{max(seconds, 0.0):.0f} s"
