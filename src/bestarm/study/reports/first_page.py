"""The first page of a report: the answer for people who want nothing else, on one sheet and on a phone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from bestarm.analysis.standing.arms import VERDICTS, ArmStanding, MetricStanding
from bestarm.analysis.standing.terms import relation, statistic, subject
from bestarm.analysis.status.blocks import about_means
from bestarm.analysis.status.status import Status, progress_lines
from bestarm.analysis.status.tests_made import after_words
from bestarm.answer import DECIDED, counted_tests
from bestarm.problem import Plan
from bestarm.problem.units import in_unit
from bestarm.texts import side_by_side

STYLE = """
table.first { width: 100% }
.no-quote { color: #777 }
.first-page h2 { margin-top: 1.2rem }
@media print { .first-page { break-after: page } .first-page h1, .first-page h2, .first-page p { margin: .5rem 0 }
               table.first td:first-child, table.first td.words { white-space: nowrap } }
table.many thead { position: absolute; left: -9999px }
table.many, table.many tbody { display: block }
table.many tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr));
                border-bottom: 2px solid #999; padding: .4rem 0; break-inside: avoid }
table.many td { display: block; border: 0; text-align: left; max-width: none }
table.many td:first-child, table.many td.words { grid-column: 1 / -1; padding-bottom: 0 }
table.many td:first-child { font-weight: 600 }
table.many td[data-head]::before { content: attr(data-head); display: block; color: #555 }
table.many small { white-space: normal }
@media (max-width: 600px) {
  body { margin: .5rem auto } .answer { font-size: 1.2rem }
  table.first thead { position: absolute; left: -9999px }
  table.first, table.first tbody, table.first tr, table.first td { display: block; max-width: none; text-align: left }
  table.first tr { border-bottom: 2px solid #999; padding: .5rem 0 }
  table.first td { border: 0; padding: .1rem 0 }
  table.first td:first-child { font-weight: 600 }
  table.first td[data-head]::before { content: attr(data-head) ": "; color: #555 }
}
"""

MOST_ROWS = 12
_TO_COME = ("budget", "forecast", "estimate")

MOST_COLUMNS = 4
"""With more metrics than this a table is too wide for a page of paper: each arm is a block, in which they wrap."""
_VERDICT_WORDS = {
    "infeasible": "not feasible",
    "open": "undecided",
    "worse": "worse",
    "retired": "retired",
    "baseline": "baseline",
}


def table_kind(plan: Plan) -> str:
    """How tables with a row for each arm are laid out."""
    return "many" if len(plan.parts) > MOST_COLUMNS else ""


def metric_heads(plan: Plan) -> list[str]:
    """What stands above the figures of each metric: its name, unit and limit."""
    return [
        in_unit(plan.objective.metric, plan.unit_of(plan.objective)),
        *(f"{in_unit(subject(c.title, statistic(c)), plan.unit_of(c))} {relation(c)}" for c in plan.constraints),
    ]


def took_words(plan: Plan, state: str, counted: int, recorded: int) -> str:
    """How many tests count, on items also of how many, and how many were recorded besides.

    >>> import dataclasses
    >>> import bestarm as ba
    >>> right = ba.maximize("right", noise=ba.Bernoulli())
    >>> plan = ba.Plan(arms=["a", "b"], objective=right, items=500, arm_word="prompt")
    >>> took_words(plan, "running", 302, 302)
    '302 of the 1,000 tests that measuring every prompt on every item would take'
    >>> took_words(dataclasses.replace(plan, items=None), "certified", 302, 310)
    '302 tests; 8 more came after the decision'
    """
    rest = after_words(state, counted, recorded)
    made = f"{counted_tests(counted)}{rest}"
    if plan.items is None or plan.repeats or plan.blocks is not None:
        return made
    items = plan.items if isinstance(plan.items, int) else len(plan.items)
    arms = sum(not arm.retired for arm in plan.arms)
    every = f"{arms * items * len(plan.bundles):,} tests that measuring every {plan.noun.one} on every item would take"
    return f"{counted:,} of the {every}{rest}"


def marks_of(rows: Sequence[ArmStanding], metric: int) -> list[str]:
    """By arm, what stands beside its mean: a mark if it is not to be quoted. An arm that is out was measured until it
    did badly enough, so the means of what decided are biased, and those of all that is correlated with it."""
    most = max((row.metrics[metric].tests for row in rows), default=0)
    is_out = [row.verdict in ("worse", "infeasible") and 0 < row.metrics[metric].tests < most for row in rows]
    return ["*" if one else "" for one in is_out]


def not_to_quote(plan: Plan) -> str:
    """What the mark beside a mean says."""
    noun = plan.noun.one
    return (
        f"* Not to be quoted: this {noun} was given up early, because it did badly until then. Means that are taken at "
        f"such a moment are biased: what the {noun} did badly on tends to look worse than it is, and what varies with "
        "it may look worse or better. The intervals, where there are any, allow for that."
    )


def first_page(plan: Plan, status: Status, counted: int) -> str:
    """What it took, `counted` being the tests that count, what is still to come, and a table of the first arms."""
    of_all = " of all" if status.tests > counted else ""
    took = took_words(plan, status.state, counted, status.tests)
    facts = [f"Tests: {took}. Cost{of_all}: {status.cost:,.6g}."]
    if status.state not in DECIDED:
        lines = dict(progress_lines(status))
        facts += [f"{name.capitalize()}: {lines[name]}." for name in _TO_COME if name in lines]
    facts += [f"{status.unasked}."] if status.unasked else []
    if status.tests:
        facts.append(f"Health of the data: {status.health.through('file')}".rstrip(".") + ".")
    return "".join(f"<p>{escape(fact)}</p>\n" for fact in facts) + _table(plan, status)


def _table(plan: Plan, status: Status) -> str:
    sign = 1.0 if plan.objective.goal == "maximize" else -1.0

    def rank(row: ArmStanding) -> tuple[bool, int, float]:
        mean = row.metrics[0].mean
        return row.name != status.leader, VERDICTS.index(row.verdict), math.inf if math.isnan(mean) else -sign * mean

    arms = status.arms
    marks = {
        row.name: one for row, *one in zip(arms, *(marks_of(arms, k) for k in range(len(plan.parts))), strict=True)
    }
    rows = sorted(arms, key=rank)[:MOST_ROWS]
    heads = metric_heads(plan)
    lines = []
    for row in rows:
        cells = [f"<td>{escape(row.name)}</td>", f"<td class=words>{escape(_verdict(status, row))}</td>"]
        for head, part, metric, mark in zip(heads, plan.parts, row.metrics, marks[row.name], strict=True):
            text = _figures(part.noise.is_exact, metric, mark)
            cells.append(f'<td data-head="{escape(head)}">{text}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    titles = "".join(f"<th>{escape(head)}</th>" for head in heads)
    cut = f"The first {len(rows)} of {plan.noun.counted(len(status.arms))}." if len(rows) < len(status.arms) else ""
    notes = [cut, about_means(plan), not_to_quote(plan) if any("*" in marks[row.name] for row in rows) else ""]
    titles = f"<th>{escape(plan.noun.one)}</th><th class=words>verdict</th>{titles}"
    body = f"<thead><tr>{titles}</tr></thead><tbody>{''.join(lines)}</tbody>"
    below = "".join(f'<p class="small">{escape(note)}</p>\n' for note in notes if note)
    return f'<table class="first {table_kind(plan)}">{body}</table>\n{below}'


def _verdict(status: Status, row: ArmStanding) -> str:
    if row.name == status.answer and status.guarantee == "holds" and len(status.answered) == 1 and not status.claim:
        return "the answer"
    if row.name in status.answered and status.guarantee == "holds":
        return "part of the answer"
    if row.verdict == "feasible":
        return "can be the answer" if status.state not in DECIDED else "feasible"
    return _VERDICT_WORDS[row.verdict]


def _figures(is_exact: bool, metric: MetricStanding, mark: str) -> str:
    """The mean, its interval, and how many tests that is."""
    if not metric.tests:
        return "untested"
    sign = {"holds": " ✓", "violated": " ✗"}.get(metric.verdict or "", "")
    mean = side_by_side(metric.mean, metric.low, metric.high, least=3)[0]
    low, high = side_by_side(metric.low, metric.high, least=3)
    ends = [f"{word} {end}" for word, end in (("from", low), ("to", high)) if end not in ("inf", "-inf", "nan")]
    between = "certain" if is_exact else " ".join(ends) or "no interval"
    shown = f'<span class="no-quote">{mean}{mark}</span>' if mark else mean
    return f"{shown}{sign} <small>{between}; {counted_tests(metric.tests)}</small>"


def without_lists(plan: Plan, page: str) -> str:
    """A part of a report that lists all items, folded if there are many."""
    if not isinstance(plan.items, tuple) or len(plan.items) <= MOST_ROWS:
        return page
    return f"<details><summary>The plan, with all {len(plan.items):,} items</summary>{page}</details>\n"
