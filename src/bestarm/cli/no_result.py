"""`bestarm fail`, `release` and `abandon`: tests whose result does not come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.shared.arguments import Reason, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import Access, check_text
from bestarm.cli.shared.show import say
from bestarm.errors import InvalidInput

if TYPE_CHECKING:
    from bestarm.cli.shared.opening import AnyStudy
    from bestarm.storage.base import Pending

TestNumber = Annotated[str, typer.Argument(metavar="TEST", help="The test's number, as `ask` gave it.")]

_MOST_NAMED = 20


@study_command(place=150)
def fail(name: StudyName, test: TestNumber, reason: Reason = "", *, access: Access) -> None:
    """Say that an attempt at a test failed, for a reason that has nothing to do with its result: it is made again."""
    from bestarm.study.intake.names import read_test

    number = read_test(test)
    study = access.open(name)
    held = _pending(study, number)
    study.fail(number, check_text("reason", reason))
    if held is None:
        say(f"Noted. Test {number} has its result already.")
    elif _pending(study, number) == held and held.expires > 0.0:
        say(f"Noted. Test {number} is with {held.holder} by now, and stays there.")
    else:
        say(f"Noted. Test {number} will be handed out again.")


def _pending(study: AnyStudy, number: int) -> Pending | None:
    return next((row for test, row in study.pending() if test.id == number), None)


@study_command(place=160)
def release(
    name: StudyName,
    tests: Annotated[list[str] | None, typer.Argument(metavar="[TEST...]", help="The tests' numbers.")] = None,
    held_by: Annotated[str | None, typer.Option(metavar="NAME", help="All tests that NAME holds.")] = None,
    *,
    access: Access,
) -> None:
    """Free tests whose results will not come. They are handed out again, even if others hold them."""
    from bestarm.study.intake.names import read_test

    if bool(tests) == (held_by is not None):
        raise InvalidInput("release: give the numbers of tests, or --held-by NAME")
    numbers = [read_test(test) for test in tests or ()]
    study = access.open(name)
    pending = {row.id: row for _, row in study.pending()}
    if held_by is not None:
        numbers = study.release_held_by(held_by)
        if not numbers:
            holders = sorted({row.holder for row in pending.values() if row.expires > 0.0})
            there = f"tests are held by {', '.join(holders[:10])}" if holders else "none is held"
            raise InvalidInput("--held-by", held_by, f"holds no test of {name!r}; {there}")
    else:
        for number in numbers:
            if number not in pending:
                reason = f"is not pending in study {name!r}; `bestarm status` says which tests are pending"
                raise InvalidInput("test", number, reason)
        study.release(numbers)
    for number in numbers[:_MOST_NAMED]:
        row = pending[number]
        held = f", which {row.holder} held" if row.expires > 0.0 else ", which was free"
        say(f"Test {number}{held}, will be handed out again.")
    if len(numbers) > _MOST_NAMED:
        say(f"So will {len(numbers) - _MOST_NAMED:,} more.")


@study_command(place=170)
def abandon(name: StudyName, test: TestNumber, reason: Reason = "", *, access: Access) -> None:
    """Give a test up, for a reason that has nothing to do with its result."""
    from bestarm.study.intake.names import read_test

    number = read_test(test)
    access.open(name).abandon(number, check_text("reason", reason))
    say(f"Test {number} is given up; its result is no longer expected.")
