"""Whether a measured value can be a result of a metric, in the user's words."""

from __future__ import annotations

from bestarm.parsing import read_decimal
from bestarm.problem import Constraint, Objective
from bestarm.texts import quoted
from bestarm.validation import InvalidInput, finite_number, moderate


class RefusedValue(InvalidInput):
    """A value that a metric with the stated noise cannot take."""

    kind = "refused value"


def check_value(part: Objective | Constraint, value: object) -> float:
    """The value as a number, if the metric can take it."""
    try:
        number = moderate(finite_number(part.noise.read_value(value)))
        part.noise.check_value(number)
    except ValueError as error:
        sentence = f"value of {part.metric!r} = {quoted(value)}: {error}"
        raise RefusedValue("value", value, str(error), sentence=sentence) from None
    return number


def read_number(text: str, where: str) -> float:
    """A number from a file, a command's output or the command line."""
    try:
        return read_decimal(text)
    except ValueError as error:
        raise InvalidInput(where, text, str(error), shown=quoted(text)) from None
