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
from pydantic import TypeAdapter

from bestarm.kernel.state import Floats
from bestarm.noises.kernels import NoiseKernels
from bestarm.noises.streams import BELOW, Law
from bestarm.validation import InvalidInput, exact

ENDLESS = 10**15
"""This many items stand for a set without end: items that are drawn again and again."""


RELATIVE_ROUNDING = 1e-12
"""The relative tolerance for equality with a product, which is rounded."""


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
    judged_set: ClassVar[Callable[[float, float, int, int], NoiseModel]]


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
    words: ClassVar[Mapping[str, float]] = {}
    """What people say in place of numbers where results are verdicts on a comparison with the baseline."""
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
    def is_scatter_free(self) -> bool:
        """Whether observations are only assumed to be symmetric, however they scatter."""
        return self.is_symmetric and self.stated_scatter is None

    @property
    def range(self) -> tuple[float, float]:
        """The values an observation, and so a mean, can take."""
        return (-math.inf, math.inf)

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

    def under(self, rules: int) -> NoiseModel:
        """The noise with the evidence that an edition of the rules uses (`Plan.rules`)."""
        return self

    # ------------------------------------------------------------------------------------------------------ items

    def of_set(self, items: int, *, ties: int = BELOW) -> NoiseModel:
        """The noise whose evidence is about the mean over a set of `items`, each measured once, in random order.

        Once the set is done, a mean equal to c lies on the side `ties` of c. Raises `InvalidInput` if there is none.
        """
        low, high = self.range
        if not math.isfinite(high - low):
            reason = f"{self.name} noise is not known for a set of items; state Symmetric(), or Bounded(low, high)"
            raise InvalidInput("noise", self.name, reason)
        return OnItems.bounded_set(low, high, items, ties)

    @property
    def takes_judge(self) -> bool:
        """Whether the scores of a judge can count for its values: it states a range, and nothing else is assumed."""
        low, high = self.range
        return math.isfinite(high - low) and not self.is_share

    def of_judged_set(self, items: int, *, ties: int = BELOW) -> NoiseModel:
        """As `of_set`, where a judge has scored every item first."""
        return OnItems.judged_set(*self.range, items, ties)

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

    def pooled(self) -> NoiseModel | None:
        """The noise of results of several arms in one stream; None if there is none.

        Its evidence must be valid for results with different means, as long as the mean of each, given those before it,
        lies on the other side of c. What its streams keep must add up. If it keeps more than this noise does, results
        count by weights w, and it keeps the sums of w, of w² and of w times the result.
        """
        return None

    def contrast(self, factor: float) -> NoiseModel:
        """The noise of an arm's value minus `factor` times another arm's value of a common item.

        Raises `InvalidInput` if there is none.
        """
        low, high = self.range
        if factor == 1.0 or not math.isfinite(high - low):
            return self.differences()
        return OnItems.bounded(low - factor * high, high - factor * low)

    def contrast_within_block(self, factor: float) -> NoiseModel:
        """The same, where the two arms' values, without what their block added to both, do not depend on each other."""
        return self.contrast(factor)

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
        """Whether an arm's mean can be compared with a multiple of another arm's."""
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
        """`Nature`'s mean (by arm), shift and gain for a metric with these true means, in the user's terms. By default
        the mean is a share of the range or, if that has one end, the distance from it."""
        low, high = self.range
        if math.isfinite(high - low):
            return (means - low) / (high - low), sign * low - reference, sign * (high - low)
        if math.isfinite(low) or math.isfinite(high):
            end, away = (low, 1.0) if math.isfinite(low) else (high, -1.0)
            return away * (means - end), sign * end - reference, sign * away
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
        """What a study file may say about this noise, which has numbers to state, as JSON schema."""
        fields = TypeAdapter(cls).json_schema()["properties"]
        numbers = [
            {key: fields[name][key] for key in fields[name] if key not in ("title", "default")} for name in cls.stated
        ]
        many = {"type": "array", "items": numbers[-1], "minItems": len(numbers), "maxItems": len(numbers)}
        return {
            "title": f"{cls.__name__}Noise",
            "type": "object",
            "properties": {cls.name: numbers[0] if len(numbers) == 1 else many},
            "required": [cls.name],
            "additionalProperties": False,
        }
