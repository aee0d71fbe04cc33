"""A study's report: one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bestarm.analysis.svg import interval_chart
from bestarm.answer import Answer
from bestarm.plan import Plan
from bestarm.policies.certify import Certify
from bestarm.study.standing import ArmStanding, MetricStanding

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222;
       background: #fff }
.answer { font-size: 1.4rem; font-weight: 600; border-left: .4rem solid #0072b2; padding-left: .8rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem }
td, th { padding: .3rem .6rem; border-bottom: 1px solid #ddd; text-align: right }
td:first-child, th:first-child, td.words, th.words { text-align: left }
svg { width: 100%; height: auto }
pre { overflow-x: auto; background: #f5f5f5; padding: 1rem }
"""


def question(plan: Plan) -> str:
    """What the study asks, in words."""
    goal = "largest" if plan.objective.goal == "maximize" else "smallest"
    sides = [f"{c.metric} {'below' if c.at_least is None else 'above'} {c.threshold:g}" for c in plan.constraints]
    such = f" among those with {' and '.join(sides)}" if sides else ""
    return f"Which of {len(plan.arms)} arms has the {goal} mean {plan.objective.metric}{such}?"


def _cell(metric: MetricStanding) -> str:
    if not metric.tests:
        return "<td>untested</td>"
    return f"<td>{metric.mean:.4g} [{metric.low:.4g}, {metric.high:.4g}]<br><small>{metric.tests:,} tests</small></td>"


def _about_intervals(plan: Plan, policy: str) -> str:
    """What the intervals in the chart and in the table are."""
    if policy == Certify.name:
        return (
            "An interval ends where the evidence that the mean lies inside of that end reaches the level that decides, "
            f"1 : {len(plan.arms) / plan.delta:,.0f} if all arms have the same weight."
        )
    return (
        f"Intervals hold for all arms, metrics and times at once with probability {100 * (1 - plan.delta):.6g} % "
        f"(confidence bound {escape(plan.bound)}); they are what decides."
    )


def html_report(plan: Plan, answer: Answer, rows: Sequence[ArmStanding], *, policy: str, source: str) -> str:
    """The page; `source` says where the measurements come from."""
    metrics = "".join(f"<th>{escape(m)}</th>" for m in plan.metrics)
    body = "".join(
        f"<tr><td>{escape(row.name)}</td><td class=words>{row.verdict}: {escape(row.reason)}</td>"
        f"{''.join(map(_cell, row.metrics))}</tr>"
        for row in rows
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(plan.name)}: bestarm report</title><style>{_STYLE}</style></head><body>
<h1>{escape(plan.name)}</h1>
<p>{escape(question(plan))}</p>
<p class="answer">{escape(str(answer))}</p>
<p>{escape(source)} Total cost {answer.cost:,.6g}. The policy <code>{escape(policy)}</code> decided.</p>
{interval_chart(rows, "Confidence intervals of every arm on every metric")}
<h2>Every arm</h2>
<div class="scroll"><table>
<thead><tr><th>arm</th><th class=words>verdict</th>{metrics}</tr></thead>
<tbody>{body}</tbody>
</table></div>
<p>{_about_intervals(plan, policy)}</p>
<h2>What the guarantee rests on</h2>
<p>The answer is wrong with probability at most {plan.delta:g}, provided that measurements of one arm and metric are
independent, have one mean that does not drift, and scatter as the study says (below). It says nothing about arms or
metrics outside the study.</p>
<h2>The study</h2>
<pre>{escape(plan.to_toml())}</pre>
</body></html>
"""
