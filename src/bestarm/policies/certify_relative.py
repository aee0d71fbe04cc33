"""`certify` for problems with constraints relative to a baseline: the same policy, with other evidence for those."""

from __future__ import annotations

from typing import Any

import numpy as np

from bestarm.evidence.combine import suffices
from bestarm.kernel.compile import kernel, specialized
from bestarm.kernel.state import Batch, Floats
from bestarm.policies import baseline
from bestarm.policies.base import Kernels, Stop
from bestarm.policies.baseline import IN_PLACE, RelativeSetting, baseline_of, contrast_mean, with_baseline
from bestarm.policies.baseline import holding_ceiling as relative_holding_ceiling
from bestarm.policies.baseline import holding_evidence as relative_holding_evidence
from bestarm.policies.certify import BEYOND_LUCK, FOR_GOOD, Certify, judge, new_memory, propose, start
from bestarm.policies.confidence import PresentAnswer, present_answer, present_leader, weigh
from bestarm.policies.limits import margin_of, regret_of
from bestarm.policies.open_certificates import BY_EVIDENCE, Weighing
from bestarm.policies.reasons import survey
from bestarm.policies.setting import new_setting
from bestarm.problem import Problem


@kernel
def certified_now(setting: Any, streams: Any, arm: int, metric: int) -> int:
    limit = relative_holding_ceiling(setting, streams, arm, metric)
    level = setting.level[arm]
    if not (limit >= level and suffices(relative_holding_evidence(setting, streams, arm, metric), level)):
        return 0
    return FOR_GOOD if limit >= BEYOND_LUCK else 1


_KERNELS = {**IN_PLACE, "certified_now": certified_now}
judge_relative = specialized(judge, "relative", **_KERNELS)
propose_relative = specialized(propose, "relative", **_KERNELS)


@kernel
def update_relative(setting: Any, streams: Any, memory: Any, arm: int, metric: int) -> None:
    """A result of the baseline says something about every arm that is compared with it."""
    memory.told[0] += 1
    first = arm
    last = arm + 1
    if setting.factor[metric] != 0.0 and arm == setting.baseline:
        first = 0
        last = streams.counts.shape[0]
    for concerned in range(first, last):
        judge_relative(setting, streams, memory, concerned, metric)


@kernel
def propose_with_baseline(setting: Any, streams: Any, memory: Any, batch: Batch) -> int:
    size = propose_relative(setting, streams, memory, batch)
    return with_baseline(setting, streams, batch, size) if size > 0 else size


class CertifyRelative(Certify):
    """`certify` where constraints are relative to a baseline. Its setting is a `RelativeSetting`."""

    uses_baseline = True
    kernels = Kernels(new_memory, update_relative, propose_with_baseline, start, large=True)
    weigh = staticmethod(specialized(weigh, "relative", **_KERNELS))
    survey = staticmethod(specialized(survey, "relative", **_KERNELS))
    regret_of = staticmethod(specialized(regret_of, "relative", **_KERNELS))
    margin_of = staticmethod(specialized(margin_of, "relative", **_KERNELS))
    weighing = Weighing(*(specialized(kernel, "relative", **_KERNELS) for kernel in BY_EVIDENCE))
    find_leader = staticmethod(specialized(present_leader, "relative", **_KERNELS))

    @classmethod
    def new_setting(cls, problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Any:
        return RelativeSetting(*new_setting(problem, delta, bound, reference), *baseline_of(problem))

    def present_answer(self, stop: Stop | None = None) -> PresentAnswer:
        if stop is None and self.untested:
            kind = type(self)
            return present_answer(self.setting, self.streams, kind.find_leader, kind.weigh)
        return super().present_answer(stop)

    def contrasts(self, metric: int) -> Floats:
        means = [contrast_mean(self.setting, self.streams, arm, metric) for arm in range(self.arms)]
        known = [baseline.is_known(self.setting, self.streams, arm, metric) for arm in range(self.arms)]
        return np.where(known, means, np.nan)
