"""A study's report: one self-contained HTML page, made to be read, printed and kept."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import operator
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from bestarm.analysis.charts.intervals import charted, interval_chart
from bestarm.analysis.standing.arms import ArmStanding, MetricStanding
from bestarm.analysis.standing.terms import share_words
from bestarm.analysis.standing.timeline import Progress
from bestarm.analysis.status.blocks import about_means
from bestarm.analysis.status.outlook import ABOUT_FORECASTS, Outlook
from bestarm.analysis.status.status import Status, judge_lines, lines_html, progress_lines
from bestarm.analysis.status.words import about_intervals, assumptions, guarantee, question
from bestarm.answer import DECIDED, Answer, counted_tests, promised
from bestarm.problem import Constraint, Objective, Plan
from bestarm.study.asking import Asking
from bestarm.study.reports import filing, first_page
from bestarm.texts import side_by_side

_STYLE = (
    """
body { font: 16px/1.55 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; color: #222;
       background: #fff; overflow-wrap: break-word }
h1 { margin-bottom: .2rem } h2 { margin-top: 2.2rem }
.answer { font-size: 1.4rem; font-weight: 600; border-left: .4rem solid #0072b2; padding-left: .8rem }
.answer.not { border-color: #e69f00 }
.health { list-style: none; padding: 0 }
.health li { border-left: .4rem solid #999; padding-left: .8rem; margin: .6rem 0 }
.health .broken { border-color: #b3380d } .health .doubtful { border-color: #e69f00 }
.small { color: #555; font-size: .9rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem }
td, th { padding: .3rem .6rem; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top }
td:first-child, th:first-child, td.words, th.words { text-align: left }
td:first-child { overflow-wrap: break-word; min-width: 4.5rem; max-width: 16rem }
svg { width: 100%; height: auto }
pre { overflow-x: auto; background: #f5f5f5; padding: 1rem; font-size: .85rem; white-space: pre-wrap }
small { white-space: nowrap }
table.words td, table.words th { text-align: left }
table.raw { font-size: .8rem }
table.raw td:nth-child(4) { text-align: right }
td.when { white-space: nowrap } td.place { min-width: 5rem } td.who { overflow-wrap: anywhere; min-width: 5rem }
table.signatures { width: 100%; table-layout: fixed } table.signatures td { height: 3.2rem; border: 1px solid #999 }
.by-hand { border-bottom: 1px solid #999; height: 2rem }
@page { margin: 18mm 15mm; @bottom-right { content: counter(page) " of " counter(pages); font: 9pt sans-serif } }
details summary { cursor: pointer }
@media print { body { max-width: none; margin: 0; font-size: 11pt } h2, tr, svg, li, pre { break-inside: avoid }
               h1, h2 { break-after: avoid } thead { display: table-header-group }
               .scroll { overflow: visible } a { color: inherit }
               table { font-size: 9pt } td, th { padding: .2rem .45rem }
               td:first-child { min-width: 0 } table.raw { font-size: 7.5pt }
               .whole, .by-hand { break-inside: avoid } h2.appendix { break-before: page } }
"""
    + first_page.STYLE
)


def study_report(study: Asking, *, note: str = "", forecast: bool = True) -> str:
    """The report of a study as it stands. `note` says more about where the measurements come from.

    With `forecast`, a study without an answer is also simulated to see what remains. Without it, the latest forecast
    made before is shown, if there is one.
    """
    outlook = study.forecast() if forecast else None
    status, answer, plan = study.status(), study.answer, study.plan
    sections = [
        _opening(plan, status, answer, note),
        _health(status),
        _remaining(status, outlook),
        _charts(plan, status, study.progress()),
        _arms(plan, status.arms),
        _judges(plan, status),
        _costs(plan, status),
        _basis(plan),
        filing.sections(study, status),
        _reproduction(study, status, answer),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(plan.name)}: bestarm report</title>'
        f"<style>{_STYLE}</style></head><body>\n{''.join(sections)}\n</body></html>\n"
    )


def _p(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>\n' if kind else f"<p>{escape(text)}</p>\n"


def _opening(plan: Plan, status: Status, answer: Answer | None, note: str) -> str:
    said = status.headline if answer is None else answer.headline
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"<div class=first-page><h1>{escape(plan.name)}</h1>\n"
        + _p(f"Report made by bestarm {importlib.metadata.version('bestarm')} on {made}.", "small")
        + f"<h2>The question</h2>\n{_p(question(plan))}"
        + f"<h2>The answer</h2>\n{_p(said, 'answer' if status.guarantee == 'holds' else 'answer not')}"
        + (_p(f"{status.known}.") if status.known and answer is None else "")
        + _p(guarantee(plan, answer, status if status.guarantee == "void" else None))
        + (_p(note) if note else "")
        + first_page.first_page(plan, status, status.counted if answer is None else answer.tests)
        + "</div>\n"
    )


def _health(status: Status) -> str:
    """What the results contradict, right after the answer; or that they contradict nothing."""
    if not status.tests:
        return ""
    health = status.health.through("file")
    if not health.notes:
        return f"<h2>Is the data healthy?</h2>\n{_p(f'No sign of trouble: {health.checks:,} checks.')}"
    points = "".join(
        f'<li class="{note.severity}"><strong>{note.word.capitalize()}.</strong> {escape(note.sentence)}</li>\n'
        for note in health.notes
    )
    return f'<h2>Is the data healthy?</h2>\n<ul class="health">{points}</ul>\n'


def _remaining(status: Status, outlook: Outlook | None) -> str:
    """What is open and how far that is, in the lines that every place shows, and how sure the evidence makes us."""
    if status.state in DECIDED or not status.tests:
        return ""
    lines = [line for line in progress_lines(status, outlook) if line[0] != "known"]
    heading = "What remains" if status.state == "running" else "What is lacking"
    simulated = _p(ABOUT_FORECASTS, "small") if outlook is not None and outlook.state == "simulated" else ""
    return f"<h2>{heading}</h2>\n{lines_html(lines)}{simulated}"


def _charts(plan: Plan, status: Status, progress: Progress) -> str:
    rows, about = charted(plan, status.arms, status.leader)
    return (
        f"<h2>Where every {escape(plan.noun.one)} stands</h2>\n"
        + interval_chart(rows, [plan.unit_of(part) for part in plan.parts])
        + (_p(f"{about}; all are below.", "small") if about else "")
        + _p(about_intervals(plan), "small")
        + _growth(progress)
    )


def _growth(progress: Progress) -> str:
    """Tests over time, as a line."""
    if len(progress.time) < 2 or progress.time[-1] <= progress.time[0]:
        return ""
    start, end, most = progress.time[0], progress.time[-1], progress.tests[-1]
    line = " ".join(
        f"{80 + 700 * (time - start) / (end - start):.1f},{150 - 120 * tests / most:.1f}"
        for time, tests in zip(progress.time, progress.tests, strict=True)
    )
    first, last = (datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") for t in (start, end))
    return (
        f'<h2>Tests over time</h2>\n<svg viewBox="0 0 820 185" role="img" '
        f'aria-label="{most:,} tests between {first} and {last}">'
        f"<style>text{{font:12px system-ui,sans-serif;fill:#555}}</style>"
        f'<path d="M80 30V150H780" fill="none" stroke="#999"/><polyline points="{line}" fill="none" '
        f'stroke="#0072b2" stroke-width="2"/><text x="74" y="34" text-anchor="end">{most:,}</text>'
        f'<text x="74" y="154" text-anchor="end">0</text><text x="80" y="172">{first}</text>'
        f'<text x="780" y="172" text-anchor="end">{last}</text></svg>\n'
    )


def _cell(head: str, part: Objective | Constraint, metric: MetricStanding, mark: str) -> str:
    return f'<td data-head="{escape(head)}">{_figures(part, metric, mark)}</td>'


def _figures(part: Objective | Constraint, metric: MetricStanding, mark: str) -> str:
    if not metric.tests:
        return "untested"
    sign = {"holds": " ✓", "violated": " ✗"}.get(metric.verdict or "", "")
    ends = zip((metric.low, metric.high), side_by_side(metric.low, metric.high, least=3), strict=True)
    low, high = (text if math.isfinite(end) else "no limit" for end, text in ends)
    interval = "certain" if part.noise.is_exact else f"{low} to {high}"
    if math.isinf(metric.low) and math.isinf(metric.high):
        interval = "no interval"
    if isinstance(part, Constraint) and metric.share is not None:
        interval += f"<br>{escape(share_words(part, metric.share))}"
    mean = side_by_side(metric.mean, metric.low, metric.high)[0]
    return f"{mean}{mark}{sign}<br><small>{interval}<br>{counted_tests(metric.tests)}</small>"


def _verdict(row: ArmStanding) -> str:
    return row.reason if row.reason.startswith(row.verdict) else f"{row.verdict}: {row.reason}"


def _arms(plan: Plan, rows: Sequence[ArmStanding]) -> str:
    heads = first_page.metric_heads(plan)
    metrics = "".join(f"<th>{escape(head)}</th>" for head in heads)
    columns = [first_page.marks_of(rows, k) for k in range(len(heads))]
    body = "".join(
        f"<tr><td>{escape(row.name)}</td><td class=words>{escape(_verdict(row))}</td>"
        f"{''.join(map(_cell, heads, plan.parts, row.metrics, mark))}</tr>\n"
        for row, *mark in zip(rows, *columns, strict=True)
    )
    notes = [about_means(plan), first_page.not_to_quote(plan) if "*" in body else ""]
    below = "".join(_p(note, "small") for note in notes if note)
    return (
        f"<h2>Why each {escape(plan.noun.one)} is in or out</h2>\n"
        f'<div class=scroll><table class="{first_page.table_kind(plan)}">'
        f"<thead><tr><th>{escape(plan.noun.one)}</th><th class=words>verdict</th>"
        f"{metrics}</tr></thead><tbody>{body}</tbody></table></div>\n{below}"
    )


def _judges(plan: Plan, status: Status) -> str:
    """What judges are worth."""
    if not status.judges:
        return ""
    every = f"every {plan.noun.one} and every metric that is judged, and at all times"
    about = f"All limits of a bias, of {every}, hold at once with {promised(plan.delta)} confidence of their own."
    return f"<h2>What judges are worth</h2>\n{lines_html(judge_lines(status))}{_p(about, 'small')}"


def _costs(plan: Plan, status: Status) -> str:
    lines, total_tests, total = [], 0, 0.0
    scores = {judge.judge: judge.scores for judge in status.judges}
    for k, metric in plan.test_names.items():
        is_score, costs = k in plan.judges, plan.arm_costs[:, k].tolist()
        # The scores of a judge are as many for each arm, once they are complete.
        counts = (
            [scores[plan.yields[k][0]] / len(costs)] * len(costs)
            if is_score
            else [row.metrics[k].tests for row in status.arms]
        )
        made, cost = round(sum(counts)), sum(map(operator.mul, counts, costs))
        one = " to ".join(f"{end:g}" for end in sorted({min(costs), max(costs)}))
        counted = f"{made:,} scores" if is_score else f"{made:,}"
        lines.append(f"<tr><td>{escape(metric)}</td><td>{counted}</td><td>{one}</td><td>{cost:,.6g}</td></tr>")
        total_tests, total = total_tests + (0 if is_score else made), total + cost
    sums = [("together", total_tests, total)]
    if plan.blocks is None and status.tests > total_tests:
        # With these, it is what the first page says.
        others = "others: counted in a slice alone, after the answer, or not yet"
        sums += [(others, status.tests - total_tests, status.cost - total), ("in all", status.tests, status.cost)]
    feet = [f"<tr><th>{name}</th><th>{made:,}</th><th></th><th>{cost:,.6g}</th></tr>" for name, made, cost in sums]
    return (
        "<h2>What it cost</h2>\n<table><thead><tr><th>metric</th><th>tests</th><th>cost of one</th><th>cost</th></tr>"
        f"</thead><tbody>{''.join(lines)}</tbody><tfoot>{''.join(feet)}</tfoot></table>\n"
    )


def _basis(plan: Plan) -> str:
    points = "".join(f"<li>{escape(point)}</li>" for point in assumptions(plan))
    return f"<h2>What the guarantee rests on</h2>\n<ul>{points}</ul>\n"


def record_digest(study: Asking) -> str:
    """A fingerprint of the plan, the seeds and every result that counts, in order."""
    record = study.record
    plan = study.plan.to_data()
    if plan["rules"] == 1:
        # So that studies from before there were several rules keep their fingerprint.
        del plan["rules"]
    head = [plan, record.seed, *([] if record.items_seed is None else [record.items_seed])]
    digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for part in study.storage.entries(record.key, 0):
        for column in (part.arms, part.metrics, part.values, part.ends, part.items):
            digest.update(column.tobytes())
        if len(part.more):
            digest.update(json.dumps(part.more.tolist()).encode())
    return digest.hexdigest()[:16]


def _reproduction(study: Asking, status: Status, answer: Answer | None) -> str:
    policy = f"The method {study.plan.policy} {'decided' if answer else 'decides'}."
    text = (
        f"{policy} Everything here is recomputed from the record: the plan below, {status.seed_words}, and the "
        f"results in the order of their tests (fingerprint {record_digest(study)}). To check it, export the record, "
        "save the plan below as plan.toml, make a new study from it and the seeds, and give it the results: it comes "
        "to the same conclusion. Add --db where BESTARM_DB does not say where the study is."
    )
    commands = (
        f"bestarm export {shlex.quote(study.name)} -o record.csv\n"
        f"bestarm new plan.toml --name again {status.seed_options}\n"
        "bestarm import again record.csv"
    )
    plan = first_page.without_lists(study.plan, f"<pre>{escape(study.plan.to_toml())}</pre>\n")
    return f"<h2>How to reproduce it</h2>\n{_p(text)}<pre>{escape(commands)}</pre>\n{plan}"
