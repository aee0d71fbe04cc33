"""What makes a report one that can be filed: who did what and when, what departs from the plan, and every result.

Everything is read from the study's record: tests that were given up, corrected or made again stay in it, with the
reasons that people gave.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from bestarm.analysis.status.blocks import about_means
from bestarm.analysis.status.status import Status
from bestarm.analysis.status.tests_made import after_words
from bestarm.answer import DECIDED, Answer, counted_tests
from bestarm.noises.shares import told_words
from bestarm.problem import Plan
from bestarm.storage.base import Event, Told
from bestarm.storage.errors import reporting_damage
from bestarm.study.asking import Asking
from bestarm.texts import listed

MOST_RAW = 5000
"""The most tests that the appendix lists one by one."""

_MOST_EVENTS = 100_000
_MOST_HOLDERS = 200
_NO_REASON = "no reason was stated"
_UNKNOWN = "not known"
_SIGNATURES = ("Carried out by", "Checked by", "Approved by")
_DEPARTURES = {
    "corrected": "result corrected",
    "dropped": "given up",
    "failed": "made again",
    "set aside": "set aside",
    "released": "freed, to be made again",
    "handed on": "handed on, because its time was over",
    "amended": "plan changed",
    "archived": "study archived",
    "restored": "study brought back",
    "remarked": "remark",
}
"""By kind of event: what the table of deviations calls it."""


@dataclasses.dataclass(frozen=True)
class _Line:
    """A test as the appendix shows it; `values` are texts, one for each metric."""

    test: int
    arm: str
    metrics: Sequence[str]
    values: Sequence[str]
    item: str
    who: str
    told: float | None
    note: str


@dataclasses.dataclass
class _Work:
    """What one person or machine has recorded."""

    results: int = 0
    first: float = float("inf")
    last: float = float("-inf")


@dataclasses.dataclass
class _Record:
    """What the history of a study's tests comes to."""

    results: int = 0
    given_up: int = 0
    out: int = 0
    corrected: int = 0
    scores: int = 0
    """Of judges; these are no results."""
    lines: list[_Line] = dataclasses.field(default_factory=list)
    work: dict[str, _Work] = dataclasses.field(default_factory=dict)

    @property
    def tests(self) -> int:
        return self.results + self.scores + self.given_up + self.out


def sections(study: Asking, status: Status) -> str:
    """The parts of a report that a file needs beside the answer."""
    with reporting_damage(study.storage.url):
        record = _read(study)
        events = study.log(_MOST_EVENTS)
    return "".join(
        (
            _meaning(study.plan, status),
            _plan(study, events),
            _conduct(record, status, study.answer),
            _deviations(study, events, record),
            _signatures(),
            _appendix(study, record),
        )
    )


def _read(study: Asking) -> _Record:
    plan, found = study.plan, _Record()
    for test in study.storage.history(study.record.key):
        present = test.outcomes[-1] if test.outcomes else None
        found.corrected += len(test.outcomes) > 1
        if present is None:
            found.out += 1
        elif present.value is None:
            found.given_up += 1
        else:
            found.scores += test.metric in plan.judges
            found.results += test.metric not in plan.judges
            work = found.work.setdefault(present.holder or _UNKNOWN, _Work())
            work.results += 1
            work.first, work.last = min(work.first, present.time), max(work.last, present.time)
        if len(found.lines) < MOST_RAW:
            values = () if present is None or present.value is None else (present.value, *present.more)
            found.lines.append(
                _Line(
                    test=test.id,
                    arm=plan.arm_names[test.arm],
                    metrics=plan.yields[test.metric],
                    values=[told_words(value, ".10g") for value in values],
                    item=study.item_name(test.item) or "",
                    who="" if present is None else present.holder,
                    told=None if present is None else present.time,
                    note=_note(test.outcomes),
                )
            )
    return found


def _note(outcomes: Sequence[Told]) -> str:
    """What there is to say about a test beside its result."""
    if not outcomes:
        return "no result yet"
    said = [
        f"was {', '.join(told_words(value, '.10g') for value in (before.value, *before.more))}"
        for before in outcomes[:-1]
        if before.value is not None
    ]
    said += ["given up"] if outcomes[-1].value is None else []
    changed = len(outcomes) > 1 or outcomes[-1].value is None
    return f"{'; '.join(said)}: {outcomes[-1].reason or _NO_REASON}" if changed else outcomes[-1].reason or ""


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], style: str = "words", place: str = "") -> str:
    known = {"by": "who", "when (UTC)": "when", "first (UTC)": "when", "last (UTC)": "when", place: "place"}
    kinds = [known.get(name, "") for name in heads]
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)

    def line(row: Sequence[str]) -> str:
        cells = (f'<td class="{kind}">{escape(text)}</td>' for kind, text in zip(kinds, row, strict=True))
        return f"<tr>{''.join(cells)}</tr>\n"

    body = "".join(map(line, rows))
    table = f'<table class="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f"<div class=scroll>{table}</div>\n"


def _paragraph(text: str, kind: str = "") -> str:
    return f"<p{f' class={kind}' if kind else ''}>{escape(text)}</p>\n"


def _meaning(plan: Plan, status: Status) -> str:
    """What "certified" means, for a reader who has not heard of it."""
    if status.guarantee == "void":
        return ""
    chance = f"{100 * plan.delta:g}%"
    wrong = f"{round(1000 * plan.delta):,} of 1,000" if plan.delta >= 0.001 else "fewer than 1 of 1,000"
    ends = "ended as soon as the evidence was" if status.state in DECIDED else "ends as soon as the evidence is"
    text = (
        "An answer is certified when the evidence for it reaches a level that was fixed before the first result. The "
        f"level is such that of studies like this one at most {chance} ({wrong}) ever reach it for a wrong answer. "
        f"The study {ends} there. That figure allows for looking at the results on the way, as often as one likes, and "
        "for choosing what to test next by the results so far. It holds if what the guarantee rests on is true, which "
        "is listed above."
    )
    return f"<h2>What “certified” means</h2>\n{_paragraph(text)}"


def _plan(study: Asking, events: Sequence[Event]) -> str:
    plan, record = study.plan, study.record
    changes = [event for event in events if event.kind == "amended"]
    digest = hashlib.sha256(plan.to_json().encode()).hexdigest()[:16]
    rows = [
        ("study", plan.name),
        ("begun", f"{_moment(record.created)} UTC"),
        ("plan", f"version {1 + len(changes)}, fingerprint {digest}; it is printed in full at the end"),
        ("method", f"{plan.policy}, edition {plan.rules} of its rules"),
        ("accepted chance of a wrong answer", f"{100 * plan.delta:g}%"),
        (f"{plan.noun.many} and metrics", f"{plan.noun.counted(len(plan.arms))}; {listed(plan.measured)}"),
    ]
    if plan.reserve:
        kept = f"{100 * plan.reserve:g}% of that chance is kept for {plan.noun.many} that come later or are taken out"
        rows.append(("reserve", kept))
    changed = _table(
        ("version", "when (UTC)", "by", "what changed"),
        [(str(k), _moment(one.time), one.holder or _UNKNOWN, one.detail) for k, one in enumerate(changes, start=2)],
    )
    return f"<h2>The plan</h2>\n{_table(('', ''), rows)}{changed if changes else ''}"


def _conduct(record: _Record, status: Status, answer: Answer | None) -> str:
    """How many tests there are, and how many of them decided; who recorded what and when."""
    said = [f"This study has {counted_tests(record.results)} with a result."]
    if answer is not None and answer.tests < status.tests:
        after = after_words(answer.state, answer.tests, status.tests)
        said.append(f"It was over after {counted_tests(answer.tests)}{after}.")
    if status.waiting:
        counted = status.tests - status.waiting
        said.append(f"Of these, {counted:,} count so far; {status.waiting:,} wait for the result of an earlier test.")
    if status.held is not None:
        said.append(f"{status.held.words}.")
    if status.unasked:
        said.append(f"{status.unasked}.")
    if record.scores:
        said.append(f"Scores of judges, which are no tests: {record.scores:,}.")
    others = [(record.given_up, "given up"), (record.out, "without a result yet")]
    besides = [f"{number:,} {'is' if number == 1 else 'are'} {what}" for number, what in others if number]
    if besides:
        said.append(f"Of {counted_tests(record.tests)} asked for or entered in all, {' and '.join(besides)}.")
    if record.corrected:
        said.append(f"{counted_tests(record.corrected).capitalize()} had a correction; each counts once, as it is now.")
    rows = [
        (who, f"{work.results:,}", _moment(work.first), _moment(work.last))
        for who, work in sorted(record.work.items(), key=lambda item: -item[1].results)[:_MOST_HOLDERS]
    ]
    more = len(record.work) - len(rows)
    people = _table(("who recorded results", "results", "first (UTC)", "last (UTC)"), rows) if rows else ""
    rest = _paragraph(f"And {more:,} more.", "small") if more > 0 else ""
    return f"<h2>What was done, and by whom</h2>\n{_paragraph(' '.join(said))}{people}{rest}"


def _deviations(study: Asking, events: Sequence[Event], record: _Record) -> str:
    """Everything that was not simply asked for and recorded, with its reason."""
    plan = study.plan
    rows = []
    for event in events:
        if event.kind not in _DEPARTURES:
            continue
        what = "" if event.arm is None or event.metric is None else plan.test_names[event.metric]
        of = "" if event.arm is None else plan.arm_names[event.arm]
        about = f"{what} of {of}" if of else ""
        needs = event.kind in ("corrected", "dropped", "failed")
        reason = event.detail or (_NO_REASON if needs else "")
        rows.append(
            (
                *(_moment(event.time), _DEPARTURES[event.kind], "" if event.test is None else str(event.test)),
                *(about, event.holder or _UNKNOWN, reason),
            )
        )
    heads = ("when (UTC)", "what", "test", "metric", "by", "reason or detail")
    table = _table(heads, rows) if rows else ""
    none = "" if rows else _paragraph("The record has none: no test was given up, corrected or made again.")
    cut = f"Only the last {_MOST_EVENTS:,} events of the log were read." if len(events) >= _MOST_EVENTS else ""
    fair = (
        "The guarantee allows for them only if their reasons have nothing to do with results. Other deviations, such "
        "as from a protocol, belong here by hand:"
    )
    room = "<div class=by-hand></div>\n" * 3
    return f"<h2>Deviations</h2>\n{none}{table}{_paragraph(cut, 'small') if cut else ''}{_paragraph(fair)}{room}"


def _signatures() -> str:
    rows = "".join(f"<tr><td>{role}</td><td></td><td></td><td></td></tr>\n" for role in _SIGNATURES)
    heads = "".join(f"<th>{head}</th>" for head in ("", "name", "date", "signature"))
    table = f"<table class=signatures><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<section class=whole><h2>Signatures</h2>\n{table}</section>\n"


def _appendix(study: Asking, record: _Record) -> str:
    """Every test with its result, in the order of the record."""
    plan, has_items = study.plan, study.plan.items is not None
    where = [plan.item_word] if has_items else []
    heads = ("test", plan.noun.one, "metric", "result", *where, "by", "when (UTC)", "note")
    rows = [
        (
            *(str(line.test), line.arm, ", ".join(line.metrics), ", ".join(line.values)),
            *([line.item] if has_items else []),
            *(line.who, _moment(line.told), line.note),
        )
        for line in record.lines
    ]
    cut = ""
    if record.tests > len(rows):
        cut = f"The first {len(rows):,} of {record.tests:,} tests. All are in the export: bestarm export STUDY."
    title = "<h2 class=appendix>Appendix: every result</h2>\n"
    notes = "".join(_paragraph(note, "small") for note in (cut, about_means(plan)) if note)
    return f"{title}{notes}{_table(heads, rows, 'words raw', plan.item_word)}"
