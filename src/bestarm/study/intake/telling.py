"""The outcome of a test, all its values together, and what to say if it has another already."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bestarm.problem import Plan
from bestarm.storage.base import Outcome
from bestarm.storage.errors import HandedOn, OutcomeUnknown
from bestarm.study.intake.names import Test
from bestarm.study.intake.values import Result, Values, check_result, check_some, values_in_words
from bestarm.validation import InvalidInput


class AlreadyTold(InvalidInput):
    """The test has a different outcome, which `Study.correct` can replace, or has a new holder."""

    kind = "already told"


def already_told(test: Test, outcome: Outcome) -> AlreadyTold:
    """What to raise for a test that has another outcome."""
    if outcome.value is None:
        reason = f"was abandoned{': ' + outcome.reason if outcome.reason else ''}"
    else:
        told = values_in_words(test.metrics, values_of(outcome))
        reason = f"has the result {told} already; a correction can replace it"
    return AlreadyTold("test", test.id, reason, shown=f"{test.id} ({test.words})")


def handed_on(test: Test, error: HandedOn) -> AlreadyTold:
    """What to raise for a test that has been handed on."""
    reason = f"was handed to {error.holder} in the meantime, whose result counts"
    return AlreadyTold("test", test.id, reason, shown=f"{test.id} ({test.words})")


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """If the outcome is unknown, tell the user that telling one value of one test again is safe."""
    try:
        yield
    except OutcomeUnknown as error:
        raise error.advised("to repeat it is safe: it counts once") from error


def values_of(outcome: Outcome) -> Values:
    """All values of a test; none if it was given up."""
    return () if outcome.value is None else (outcome.value, *outcome.more)


def further(more: Sequence[float]) -> dict[str, Any]:
    """The values after the first, as a storage takes them. One written before there were any need not know them."""
    return {"more": tuple(more)} if more else {}


def corrected(plan: Plan, lead: int, test: int, outcome: Outcome | None, value: Result) -> Values:
    """The values of a test once some or all of them are replaced."""
    if not isinstance(value, Mapping):
        return check_result(plan, lead, value)
    if outcome is None:
        raise InvalidInput("test", test, "has no result yet; there is nothing to correct")
    return check_some(plan, lead, value, values_of(outcome))
