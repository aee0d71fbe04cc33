"""`bestarm archive`: put a study away."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.shared.arguments import Database, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import check_text, whoami
from bestarm.cli.shared.show import plain_console, shown


@study_command(place=240)
def archive(
    name: StudyName,
    undo: Annotated[bool, typer.Option("--undo", help="Bring it back.")] = False,
    db: Database = None,
) -> None:
    """Put a study away: it can be read and not changed."""
    from bestarm.storage.opening import open_storage
    from bestarm.study.record.checks import find_record

    storage = open_storage(db)
    # The study is not opened, so that one that cannot be read can be put away too.
    record = find_record(storage, check_text("study", name))
    storage.archive(record.key, whoami(), undo=undo)
    said = "is back" if undo else "is archived; `bestarm archive --undo` brings it back"
    plain_console().print(f"{shown(record.name)} {said}.", soft_wrap=True)
