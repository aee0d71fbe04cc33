"""`bestarm log --audit`: who did what, a line for each request."""

from __future__ import annotations

from typing import Any, NamedTuple

from bestarm.cli.shared.opening import Place
from bestarm.cli.shared.show import moment, new_table, plain_console, print_rows
from bestarm.errors import UNSTATED, InvalidInput
from bestarm.storage.audit import AuditLine, in_ranges
from bestarm.storage.opening import open_storage
from bestarm.study.files.exchange import iso_time
from bestarm.texts import shown


class _Line(NamedTuple):
    """A line, and what it is about: a study, or the name of a token."""

    study: str | None
    token: str | None
    line: AuditLine


def print_audit(name: str | None, place: Place, last: int | None, *, as_json: bool, json_lines: bool) -> None:
    """Print the audit of a study, or of all studies and tokens of a database."""
    if last is not None and last < 0:
        raise InvalidInput("last", last, "must be a whole number from 0 on")
    if name is None:
        if place.client() is not None:
            raise InvalidInput("--audit", UNSTATED, "of all studies needs their database; name a STUDY")
        found = _of_all(place.db)
    else:
        found = [_Line(name, None, line) for line in place.open(name).audit()]
    found = found if last is None else found[len(found) - min(last, len(found)) :]
    if as_json or json_lines:
        print_rows(map(_row, found), json_lines=json_lines)
        return
    heads = ["of"] if name is None else []
    table = new_table("time", *heads, "what", "who", "tests", "detail")
    for one in found:
        of = [shown(one.study or one.token or "")] if heads else []
        line = one.line
        table.add_row(moment(line.time), *of, line.kind, shown(line.who), in_ranges(line.tests), shown(line.detail))
    plain_console().print(table)


def _of_all(db: str | None) -> list[_Line]:
    storage = open_storage(db)
    found = []
    for act in storage.acts():
        study, token = (None, act.subject) if act.kind.startswith("token") else (act.subject, None)
        found.append(_Line(study, token, AuditLine(act.time, act.kind, act.who, (), act.detail)))
    for record in storage.studies():
        found += [_Line(record.name, None, line) for line in storage.audit(record.key)]
    return sorted(found, key=lambda one: one.line.time)


def _row(one: _Line) -> dict[str, Any]:
    line = one.line
    row: dict[str, Any] = {"time": iso_time(line.time), "study": one.study, "event": line.kind, "who": line.who or None}
    return row | {"tests": line.tests, "token": one.token, "detail": line.detail}
