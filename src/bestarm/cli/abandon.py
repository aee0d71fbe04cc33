"""`bestarm abandon`: give a test up."""

from __future__ import annotations

from bestarm.cli.shared.arguments import Database, Reason, StudyName, TestNumber, Token, Worker
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import check_text, open_study
from bestarm.cli.shared.show import plain_console


@study_command(place=170)
def abandon(
    name: StudyName,
    test: TestNumber,
    reason: Reason = "",
    worker: Worker = None,
    token: Token = None,
    db: Database = None,
) -> None:
    """Give a test up, for a reason that has nothing to do with its result."""
    from bestarm.study.intake.names import read_test

    number = read_test(test)
    open_study(name, db, worker, token).abandon(number, check_text("reason", reason))
    plain_console().print(f"Test {number} is given up; its result is no longer expected.", soft_wrap=True)
