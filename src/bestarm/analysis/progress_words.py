"""How a study gets on, in lines that every place shows: what is known, what is open, how far it is, what is left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bestarm.analysis.open_questions import about, open_words
from bestarm.answer import DECIDED, names_in_words, percent

if TYPE_CHECKING:
    from bestarm.analysis.status import Status
    from bestarm.study.continuations import Outlook

Lines = list[tuple[str, str]]
"""What a line is about, in a word or two, and what it says."""

WIDTH = 24
"""The width of the bar, in characters."""
FULL, EMPTY = "█", "░"


def progress_lines(status: Status, outlook: Outlook | None = None) -> Lines:
    """What is known, what is open and how far that is; with an `outlook`, also what remains, as simulated.

    Nothing if there is an answer, and nothing on what is known if the budget is spent: the headline says that.
    """
    if status.state in DECIDED:
        return []
    lines = [("known", status.known)] if status.known and status.state == "running" else []
    if status.open:
        lines += [("open", open_words(status.open)), ("evidence", f"{bar(status.progress)} {evidence_words(status)}")]
    if not status.tests:
        return lines
    name, more = ("forecast", "") if status.state == "running" else ("lacking", ", once the budget is raised")
    if outlook is not None and is_about(outlook, status):
        return [*lines, *outlook_lines(outlook, name, more + age_words(outlook, status))]
    return [*lines, (name, f"about {tests} tests to go{more}")] if (tests := _estimate(status)) else lines


def compact_line(status: Status, outlook: Outlook | None = None) -> str:
    """The same in one line, for where there is no room for more."""
    if not status.tests:
        return "no results yet"
    made = f"{status.tests:,} test{'' if status.tests == 1 else 's'}"
    if status.state in DECIDED:
        return made
    parts = [made, _left(status)]
    if status.open:
        parts[0] += f", {evidence_words(status)}"
        parts.append(f"open: {open_words(status.open, most=2)}")
    if outlook is not None and is_about(outlook, status):
        to_go = to_go_words(outlook) + age_words(outlook, status)
    else:
        to_go = f"about {tests} to go" if (tests := _estimate(status)) else ""
    return "; ".join(part for part in (*parts, to_go) if part)


def bar(share: float, width: int = WIDTH) -> str:
    """A share as a bar. It is full only if nothing is missing.

    >>> bar(0.5, 8), bar(0.999, 8), bar(1.0, 8)
    ('████░░░░', '███████░', '████████')
    """
    full = math.floor(width * min(max(share, 0.0), 1.0))
    return FULL * full + EMPTY * (width - full)


def evidence_words(status: Status) -> str:
    """How much of the evidence is there that the open questions need."""
    return f"{math.floor(100 * status.progress)} % of the evidence needed"


def confidence_words(status: Status) -> str:
    """The anytime confidence, with what it means."""
    sure = (
        "how sure the evidence so far makes us of the leader; it can fall, and is often 0 until shortly before the end"
    )
    return f"{percent(status.confidence)}: {sure}"


ABOUT_FORECASTS = (
    "Continuations are simulated from here on, in worlds that the results leave possible. How many tests they take is "
    "read so that in simulated studies half, and nine in ten, ended within what was foretold."
)
TOO_EARLY = "too early to say: there are only a few results of each metric of each arm"


def is_about(outlook: Outlook, status: Status) -> bool:
    """Whether the study is still of the kind that was simulated: the same plan and past, and the same arms left."""
    return outlook.basis in ("", status.basis)


def age_words(outlook: Outlook, status: Status) -> str:
    """How many results have been counted that the forecast does not know; empty if there are none."""
    newer = status.tests - status.waiting - outlook.after if outlook.basis else 0
    return f" (forecast of {newer:,} result{'' if newer == 1 else 's'} ago)" if newer > 0 else ""


def outlook_lines(outlook: Outlook, name: str = "forecast", more: str = "") -> Lines:
    """How many tests remain, followed by `more`, and what the answer is likely to be."""
    if outlook.state == "too early":
        return [(name, f"{to_go_words(outlook)}{more}")]
    return [(name, f"{to_go_words(outlook)}{more}"), ("likely", answers_words(outlook))]


def to_go_words(outlook: Outlook) -> str:
    """How many tests remain, as simulated."""
    if outlook.state == "too early":
        return TOO_EARLY
    if math.isinf(outlook.median_tests):
        return (
            "no end in sight: arms are almost tied, a mean is almost on its threshold, or the budget is too small; a "
            "tolerance or a slack settles such questions"
        )
    most = "1 in 10: far more" if math.isinf(outlook.p90_tests) else f"9 in 10: at most {about(outlook.p90_tests)}"
    return f"about {about(outlook.median_tests)} tests to go ({most})"


def answers_words(outlook: Outlook) -> str:
    """What the simulated continuations end with, the most frequent answer first."""
    often = sorted(outlook.answers.items(), key=lambda item: -item[1])
    counts = [(f"with {_named(name)}", round(share * outlook.runs)) for name, share in often[:_MOST_ANSWERS]]
    others = round(sum(share for _, share in often[_MOST_ANSWERS:]) * outlook.runs)
    missing = outlook.runs - sum(count for _, count in counts) - others
    counts += [("with other arms", others), ("without an answer", missing)]
    (first, most), *rest = [(what, count) for what, count in counts if count]
    more = "".join(f", {count:,} {what}" for what, count in rest)
    return f"{most:,} of {outlook.runs:,} simulated continuations end{'s' if most == 1 else ''} {first}{more}"


_MOST_ANSWERS = 2
"""How many answers are named that simulated continuations end with."""


def _named(answer: str) -> str:
    return "no feasible arm" if answer == "none" else answer


def _left(status: Status) -> str:
    if len(status.candidates) == len(status.arms):
        return f"all {len(status.arms):,} arms left"
    return f"left: {names_in_words(status.candidates)}"


def _estimate(status: Status) -> str:
    """How many tests remain, by what is open alone: nothing is simulated. Empty if it is too early to tell."""
    tests = sum(question.tests for question in status.open)
    return about(tests) if status.open and tests <= _FORESIGHT * status.tests else ""


_FORESIGHT = 20
"""An estimate above this multiple of the tests made so far says nothing: means are still about equal."""
