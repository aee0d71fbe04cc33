"""How observations scatter around a stream's mean."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from bestarm.validation import LEAST, InvalidInput, Number, Positive, exact, parse, value


@value
class Gaussian:
    """Normal, or any sub-Gaussian, observations with known standard deviation `sigma`.

    >>> Gaussian(2.0).sigma
    2.0
    """

    sigma: Positive

    @property
    def scale(self) -> float:
        """The sub-Gaussian scale that confidence bounds use."""
        return self.sigma

    @property
    def range(self) -> tuple[float, float]:
        """The values an observation, and so a mean, can take."""
        return (-float("inf"), float("inf"))


@value
class Bernoulli:
    """Observations are 0 or 1; the mean is a rate."""

    @property
    def scale(self) -> float:
        return 0.5

    @property
    def range(self) -> tuple[float, float]:
        return (0.0, 1.0)


@value
class Bounded:
    """Observations lie between `low` and `high`; nothing else is known of them.

    >>> Bounded(0, 10).scale
    5.0
    """

    low: Number
    high: Number

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"bounded noise needs low < high, not low = {exact(self.low)}, high = {exact(self.high)}")
        if not self.high - self.low >= LEAST:
            raise ValueError(
                f"bounded noise needs a range of width {LEAST:g} or more, not low = {self.low!r}, high = {self.high!r}"
            )

    @property
    def scale(self) -> float:
        return (self.high - self.low) / 2

    @property
    def range(self) -> tuple[float, float]:
        return (self.low, self.high)


_ACCEPTED = 'must be "bernoulli", { gaussian = SIGMA } or { bounded = [LOW, HIGH] }'


def _read(data: object) -> Any:
    """The noise that a study file describes."""
    if isinstance(data, Gaussian | Bernoulli | Bounded):
        return data
    if isinstance(data, str):
        if data == "bernoulli":
            return Bernoulli()
    elif isinstance(data, dict) and len(data) == 1:
        [(kind, options)] = data.items()
        try:
            if kind == "gaussian":
                return parse(Gaussian, {"sigma": options})
            if kind == "bounded" and isinstance(options, list | tuple) and len(options) == 2:
                return parse(Bounded, {"low": options[0], "high": options[1]})
        except InvalidInput as error:
            raise error from None
    raise ValueError(_ACCEPTED)


def _write(noise: Gaussian | Bernoulli | Bounded) -> object:
    match noise:
        case Gaussian(sigma):
            return {"gaussian": sigma}
        case Bounded(low, high):
            return {"bounded": [low, high]}
        case _:
            return "bernoulli"


Noise = Annotated[Gaussian | Bernoulli | Bounded, BeforeValidator(_read), PlainSerializer(_write)]
"""One of the noise models, also in the short forms of a study file."""


def noise_choices() -> list[dict[str, Any]]:
    """The noises that a form offers: name, label, a sentence on each, and the numbers to state, in order.

    In a study file a noise without numbers is its name, one with a number { name = number }, and one with several
    { name = [numbers] }.
    """
    sigma = {"name": "sigma", "label": "standard deviation σ", "default": 1.0}
    low, high = {"name": "low", "label": "least value", "default": 0.0}, {"name": "high", "label": "largest value"}
    return [
        {"name": "bernoulli", "label": "yes or no (0 or 1)", "sentence": "Each result is 0 or 1.", "numbers": []},
        {"name": "gaussian", "label": "known scatter", "sentence": "Results scatter with σ.", "numbers": [sigma]},
        {"name": "bounded", "label": "within a range", "sentence": "Results lie in a range.", "numbers": [low, high]},
    ]
