"""What a study may use up: tests, cost, whole blocks, or time."""

from __future__ import annotations

import dataclasses

from bestarm.problem.blocks import Blocks
from bestarm.texts import Noun, quoted
from bestarm.validation import MOST_TESTS, InvalidInput, Positive, exact, value

Amount = float | None
"""How much more of something is allowed; None for no more."""

WHOLE = ("tests", "blocks")
"""What is counted. A cost is any number."""


@value
class Budget:
    """What a study may use up: a number of tests, a total cost, a number of whole blocks, hours, or several of these.

    Hours are counted by the clock from when the study was created, in whichever process it goes on. When they are over
    no test begins, and no block; what is out by then still counts.

    >>> Budget(tests=5000, cost=200.5).words(), Budget(blocks=20).words(Blocks("plate", size=24))
    ('5,000 tests or a cost of 200.5', '20 plates')
    >>> Budget(hours=0.5).words()
    '30 minutes'
    """

    tests: Positive | None = None
    cost: Positive | None = None
    blocks: Positive | None = None
    hours: Positive | None = None

    def __post_init__(self) -> None:
        if not self.amounts:
            raise ValueError("a budget needs tests, cost, blocks or hours")
        for name in WHOLE:
            number = self.amounts.get(name)
            if number is not None and number != int(number):
                raise InvalidInput(name, number, "must be a whole number")
            if number is not None and number > MOST_TESTS:
                raise InvalidInput(name, number, f"must be at most {MOST_TESTS:,}")

    @property
    def amounts(self) -> dict[str, float]:
        """What is limited, by name."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: number for name, number in given.items() if number is not None}

    def words(self, blocks: Blocks | None = None) -> str:
        """All that it allows. `blocks` say what a block is called."""
        return " or ".join(amount_words(name, number, blocks) for name, number in self.amounts.items())


UNITS = tuple(field.name for field in dataclasses.fields(Budget))


def left_words(budget: Budget, tests: int, cost: float, made: int, blocks: Blocks | None = None) -> str:
    """What is left of tests, cost and blocks, in words, after so many; empty if none of these is limited.

    >>> left_words(Budget(tests=30, cost=9.5, hours=1.0), 24, 2.4, 0)
    '6 tests or a cost of 7.1'
    """
    spent = {"tests": tests, "cost": cost, "blocks": made}
    left = {name: max(number - spent[name], 0) for name, number in budget.amounts.items() if name in spent}
    return " or ".join(amount_words(name, float(f"{number:.10g}"), blocks) for name, number in left.items())


def amount_words(name: str, number: float, blocks: Blocks | None = None) -> str:
    """So many tests, blocks or hours, or such a cost.

    >>> amount_words("tests", 1), amount_words("cost", 2.5), amount_words("hours", 3.31728415)
    ('1 test', 'a cost of 2.5', '3.32 hours')
    """
    if name == "cost":
        return f"a cost of {_figure(number)}"
    if name == "hours":
        unit, count = ("minute", 60.0 * number) if number < 1.0 else ("hour", number)
        # Hours that are added count from now on, so the sum is no round number.
        count = round(count, 2) or count
        return f"{_figure(count)} {unit}{'' if count == 1.0 else 's'}"
    one = "test" if name == "tests" else "block" if blocks is None else blocks.name
    return Noun.of(one).counted(int(number))


def _figure(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else exact(number)


def read_budget(budget: float | Budget | None) -> Budget | None:
    """A budget that is a number is one of tests."""
    if budget is None or isinstance(budget, Budget):
        return budget
    try:
        return Budget(tests=budget)
    except InvalidInput as error:
        raise InvalidInput("budget", budget, error.complaints[0].reason, shown=quoted(budget)) from None
