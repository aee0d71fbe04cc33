"""Studies on a server, used like local ones: `Client` finds them, `RemoteStudy` has the methods of `bestarm.Study`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any, BinaryIO

from bestarm.client.answers import ProjectLine, StudyLine, read
from bestarm.client.connection import Connection, Unanswered
from bestarm.client.remote import RemoteStudy
from bestarm.parsing import read_json
from bestarm.problem import Budget, Plan, Problem
from bestarm.storage.audit import AuditEntry
from bestarm.storage.keys import new_key
from bestarm.study.files.backup import Backup, Restored
from bestarm.study.record.seeds import check_seeds
from bestarm.validation import NotFound, Parameter

_PAGE = 500
"""Studies that are asked for at a time."""


class Client:
    """The studies of a service at `url`, such as http://127.0.0.1:8000. Threads may share one.

    What the service refuses is `InvalidInput`, as if the study were here; if the service or its
    database cannot be reached, it is `StorageError`. `ca_file` has the certificate of an authority that this machine
    does not trust by itself.
    """

    def __init__(
        self, url: str, token: str | None = None, *, timeout: float = 60.0, ca_file: str | None = None
    ) -> None:
        self._connection = Connection(url, token, timeout, ca_file)

    @property
    def url(self) -> str:
        return self._connection.url

    def __repr__(self) -> str:
        return f"<bestarm.client.Client of {self.url!r}>"

    def close(self) -> None:
        """Close connections; the next use opens new ones."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def studies(self, *, archived: bool = False, project: str | None = None) -> list[StudyLine]:
        """All studies, or those of a project, the newest first; with `archived`, the archived ones too."""
        lines: list[StudyLine] = []
        stated = {} if project is None else {"project": project}
        while True:
            before = {"before": lines[-1].id} if lines else {}
            page = self._lines(archived=archived, limit=_PAGE, **stated, **before)
            lines += page
            if len(page) < _PAGE:
                return lines

    def projects(self) -> list[ProjectLine]:
        """The projects that the token may see, by name, with its role in each and the numbers of their studies."""
        return [read(ProjectLine, row) for row in self._connection.get("/api/projects")]

    def _lines(self, *, archived: bool, **query: Any) -> list[StudyLine]:
        query |= {"archived": "true" if archived else "false"}
        rows = self._connection.get("/api/studies", query)
        return [read(StudyLine, row) for row in rows]

    def create(
        self,
        problem: Problem,
        *,
        name: str | None = None,
        delta: float | None = None,
        policy: str | None = None,
        options: Mapping[str, Parameter] | None = None,
        seed: int | None = None,
        items_seed: int | None = None,
        budget: float | Budget | None = None,
        holder: str | None = None,
        project: str | None = None,
    ) -> RemoteStudy:
        """A new study of `problem`; the options are those of `Study.create`.

        Without a `project` it belongs to the token's only one, or else to the default project.
        """
        plan = Plan.of(problem, delta=delta, name=name, policy=policy, options=options, budget=budget)
        check_seeds(plan, seed, items_seed)
        stated = {"seed": seed, "items_seed": items_seed, "project": project}
        body = {"plan": plan.to_data()} | {name: each for name, each in stated.items() if each is not None}
        row = self._connection.post("/api/studies", body, key=new_key())
        return RemoteStudy(self._connection, row["id"], plan, holder=holder)

    def open(self, name: str, *, holder: str | None = None) -> RemoteStudy:
        """The study of that name."""
        number = self._find(name)
        status = self._connection.get(f"/api/studies/{number}")
        return RemoteStudy(self._connection, number, Plan.from_record(status["plan"]), holder=holder)

    def _find(self, name: str) -> int:
        """The number of the study of that name."""
        for line in self._lines(archived=True, name=name):
            return line.id
        there = [line.name for line in self._lines(archived=True, limit=11)]
        listed = ", ".join(map(repr, there[:10])) + (" and more" if len(there) > 10 else "")
        reason = f"no such study in {self.url!r}; there {'are ' + listed if there else 'is none'}"
        raise NotFound("study", name, reason)

    def backup(self, file: BinaryIO, name: str | None = None) -> None:
        """Write everything of all studies to an empty file, or of the study of that name, as `bestarm export --all`."""
        path = "/api/backup" if name is None else f"/api/studies/{self._find(name)}/backup"
        self._connection.get_file(path, file)

    def restore(self, file: BinaryIO, name: str | None = None, *, project: str | None = None) -> Restored:
        """Restore a file of one study, under another `name` if that is given, or of all studies: all of it, or nothing.

        Of all studies, those whose names are taken are left out. With a `project`, all are restored into that one.
        """
        # Better refused now than when a large file has been sent.
        self._connection.get("/api/session")
        try:
            stated = {key: value for key, value in (("name", name), ("project", project)) if value is not None}
            done = self._connection.post_file("/api/backup", file, stated)
        except Unanswered as error:
            raise error.advised("the list of studies says whether they are there") from None
        return Restored([Backup(**one) for one in done["studies"]], done["there"], done["differ"])

    def audit(self) -> list[AuditEntry]:
        """Who did what in all studies and with tokens, the oldest first."""
        with tempfile.TemporaryFile() as file:
            self._connection.get_file("/api/audit", file)
            file.seek(0)
            return [AuditEntry.from_dict(read_json(line)) for line in file]

    def delete(self, name: str) -> None:
        """Remove the archived study of that name and all its results, for good."""
        self._connection.post(f"/api/studies/{self._find(name)}/delete", {"name": name})
