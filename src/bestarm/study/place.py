"""Where a study is kept: in which project, and whether it is put away."""

from __future__ import annotations

from bestarm.storage.projects import check_project
from bestarm.study.asking import Asking


class Placed(Asking):
    """The part of `Study` that says where it is kept, and moves it."""

    @property
    def project(self) -> str:
        """The project that the study belongs to."""
        with self._lock:
            self._look()
        return self._record.project

    def move(self, project: str) -> None:
        """Put the study into another project, whether or not there are studies in it."""
        self._storage.move(self._record.key, check_project(project), self.holder)
        with self._lock:
            self._look()

    def archive(self, *, undo: bool = False) -> None:
        """Put the study away: it can be read but not changed."""
        self._storage.archive(self._record.key, self.holder, undo=undo)
        with self._lock:
            self._look()
