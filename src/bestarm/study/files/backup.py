"""Backup and restore: a file with everything that a database keeps of a study, or of all its studies.

The file of a study is lines of JSON: what it is, then for each table its columns and its rows, and last how many rows
there are and the digest of all lines before. Times, corrections, amendments, pending tests, keys of requests and the
log are in it, so that a restored study goes on as the old one would have. Equal studies have equal files, in whichever
database. The file of all studies has their files, between a first and a last line of its own.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO, NamedTuple, Protocol

from bestarm.problem import Plan
from bestarm.storage.base import Part, Storage, StudyRecord
from bestarm.storage.errors import NameTaken
from bestarm.storage.projects import DEFAULT_PROJECT, check_project
from bestarm.study.record.checks import UnreadableStudy, read_plan
from bestarm.validation import InvalidInput

FORMAT = 1
_ONE, _ALL = "bestarm study", "bestarm studies"
_BATCH = 5_000
_LONGEST_LINE = 2**28
_MOST_REVISIONS = 10**9
"""So that there is room for more."""

_LONG = 2**20
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_NUMBER = "number"
"""JSON has no infinite numbers. One is an object with this field."""


class Backup(NamedTuple):
    """What the file of a study holds: its name, how many rows, and the digest that identifies the file."""

    name: str
    rows: int
    digest: str


class BackupOfAll(NamedTuple):
    """What the file of all studies holds, and the digest that identifies it."""

    studies: list[Backup]
    rows: int
    digest: str


class Restored(NamedTuple):
    """What came of restoring a file."""

    studies: list[Backup]
    """Those that were restored."""
    there: list[str]
    """From a file of all studies: those whose names were taken. What was there stays as it is."""
    differ: list[str]
    """Those among them whose record is not that of the file."""


class _Out(Protocol):
    def write(self, text: str, /) -> object: ...


class _Signed:
    """Lines that end with their digest."""

    def __init__(self, out: _Out) -> None:
        self._out, self._whole = out, hashlib.sha256()

    def write(self, text: str, /) -> None:
        self._whole.update(text.encode())
        self._out.write(text)

    def line(self, data: Any) -> None:
        self.write(json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n")

    def end(self, **counts: int) -> str:
        digest = f"sha256:{self._whole.hexdigest()}"
        self._out.write(json.dumps({**counts, "digest": digest}) + "\n")
        return digest


def write_backup(storage: Storage, record: StudyRecord, out: _Out) -> Backup:
    """Write everything of a study, as it is at one moment."""
    file, rows, table = _Signed(out), 0, ""
    with storage.snapshot():
        file.line({"kind": _ONE, "format": FORMAT, "name": record.name})
        for part in storage.dump(record.key):
            if part.table != table:
                table = part.table
                file.line({"table": table, "columns": part.columns})
            for row in part.rows:
                file.line([{_NUMBER: str(value)} if value in (math.inf, -math.inf) else value for value in row])
            rows += len(part.rows)
    return Backup(record.name, rows, file.end(rows=rows))


def write_backup_of_all(storage: Storage, out: _Out) -> BackupOfAll:
    """Write everything of all studies, as they are at one moment."""
    file = _Signed(out)
    with storage.snapshot():
        file.line({"kind": _ALL, "format": FORMAT})
        made = [write_backup(storage, record, file) for record in storage.studies()]
    rows = sum(each.rows for each in made)
    return BackupOfAll(made, rows, file.end(studies=len(made), rows=rows))


def restore_backup(
    storage: Storage,
    file: BinaryIO,
    called: str,
    *,
    name: str | None = None,
    project: str | None = None,
    by: str = "",
) -> Restored:
    """Restore what is in a file: all of it, or nothing. `by` is who does it, for the audit.

    The study in the file of one is restored under another `name` if that is given. Of a file of all studies, those
    whose names are taken are left out. With a `project`, all are restored into that one. `file` is read twice: it is
    checked as a whole before anything is written.
    """
    if project is not None:
        check_project(project)
    held = check_backup(file, called)
    is_of_all = isinstance(held, BackupOfAll)
    studies = held.studies if isinstance(held, BackupOfAll) else [held]
    if is_of_all and name is not None:
        raise InvalidInput("name", name, f"is for the file of one study; {called} has all studies of a database")
    there = [one.name for one in studies if is_of_all and storage.find_study(one.name) is not None]
    taken = set(there)
    new = [one for one in studies if one.name not in taken]
    file.seek(0)
    try:
        if new:
            storage.restore(_changed(_parts(file, taken), [one.name for one in new], name, project), by=by)
    except NameTaken:
        raise
    except InvalidInput as error:
        if error.field == "storage":
            raise
        raise InvalidInput(f"{called}: cannot be restored: {error}") from None
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        records = (storage.find_study(name) for name in there)
        same = {write_backup(storage, record, nowhere) for record in records if record is not None}
    made = [one if name is None else one._replace(name=name) for one in new]
    return Restored(made, there, [one.name for one in studies if one.name in taken and one not in same])


def check_backup(file: BinaryIO, called: str) -> Backup | BackupOfAll:
    """What is in a file. `InvalidInput` if that is no backup, or not complete."""
    whole = hashlib.sha256()

    def read() -> Iterator[bytes]:
        for line in _lines(file):
            yield line
            # So that it is the digest of all lines before.
            whole.update(line)

    lines = read()
    head = next(lines, None)
    if head is None:
        raise InvalidInput(f"{called}: is empty")
    if _read_head(head, called, (_ONE, _ALL)) == _ONE:
        found: Backup | BackupOfAll = _check_study(head, lines, called)
    else:
        studies: list[Backup] = []
        for line in lines:
            if not line.endswith(b"\n"):
                raise _not_complete(called)
            if line.startswith(b'{"studies"'):
                rows = sum(one.rows for one in studies)
                found = BackupOfAll(studies, rows, _check_end(line, whole, called, studies=len(studies), rows=rows))
                break
            studies.append(_check_study(line, lines, called))
        else:
            raise _not_complete(called)
    if next(lines, None) is not None:
        raise InvalidInput(f"{called}: is damaged: something follows its last line; nothing was restored")
    return found


def _check_study(head: bytes, lines: Iterator[bytes], called: str) -> Backup:
    """Check the lines of a study, up to its last."""
    _read_head(head, called, (_ONE,))
    own, rows = hashlib.sha256(head), 0
    for line in lines:
        if line.startswith(b'{"rows"'):
            return Backup(str(json.loads(head)["name"]), rows, _check_end(line, own, called, rows=rows))
        own.update(line)
        rows += line.startswith(b"[")
    raise _not_complete(called)


def _check_end(line: bytes, before: hashlib._Hash, called: str, **counts: int) -> str:
    """The digest in the last line, which must be that of the lines before, and state how many they are."""
    try:
        # Without the end of its line, it may be a part of a longer one.
        end = json.loads(line if line.endswith(b"\n") else b"")
        digest = str(end["digest"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _not_complete(called) from None
    if digest != f"sha256:{before.hexdigest()}":
        raise InvalidInput(f"{called}: is damaged: its digest is not the one in its last line; nothing was restored")
    if end != counts | {"digest": digest}:
        raise InvalidInput(f"{called}: is damaged: its last line miscounts those before it; nothing was restored")
    return digest


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines, a longer one in pieces, which make no sense."""
    return iter(lambda: file.readline(_LONGEST_LINE), b"")


def _not_complete(called: str) -> InvalidInput:
    return InvalidInput(f"{called}: is not complete: its last line, with the digest, is missing; nothing was restored")


def _read_head(line: bytes, called: str, kinds: Collection[str]) -> str:
    """What a file, or a part of it, is by its first line."""
    try:
        head = json.loads(line)
        kind, version = str(head["kind"]), head["format"]
        if kind == _ONE:
            head["name"]
    except (ValueError, TypeError, KeyError, RecursionError):
        kind = ""
    if kind not in kinds:
        raise InvalidInput(f"{called}: is not a backup; `bestarm export STUDY --all`, or without STUDY, makes one")
    if version != FORMAT:
        raise InvalidInput(f"{called}: was written by another version of bestarm (its format is {version!r:.20})")
    return kind


def _parsed(line: bytes) -> Any:
    """The data of a line. A long one has long texts; one of many values would take many times its size in memory."""
    if len(line) > _LONG and len(_TEXT.sub(b"", line)) > _LONG:
        raise ValueError("too many values")
    return json.loads(line)


def _parts(file: BinaryIO, left_out: Collection[str]) -> Iterator[Part]:
    """The content of a complete file, without the studies of these names."""
    table: str | None = None
    columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = []
    is_left_out = False
    for line in _lines(file):
        if is_left_out and not line.startswith(b'{"kind"'):
            continue
        try:
            data = _parsed(line)
            new: tuple[str | None, tuple[str, ...]] | None = None
            if isinstance(data, list):
                rows.append(tuple(float(value[_NUMBER]) if isinstance(value, dict) else value for value in data))
            elif "kind" in data:
                new, is_left_out = (None, ()), data.get("name") in left_out
            elif "digest" not in data:
                new = str(data["table"]), tuple(map(str, data["columns"]))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise InvalidInput(f"a line makes no sense ({type(error).__name__}): {line[:80]!r}") from None
        if rows and (not isinstance(data, list) or len(rows) >= _BATCH):
            if table is None:
                raise InvalidInput("a row comes before its table")
            yield Part(table, columns, rows)
            rows = []
        if new is not None:
            table, columns = new


def _changed(parts: Iterator[Part], names: list[str], name: str | None, project: str | None) -> Iterator[Part]:
    """The same with a study of another name, or in another project.

    Plans and projects are checked in any case, and that there are studies of `names`.
    """
    found = []
    for part in parts:
        if part.table != "studies":
            yield part
            continue
        # Earlier versions wrote none.
        columns = part.columns if "project" in part.columns else (*part.columns, "project")
        rows = []
        for row in part.rows:
            data = dict(zip(part.columns, row, strict=False))
            data["project"] = check_project(data.get("project", DEFAULT_PROJECT) if project is None else project)
            numbers: dict[str, Any] = {
                field: data.get(field) for field in ("seed", "created", "archived", "items_seed")
            }
            record = StudyRecord(0, str(data.get("name")), str(data.get("plan")), revision=0, **numbers)
            try:
                plan = read_plan(record)
            except UnreadableStudy as error:
                raise InvalidInput(str(error)) from None
            if plan.name != record.name:
                raise InvalidInput("name", record.name, f"is not the name in its plan, {plan.name!r}")
            if not 0 <= int(data["revision"]) <= _MOST_REVISIONS:
                raise InvalidInput("revision", data["revision"], f"must be from 0 to {_MOST_REVISIONS:,}")
            found.append(record.name)
            if name is not None:
                data |= {"name": name, "plan": Plan.of(plan, name=name).to_json()}
            rows.append(tuple(data.values()))
        yield part._replace(columns=columns, rows=rows)
    if found != names:
        raise InvalidInput("there is no study of the name that a first line states")
