"""`bestarm fail`: an attempt at a test failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bestarm.cli.shared.arguments import Database, Reason, StudyName, TestNumber, Token, Worker
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import check_text, open_study
from bestarm.cli.shared.show import plain_console, shown

if TYPE_CHECKING:
    from bestarm.cli.shared.opening import AnyStudy
    from bestarm.storage.base import Pending


@study_command(place=150)
def fail(
    name: StudyName,
    test: TestNumber,
    reason: Reason = "",
    worker: Worker = None,
    token: Token = None,
    db: Database = None,
) -> None:
    """Say that an attempt at a test failed, for a reason that has nothing to do with its result: it is made again."""
    from bestarm.study.intake.names import read_test

    number = read_test(test)
    study = open_study(name, db, worker, token)
    held = _pending(study, number)
    study.fail(number, check_text("reason", reason))
    if held is None:
        said = f"Noted. Test {number} has its result already."
    elif _pending(study, number) == held and held.expires > 0.0:
        said = f"Noted. Test {number} is with {held.holder} by now, and stays there."
    else:
        said = f"Noted. Test {number} will be handed out again."
    plain_console().print(shown(said), soft_wrap=True)


def _pending(study: AnyStudy, number: int) -> Pending | None:
    return next((row for test, row in study.pending() if test.id == number), None)
