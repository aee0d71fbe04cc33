"""What a noise is: how observations scatter around a stream's mean, and all that follows from it.

A noise is one file. It holds the value that users write, its form in study files and on web pages, what its streams
keep, and the kernels: evidence, simulation, planning. `docs/how-to/add-a-noise.md` has a complete example.
`bestarm.testing.noises` checks that a noise keeps the promises made here.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import Generator, Ziggurat
from bestarm.kernel.state import Floats, Ints, Setting, Streams
from bestarm.kernel.tables import slot
from bestarm.validation import InvalidInput, exact

ABOVE = 1
BELOW = -1
"""The sides of c: evidence that the mean lies above c, or below it."""


ENDLESS = 10**15
"""So many items stand for a set without end: items that are drawn again and again."""


RELATIVE_ROUNDING = 1e-12
"""A value that equals so many times another up to this share of it is equal: the product is rounded."""


class Stream(NamedTuple):
    """One stream: its noise and its sufficient statistics, in normal form and relative to the metric's reference."""

    kind: int
    """The number of its noise."""
    low: float
    high: float
    """The range of its mean; infinite where there is no limit."""
    width: float
    """The unit of its values: the width of their range, or their standard deviation."""
    inverse_sigma: float
    """1 / the sub-Gaussian scale of its values."""
    n: int
    total: float
    """The number of its results and their sum."""
    arm: int
    metric: int
    """Its place in the arrays that follow."""
    numbers: Floats
    """[metric, k]: further parameters of the noise."""
    kept: Floats
    """[arm, metric, k]: further statistics that the noise keeps."""
    mixture: Floats
    """By count: what `bestarm.noises.mixture` looks up."""


@kernel
def stream_of(setting: Setting, streams: Streams, arm: int, metric: int) -> Stream:
    """One stream as a value."""
    return Stream(
        setting.kind[metric],
        setting.low[metric],
        setting.high[metric],
        setting.width[metric],
        setting.inverse_sigma[metric],
        streams.counts[arm, metric],
        streams.sums[arm, metric],
        arm,
        metric,
        setting.numbers,
        streams.kept,
        setting.mixture,
    )


class Law(NamedTuple):
    """The noise of a metric in normal form, as a `Stream` has it."""

    low: float
    high: float
    width: float
    numbers: tuple[float, ...] = ()


TUNING = 3
"""The place in a stream's numbers from which on those stand by which its evidence is tuned."""


class Nature(NamedTuple):
    """The simulated world: true distributions in normal form, relative to the setting's `reference`.

    Entries are by metric, but `mean` is [arm, metric].
    """

    kind: Ints
    mean: Floats
    """The true mean in the noise's own terms: the mean itself, or its place in the range, from 0 to 1."""
    shift: Floats
    gain: Floats
    """A draw x in the noise's own terms is the value shift + gain * x."""
    shape: Ints
    """[arm, metric]: `OWN`, or the kind of the stream's `Shape`, where the study's `spreads` say how it scatters."""
    figures: Floats
    """[arm, metric, k]: the numbers of the `Shape`, and the least and the largest value."""
    source: Ints
    """The metric itself, or an earlier one of its bundle whose draw gives its value, too."""
    turn: Floats
    offset: Floats
    """A value that follows from the draw x of another metric is offset[arm, metric] + turn[metric] * x."""
    ziggurat: Ziggurat


@kernel
def keep_nothing(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    """For a noise whose streams keep nothing but the number of results and their sum."""


@kernel
def guess_by_width(s: Stream, side: int, level: float) -> float:
    """Where the interval ends if observations scatter by the stream's width."""
    end = s.total / s.n - side * s.width * math.sqrt(2.0 * max(level, 1.0) / s.n)
    return min(max(end, s.low), s.high)


@kernel
def no_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
    """For a noise whose log-evidence is not convex. NaN is no evidence, so nothing could rest on it."""
    return math.nan, math.nan


@kernel
def tabulated_radius(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    """The half-width of a confidence interval for sub-Gaussian observations, in units of their scale."""
    radius: float = setting.radius[slot(streams.counts[arm, metric])]
    return radius


class NoiseKernels(NamedTuple):
    """A noise as kernels: functions that every engine runs, interpreted or compiled.

    Three are enough, if the log-evidence is convex in c: `kernels_from(evidence, scatter, draw)` derives the rest.
    Write `evidence_and_slope` and `ceiling` for speed, `keep` if the evidence needs more than counts and sums, `radius`
    if the noise has no `scale`, and the others only if you can do better than what is derived.

    On the side `ABOVE`, evidence speaks against "the mean is at most c"; on the side `BELOW`, against "the mean is at
    least c". Evidence is given as its logarithm. As a rule it is convex in c, falls with c on the side `ABOVE` and
    rises on the side `BELOW`; the comparison of two arms and the ends of intervals follow from that. A noise whose
    log-evidence is not convex has no `evidence_and_slope`, but kernels for these two: `pair` and `end`.
    """

    evidence: Callable[[Stream, int, float], float]
    """(s, side, c): the log-evidence."""
    evidence_and_slope: Callable[[Stream, int, float], tuple[float, float]] | None
    """(s, side, c): the log-evidence and its derivative in c, if it is convex."""
    scatter: Callable[[Setting, Streams, int, int, float], float]
    """(setting, streams, arm, metric, mean): the standard deviation of one observation of a stream whose mean is
    about `mean`, for planning only: no answer rests on it."""
    draw: Callable[[Nature, Generator, int, int], float]
    """(nature, generator, arm, metric): a measurement in the simulated world."""
    ceiling: Callable[[Stream, int, float], float] | None = None
    """(s, side, c): a cheap upper bound of the log-evidence. With None, the log-evidence itself is used."""
    guess: Callable[[Stream, int, float], float] = guess_by_width
    """(s, side, level): about where the log-evidence is `level`."""
    keep: Callable[[Setting, Streams, int, int, float], None] = keep_nothing
    """(setting, streams, arm, metric, value): enter a result into `streams.kept`, before it is counted and added."""
    pair: Callable[[Stream, Stream, float], float] | None = None
    """(high, low, margin): a lower bound of the least product, over all c, of the evidence that the mean of `high`
    plus `margin` lies above c and the mean of `low` below c."""
    product: Callable[[Stream, Stream, float, float], tuple[float, float, float]] | None = None
    """(high, low, c, d): the log-evidence that the mean of `high` lies above c and that of `low` below d, convex in
    (c, d), and its derivatives in c and in d. With None, it is the product of the two evidences."""
    product_ceiling: Callable[[Stream, Stream, float, float], float] | None = None
    """(high, low, c, d): a cheap upper bound of `product`. With None, the sum of two ceilings; a noise with a `product`
    of its own has to say."""
    end: Callable[[Stream, int, float], float] | None = None
    """(s, side, level): the last c, or one before it, up to which the evidence that the mean lies on this side of c
    is `level` or more; coming from outside, toward the mean."""
    lead: Callable[[Stream, Stream, float, float], float] | None = None
    """(ahead, behind, level, enough): the largest lead of the first mean over the second for which the evidence reaches
    `level`, at it and at every smaller one; or any such lead of `enough` or more. With None it follows from `evidence`
    if that is log-convex, and else from one interval of each stream."""
    scaled_pair: Callable[[Stream, Stream, float, float], float] | None = None
    """(high, low, margin, factor): the same as `pair`, with `factor` times the mean of `low`. Log-convex evidence needs
    none."""
    radius: Callable[[Setting, Streams, int, int], float] | None = None
    """(setting, streams, arm, metric): the half-width of the confidence interval around the mean on which the paper's
    algorithms decide, in units of `scale`, or of 1 if that is None. With None, it is that of sub-Gaussian observations
    of this scale; a noise without `radius` and without `scale` is refused by policies that decide by intervals."""


_SLOPE_STEP = 1e-5
"""How far apart, in units of a stream's width, the log-evidence is taken to derive its slope. The slope is then right
to about ten digits, and comparisons of arms to far less than the 0.001 by which they understate."""


def kernels_from(
    evidence: Callable[[Stream, int, float], float],
    scatter: Callable[[Setting, Streams, int, int, float], float],
    draw: Callable[[Nature, Generator, int, int], float],
    **others: Any,
) -> NoiseKernels:
    """All kernels of a noise whose log-evidence is convex in c, from three. `others` are kernels of your own."""

    @kernel
    def evidence_and_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
        step = _SLOPE_STEP * s.width + 1e-9 * abs(c)
        # Beyond the ends of the range there may be no evidence.
        before = max(c - step, s.low) if c >= s.low else c - step
        after = min(c + step, s.high) if c <= s.high else c + step
        slope = (evidence(s, side, after) - evidence(s, side, before)) / (after - before)
        return evidence(s, side, c), slope

    return NoiseKernels(evidence, evidence_and_slope, scatter, draw, **others)


class StatedNumber(NamedTuple):
    """A parameter of a noise, as a form asks for it."""

    label: str
    default: float | None = None
    above: float | None = None


class OnItems:
    """The noises that values on items have. They are built on this module, so `bestarm.noises` fills them in."""

    bounded: ClassVar[Callable[[float, float], NoiseModel]]
    bounded_set: ClassVar[Callable[[float, float, int, int], NoiseModel]]
    gaussian_set: ClassVar[Callable[[float, int, int], NoiseModel]]
    symmetric_set: ClassVar[Callable[[int, int], NoiseModel]]


class NoiseModel(abc.ABC):
    """How observations of a metric scatter around their mean.

    A subclass is a checked value (`@bestarm.validation.value`). Its fields are its parameters, in the order of study
    files and forms. A value in normal form is the user's value times `sign`, minus `reference`.
    """

    name: ClassVar[str]
    """Its name in study files."""
    label: ClassVar[str]
    """Its name in forms, in a few words."""
    about: ClassVar[str]
    """One sentence for forms: when to choose it."""
    stated: ClassVar[Mapping[str, StatedNumber]] = {}
    """Its parameters, by field."""
    place: ClassVar[int] = 100
    """Where it stands among the noises that people can choose: the lowest first."""
    if_unstated: ClassVar[str] = ""
    """Extra advice for a user who names it without its parameters."""
    kernels: ClassVar[NoiseKernels]
    kept: ClassVar[int] = 0
    """How many statistics a stream keeps besides the number of results and their sum."""
    is_common: ClassVar[bool] = False
    """Whether kernels check for it first, because it is the most common."""
    is_whole: ClassVar[bool] = False
    """Whether observations are whole numbers."""
    is_quadratic: ClassVar[bool] = True
    """Whether `divergence` is a multiple of the squared difference."""
    is_family: ClassVar[bool] = True
    """Whether streams differ in nothing but their means. If so, `divergence` says all, and two streams are most easily
    mistaken for each other at the mean of all their results."""
    is_symmetric: ClassVar[bool] = False
    """Whether the guarantee rests on results that scatter as far up as down."""
    is_share: ClassVar[bool] = False
    """Whether what counts of a result is only whether it lies beyond its threshold: then a mean is the share of those
    that do."""
    is_exact: ClassVar[bool] = False
    """Whether all results of a stream are the same number."""
    learns_scatter: ClassVar[bool] = False
    """Whether how much results scatter is learned from them, so that `scatter` is an estimate."""
    needs_spread: ClassVar[bool] = False
    """Whether a simulation has to be told how much results scatter, because the noise does not say it."""
    takes_spread: ClassVar[bool] = True
    """Whether a simulation may be told how much results scatter."""

    @property
    def scale(self) -> float | None:
        """The sub-Gaussian scale that confidence bounds use. None if there is none, or if it is not known: then the
        noise is for policies that decide by evidence, as `certify` does, unless it has a kernel `radius`."""
        return None

    @property
    def has_intervals(self) -> bool:
        """Whether policies that decide by confidence intervals can use it."""
        return self.scale is not None or self.kernels.radius is not None

    @property
    def unit(self) -> float:
        """The unit of its confidence intervals, and of values without a range: `scale`, or 1."""
        return 1.0 if self.scale is None else self.scale

    @property
    def stated_scatter(self) -> float | None:
        """The standard deviation that the user states as the largest, on which the guarantee rests; None without it."""
        return None

    @property
    @abc.abstractmethod
    def range(self) -> tuple[float, float]:
        """The values an observation, and so a mean, can take."""

    @property
    def value_range(self) -> tuple[float, float]:
        """The values that can be told, where they are not the same as those of a mean."""
        return self.range

    @abc.abstractmethod
    def sentence(self) -> str:
        """What is assumed of every measurement. It is shown after the metric's name and a colon."""

    # ------------------------------------------------------------------------------------------ values and files

    def read_value(self, value: object) -> object:
        """A told value as a number, for noises that also accept other values, such as True and False."""
        return value

    def accepted_values(self) -> str:
        """What a measurement must be. It is shown after a value and a colon."""
        low, high = self.range
        whole = "be a whole number and " if self.is_whole else ""
        return f"must {whole}lie between {exact(low)} and {exact(high)}, the range of its values"

    def value_hint(self) -> str:
        """What to type for a measurement, in a word or two."""
        low, high = self.range
        return f"{exact(low)} to {exact(high)}" if math.isfinite(high - low) else "number"

    def check_value(self, number: float) -> None:
        """Raises `ValueError` if no measurement can be this number."""
        low, high = self.value_range
        if not low <= number <= high or (self.is_whole and not number.is_integer()):
            raise ValueError(self.accepted_values())

    def file_form(self) -> object:
        """What a study file says: the name, { name = number } or { name = [numbers] }."""
        numbers = [getattr(self, field.name) for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        if not numbers:
            return self.name
        return {self.name: numbers[0] if len(numbers) == 1 else numbers}

    # ------------------------------------------------------------------------------------------------------ items

    def of_set(self, items: int, *, ties: int = BELOW) -> NoiseModel:
        """The noise whose evidence is about the mean over a set of so many items, each measured once, in random order.

        Once the set is done, a mean equal to c lies on the side `ties` of c. Raises `InvalidInput` if there is none.
        """
        low, high = self.range
        if not math.isfinite(high - low):
            reason = f"{self.name} noise is not known for a set of items; state Symmetric(), or Bounded(low, high)"
            raise InvalidInput("noise", self.name, reason)
        return OnItems.bounded_set(low, high, items, ties)

    def differences(self) -> NoiseModel:
        """The noise of the difference between two arms' values of a common item.

        Raises `InvalidInput` if there is none.
        """
        low, high = self.range
        if math.isfinite(high - low):
            return OnItems.bounded(low - high, high - low)
        if not self.is_symmetric:
            reason = f"{self.name} noise is not known for differences; state Symmetric(), or Bounded(low, high)"
            raise InvalidInput("noise", self.name, reason)
        return OnItems.symmetric_set(ENDLESS, BELOW)

    def contrast(self, factor: float) -> NoiseModel:
        """The noise of an arm's value minus `factor` times another arm's value of a common item.

        Raises `InvalidInput` if there is none.
        """
        low, high = self.range
        if factor == 1.0 or not math.isfinite(high - low):
            return self.differences()
        return OnItems.bounded(low - factor * high, high - factor * low)

    def on_one_item(self, odds: float) -> NoiseModel:
        """The noise of differences, where one item is measured again and again. Then there are no items that two arms
        do equally well on, and a bet on a sign may gain more: `odds`, at most 2."""
        return self

    def refuses_items(self, *, repeats: bool) -> str | None:
        """Why a study with items cannot use this noise; None if it can."""
        try:
            difference = self.differences()
            if not repeats:
                self.of_set(2)
                difference.of_set(2)
        except InvalidInput as refused:
            return refused.reason
        return None

    @property
    def compares_with_baseline(self) -> bool:
        """Whether an arm's mean can be compared with so many times another arm's."""
        return not self.is_share and (self.kernels.scaled_pair or self.kernels.evidence_and_slope) is not None

    # -------------------------------------------------------------------------------------- in a study's normal form

    def compared_with(self, threshold: float, is_upper: bool) -> float:
        """What a mean is compared with, in the user's terms, where the threshold must not be exceeded (`is_upper`) or
        must be reached."""
        return threshold

    def counted(self, values: Any, threshold: float, is_upper: bool) -> Any:
        """What counts of results in the user's terms. Takes arrays too."""
        return values

    def limit(self, threshold: float) -> float:
        """The number that a mean must lie below, in normal form, to be on the right side of a threshold."""
        return threshold

    def reference(self, sign: float, landmark: float) -> float:
        """What values are kept relative to, so that no digit is lost where it matters: the lower end of the range or,
        if it has none, `landmark`, some value that the user gave."""
        low, high = self.range
        end = low if sign > 0 else -high
        return end if math.isfinite(end) else sign * landmark

    def law(self, sign: float, reference: float) -> Law:
        """The noise in normal form."""
        low, high = self.range if sign > 0 else tuple(-end for end in reversed(self.range))
        width = high - low if math.isfinite(high - low) else self.unit
        bottom = low - reference
        return Law(bottom, bottom + width if math.isfinite(high - low) else high - reference, width)

    def tuning(self, threshold: float | None) -> tuple[float, ...]:
        """Numbers by which the evidence is tuned: for a constraint with this threshold, or for the objective. Streams
        have them from the place `TUNING` on. They are fixed before the first result."""
        return ()

    def nature(self, means: Floats, sign: float, reference: float) -> tuple[Floats, float, float]:
        """`Nature`'s mean (by arm), shift and gain for a metric with these true means, in the user's terms."""
        low, high = self.range
        if math.isfinite(high - low):
            return (means - low) / (high - low), sign * low - reference, sign * (high - low)
        return sign * means - reference, 0.0, self.unit

    # --------------------------------------------------------------------------------------- theory and planning

    def divergence(self, p: Floats, q: Floats) -> Floats:
        """The Kullback-Leibler divergence of a stream with mean p from one with mean q. The default is that of the
        Gaussian with the same sub-Gaussian scale."""
        normal: Floats = 0.5 * np.square((p - q) / self.unit)
        return normal

    def information(self, mean: float, c: Floats, spread: float | Mapping[str, float] | None) -> Floats:
        """How much one test tells: the least divergence of a stream with this true mean and spread from any stream that
        the noise allows and whose mean is c. NaN where it is not known how to compute that."""
        if spread is None:
            return self.divergence(np.full(len(c), mean), c)
        return np.full(len(c), math.nan)

    def drawn_means(
        self, law: Law, counts: Floats, means: Floats, scatters: Floats, spread: float, random: np.random.Generator
    ) -> Floats:
        """Plausible true means, by arm, around the measured ones: draws `spread` times as wide as a posterior's.
        `counts` and `means` are those of the results and of what the prior counts as; `scatters` are the standard
        deviations of single results."""
        if math.isfinite(law.high - law.low) and not self.learns_scatter:
            share = (means - law.low) / law.width
            weight = counts / spread**2
            return law.low + law.width * random.beta(share * weight, (1.0 - share) * weight)
        drawn = means + spread * scatters / np.sqrt(counts) * random.standard_normal(len(counts))
        return np.clip(drawn, law.low, law.high)

    # --------------------------------------------------------------------------------------------- what forms need

    @classmethod
    def in_python(cls) -> str:
        """How to state it in Python."""
        return f"{cls.__name__}({', '.join(cls.stated)})"

    @classmethod
    def in_a_file(cls) -> str:
        """How to state it in a study file."""
        numbers = [field.upper() for field in cls.stated]
        if not numbers:
            return f'"{cls.name}"'
        return f"{{ {cls.name} = {numbers[0] if len(numbers) == 1 else '[' + ', '.join(numbers) + ']'} }}"

    @classmethod
    def choice(cls) -> dict[str, Any]:
        """What a form needs to offer this noise."""
        numbers = [{"name": field, **number._asdict()} for field, number in cls.stated.items()]
        said = {"name": cls.name, "label": cls.label, "sentence": cls.about}
        return {**said, "constraints_only": cls.is_share, "numbers": numbers}

    @classmethod
    def file_schema(cls) -> dict[str, Any]:
        """What a study file may say about this noise, as JSON schema."""
        if not cls.stated:
            return {"type": "string", "enum": [cls.name]}
        numbers: list[dict[str, Any]] = [
            {"type": "number", **({} if number.above is None else {"exclusiveMinimum": number.above})}
            for number in cls.stated.values()
        ]
        many = {"type": "array", "items": numbers[-1], "minItems": len(numbers), "maxItems": len(numbers)}
        return {
            "type": "object",
            "properties": {cls.name: numbers[0] if len(numbers) == 1 else many},
            "required": [cls.name],
            "additionalProperties": False,
        }
