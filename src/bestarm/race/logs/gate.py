"""A gate on logs: is the new one within its limits, on items like these? One study in memory decides."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from bestarm.analysis.standing.arms import MetricStanding, findings_of, standings
from bestarm.analysis.status.status import Status
from bestarm.answer import DECIDED
from bestarm.noises.exact import Exact
from bestarm.policies.findings import Findings
from bestarm.problem import Constraint, Objective, Plan
from bestarm.problem.items import MOST_REPEATED, ItemOrder
from bestarm.problem.measurements import Measurement
from bestarm.race.logs.formats import read
from bestarm.race.logs.limits import label
from bestarm.race.logs.log import Log
from bestarm.race.logs.more_items import MoreItems, copied, items_to_settle, results_of
from bestarm.race.logs.pairs import Missing, Pairs, pair
from bestarm.study import Study
from bestarm.validation import UNSTATED, InvalidInput

Found = Literal["certified", "refuted", "undecided", "void"]

BASELINE, CANDIDATE = "baseline", "candidate"
LOOKS = 100
"""How often the study looks while the items enter, at most. The evidence holds at all times, so the looks cost nothing
but the time they take."""
CONTINUATIONS = 50
"""How many continuations are simulated of a gate that is undecided."""


@dataclasses.dataclass(frozen=True)
class LogGate:
    """What two logs came to.

    `found` is "certified" if every limit is met, for items like these, "refuted" if one is not, "undecided" if the
    items do not tell, and "void" if they contradict what the guarantee rests on.
    """

    found: Found
    decided: Found
    """What `found` would be if the items did not contradict the assumptions."""
    limits: tuple[Constraint, ...]
    standings: tuple[MetricStanding, ...] = dataclasses.field(repr=False)
    """Where the candidate stands with each limit, over all items."""
    baseline: tuple[MetricStanding, ...] = dataclasses.field(repr=False)
    """The same of the baseline."""
    apart: tuple[tuple[float, float], ...]
    """For each limit relative to the baseline: at least and at most, the candidate's mean minus that many times the
    baseline's. For others it has no meaning."""
    pairs: Pairs = dataclasses.field(repr=False)
    logs: tuple[Log, Log] = dataclasses.field(repr=False)
    used: int
    """The items after which the study had its verdict, or all."""
    status: Status = dataclasses.field(repr=False)
    delta: float
    seed: int
    """The seed of the order of items. State it to repeat that order."""
    more_items: MoreItems | None = None
    """How many more items would settle it, if it is undecided."""

    def means(self, metric: str) -> tuple[float, float]:
        """The means over exactly these items, of the baseline and of the candidate."""
        base, new = self.pairs.values[:, :, self.pairs.metrics.index(metric)].mean(axis=0).tolist()
        return base, new


def gate_logs(
    baseline: Any,
    candidate: Any,
    limits: Iterable[Constraint],
    *,
    delta: float = 0.05,
    seed: int | None = None,
    missing: Missing = None,
    columns: Mapping[str, str] | None = None,
    after: Mapping[str, Any] | None = None,
    continuations: int = CONTINUATIONS,
) -> LogGate:
    """Whether the candidate is within the limits, with the probability of error `delta`, on items like those in two
    logs: paths, logs of inspect_ai or data frames with a column item.

    The items are taken for a random sample. They enter in a random order, whose `seed` is drawn and kept unless it is
    stated to repeat a verdict. `missing` says what an item without a result counts as, by metric, or "leave-out".
    `columns` says what columns mean. `after` is what an earlier verdict exported: its items then come first. If the
    gate is undecided, that many `continuations` are simulated.

    >>> import bestarm as ba
    >>> old = {"item": [*range(400)], "right": [k % 2 == 0 for k in range(400)]}
    >>> new = {"item": [*range(400)], "right": [k % 2 == 0 or k % 5 == 0 for k in range(400)]}
    >>> limit = ba.at_least("right", relative_to_baseline=True, margin=0.01, noise=ba.Bernoulli())
    >>> gate_logs(old, new, [limit], seed=1).found
    'certified'
    """
    logs = read(baseline, BASELINE, columns), read(candidate, CANDIDATE, columns)
    return decide(logs, [*limits], delta=delta, seed=seed, missing=missing, after=after, continuations=continuations)


def decide(
    logs: tuple[Log, Log],
    limits: Sequence[Constraint],
    *,
    delta: float = 0.05,
    seed: int | None = None,
    missing: Missing = None,
    after: Mapping[str, Any] | None = None,
    continuations: int = CONTINUATIONS,
) -> LogGate:
    """The verdict on two logs that have been read."""
    if not limits:
        raise InvalidInput("limits", UNSTATED, "say what passes, such as at_least accuracy relative to the baseline")
    metrics = tuple(dict.fromkeys(metric for limit in limits for metric in limit.measures))
    for metric in metrics:
        if metric == CANDIDATE:
            raise InvalidInput("metric", metric, "cannot have this name, which marks the candidate")
        for log in logs:
            if metric not in log.metrics:
                there = ", ".join(log.metrics) or "no numbers"
                raise InvalidInput("metric", metric, f"there is none in {log.name}; it has {there}")
    if seed is None:
        seed = secrets.randbelow(2**32)
    elif isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InvalidInput("seed", seed, "must be a whole number, 0 or more")
    if after:
        _check_same_question(limits, delta, after)
    pairs = pair(logs, metrics, seed, missing, after or {})
    plan = plan_of(limits, pairs.metrics, delta)
    study = Study.create(plan, storage=":memory:", seed=seed, items_seed=seed)
    _add(study, pairs)
    status = study.status()
    decided: Found = "undecided"
    if status.state in DECIDED:
        decided = "certified" if status.answer == CANDIDATE else "refuted"
    used = status.arms[0].metrics[0].tests
    known, stands = _over_all_items(study, status, used)
    # Standings keep a mean within its range. A difference may be larger than from the baseline's mean to an end.
    ends = plan.signs[1:, None] * np.column_stack((known.low[1, 1:], known.high[1, 1:]))
    found = LogGate(
        "void" if status.guarantee == "void" else decided,
        decided,
        tuple(limits),
        stands[CANDIDATE],
        stands[BASELINE],
        tuple((low, high) for low, high in np.sort(ends, axis=1).tolist()),
        pairs,
        logs,
        used,
        status,
        delta,
        seed,
    )
    if found.found != "undecided" or not continuations:
        return found
    more = items_to_settle(study, len(pairs.items), CANDIDATE, seed=seed, runs=continuations)
    return dataclasses.replace(found, more_items=more)


def _check_same_question(limits: Sequence[Constraint], delta: float, earlier: Mapping[str, Any]) -> None:
    """Two verdicts are one gate, with one probability of error, only if both are about the same limits. Another limit
    would be chosen by what the first items have shown."""
    stated = sorted(str(limit.get("limit")) for limit in earlier.get("limits", ()))
    if stated != sorted(map(label, limits)):
        reason = f"the earlier verdict is about other limits ({', '.join(stated)}); state the same ones"
        raise InvalidInput("--after", UNSTATED, reason)
    if earlier.get("delta") != delta:
        raise InvalidInput("--delta", delta, f"must be that of the earlier verdict, {earlier.get('delta')}")


def plan_of(limits: Sequence[Constraint], metrics: Sequence[str], delta: float) -> Plan:
    """A gate whose items are drawn from a population so large that none is met again."""
    return Plan(
        arms=[BASELINE, CANDIDATE],
        objective=Objective(CANDIDATE, "maximize", Exact()),
        constraints=limits,
        measurements=[Measurement((CANDIDATE, *metrics))],
        items=MOST_REPEATED,
        repeats=True,
        name="logs",
        delta=delta,
        baseline=BASELINE,
        goal="any feasible",
    )


def _over_all_items(study: Study, status: Status, used: int) -> tuple[Findings, dict[str, tuple[MetricStanding, ...]]]:
    """What is known once the items after the verdict have entered, too, and where each arm then stands with each limit.

    Evidence is valid at all times at once, so this costs nothing. What decided holds, even if the evidence has fallen
    back since: intervals are cut to those at the verdict.
    """
    then, decider = findings_of(study._decider.policy, study._decider.stop), copied(study._decider)
    rows, decider.stop = results_of(study), None
    at = np.flatnonzero(rows.items >= used)
    columns = {name: getattr(rows, name)[at] for name in ("ids", "arms", "metrics", "values", "items")}
    decider.enter(rows._replace(**columns, ends=np.zeros(len(at), np.int8)))
    now = decider.policy.findings()
    low, high = _cut(now.low, now.high, then.low, then.high)
    holds, violated = then.holds | (now.holds & ~then.violated), then.violated | (now.violated & ~then.holds)
    known = then._replace(low=low, high=high, holds=holds, violated=violated)
    stands = {}
    for arm, before in zip(standings(study.plan, decider.policy, known, study._raw), status.arms, strict=True):
        both = zip(study.plan.constraints, arm.metrics[1:], before.metrics[1:], strict=True)
        stands[arm.name] = tuple(_with_quantile(row, old) if part.noise.is_share else row for part, row, old in both)
    return known, stands


def _with_quantile(row: MetricStanding, then: MetricStanding) -> MetricStanding:
    """A quantile has an interval of its own, which findings do not have."""
    low, high = map(float, _cut(*map(np.float64, (row.low, row.high, then.low, then.high))))
    return dataclasses.replace(row, low=low, high=high)


def _cut(low: Any, high: Any, low_then: Any, high_then: Any) -> tuple[Any, Any]:
    """What lies in an interval and in an earlier one. If they contradict each other, the later one."""
    least, most = np.maximum(low, low_then), np.minimum(high, high_then)
    return np.where(least <= most, least, low), np.where(least <= most, most, high)


def _add(study: Study, pairs: Pairs) -> None:
    """Enter all pairs, in their order. An item of the study is a place in that order."""
    order = ItemOrder(MOST_REPEATED, True, study.record.order_seed)
    results = []
    for place, (old, new) in enumerate(pairs.values.tolist()):
        for number, (arm, values) in enumerate(((BASELINE, old), (CANDIDATE, new))):
            row = dict(zip(pairs.metrics, values, strict=True)) | {CANDIDATE: float(number)}
            results.append((arm, row, order.name(place)))
    count = len(pairs.items)
    looks = {round(look) for look in np.linspace(0, count, LOOKS + 1)[1:]}
    study.add(results, ends=sorted(2 * look - 1 for look in looks if look))
