"""What is asked of one metric: to be made large or small, or to stay on the right side of a threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from bestarm.noises import Noise
from bestarm.problem.slices import Where, where_words
from bestarm.problem.units import Unit
from bestarm.validation import (
    LEAST,
    Guess,
    InvalidInput,
    Name,
    NonNegative,
    Number,
    Positive,
    exact,
    value,
)

_STATED: Any = Field(default=None, validate_default=True)
"""A field that must be stated, and whose error lists the choices."""


def _read_flag(data: object) -> object:
    """True or None, because study files leave out what is false."""
    if data is None or isinstance(data, bool):
        return data or None
    raise ValueError("must be true or false; the factor is what at_most or at_least says")


def _refused(part: Objective | Constraint, field: str, reason: str) -> InvalidInput:
    """What to raise of a field that does not go with the others."""
    given, whose = getattr(part, field), f"of {type(part).__name__.lower()} {part.title!r}"
    if field in ("noise", "per", "judge"):
        return InvalidInput(field, given, f"{whose}: {reason}")
    return InvalidInput(field, given, reason, sentence=f"{field} = {given!r} {whose} {reason}")


def _check_judge(part: Objective | Constraint) -> None:
    if part.judge is None:
        return
    if part.judge == part.metric:
        raise _refused(part, "judge", "must be another metric than the one it judges")
    if len(part.measures) > 1:
        raise _refused(part, "judge", "cannot judge a ratio; it scores one metric")
    if not part.noise.takes_judge:
        raise _refused(part, "judge", f"needs values in a range: Bernoulli() or Bounded(low, high), not {part.noise!r}")


@value
class Objective:
    """The metric to make as large or as small as possible; an arm within `tolerance` of the best is good enough.

    `judge` names a metric that is cheap and tells much of this one, such as a model's score of what people label. Its
    scores of every arm on every item are told first. `unit`, such as "ms", is shown beside the metric.
    """

    metric: Name
    goal: Literal["maximize", "minimize"]
    noise: Noise = _STATED
    cost: Positive = 1.0
    tolerance: NonNegative = 0.0
    judge: Name | None = Field(default=None, kw_only=True)
    unit: Unit = Field(default=None, kw_only=True)

    @property
    def title(self) -> str:
        """What it is about, in a word or two."""
        return self.metric

    @property
    def measures(self) -> tuple[str, ...]:
        """The metrics whose values of a test it takes."""
        return (self.metric,)

    @property
    def is_derived(self) -> bool:
        """Whether what counts of a test is not the value of the metric itself."""
        return False

    @property
    def has_own_mean(self) -> bool:
        """Whether its mean is stated by its own name, even if its metric has another part, too."""
        return False

    def mean_of(self, given: Mapping[str, Guess]) -> Guess | None:
        """The mean of what counts, from the means of metrics; None if they do not say it."""
        return given.get(self.metric)

    def __post_init__(self) -> None:
        if self.noise.is_share:
            reason = "a quantile can only be constrained, with at_most or at_least; state how the objective scatters"
            raise _refused(self, "noise", f"{reason} around its mean")
        low, high = self.noise.range
        if not self.tolerance < high - low:
            reason = f"must be less than {exact(high - low)}, the width of the range of its values"
            raise _refused(self, "tolerance", f"{reason}: with that much, any feasible arm would do")
        _check_judge(self)


@value
class Constraint:
    """A metric whose mean must stay below `at_most` or above `at_least`.

    `Exact` metrics may equal the threshold. `Quantile(q)` limits the quantile q instead of the mean.

    With `relative_to_baseline`, the limit is a multiple of the mean of the problem's baseline arm. A `margin`, in units
    of the metric, makes it easier: it is added to the limit of `at_most`, and taken from that of `at_least`. A negative
    margin makes it harder. With `per`, another metric of the same test whose values are positive, the ratio of the two
    means is limited; `noise` then says how `metric` minus the threshold times `per` scatters.

    An arm that misses the threshold by less than `slack` may still be taken for feasible. The slack of a ratio is in
    units of `metric` minus the threshold times `per`. `weight`, relative to the others, says how much this constraint
    is expected to be the one that an infeasible arm violates. `judge` and `unit` are as for an
    `Objective`.

    With `where`, such as `{"topic": "law"}`, the mean over the items that have these values of their attributes is
    limited. `for_each`, the name of an attribute, stands for one such constraint for each of its values.
    """

    metric: Name
    noise: Noise = _STATED
    at_most: Number | None = None
    at_least: Number | None = None
    cost: Positive = 1.0
    slack: NonNegative = 0.0
    weight: Positive = 1.0
    relative_to_baseline: Annotated[bool | None, BeforeValidator(_read_flag)] = Field(default=None, kw_only=True)
    per: Name | None = Field(default=None, kw_only=True)
    margin: Number | None = Field(default=None, kw_only=True)
    judge: Name | None = Field(default=None, kw_only=True)
    unit: Unit = Field(default=None, kw_only=True)
    where: Where = Field(default=None, kw_only=True)
    for_each: Name | None = Field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_judge(self)
        if (self.at_most is None) == (self.at_least is None):
            raise InvalidInput(
                f"constraint {self.metric!r} needs exactly one of at_most and at_least, "
                f"not at_most = {self.at_most}, at_least = {self.at_least}"
            )
        if self.margin is not None and not self.relative_to_baseline:
            reason = "needs relative_to_baseline: it is what the mean may be worse by than the baseline's"
            raise _refused(self, "margin", reason)
        if self.relative_to_baseline or self.per is not None:
            self._check_derived()
            return
        low, high = self.noise.value_range
        if not low < self.threshold < high:
            reason = f"must lie strictly between {exact(low)} and {exact(high)}, the range of its values"
            raise _refused(self, self.side, reason)
        if self.noise.is_share and not self.slack < 1.0 - self.limit:
            what = f"it is added to {exact(self.limit)}, the share of measurements that may lie beyond the threshold"
            raise _refused(self, "slack", f"must be less than {exact(1.0 - self.limit)}: {what}")
        if math.isfinite(high - low):
            self._check_range(low, high)

    def _check_derived(self) -> None:
        """Check that a limit relative to the baseline, or of a ratio, leaves something to decide."""
        if self.relative_to_baseline and self.per is not None:
            reason = "cannot be relative to the baseline: a ratio needs a threshold of its own"
            raise _refused(self, "relative_to_baseline", reason)
        if self.noise.is_share:
            what = "relative to the baseline" if self.relative_to_baseline else "of a ratio"
            raise _refused(self, "noise", f"a limit {what} is about means, and not about a quantile")
        if self.per == self.metric:
            raise _refused(self, "per", "must be another metric than the one that is divided by it")
        if self.relative_to_baseline and not self.threshold >= LEAST:
            raise _refused(self, self.side, "must be a positive number: that many times the baseline")
        low, high = self.compared_range
        if not low < self.limit < high:
            if self.per is not None:
                ends = f"{exact(low)} to {exact(high)}"
                raise _refused(self, "noise", f"must allow {self.formula} on both sides of 0, not from {ends}")
            ends = " and ".join(map(exact, self.noise.range))
            reason = f"leaves nothing to decide: between {ends}, the range of its values, every arm is on the same side"
            raise _refused(self, self.side if self.margin is None else "margin", f"{reason} of the limit")
        room = high - self.limit if self.is_upper else self.limit - low
        if not self.slack < room:
            raise _refused(self, "slack", f"must be less than {exact(room)}: with that much, every arm would pass")

    def _check_range(self, low: float, high: float) -> None:
        """Check that the threshold of a bounded metric, also with slack, lies inside the range as computed."""
        width = high - low
        below, above = self.threshold - low, high - self.threshold
        if not (0.0 < below / width < 1.0 and 0.0 < above / width < 1.0):
            ends = f"{exact(low)} to {exact(high)}, the range of its values"
            raise _refused(self, self.side, f"is too close to an end of {ends}, to be told from it")
        room, position = (above, below) if self.at_least is None else (below, above)
        if not (self.slack < room and position + self.slack < width):
            end = f"the distance from {self.side} = {exact(self.threshold)} to the end of the range of its values"
            reason = f"must be less than {exact(room)}, {end}: with that much, every arm would be feasible"
            raise _refused(self, "slack", reason)

    @property
    def side(self) -> str:
        """The field that has the threshold."""
        return "at_most" if self.at_least is None else "at_least"

    @property
    def title(self) -> str:
        return self._on_slice(self._name)

    @property
    def _name(self) -> str:
        return self.metric if self.per is None else f"{self.metric} per {self.per}"

    def _on_slice(self, words: str) -> str:
        if self.for_each is not None:
            words = f"{words} for each {self.for_each}"
        return words if self.where is None else f"{words} {where_words(self.where)}"

    @property
    def bound(self) -> str:
        """The limit as the user states it, where the name of the baseline is not known."""
        return self.bound_by("the baseline") if self.relative_to_baseline else exact(self.threshold)

    def bound_by(self, baseline: str) -> str:
        """The limit that the baseline of this name sets, such as "1.05 × old" or "standard − 2"."""
        if self.margin is None:
            return f"{exact(self.threshold)} × {baseline}"
        multiple = baseline if self.threshold == 1.0 else f"{exact(self.threshold)} × {baseline}"
        return f"{multiple} {'−' if self.limit < 0.0 else '+'} {exact(abs(self.margin))}"

    @property
    def formula(self) -> str:
        """What counts of a test of a ratio."""
        return f"{self.metric} − {exact(self.threshold)} × {self.per}"

    @property
    def label(self) -> str:
        """What it says, in a few words."""
        return self._on_slice(f"{self._name} {self.side.replace('_', ' ')} {self.bound}")

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.metric,) if self.per is None else (self.metric, self.per)

    @property
    def is_derived(self) -> bool:
        return self.noise.is_share or self.per is not None

    @property
    def has_own_mean(self) -> bool:
        return self.is_derived or self.where is not None

    def mean_of(self, given: Mapping[str, Guess]) -> Guess | None:
        if self.where is not None and self.title in given:
            return given[self.title]
        if self.per is None:
            return None if self.noise.is_share else given.get(self.metric)
        if self.metric not in given or self.per not in given:
            return None
        over, under = (mean if isinstance(mean, tuple) else (mean,) for mean in (given[self.metric], given[self.per]))
        ends = [one - self.threshold * other for one in over for other in under]
        return ends[0] if len(ends) == 1 else (min(ends), max(ends))

    @property
    def compared_range(self) -> tuple[float, float]:
        """What a mean can be that is compared with `limit`."""
        low, high = self.noise.range
        if not self.relative_to_baseline:
            return low, high
        return low - self.threshold * high, high - self.threshold * low

    @property
    def threshold(self) -> float:
        # Exactly one of the two is there.
        return next(side for side in (self.at_most, self.at_least) if side is not None)

    @property
    def limit(self) -> float:
        """What the mean is compared with: the threshold, for a quantile the share that may lie beyond it, the margin
        for the difference to a multiple of the baseline, and 0 for `formula`."""
        if self.relative_to_baseline or self.per is not None:
            margin = self.margin or 0.0
            return margin if self.is_upper or not margin else -margin
        return self.noise.compared_with(self.threshold, self.at_least is None)

    @property
    def is_upper(self) -> bool:
        """Whether the mean must lie below the limit."""
        return self.at_least is None or self.noise.is_share

    def allows(self, mean: float, slack: float = 0.0) -> bool:
        """Whether a stream with this mean is on the right side of the limit, or misses it by less than `slack`. For a
        limit relative to the baseline, the mean is that of the difference."""
        sign = 1.0 if self.is_upper else -1.0
        return sign * mean < self.noise.limit(sign * self.limit) + slack
