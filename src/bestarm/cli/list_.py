"""`bestarm list`: the studies of a database."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from bestarm.cli.shared.arguments import AsJson, Database
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.show import age, new_table, percent, plain_console, print_json, state_words
from bestarm.errors import InvalidInput
from bestarm.texts import VOID_STYLE, shown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bestarm.storage.base import Storage, StudyRecord
    from bestarm.study import Status

_FIELDS = ("state", "answer", "leader", "guarantee", "void_because", "confidence", "tests")


@study_command(place=120)
def list_(
    show_all: Annotated[bool, typer.Option("--all", help="Archived studies too.")] = False,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """List the studies: their state, tests and leader."""
    from bestarm.storage.opening import open_storage

    storage = open_storage(db)
    rows = [_Listed.of(storage, record) for record in storage.studies() if show_all or record.archived is None]
    if as_json:
        print_json([row.to_dict() for row in rows])
        return
    console = plain_console()
    if not rows:
        console.print(f"No studies in {shown(storage.url)}{'' if show_all else '; --all lists archived ones too'}.")
        return
    table = new_table("study", "state", "tests", "leader", "evidence", "age", right=("tests", "evidence"))
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)


@dataclasses.dataclass(frozen=True)
class _Listed:
    record: StudyRecord
    status: Status | None
    error: str = ""

    @classmethod
    def of(cls, storage: Storage, record: StudyRecord) -> _Listed:
        from bestarm.storage.errors import StorageError
        from bestarm.study import Study

        try:
            return cls(record, Study(storage, record).status())
        except StorageError:
            raise
        except InvalidInput as error:
            # One study that needs a policy not installed here must not hide the others.
            return cls(record, None, str(error))
        except Exception as error:  # nor must one whose record is damaged in an unexpected way
            return cls(record, None, f"study = {record.name!r}: cannot be computed: {type(error).__name__}: {error}")

    def to_dict(self) -> dict[str, Any]:
        from bestarm.study.files.exchange import iso_time

        record, status = self.record, self.status
        known = {field: getattr(status, field, None) for field in _FIELDS}
        return {
            "study": record.name,
            **known,
            "void_because": list(known["void_because"] or ()),
            "created": iso_time(record.created),
            "archived": None if record.archived is None else iso_time(record.archived),
            "error": self.error or None,
        }

    def cells(self) -> list[RenderableType]:
        name, old = shown(self.record.name), age(time.time() - self.record.created)
        away = "" if self.record.archived is None else ", archived"
        if self.status is None:
            return [name, f"cannot be read{away}", "", shown(self.error), "", old]
        status = self.status
        style = VOID_STYLE if status.guarantee == "void" else ""
        state = Text(state_words(status.state, status.guarantee) + away, style=style)
        return [name, state, f"{status.tests:,}", shown(status.leader or "–"), percent(status.progress), old]
