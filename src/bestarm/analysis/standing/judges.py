"""What judges are worth: how often they agree with labels, how many labels they have saved, and how biased they are."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bestarm.analysis.standing.arms import ArmStanding
from bestarm.analysis.standing.knowledge import about
from bestarm.evidence.intervals import interval_end
from bestarm.evidence.items import DIFFERENCE, contrast_of, difference_of, with_own_differences
from bestarm.kernel.state import RELATIVE
from bestarm.noises.bets import EVEN_LOG_WEIGHTS
from bestarm.noises.sets.bounded import BoundedSet
from bestarm.noises.sets.judged import JudgedSet
from bestarm.noises.streams import ABOVE, BELOW, Stream, stream_of
from bestarm.policies.base import Policy
from bestarm.policies.setting import to_user
from bestarm.problem import Problem
from bestarm.problem.items import count_of

_FEWEST = 10
"""With fewer labels than that, nothing is said of how a judge agrees with them."""
_MOST_ARMS = 10
"""In words, the bias is said of so many arms."""


@dataclasses.dataclass(frozen=True)
class Bias:
    """How far a judge's mean score of an arm lies above the mean of its labels over all items, at least and at most.
    `estimate` is None without labels."""

    low: float
    high: float
    estimate: float | None = None


@dataclasses.dataclass(frozen=True)
class JudgeStanding:
    """What a `judge` of a `metric` is worth so far.

    It has told `scores` of its `scores_needed` scores. Labels have been told for `labels` of them. `agreement` is 1
    less the mean distance between score and label, in units of the range of labels: where both are 0 or 1, the share on
    which they agree. `saved` is about how many more labels it would have taken to learn as much without it. The limits
    of `bias`, of all arms and metrics and at all times, hold at once with probability 1 - delta.
    """

    judge: str
    metric: str
    scores: int
    scores_needed: int
    labels: int
    agreement: float | None
    saved: int | None
    bias: Mapping[str, Bias]
    words: str
    """All of it but the bias, in a sentence."""
    bias_words: str
    """The bias of each arm with its limits, such as "a −0.03 (−0.06 to +0.01)"; empty without labels."""


def judge_standings(
    problem: Problem, policy: Policy, rows: Sequence[ArmStanding], told: Mapping[str, int], leader: int | None
) -> tuple[JudgeStanding, ...]:
    """What every judge of the problem is worth, where the arms stand as in `rows`. `told` are the numbers of scores."""
    return tuple(
        _standing(
            problem, policy, rows, [k for k in parts if problem.parts[k].metric == metric], told.get(judge, 0), leader
        )
        for judge, parts in problem.judged.items()
        for metric in dict.fromkeys(problem.parts[k].metric for k in parts)
    )


def _standing(
    problem: Problem,
    policy: Policy,
    rows: Sequence[ArmStanding],
    parts: Sequence[int],
    told: int,
    leader: int | None,
) -> JudgeStanding:
    """The parts with the same judge and the same metric, and so the same labels."""
    k, needed = parts[0], len(problem.arms) * count_of(problem.items or 0)
    part, labels = problem.parts[k], int(policy.streams.counts[:, k].sum())
    agreement, saved = None, None
    if labels >= _FEWEST:
        agreement, saved = _agreement(policy, k), max(_saved(policy, one, leader) for one in parts)
    bias = {row.name: _bias(problem, policy, k, arm) for arm, row in enumerate(rows)} if told == needed else {}
    return JudgeStanding(
        judge=part.judge or "",
        metric=part.metric,
        scores=told,
        scores_needed=needed,
        labels=labels,
        agreement=agreement,
        saved=saved,
        bias=bias,
        words=_words(told, needed, labels, agreement, saved, is_whole=part.noise.is_whole),
        bias_words=_bias_words(bias),
    )


def _bias_words(bias: Mapping[str, Bias]) -> str:
    known = [(arm, one, one.estimate) for arm, one in bias.items() if one.estimate is not None]
    words = [
        f"{arm} {_signed(estimate)} ({_signed(one.low)} to {_signed(one.high)})"
        for arm, one, estimate in known[:_MOST_ARMS]
    ]
    more = [f"and {len(known) - _MOST_ARMS:,} more"] if len(known) > _MOST_ARMS else []
    return ", ".join([*words, *more])


def _signed(number: float) -> str:
    return f"{number:+.2g}".replace("-", "−")


def _words(told: int, needed: int, labels: int, agreement: float | None, saved: int | None, *, is_whole: bool) -> str:
    if told < needed:
        return f"{told:,} of {needed:,} scores are told; labels are asked for after the last"
    if agreement is None or saved is None:
        return f"all {needed:,} scores are told; too few labels to say how it agrees with them"
    agrees = f"agrees with {100 * agreement:.0f}% of {labels:,} labels"
    if not is_whole:
        agrees = f"is off by {100 * (1.0 - agreement):.0f}% of the range from {labels:,} labels, on average"
    return f"{agrees}; {f'saved about {about(saved)} labels so far' if saved else 'has saved no labels so far'}"


def _agreement(policy: Policy, k: int) -> float:
    setting, items = policy.setting, policy.streams.items
    apart = [
        np.abs(items.values[arm, k, :reached] - setting.items.judge.scores[arm, k, :reached])
        for arm, reached in enumerate(items.reached[:, k].tolist())
    ]
    return 1.0 - float(np.concatenate(apart).mean() / setting.width[k])


def _claims(policy: Policy, k: int, leader: int | None) -> Iterator[tuple[int, Stream, float]]:
    """By arm: the stream that decides, and what its mean is compared with. For the objective, it is that of the
    differences to the leader."""
    setting, streams = policy.setting, policy.streams
    items, own = setting.items, with_own_differences(setting, streams)
    for arm in range(policy.arms):
        if k > 0 and setting.limits == RELATIVE and setting.relative.factor[k] != 0.0:
            yield arm, contrast_of(setting, streams, arm, k), items.contrasts.threshold[k]
        elif k > 0:
            yield arm, stream_of(setting, streams, arm, k), setting.threshold[k]
        elif leader is not None and arm != leader:
            yield arm, difference_of(setting, own, leader, arm), items.differences.threshold[DIFFERENCE]


def _saved(policy: Policy, k: int, leader: int | None) -> int:
    """Labels alone would say as much after n' of M, where 1 / n' - 1 / M shrinks as what bets have to gain grows: the
    evidence, up to the level that is needed, and what it costs not to know which bet is best."""
    counts, places = policy.streams.counts[:, k], policy.setting.items.places
    level, price = float(policy.setting.level.max()), -EVEN_LOG_WEIGHTS[-1]
    saved = most = 0.0
    for arm, stream, c in _claims(policy, k, leader):
        judged, alone = (
            max(kind.kernels.evidence(stream, side, c) for side in (ABOVE, BELOW)) for kind in (JudgedSet, BoundedSet)
        )
        needed = min(judged, level)
        if alone < needed and stream.n < places:
            share = max(alone + price, 0.0) / (needed + price)
            without = 1.0 / (share * (1.0 / stream.n - 1.0 / places) + 1.0 / places)
            saved += max(without - counts[arm], 0.0)
            most = max(most, without)
    if k == 0 and leader is not None:
        saved += max(most - counts[leader], 0.0)
    return round(saved)


def _bias(problem: Problem, policy: Policy, k: int, arm: int) -> Bias:
    setting, streams = policy.setting, policy.streams
    score = to_user(problem, setting, k, setting.items.judge.means[arm, k])
    # All means of all arms at once, whatever they are compared with.
    level = math.log(2.0 * streams.counts.size / setting.delta)
    stream = stream_of(setting, streams, arm, k)
    ends = sorted(
        float(score - to_user(problem, setting, k, interval_end(stream, side, level))) for side in (ABOVE, BELOW)
    )
    estimate = float(score - to_user(problem, setting, k, streams.means[arm, k])) if stream.n else None
    return Bias(ends[0], ends[1], estimate)
