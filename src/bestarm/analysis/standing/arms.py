"""Where every arm stands, in the user's own terms, from the confidence bounds that decide."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, get_args

import numpy as np

from bestarm.analysis.standing.quantiles import RawValues, quantile_of
from bestarm.analysis.standing.terms import (
    MEAN,
    Share,
    is_free,
    share_name,
    share_words,
    statistic,
    subject,
    wins_in_words,
)
from bestarm.answer import odds, rounded_down, rounded_up
from bestarm.kernel.state import Floats
from bestarm.kernel.tournament import NO_ARM
from bestarm.noises.base import RELATIVE_ROUNDING
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Bools, Findings
from bestarm.policies.levels import up_to_tolerance
from bestarm.policies.setting import to_user
from bestarm.problem import Constraint, Objective, Problem
from bestarm.texts import side_by_side
from bestarm.validation import exact

Verdict = Literal["feasible", "open", "worse", "infeasible", "baseline", "retired"]
"""An arm is "worse" if it is not better than another by more than the tolerance, or infeasible: either will do."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""Those that can be the answer first."""
Known = Literal["holds", "violated", "open"] | None


@dataclasses.dataclass(frozen=True)
class MetricStanding:
    """One stream: its tests, mean and interval; `verdict` says whether its constraint is known to hold.

    For a quantile constraint, `mean`, `low`, `high` and `threshold` are the quantile, its interval and its limit, in
    the units of the metric, and `share` has the share of results beyond the threshold. Where results are not at hand as
    they were told, they are that share and what it must stay below. `statistic` says in words which it is.
    """

    metric: str
    tests: int
    mean: float
    low: float
    high: float
    threshold: float | None
    verdict: Known
    statistic: str = MEAN
    share: Share | None = None
    trials: int | None = None
    """How many trials the tests had, if any had several."""

    @property
    def subject(self) -> str:
        """What is measured, such as "99% quantile of latency"; of a mean, the metric's name."""
        return subject(self.metric, self.statistic)


@dataclasses.dataclass(frozen=True)
class ArmStanding:
    """One arm: feasible, infeasible, beaten by the leader (worse, or infeasible), or open; or no part of the question.
    And why, in words."""

    name: str
    verdict: Verdict
    reason: str
    metrics: tuple[MetricStanding, ...]

    def verdict_on(self, metric: MetricStanding) -> Verdict:
        """How a chart of one metric marks the arm: a constraint by what is known of it, the objective by the arm's
        verdict."""
        marks: dict[str | None, Verdict] = {"holds": "feasible", "violated": "infeasible", "open": "open"}
        return self.verdict if self.verdict in ASIDE else marks.get(metric.verdict, self.verdict)


ASIDE: tuple[Verdict, ...] = ("baseline", "retired")
"""Verdicts on arms that are not part of the question. A baseline is one if it only sets the limits of the others."""


Row = tuple[MetricStanding, ...]

_CERTAIN = 1e5
"""Log-evidence that only metrics that never vary give."""


def findings_of(policy: Policy, stop: Stop | None = None) -> Findings:
    """What the policy of a study knows. If it has stopped, this agrees with its answer."""
    found = policy.findings()
    return found if stop is None else policy.settled(found, stop)


def standings(
    problem: Problem, policy: Policy, found: Findings | None = None, raw: RawValues | None = None
) -> list[ArmStanding]:
    """Where the arms stand in the study that `policy` decides, from what it has `found`, by default now, and for
    quantiles and ratios from the `raw` results. Any streams may be untested yet."""
    found = policy.findings() if found is None else found
    rows, feasible = _rows(problem, policy, found, raw), found.feasible.tolist()
    verdicts = [_verdict(problem, arm, row, found, feasible[arm]) for arm, row in enumerate(rows)]
    return [
        ArmStanding(name, verdict, (verdict not in ASIDE and policy.reason(problem, arm, found)) or reason, row)
        for arm, (name, (verdict, reason), row) in enumerate(zip(problem.arm_names, verdicts, rows, strict=True))
    ]


def named(problem: Problem, arms: Bools) -> tuple[str, ...]:
    """The names of the arms that are marked."""
    return tuple(name for name, is_marked in zip(problem.arm_names, arms.tolist(), strict=True) if is_marked)


def _rows(problem: Problem, policy: Policy, found: Findings, raw: RawValues | None) -> list[Row]:
    """Every stream in the user's terms."""
    columns = []
    for k, part in enumerate(problem.parts):
        counts = policy.streams.counts[:, k]
        means = np.where(counts > 0, to_user(problem, policy.setting, k, policy.streams.means[:, k]), math.nan)
        limits = _limits(policy, part, k)
        # For a constraint relative to the baseline, intervals are those of the distance to the limit.
        shifted = [end[:, k] + np.nan_to_num(limits) for end in (found.low, found.high)]
        ends = np.sort([to_user(problem, policy.setting, k, end) for end in shifted], axis=0)
        # Neither a mean nor its interval can lie outside the range of the values. Rounding must not carry it there.
        means = np.clip(means, *part.noise.range)
        lows = np.fmin(np.maximum(ends[0], part.noise.range[0]), means)
        highs = np.fmax(np.minimum(ends[1], part.noise.range[1]), means)
        if is_free(problem, part):
            # An arm's own mean has no interval. Its distance to what the baseline sets has one.
            is_alone = np.array([k == 0 or name == problem.baseline for name in problem.arm_names])
            lows, highs = np.where(is_alone, -math.inf, lows), np.where(is_alone, math.inf, highs)
        threshold = part.limit if isinstance(part, Constraint) else None
        verdicts: list[Known] = [
            None if threshold is None else "holds" if holds else "violated" if violated else "open"
            for holds, violated in zip(found.holds[:, k].tolist(), found.violated[:, k].tolist(), strict=True)
        ]
        # With slices, some results wait for their turn.
        tests = counts if problem.inside is not None else policy.tests[:, k]
        values = zip(tests.tolist(), means.tolist(), lows.tolist(), highs.tolist(), verdicts, strict=True)
        what = statistic(part) if part.noise.words else MEAN
        name = part.title if problem.of_slice(k) else part.metric
        column = [MetricStanding(name, n, mean, a, b, threshold, verdict, what) for n, mean, a, b, verdict in values]
        if problem.blocks is None and problem.inside is None and (tests != counts).any():
            column = [dataclasses.replace(row, trials=n) for row, n in zip(column, counts.tolist(), strict=True)]
        if isinstance(part, Constraint):
            set_by_baseline = to_user(problem, policy.setting, k, limits).tolist()
            column = _of_constraint(problem, policy, part, k, column, raw, set_by_baseline)
        columns.append(column)
    return list(zip(*columns, strict=True))


def _of_constraint(
    problem: Problem,
    policy: Policy,
    part: Constraint,
    k: int,
    column: list[MetricStanding],
    raw: RawValues | None,
    limits: list[float],
) -> list[MetricStanding]:
    """The rows of a constraint, in the terms in which it is stated. `limits` are those that the baseline sets."""
    if part.relative_to_baseline:
        rows = zip(problem.arm_names, column, limits, strict=True)
        return [_of_relative(part, row, limit, name == problem.baseline) for name, row, limit in rows]
    if part.noise.is_share:
        return _of_quantiles(policy, part, k, column, raw)
    if part.noise.is_exact:
        column = [_settled_at_once(part, row) for row in column]
    return column if part.per is None else [_of_ratio(part, k, arm, row, raw) for arm, row in enumerate(column)]


def _limits(policy: Policy, part: Objective | Constraint, metric: int) -> Floats:
    """By arm, of a constraint relative to the baseline: what its mean is compared with, in normal form."""
    if isinstance(part, Constraint) and part.relative_to_baseline:
        limits: Floats = policy.streams.means[:, metric] - policy.contrasts(metric)
        return limits
    return np.zeros(policy.arms)


def _of_relative(part: Constraint, row: MetricStanding, limit: float, is_baseline: bool) -> MetricStanding:
    """The row of a constraint relative to the baseline, which sets its `limit`; NaN before it is known."""
    if math.isnan(limit):
        return dataclasses.replace(row, threshold=None)
    if part.noise.is_exact:
        row = _settled_at_once(part, row, limit)
    row = dataclasses.replace(row, threshold=limit + part.limit)
    # Its distance to itself is known, and says nothing of its mean.
    return dataclasses.replace(row, verdict="holds", low=-math.inf, high=math.inf) if is_baseline else row


def _of_ratio(part: Constraint, k: int, arm: int, row: MetricStanding, raw: RawValues | None) -> MetricStanding:
    """The row of a ratio. `row` is about what counts of a test, the one metric minus the threshold times the other.

    Divided by the measured mean of the other, plus the threshold, that is the ratio of the means. The interval is made
    from that of what counts in the same way, so it lies on one side of the threshold if that lies on one side of 0.
    """
    if raw is None:
        return dataclasses.replace(row, metric=part.formula)
    if not row.tests:
        row = dataclasses.replace(row, low=-math.inf, high=math.inf)
        return dataclasses.replace(row, metric=part.title, threshold=part.threshold)
    under = float(raw.of(arm, k, row.tests).mean())
    mean, low, high = (part.threshold + figure / under for figure in (row.mean, row.low, row.high))
    return dataclasses.replace(row, metric=part.title, mean=mean, low=low, high=high, threshold=part.threshold)


def _of_quantiles(
    policy: Policy, part: Constraint, metric: int, shares: list[MetricStanding], raw: RawValues | None
) -> list[MetricStanding]:
    """The rows of a metric whose results count by whether they lie beyond the threshold. `shares` are about that."""
    limit, threshold = part.limit, part.threshold
    name = share_name(part) if raw is None else statistic(part)
    column = []
    for arm, row in enumerate(shares):
        share = Share(row.mean, row.low, row.high, limit)
        figures = row.mean, row.low, row.high, limit
        if raw is not None:
            figures = *quantile_of(policy, part, arm, metric, raw), threshold
        column.append(MetricStanding(row.metric, row.tests, *figures, row.verdict, name, share))
    return column


def _settled_at_once(part: Constraint, row: MetricStanding, limit: float = 0.0) -> MetricStanding:
    """The row of a metric that never varies: one test settles it, whichever policy decides. `limit` is what the
    baseline sets."""
    if not row.tests or math.isnan(limit):
        return row
    slack = part.slack + RELATIVE_ROUNDING * abs(limit)
    return dataclasses.replace(row, verdict="holds" if part.allows(row.mean - limit, slack) else "violated")


def _verdict(problem: Problem, arm: int, row: Row, found: Findings, is_feasible: bool) -> tuple[Verdict, str]:
    verdict, reason = _verdict_on(problem, arm, row, found, is_feasible)
    is_compared = 0 in problem.duels and row[0].tests > 0 and arm != problem.set_aside
    return verdict, f"{wins_in_words(row[0].mean, problem)}; {reason}" if is_compared else reason


def _verdict_on(problem: Problem, arm: int, row: Row, found: Findings, is_feasible: bool) -> tuple[Verdict, str]:
    if problem.arms[arm].retired:
        return "retired", "no longer measured, and not part of the question"
    if arm == problem.set_aside:
        return "baseline", "not part of the question"
    if found.infeasible[arm]:
        worst = found.worst[arm]
        return "infeasible", _violated(problem, worst, row[worst], found.evidence[arm])
    if found.beaten_by[arm] != NO_ARM:
        return "worse", _beaten(problem, found, arm)
    if found.excluded[arm] and not problem.constraints and not math.isnan(found.evidence[arm]):
        other = f"another {problem.noun.one} is as good or better{up_to_tolerance(problem)}"
        return "worse", f"{other}, {_sure(found.evidence[arm])}"
    if found.excluded[arm]:
        return "worse", f"{problem.objective.metric} behind a feasible {problem.noun.one}"
    if is_feasible and not problem.constraints:
        is_alone = found.candidates[arm] and found.candidates.sum() == 1
        best = f"no other can be better{_by_more(problem)}"
        return "feasible", best if is_alone else "can be the best; there are no constraints"
    if is_feasible:
        return "feasible", "every constraint holds"
    return "open", _undecided(row)


MOST_OUT = 4
"""The most arms that are named one by one as out."""


def why_out(problem: Problem, found: Findings) -> dict[str, str]:
    """By arm that cannot be the answer: why, in a few words. Empty if there are too many to name."""
    out = ~found.candidates & ~problem.is_retired
    out[[] if problem.set_aside is None else [problem.set_aside]] = False
    reasons: dict[str, str] = {}
    if out.sum() > MOST_OUT:
        return reasons
    for arm in np.flatnonzero(out).tolist():
        better, worst = found.beaten_by[arm], problem.parts[found.worst[arm]]
        than = f"another {problem.noun.one}" if better == NO_ARM else problem.arm_names[better]
        reason = f"{'not feasible, or ' if problem.constraints else ''}{_worse(problem, than)}"
        if found.infeasible[arm] and isinstance(worst, Constraint):
            reason = f"{subject(worst.title, statistic(worst))} too {'high' if worst.at_most is not None else 'low'}"
        reasons[problem.arm_names[arm]] = reason
    return reasons


def _worse(problem: Problem, than: str) -> str:
    """What is shown of an arm that is beaten. With a tolerance, it may be the better one."""
    by_more = _by_more(problem)
    return f"not better than {than}{by_more}" if by_more else f"worse than {than}"


def _by_more(problem: Problem) -> str:
    margin = problem.objective.tolerance
    return f" by more than {exact(margin)} (the tolerance)" if margin else ""


def _violated(problem: Problem, worst: int, metric: MetricStanding, evidence: float) -> str:
    part, threshold = problem.parts[worst], metric.threshold or 0.0
    relation = ">" if metric.mean > threshold else "<" if metric.mean < threshold else "="
    mean, shown = side_by_side(metric.mean, threshold)
    words = f"{metric.subject} {mean} {relation} {exact(threshold)}"
    if isinstance(part, Constraint) and part.relative_to_baseline:
        words = f"{metric.subject} {mean} {relation} {shown} = {part.bound_by(problem.baseline or '')}"
    if isinstance(part, Constraint) and metric.share is not None and metric.statistic == statistic(part):
        words = f"{words} ({share_words(part, metric.share)})"
    if part.noise.is_exact:
        return f"{words}, certain after one test"
    return words if math.isnan(evidence) else f"{words}, {_sure(evidence)}"


def _sure(evidence: float) -> str:
    return "certain" if evidence >= _CERTAIN else f"evidence {odds(evidence)}"


def _undecided(row: Row) -> str:
    left = [m.metric for m in row[1:] if m.verdict == "open"]
    return f"undecided: {', '.join(left[:3])}{' and others' if len(left) > 3 else ''}" if left else "undecided"


def _beaten(problem: Problem, found: Findings, arm: int) -> str:
    better, lead, evidence = problem.arm_names[found.beaten_by[arm]], found.lead[arm], found.evidence[arm]
    if lead > 0.0:
        return f"worse than {better} by at least {rounded_down(lead)}"
    if lead >= -problem.objective.tolerance:
        within = f"at most {rounded_up(-lead)} better than {better}: within the tolerance"
        return within if lead < 0.0 else f"not better than {better}"
    if not math.isnan(evidence):
        return f"{'infeasible or ' if math.isnan(lead) else ''}{_worse(problem, better)}, {_sure(evidence)}"
    return f"{problem.objective.metric} behind {better}"
