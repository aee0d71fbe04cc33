"""Whole files to and from a service: results in CSV, and the record of a study, which is read from a copy; and where it
is kept."""

from __future__ import annotations

import abc
import contextlib
import io
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from bestarm.analysis.standing.knowledge import Moment
from bestarm.client.connection import Connection
from bestarm.storage.keys import check_key, new_key
from bestarm.storage.opening import open_storage
from bestarm.storage.projects import check_project
from bestarm.study.files.backup import restore_backup
from bestarm.study.files.exchange import Recorded
from bestarm.study.study import Study

if TYPE_CHECKING:
    import pandas as pd


class FileTransfer(abc.ABC):
    """The methods of a study on a server that send or fetch a whole file, or move it."""

    _connection: Connection
    id: int

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The study's name."""

    @property
    @abc.abstractmethod
    def holder(self) -> str:
        """The name under which tests are held."""

    @abc.abstractmethod
    def _status(self) -> dict[str, Any]:
        """The status as the service returns it."""

    @abc.abstractmethod
    def _advising(self, key: str | None) -> contextlib.AbstractContextManager[None]:
        """If it is not known whether something was done, say how to repeat it."""

    def tell_csv(
        self,
        data: bytes,
        *,
        key: str | None = None,
        check_far: bool = False,
        ignore: Collection[str] = (),
        past: bool = False,
        once: bool = True,
        columns: Mapping[str, str] | None = None,
    ) -> Recorded:
        """Record the results of a CSV file or an Excel workbook, all or none, as `bestarm tell --from` does. The same
        file counts once. `ignore` names columns to leave out, which the study does not know.

        With `past` it is as `bestarm import` does: the tests of an export become new ones, `columns` says what columns
        mean, and without `once` the same file counts again.
        """
        flags = {"check_far": check_far, "past": past, "again": past and not once}
        asked: dict[str, Any] = {"holder": self.holder, "ignore": [*ignore]}
        asked |= {"map": [f"{column}={meaning}" for column, meaning in (columns or {}).items()]}
        asked |= {name: "true" for name, is_set in flags.items() if is_set}
        path = f"/api/studies/{self.id}/csv?{urlencode(asked, doseq=True)}"
        key = new_key() if key is None else check_key(key)
        with self._advising(key):
            told = self._connection.post_csv(path, data, key=key)
        return Recorded(told["told"], skipped=told.get("skipped", 0), known=told.get("known", 0))

    def backup(self) -> bytes:
        """Everything of the study in a file, as `bestarm export --all` writes it."""
        file = io.BytesIO()
        self._connection.get_file(f"/api/studies/{self.id}/backup", file)
        return file.getvalue()

    def copy(self) -> Study:
        """The study as it is now, in this process's memory: for all that reads the whole record. What is done to the
        copy does not reach the service."""
        storage = open_storage(":memory:", create=True)
        restore_backup(storage, io.BytesIO(self.backup()), repr(self))
        return Study.open(self.name, storage=storage)

    def frame(self, *, wide: bool = False) -> pd.DataFrame:
        """Every result as a pandas data frame, as `Study.frame` has it."""
        return self.copy().frame(wide=wide)

    def course(self, points: int = 100) -> list[Moment]:
        """How the study went, as `Study.course` has it."""
        return self.copy().course(points)

    def items_left(self, arm: str) -> list[str]:
        """The items that some test of the arm has no result for yet, as `Study.items_left` has them."""
        return self.copy().items_left(arm)

    def report(self, file: str | os.PathLike[str], *, note: str = "", forecast: bool = True) -> None:
        """Write the report, as `Study.report` does."""
        self.copy().report(file, note=note, forecast=forecast)

    @property
    def project(self) -> str:
        """The project that the study belongs to."""
        return str(self._status()["project"])

    def move(self, project: str) -> None:
        """Put the study into another project. It takes the role manage in both."""
        self._connection.post(f"/api/studies/{self.id}/move", {"project": check_project(project)})

    @property
    def archived(self) -> float | None:
        """When the study was put away, in seconds since 1970; None if it is not."""
        when: float | None = self._status()["archived"]
        return when

    def archive(self, *, undo: bool = False) -> None:
        """Put the study away: it can be read and not changed."""
        self._connection.post(f"/api/studies/{self.id}/archive", {"undo": undo})
