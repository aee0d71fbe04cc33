"""Backup and restore of one study: a file with everything that a database keeps of it, and a digest at its end.

The file is lines of JSON: what it is, then for each table its columns and its rows, and last how many rows there are
and the digest of all lines before. Times, corrections, amendments, pending tests, keys of requests and the log are in
it, so that a restored study goes on as the old one would have. Equal studies have equal files, in whichever database.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, TextIO

from bestarm.problem import Plan
from bestarm.storage.base import Part, Storage, StudyRecord
from bestarm.storage.errors import NameTaken
from bestarm.study.record.checks import UnreadableStudy, read_plan
from bestarm.validation import InvalidInput

FORMAT = 1
_KIND = "bestarm study"
_BATCH = 5_000
_LONGEST_LINE = 2**30
_NUMBER = "number"
"""JSON has no infinite numbers. One is an object with this field."""


class Backup(NamedTuple):
    """What a file holds: a study's name, how many rows, and the digest that identifies the file."""

    name: str
    rows: int
    digest: str


def write_backup(storage: Storage, record: StudyRecord, out: TextIO) -> Backup:
    """Write everything of a study, as it is at one moment."""
    whole = hashlib.sha256()

    def write(data: Any) -> None:
        line = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
        whole.update(line.encode())
        out.write(line)

    rows, table = 0, ""
    with storage.snapshot():
        write({"kind": _KIND, "format": FORMAT, "name": record.name})
        for part in storage.dump(record.key):
            if part.table != table:
                table = part.table
                write({"table": table, "columns": part.columns})
            for row in part.rows:
                write([{_NUMBER: str(value)} if value in (math.inf, -math.inf) else value for value in row])
            rows += len(part.rows)
    digest = f"sha256:{whole.hexdigest()}"
    out.write(json.dumps({"rows": rows, "digest": digest}) + "\n")
    return Backup(record.name, rows, digest)


def restore_backup(storage: Storage, file: BinaryIO, called: str, *, name: str | None = None) -> Backup:
    """Restore the study in a file, under another `name` if that is given; all of it, or nothing.

    `file` is read twice: it is checked as a whole before anything is written.
    """
    backup = _check_whole(file, called)
    file.seek(0)
    try:
        storage.restore(_renamed(_parts(file), name))
    except NameTaken as error:
        raise NameTaken(f"{error}; --as NAME restores it under another") from None
    except InvalidInput as error:
        if error.field == "storage":
            raise
        raise InvalidInput(f"{called}: cannot be restored: {error}") from None
    return backup if name is None else backup._replace(name=name)


def _check_whole(file: BinaryIO, called: str) -> Backup:
    """Check that the file is a backup, and complete."""
    whole = hashlib.sha256()
    count, last, name = 0, b"", ""
    for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
        if not count:
            name = _read_head(line, called)
        else:
            whole.update(last)
        count, last = count + 1, line
    if not count:
        raise InvalidInput(f"{called}: is empty")
    try:
        # Without the end of its line, it may be a part of a longer one.
        end = json.loads(last if last.endswith(b"\n") else b"")
        rows, digest = int(end["rows"]), str(end["digest"])
    except (ValueError, TypeError, KeyError):
        raise InvalidInput(
            f"{called}: is not complete: its last line, with the digest, is missing; nothing was restored"
        ) from None
    if digest != f"sha256:{whole.hexdigest()}":
        raise InvalidInput(f"{called}: is damaged: its digest is not the one in its last line; nothing was restored")
    return Backup(name, rows, digest)


def _read_head(line: bytes, called: str) -> str:
    try:
        head = json.loads(line)
        kind, version, name = head["kind"], head["format"], head["name"]
    except (ValueError, TypeError, KeyError, RecursionError):
        kind = version = name = None
    if kind != _KIND:
        raise InvalidInput(f"{called}: is not a backup of a study; `bestarm export STUDY --all` makes one")
    if version != FORMAT:
        raise InvalidInput(f"{called}: was written by another version of bestarm (its format is {version!r:.20})")
    return str(name)


def _parts(file: BinaryIO) -> Iterator[Part]:
    """The content of a complete file."""
    table: str | None = None
    columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = []
    file.readline()
    for line in file:
        try:
            data = json.loads(line)
            if isinstance(data, list):
                rows.append(tuple(float(value[_NUMBER]) if isinstance(value, dict) else value for value in data))
                new = None
            else:
                new = None if "digest" in data else (str(data["table"]), tuple(map(str, data["columns"])))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InvalidInput(f"a line makes no sense ({type(error).__name__}): {line[:80]!r}") from None
        if rows and (not isinstance(data, list) or len(rows) >= _BATCH):
            if table is None:
                raise InvalidInput("a row comes before its table")
            yield Part(table, columns, rows)
            rows = []
        if new is not None:
            table, columns = new


def _renamed(parts: Iterator[Part], name: str | None) -> Iterator[Part]:
    """The same with a study of another name. Its plan is checked in any case."""
    for part in parts:
        if part.table != "studies":
            yield part
            continue
        rows = []
        for row in part.rows:
            data = dict(zip(part.columns, row, strict=False))
            record = StudyRecord(0, str(data.get("name")), str(data.get("plan")), 0, 0.0, None, 0)
            try:
                plan = read_plan(record)
            except UnreadableStudy as error:
                raise InvalidInput(str(error)) from None
            if name is not None:
                data |= {"name": name, "plan": Plan.of(plan, name=name).to_json()}
            rows.append(tuple(data.values()))
        yield part._replace(rows=rows)
