"""`bestarm fail`, `release` and `abandon`: tests whose result does not come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.shared.arguments import Reason, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import Access, stated_reason
from bestarm.cli.shared.show import counted, say
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
    study.fail(number, stated_reason(reason))
    if held is None:
        say(f"Noted. Test {number} has its result already.")
    elif _pending(study, number) == held and held.expires > 0.0:
        say(f"Noted. Test {number} is with {held.holder} by now, and stays there.")
    else:
        say(f"Noted. Test {number} will be handed out again.")
        _say_what_waits(study, [number])


def _say_what_waits(study: AnyStudy, tests: Sequence[int]) -> None:
    """Say that results go on waiting for a test that is to be made again, and what lets them count."""
    now = study.status()
    if now.awaited is not None and now.awaited.test in tests and now.waiting:
        wait = f"{counted(now.waiting, 'result')} {'waits' if now.waiting == 1 else 'wait'}"
        say(f"{wait} until test {now.awaited.test} has a result. If it cannot be made soon, give it up, and")
        say(f"{now.awaited.if_given_up}: {now.awaited.give_up_command}")


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
    """Free tests to be made again, even if others hold them. Later results wait for them; abandon ends that."""
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
    _say_what_waits(study, numbers)


@study_command(place=170)
def abandon(name: StudyName, test: TestNumber, reason: Reason = "", *, access: Access) -> None:
    """Give a lost test up, for a reason that has nothing to do with its result. Later results no longer wait for it."""
    from bestarm.study.intake.names import read_test

    number = read_test(test)
    study = access.open(name)
    before = study.status().waiting
    study.abandon(number, stated_reason(reason))
    freed = before - study.status().waiting
    said = f"Test {number} is given up; its result is no longer expected."
    if freed > 0:
        said += f" {counted(freed, 'result')} that waited for it {'counts' if freed == 1 else 'count'} now."
    say(said)
