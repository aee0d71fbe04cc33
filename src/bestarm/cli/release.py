"""`bestarm release`: free tests whose results will not come."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.shared.arguments import Database, StudyName, Token, Worker
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import open_study
from bestarm.cli.shared.show import plain_console, shown

_MOST_NAMED = 20


@study_command(place=160)
def release(
    name: StudyName,
    tests: Annotated[list[str] | None, typer.Argument(metavar="[TEST...]", help="The tests' numbers.")] = None,
    held_by: Annotated[
        str | None, typer.Option("--held-by", metavar="NAME", help="All tests that NAME holds.", show_default=False)
    ] = None,
    worker: Worker = None,
    token: Token = None,
    db: Database = None,
) -> None:
    """Free tests whose results will not come. They are handed out again, even if others hold them."""
    from bestarm.study.intake.names import read_test
    from bestarm.validation import InvalidInput

    if bool(tests) == (held_by is not None):
        raise InvalidInput("release: give the numbers of tests, or --held-by NAME")
    numbers = [read_test(test) for test in tests or ()]
    study = open_study(name, db, worker, token)
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
                raise InvalidInput(
                    "test",
                    number,
                    f"is not waited for in study {name!r}; `bestarm status` says which tests are pending",
                )
        study.release(numbers)
    for number in numbers[:_MOST_NAMED]:
        row = pending[number]
        held = f", which {row.holder} held" if row.expires > 0.0 else ", which was free"
        plain_console().print(shown(f"Test {number}{held}, will be handed out again."), soft_wrap=True)
    if len(numbers) > _MOST_NAMED:
        plain_console().print(f"So will {len(numbers) - _MOST_NAMED:,} more.")
