"""A study's report: one self-contained HTML page, made to be read, printed and kept."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from bestarm import __version__
from bestarm.analysis.charts.intervals import charted, interval_chart
from bestarm.analysis.standing.arms import ArmStanding, MetricStanding
from bestarm.analysis.standing.terms import relation, share_words, statistic, subject
from bestarm.analysis.standing.timeline import Progress
from bestarm.analysis.status.outlook import Outlook
from bestarm.analysis.status.status import ABOUT_FORECASTS, Status, confidence_words, lines_html, progress_lines
from bestarm.analysis.status.words import about_intervals, assumptions, guarantee, question
from bestarm.answer import DECIDED, Answer
from bestarm.problem import Constraint, Objective, Plan
from bestarm.study.study import Study
from bestarm.texts import side_by_side

_STYLE = """
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
@media print { body { max-width: none; margin: 0; font-size: 11pt } h2, tr, svg, li, pre { break-inside: avoid }
               h1, h2 { break-after: avoid } thead { display: table-header-group }
               .scroll { overflow: visible } a { color: inherit }
               table { font-size: 9pt } td, th { padding: .2rem .45rem } }
"""


def study_report(study: Study, *, note: str = "", forecast: bool = True) -> str:
    """The report of a study as it stands. `note` says more about where the measurements come from.

    With `forecast`, a study without an answer is also simulated to see what remains.
    """
    status, answer = study.status(), study.answer
    is_open = status.state not in DECIDED
    outlook = study.forecast() if forecast and is_open else None
    plan = study.plan
    sections = [
        _opening(plan, status, answer, note),
        _health(status),
        _remaining(status, outlook),
        _charts(plan, status, study.progress()),
        _arms(plan, status.arms),
        _costs(plan, status.arms),
        _basis(plan),
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
    said = status.headline if answer is None else str(answer)
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"<h1>{escape(plan.name)}</h1>\n"
        + _p(f"Report made by bestarm {__version__} on {made}.", "small")
        + f"<h2>The question</h2>\n{_p(question(plan))}"
        + f"<h2>The answer</h2>\n{_p(said, 'answer' if status.guarantee == 'holds' else 'answer not')}"
        + (_p(f"{status.known}.") if status.known and answer is None else "")
        + _p(guarantee(plan, answer, status if status.guarantee == "void" else None))
        + (_p(note) if note else "")
    )


def _health(status: Status) -> str:
    """What the results contradict, right after the answer; or that they contradict nothing."""
    if not status.tests:
        return ""
    health = status.health.through("file")
    if not health.notes:
        return f"<h2>Is the data healthy?</h2>\n{_p(f'No sign of trouble: {health.checks:,} checks.')}"
    points = "".join(
        f'<li class="{note.severity}"><strong>{note.severity.capitalize()}.</strong> {escape(note.sentence)}</li>\n'
        for note in health.notes
    )
    return f'<h2>Is the data healthy?</h2>\n<ul class="health">{points}</ul>\n'


def _remaining(status: Status, outlook: Outlook | None) -> str:
    """What is open and how far that is, in the lines that every place shows, and how sure the evidence makes us."""
    if status.state in DECIDED or not status.tests:
        return ""
    lines = [line for line in progress_lines(status, outlook) if line[0] != "known"]
    lines.append(("confidence", confidence_words(status)))
    heading = "What remains" if status.state == "running" else "What is lacking"
    simulated = _p(ABOUT_FORECASTS, "small") if outlook is not None and outlook.state == "simulated" else ""
    return f"<h2>{heading}</h2>\n{lines_html(lines)}{simulated}"


def _charts(plan: Plan, status: Status, progress: Progress) -> str:
    rows, about = charted(plan, status.arms, status.leader)
    return (
        "<h2>Where every arm stands</h2>\n"
        + interval_chart(rows)
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


def _cell(part: Objective | Constraint, metric: MetricStanding) -> str:
    if not metric.tests:
        return "<td>untested</td>"
    sign = {"holds": " ✓", "violated": " ✗"}.get(metric.verdict or "", "")
    ends = zip((metric.low, metric.high), side_by_side(metric.low, metric.high, least=3), strict=True)
    low, high = (text if math.isfinite(end) else "no limit" for end, text in ends)
    interval = "certain" if part.noise.is_exact else f"{low} to {high}"
    if math.isinf(metric.low) and math.isinf(metric.high):
        interval = "no interval yet"
    if isinstance(part, Constraint) and metric.share is not None:
        interval += f"<br>{escape(share_words(part, metric.share))}"
    mean = side_by_side(metric.mean, metric.low, metric.high)[0]
    return f"<td>{mean}{sign}<br><small>{interval}<br>{metric.tests:,} tests</small></td>"


def _arms(plan: Plan, rows: Sequence[ArmStanding]) -> str:
    heads = [plan.objective.metric, *(f"{subject(c.title, statistic(c))} {relation(c)}" for c in plan.constraints)]
    metrics = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(
        f"<tr><td>{escape(row.name)}</td><td class=words>{row.verdict}: {escape(row.reason)}</td>"
        f"{''.join(map(_cell, plan.parts, row.metrics))}</tr>\n"
        for row in rows
    )
    return (
        "<h2>Why each arm is in or out</h2>\n<div class=scroll><table>"
        "<thead><tr><th>arm</th><th class=words>verdict</th>"
        f"{metrics}</tr></thead><tbody>{body}</tbody></table></div>\n"
    )


def _costs(plan: Plan, rows: Sequence[ArmStanding]) -> str:
    lines, total_tests, total = [], 0, 0.0
    for k, metric in plan.test_names.items():
        tests, cost = sum(row.metrics[k].tests for row in rows), plan.costs[k]
        lines.append(
            f"<tr><td>{escape(metric)}</td><td>{tests:,}</td><td>{cost:g}</td><td>{tests * cost:,.6g}</td></tr>"
        )
        total_tests, total = total_tests + tests, total + tests * cost
    return (
        "<h2>What it cost</h2>\n<table><thead><tr><th>metric</th><th>tests</th><th>cost of one</th><th>cost</th></tr>"
        f"</thead><tbody>{''.join(lines)}</tbody><tfoot><tr><th>together</th><th>{total_tests:,}</th><th></th>"
        f"<th>{total:,.6g}</th></tr></tfoot></table>\n"
    )


def _basis(plan: Plan) -> str:
    points = "".join(f"<li>{escape(point)}</li>" for point in assumptions(plan))
    return f"<h2>What the guarantee rests on</h2>\n<ul>{points}</ul>\n"


def record_digest(study: Study) -> str:
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


def _reproduction(study: Study, status: Status, answer: Answer | None) -> str:
    policy = f"The policy {study.plan.policy} decided." if answer else f"The policy {study.plan.policy} decides."
    text = (
        f"{policy} Everything here is recomputed from the record: the plan below, {status.seed_words}, and the "
        f"results in the order of their tests (fingerprint {record_digest(study)}). To check it, export the record, "
        "make a new study from the plan and the seeds, and give it the results: it comes to the same conclusion."
    )
    commands = (
        "bestarm export STUDY -o record.csv\n"
        f"bestarm new plan.toml --name again {status.seed_options}\n"
        "bestarm import again record.csv"
    )
    shown = "".join(f"<pre>{escape(part)}</pre>\n" for part in (commands, study.plan.to_toml()))
    return f"<h2>How to reproduce it</h2>\n{_p(text)}{shown}"
