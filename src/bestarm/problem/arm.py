"""One arm of a problem, and what people call it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool

from bestarm.noises.shapes import Spread
from bestarm.problem.measurements import at_least_one
from bestarm.validation import Factor, Guess, Name, Positive, WholeNumber, described, not_text, value


@value
class Arm:
    """One candidate; its `means` by metric are the truth in a simulation and absent in a live study.

    For a metric with `Quantile` noise, the mean is the share of results beyond the threshold. For a ratio constraint,
    the means of both metrics are stated; or, by its name such as "errors per requests", that of what counts of a test:
    the one metric minus the threshold times the other. For a forecast a mean may be a range (low, high). `weight`,
    relative to the other arms', says how much this one is expected to be the answer. `spreads` by metric say how its
    results truly scatter in a simulation: a standard deviation, or a shape with one, such as {"lognormal": 2.0}.
    Without it, results scatter as the metric's noise says. `cost` is how many times as much its tests cost as the
    metrics and measurements say: one number, or numbers by metric.

    >>> import bestarm as ba
    >>> arms = [ba.Arm("small"), ba.Arm("large", cost=50)]
    >>> ba.Problem(arms, ba.maximize("accuracy", noise=ba.Bernoulli(), cost=0.2)).arm_costs.tolist()
    [[0.2], [10.0]]
    """

    name: Name
    means: Mapping[str, Guess] | None = None
    weight: Positive = 1.0
    spreads: Mapping[str, Spread] | None = None
    cost: Factor = Field(default=1.0, kw_only=True)
    added: WholeNumber = 0
    """0 for an arm that was there from the start; of those that came later, 1 for the first, 2 for the second …"""
    retired: StrictBool = False
    """Whether it has been taken out: it is no longer measured, and cannot be the answer."""
    since: WholeNumber = Field(default=0, kw_only=True)
    """On items, of an arm that came later: how many places of the order had been met when it came."""


def read_arm(data: object) -> object:
    """An arm, which may be given as its name."""
    if isinstance(data, bool | int | float):
        raise ValueError(f'must be a name, as in "{data}", or an Arm')
    return {"name": data} if isinstance(data, str) else data


ArmList = Annotated[
    tuple[Annotated[Arm, BeforeValidator(read_arm, json_schema_input_type=Name | Arm)], ...],
    described(minItems=1),
    not_text("must be a list of names, as in [{}]"),
    AfterValidator(at_least_one),
]

_WORD = re.compile(r"[^\W\d_](?:[^\W_]|[ '-])*")
LONGEST_WORD = 40


def _arm_word(data: object) -> str:
    words = [word.strip() for word in data.split("/")] if isinstance(data, str) else []
    if len(words) not in (1, 2) or not all(len(word) <= LONGEST_WORD and _WORD.fullmatch(word) for word in words):
        reason = f"must be a noun of at most {LONGEST_WORD} letters, such as dose, or one with its plural: mouse/mice"
        raise ValueError(reason)
    return "/".join(words)


ArmWord = Annotated[str, BeforeValidator(_arm_word), described(minLength=1, maxLength=2 * LONGEST_WORD + 1)]
