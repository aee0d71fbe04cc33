"""`certify` for problems with items and with constraints relative to a baseline: both compare item by item."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from bestarm.kernel.compile import kernel, specialized
from bestarm.kernel.state import Batch, Floats, new_streams
from bestarm.noises.base import ABOVE, BELOW, Stream, stream_of
from bestarm.noises.dispatch import ceiling, evidence_above, evidence_below, most_kept, record, scatter
from bestarm.policies.base import Kernels, Stop
from bestarm.policies.baseline import IN_PLACE, baseline_of, with_baseline
from bestarm.policies.certify import new_memory, propose, start
from bestarm.policies.certify_on_items import BY_ITEMS, CertifyOnItems, advance_on_items
from bestarm.policies.certify_relative import certified_now, update_relative
from bestarm.policies.confidence import PresentAnswer, interval_end, present_answer, present_leader, weigh
from bestarm.policies.items import PairedSetting, PairedStreams, new_paired_setting, new_paired_streams, on_items_of
from bestarm.policies.limits import margin_of, regret_of
from bestarm.policies.open_certificates import BY_EVIDENCE, Weighing
from bestarm.policies.reasons import survey
from bestarm.policies.setting import new_setting
from bestarm.problem import Arm, Constraint, Problem, maximize

_tuple: Any = namedtuple
RelativePairedSetting = _tuple("RelativePairedSetting", (*PairedSetting._fields, "baseline", "factor", "contrasts"))
"""A `PairedSetting`, with what a `RelativeSetting` has, and the setting of the contrasts: on each item, the arm's value
minus the factor times the baseline's."""
RelativePairedStreams = _tuple("RelativePairedStreams", (*PairedStreams._fields, "contrasts"))
"""`PairedStreams`, with the contrasts of each arm and metric; empty where nothing is relative."""


_ODDS = 1.5
"""What a bet on a sign gains if there is one item. It could be 2. But limits are often closer than values scatter, and
then some more results should be seen that could lie beyond them."""


def _contrasts(problem: Problem) -> Problem:
    """A problem whose constraints are about the contrasts. Those that are not relative are never looked at."""
    constraints = [
        Constraint(
            str(k),
            on_items_of(problem, part.noise.contrast(part.threshold), _ODDS),
            None if part.at_most is None else 0.0,
            None if part.at_least is None else 0.0,
            slack=part.slack,
            weight=part.weight,
        )
        if part.relative_to_baseline
        else dataclasses.replace(part, metric=str(k), per=None if part.per is None else f"under {k}")
        for k, part in enumerate(problem.constraints, start=1)
    ]
    return Problem(
        arms=[Arm(arm.name, weight=arm.weight) for arm in problem.arms],
        objective=maximize("0", noise=problem.objective.noise),
        constraints=constraints,
        items=problem.items,
        repeats=problem.repeats,
    )


@kernel
def contrast_of(setting: Any, streams: Any, arm: int, metric: int) -> Stream:
    """The arm's values minus the factor times the baseline's, on all items on which both were measured."""
    contrasts = streams.contrasts
    common = min(streams.counts[setting.baseline, metric], streams.counts[arm, metric])
    for place in range(contrasts.counts[arm, metric], common):
        limit = setting.factor[metric] * streams.values[setting.baseline, metric, place]
        contrast = streams.values[arm, metric, place] - limit
        # What may be rounding is no difference.
        if abs(contrast) <= 1e-12 * abs(limit):
            contrast = 0.0
        record(setting.contrasts, contrasts, arm, metric, contrast)
    return stream_of(setting.contrasts, contrasts, arm, metric)


@kernel
def is_known(setting: Any, streams: Any, arm: int, metric: int) -> bool:
    return bool(contrast_of(setting, streams, arm, metric).n > 0)


@kernel
def contrast_mean(setting: Any, streams: Any, arm: int, metric: int) -> float:
    s = contrast_of(setting, streams, arm, metric)
    mean: float = s.total / s.n
    return mean


@kernel
def contrast_scatter(setting: Any, streams: Any, arm: int, metric: int) -> float:
    spread: float = scatter(setting.contrasts, streams.contrasts, arm, metric, setting.contrasts.threshold[metric])
    return spread


@kernel
def excess_evidence(setting: Any, streams: Any, arm: int, metric: int) -> float:
    return evidence_above(contrast_of(setting, streams, arm, metric), setting.contrasts.threshold[metric])


@kernel
def excess_ceiling(setting: Any, streams: Any, arm: int, metric: int) -> float:
    return ceiling(contrast_of(setting, streams, arm, metric), ABOVE, setting.contrasts.threshold[metric])


@kernel
def keeping_evidence(setting: Any, streams: Any, arm: int, metric: int) -> float:
    limit = setting.contrasts.threshold[metric] + setting.slack[metric]
    return evidence_below(contrast_of(setting, streams, arm, metric), limit)


@kernel
def keeping_ceiling(setting: Any, streams: Any, arm: int, metric: int) -> float:
    limit = setting.contrasts.threshold[metric] + setting.slack[metric]
    return ceiling(contrast_of(setting, streams, arm, metric), BELOW, limit)


@kernel
def contrast_end(setting: Any, streams: Any, arm: int, metric: int, side: int, level: float) -> float:
    return interval_end(contrast_of(setting, streams, arm, metric), side, level)


_COMPARISON: dict[str, Callable[..., Any]] = {
    "is_known": is_known,
    "contrast_mean": contrast_mean,
    "contrast_scatter": contrast_scatter,
    "excess_evidence": excess_evidence,
    "excess_ceiling": excess_ceiling,
    "keeping_evidence": keeping_evidence,
    "keeping_ceiling": keeping_ceiling,
    "contrast_end": contrast_end,
}
_RELATIVE: dict[str, Callable[..., Any]] = {
    name: specialized(one, "on_items", **_COMPARISON)
    for name, one in {**IN_PLACE, "certified_now": certified_now}.items()
}
_KERNELS = {**{name: specialized(one, "relative", **_RELATIVE) for name, one in BY_ITEMS.items()}, **_RELATIVE}
_UPDATE = specialized(update_relative, "on_items", **_COMPARISON)
_PROPOSE = specialized(propose, "relative_on_items", **_KERNELS)


@kernel
def propose_with_baseline(setting: Any, streams: Any, memory: Any, batch: Batch) -> int:
    size = _PROPOSE(setting, streams, memory, batch)
    return with_baseline(setting, streams, batch, size) if size > 0 else size


class CertifyRelativeOnItems(CertifyOnItems):
    """`certify` where arms are measured on items and constraints are relative to a baseline."""

    uses_baseline = True
    interpreted = staticmethod(specialized(advance_on_items, "relative", update=_UPDATE, propose=propose_with_baseline))
    kernels = Kernels(new_memory, _UPDATE, propose_with_baseline, start, large=True)
    weigh = staticmethod(specialized(weigh, "relative_on_items", **_KERNELS))
    survey = staticmethod(specialized(survey, "relative_on_items", **_KERNELS))
    regret_of = staticmethod(specialized(regret_of, "relative_on_items", **_KERNELS))
    margin_of = staticmethod(specialized(margin_of, "relative_on_items", **_KERNELS))
    weighing = Weighing(*(specialized(kernel, "relative_on_items", **_KERNELS) for kernel in BY_EVIDENCE))
    find_leader = staticmethod(specialized(present_leader, "relative_on_items", **_KERNELS))

    @classmethod
    def new_setting(cls, problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Any:
        paired = new_paired_setting(problem, delta, bound, reference)
        contrasts = new_setting(_contrasts(problem), delta, bound)
        return RelativePairedSetting(*paired, *baseline_of(problem), contrasts)

    @classmethod
    def streams_with_room(cls, setting: Any, arms: int, metrics: int, room: int) -> Any:
        contrasts = new_streams(arms, metrics, most_kept(setting.contrasts))
        return RelativePairedStreams(*new_paired_streams(setting, arms, metrics, room), contrasts)

    def present_answer(self, stop: Stop | None = None) -> PresentAnswer:
        if stop is None and self.untested:
            return present_answer(self.setting, self.streams, type(self).find_leader, type(self).weigh)
        return super().present_answer(stop)

    def contrasts(self, metric: int) -> Floats:
        streams = [contrast_of(self.setting, self.streams, arm, metric) for arm in range(self.arms)]
        return np.array([s.total / s.n if s.n else np.nan for s in streams])
