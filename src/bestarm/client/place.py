"""Where a study on a server is kept: in which project, and whether it is put away."""

from __future__ import annotations

import abc
from typing import Any

from bestarm.client.connection import Connection
from bestarm.storage.projects import DEFAULT_PROJECT, check_project


class RemotePlace(abc.ABC):
    """The part of `RemoteStudy` that says where it is kept, and moves it."""

    _connection: Connection
    id: int

    @abc.abstractmethod
    def _status(self) -> dict[str, Any]:
        """The status as the service returns it."""

    @property
    def project(self) -> str:
        """The project that the study belongs to."""
        # A service of an earlier version has none.
        return str(self._status().get("project", DEFAULT_PROJECT))

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
