"""Where a study stands, at a glance."""

from __future__ import annotations

import dataclasses
import json
import math
import time
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Literal

from bestarm.analysis.charts.intervals import interval_chart
from bestarm.analysis.health.notes import Health
from bestarm.analysis.standing.arms import ArmStanding
from bestarm.analysis.standing.judges import JudgeStanding
from bestarm.analysis.standing.knowledge import OpenQuestion, about, open_words
from bestarm.analysis.status.outlook import Lines, Outlook, outlook_lines, to_go_words
from bestarm.analysis.status.waiting import Awaited, HeldResults
from bestarm.answer import (
    DECIDED,
    BlocksMade,
    Guarantee,
    all_names,
    counted_tests,
    good_words,
    guarantee_of,
    known_words,
    leads_words,
    plain,
    void_style,
    void_words,
)
from bestarm.texts import ARM, Noun, in_columns, shown

StudyState = Literal["running", "certified", "no_feasible_arm", "budget_spent", "void"]


@dataclasses.dataclass(frozen=True)
class Status:
    """Where a study stands.

    `answer` is what the study has come to, None as long as it has not; `guarantee` says whether it is guaranteed.
    `leader` is the current best arm. `tests` and `cost` are those of all results recorded. Of these, `waiting` do not
    count until the result of an earlier test is there. `candidates` are the arms that can still be the answer,
    `feasible` those certified so, as in `Answer`. `confidence` is how sure the evidence so far makes us of the leader;
    it can fall. Printed, it is some lines of text.
    """

    study: str
    state: StudyState
    answer: str | None
    leader: str | None
    confidence: float
    tests: int
    cost: float
    pending: int
    waiting: int
    arms: tuple[ArmStanding, ...]
    tolerance: float = 0.0
    slack: Mapping[str, float] = dataclasses.field(default_factory=dict)
    candidates: tuple[str, ...] = ()
    feasible: tuple[str, ...] = ()
    regret_at_most: float | None = None
    """As in `Answer`, of the leader."""
    known: str = ""
    """What is certain, in a sentence: which arms can be the answer, which are feasible, how good the leader is."""
    open: tuple[OpenQuestion, ...] = ()
    """What the likeliest answer still lacks."""
    tests_left: float = math.inf
    """About how many tests that takes, at most as many as items leave; infinite if it cannot be told. It is 0 with an
    answer. A budget may end first."""
    progress: float = 0.0
    """How much there is of all the evidence that the likeliest answer needs, from 0 to 1."""
    answered: tuple[str, ...] = ()
    """The arms that the policy has stopped with: `answer`, or the set that it leads. As `arms` of `Answer`."""
    claim: str = ""
    """What it claims of them, in words; empty if it is that `answer` is feasible and best, or that no arm is feasible
    and all were asked about."""
    decided: str = ""
    """Where every feasible arm is asked for: how many arms are decided, in words. Empty for other goals."""
    awaited: Awaited | None = None
    """The test whose result counts next, who holds it, and how to free it."""
    held: HeldResults | None = None
    """Results on items that come after one without a result; None if there are none."""
    health: Health = dataclasses.field(default_factory=Health)
    """Whether the results contradict what the guarantee rests on."""
    seed: int | None = None
    """The seed of the study's random choices."""
    items_seed: int | None = None
    """The seed of the random order of its items; None without items. Stated for a new study, both seeds repeat this
    one."""
    arm_word: str = ARM
    """What the study calls an arm."""
    endless: str = ""
    """That the study may never end, and what would end it, if that has become likely; else empty."""
    judges: tuple[JudgeStanding, ...] = ()
    """What each judge is worth: how it agrees with labels, how many it saved, and how biased it is."""
    blocks: BlocksMade | None = None
    """The blocks that have counted; None in a study without blocks."""
    unasked: str = ""
    """As in `Answer`: how many results the study had not asked for, and what is assumed of them; else empty."""
    ends: float | None = None
    """When a budget of time ends, in seconds since 1970; None without one."""
    outlook: Outlook | None = dataclasses.field(default=None, compare=False, repr=False)
    """The latest forecast made here that is about the study as it is. It is shown in place of `tests_left`."""
    basis: str = dataclasses.field(default="", compare=False, repr=False)
    """Changes when the study changes in kind: its past or its plan, its state, or which arms can be the answer."""
    budget_left: str = ""
    """What is left of a budget of tests, cost or blocks while the study runs, in words; empty without one."""
    void_because: tuple[str, ...] = dataclasses.field(init=False)
    """The assumptions of the guarantee that the results contradict. If there are any, the guarantee is void."""
    guarantee: Guarantee = dataclasses.field(init=False)
    """As in `Answer`; void in any state, if the results contradict what the guarantee rests on."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "void_because", self.health.void_because)
        object.__setattr__(self, "guarantee", guarantee_of(self.state, self.void_because))

    def __str__(self) -> str:
        return f"{shown(self.study)}: {shown(self.headline)}\n{in_columns(status_lines(self))}"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return status_html(self)

    @property
    def headline(self) -> str:
        """The state in a few words."""
        match self.state:
            case "certified":
                if len(self.answered) > 1:
                    return f"{all_names(self.answered)}: {self.claim}"
                return f"{self.answer} is {self.claim or good_words(self.tolerance, self.slack)}"
            case "no_feasible_arm":
                return self.claim or f"no {self.noun.one} is feasible"
            case "void":
                return f"{self._where}; {void_words(self.void_because)}"
            case "budget_spent":
                spent = "the budget is spent and no answer is certified"
                return f"{spent}; {self._where}; {known_words(self.known, self.void_because)}"
        if self.tests <= self.waiting:
            return "running: no results yet" + (f" (not counting {self.results_that_wait})" if self.tests else "")
        if self.leader is None and not self.decided and not any(one.tests for arm in self.arms for one in arm.metrics):
            # Past results of items whose turn comes later, for instance.
            return "running: no results count yet"
        so_far = " so far" if self.leader is None and not self.decided else ""
        said = f"running: {self._where}{so_far}"
        said += f" (not counting {self.results_that_wait})" if self.counted < self.tests else ""
        return f"{said}; {void_words(self.void_because)}" if self.void_because else said

    @property
    def _where(self) -> str:
        """How many arms are decided, where each is asked about; otherwise who leads."""
        return self.decided or leads_words(self.leader, self.noun)

    @property
    def noun(self) -> Noun:
        """What the study calls its arms."""
        return Noun.of(self.arm_word)

    @property
    def counted(self) -> int:
        """How many results count: the others wait for an earlier test, or for the turn of their item."""
        return self.tests - self.waiting - (0 if self.held is None else self.held.results)

    @property
    def results_that_wait(self) -> str:
        """How many results wait, in words."""
        waiting = self.tests - self.counted
        return "1 result that waits" if waiting == 1 else f"{waiting:,} results that wait"

    @property
    def seed_words(self) -> str:
        """The seeds that repeat the study, by name."""
        items = "" if self.items_seed is None else f", items_seed {self.items_seed}"
        return f"seed {self.seed}{items}"

    @property
    def seed_options(self) -> str:
        """The seeds that repeat the study, as `bestarm new` takes them."""
        items = "" if self.items_seed is None else f" --items-seed {self.items_seed}"
        return f"--seed {self.seed}{items}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `bestarm status --json` prints it. What is unknown or infinite is None."""
        data: dict[str, Any] = plain(shown_fields(self))
        return data


def shown_fields(status: Status) -> dict[str, Any]:
    """The fields of `Status.to_dict`, not copied: those of a large study have millions of entries."""
    data = {name: getattr(status, name) for name in _DEFAULTS if name != "outlook"}
    notes = [note.through("file").to_dict() for note in status.health.notes]
    data["health"] = plain(status.health) | {"notes": notes}
    if status.awaited is not None:
        # Most studies have neither items nor blocks.
        known = plain(status.awaited)
        data["awaited"] = {
            name: known[name] for name in known if name not in ("item", "block") or known[name] is not None
        }
    for field in UNSAID:
        if data[field] == _DEFAULTS[field]:
            del data[field]
    return data


UNSAID = ("arm_word", "endless", "judges", "blocks", "unasked", "held", "ends", "budget_left")
"""The fields that `Status.to_dict` leaves out where they have their default."""
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Status)}


def basis_of(revision: int, state: StudyState, candidates: Sequence[str]) -> str:
    """What a forecast must have in common with a status to be shown beside it."""
    return f"{revision}.{state}.{zlib.crc32(json.dumps(candidates).encode()):08x}"


# --------------------------------------------------------------------------------------------- in lines of text

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
    outlook = _about(outlook, status)
    if status.open:
        lines.append(("open", open_words(status.open, in_all=_in_all(outlook))))
        lines.append(("evidence", f"{bar(status.progress)} {evidence_words(status)}"))
    lines += [("budget", f"leaves {status.budget_left}")] if status.budget_left else []
    if not status.tests:
        return lines
    lines += [("end", status.endless)] if status.endless else []
    name, given = ("", "") if status.state == "running" else ("lacking", "with a larger budget: ")
    if outlook is not None:
        (_, to_go), *likely = outlook_lines(outlook)
        return [*lines, (name or "forecast", f"{given}{to_go}{age_words(outlook, status)}"), *likely]
    # Nothing is simulated, so it is no forecast.
    tests = _estimate(status)
    return [*lines, (name or "estimate", f"{given}about {tests} tests to go")] if tests else lines


def compact_line(status: Status, outlook: Outlook | None = None) -> str:
    """The same in one line, for where there is no room for more."""
    if not status.tests:
        return "no results yet"
    made, outlook = counted_tests(status.tests), _about(outlook, status)
    if status.state in DECIDED:
        return made
    is_all = len(status.candidates) == len(status.arms)
    parts = [
        made,
        f"all {status.noun.counted(len(status.arms))} left" if is_all else f"left: {all_names(status.candidates)}",
    ]
    if status.open:
        parts[0] += f", {evidence_words(status)}"
        parts.append(f"open: {open_words(status.open, most=2, in_all=_in_all(outlook))}")
    if outlook is not None:
        to_go = to_go_words(outlook) + age_words(outlook, status)
    else:
        to_go = f"about {tests} to go" if (tests := _estimate(status)) else ""
    left = f"the budget leaves {status.budget_left}" if status.budget_left else ""
    return "; ".join(part for part in (*parts, to_go, left, status.endless) if part)


def bar(share: float, width: int = WIDTH) -> str:
    """A share as a bar. It is full only if nothing is missing.

    >>> bar(0.5, 8), bar(0.999, 8), bar(1.0, 8)
    ('████░░░░', '███████░', '████████')
    """
    full = math.floor(width * min(max(share, 0.0), 1.0))
    return FULL * full + EMPTY * (width - full)


def evidence_words(status: Status) -> str:
    """How much of the evidence is there that the open questions need."""
    return f"{math.floor(100 * status.progress)}% of the evidence needed"


def is_about(outlook: Outlook, status: Status) -> bool:
    """Whether the study is still of the kind that was simulated: the same plan and past, and the same arms left."""
    return outlook.basis in ("", status.basis)


def age_words(outlook: Outlook, status: Status) -> str:
    """How many results have been counted that the forecast does not know; empty if there are none."""
    newer = status.tests - status.waiting - outlook.after if outlook.basis else 0
    return f" (forecast of {newer:,} result{'' if newer == 1 else 's'} ago)" if newer > 0 else ""


def _about(outlook: Outlook | None, status: Status) -> Outlook | None:
    """The forecast to show: this one, or the latest that the status has; None if neither is about the study."""
    return next((one for one in (outlook, status.outlook) if one is not None and is_about(one, status)), None)


def _in_all(outlook: Outlook | None) -> float:
    """The number of tests to go that is shown. No question is said to take more."""
    return math.inf if outlook is None or math.isnan(outlook.median_tests) else outlook.median_tests


def _estimate(status: Status) -> str:
    """How many tests remain, by what is open alone: nothing is simulated. Empty if it is too early to tell."""
    return about(status.tests_left) if status.open and status.tests_left <= _FORESIGHT * status.tests else ""


_FORESIGHT = 20
"""An estimate above this multiple of the tests made so far says nothing: means are still about equal."""


_MOST = 60


def status_lines(status: Status, outlook: Outlook | None = None) -> Lines:
    """What is known and open, what was done, what everything waits for, the seeds, and whether the data is healthy."""
    made = f"{status.tests:,} recorded, cost {status.cost:,.10g}; {status.pending:,} pending"
    lines = [*progress_lines(status, outlook), ("tests", made), *judge_lines(status)]
    if status.blocks is not None:
        lines.append((Noun.of(status.blocks.name).many, f"{status.blocks} with all results"))
    lines += [("not asked", status.unasked)] if status.unasked else []
    awaited = status.awaited
    if awaited is not None and (status.waiting or awaited.needs_attention):
        results = f"{status.waiting:,} result{'' if status.waiting == 1 else 's'}"
        late = f"{results} recorded but not counted yet, " if status.waiting else ""
        lines.append(("waiting", f"{late}for {awaited}"))
    if status.held is not None:
        lines.append(("waiting", status.held.words))
    if status.ends is not None and status.state == "running":
        lines.append(("time", ends_words(status)))
    if status.seed is not None:
        lines.append(("seeds", status.seed_words))
    if status.tests:
        found = [str(note) for note in status.health.notes] or [str(status.health)]
        lines += [("health" if k == 0 else "", sentence) for k, sentence in enumerate(found)]
    return lines


def ends_words(status: Status) -> str:
    """When no test begins any more, or that none does, and what is waited for."""
    assert status.ends is not None
    end = datetime.fromtimestamp(status.ends, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if time.time() < status.ends:
        return f"no test begins after {end}"
    return f"is up since {end}; what is out still counts: {counted_tests(status.pending)}"


def judge_lines(status: Status) -> Lines:
    """What judges are worth."""
    lines = []
    for judge in status.judges:
        lines.append(("judge", f"{judge.judge}{': ' if judge.agreement is None else ' '}{judge.words}"))
        if judge.bias_words:
            lines.append(("", f"its mean score, less that of {judge.metric}: {judge.bias_words}"))
    return lines


def status_html(status: Status, *, asks: str = "", outlook: Outlook | None = None) -> str:
    """For a notebook: the lines, and every arm's intervals."""
    rows = status.arms[:_MOST]
    chart = interval_chart(rows)
    more = f"<p>The first {_MOST} of {status.noun.counted(len(status.arms))}.</p>" if len(status.arms) > _MOST else ""
    style = void_style(status.guarantee)
    head = f"<p{style}><strong>{escape(status.study)}</strong>: {escape(asks or status.headline)}</p>"
    where = f"<p{style}>{escape(status.headline)}</p>" if asks else ""
    lines = lines_html(status_lines(status, outlook))
    return f'<div style="overflow-wrap:anywhere">{head}{where}{lines}{chart}{more}</div>'


def lines_html(lines: Lines) -> str:
    """Lines as a table in which long texts wrap, for notebooks and reports."""
    body = "".join(
        f'<tr><td style="text-align:left;vertical-align:top;white-space:nowrap"><strong>{escape(name)}</strong></td>'
        f'<td style="text-align:left">{_drawn(text)}</td></tr>\n'
        for name, text in lines
    )
    return f"<table><tbody>{body}</tbody></table>\n"


def _drawn(text: str) -> str:
    """A line's text, in which a bar of characters becomes one that is drawn."""
    rest = text.lstrip(FULL + EMPTY)
    drawn = len(text) - len(rest)
    if not drawn:
        return escape(text)
    width = f"{100 * text[:drawn].count(FULL) / drawn:.0f}%"
    # A border shows it on paper, too, where backgrounds may not be printed.
    return (
        '<span style="display:inline-block;width:12em;height:.8em;border:1px solid #0072b2">'
        f'<span style="display:block;height:0;width:{width};border-top:.8em solid #0072b2"></span></span>{escape(rest)}'
    )
