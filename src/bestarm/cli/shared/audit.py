"""`bestarm log --audit`: who did what, a line for each request."""

from __future__ import annotations

import sys
from typing import Any

from bestarm.cli.shared.opening import Place, saying_how_to_give_a_token
from bestarm.cli.shared.show import moment, new_table, plain_console, print_rows
from bestarm.errors import InvalidInput
from bestarm.storage.audit import AuditEntry, in_ranges
from bestarm.storage.opening import open_storage
from bestarm.study.files.exchange import iso_time
from bestarm.texts import shown

MOST_LINES = 1_000
"""Making a table of all lines of a large audit would take minutes."""


def print_audit(name: str | None, place: Place, last: int | None, *, as_json: bool, json_lines: bool) -> None:
    """Print the audit of a study, or of all studies and tokens."""
    if last is not None and last < 0:
        raise InvalidInput("last", last, "must be a whole number from 0 on")
    if name is not None:
        found = [AuditEntry(name, None, line) for line in place.open(name).audit()]
    elif (client := place.client()) is not None:
        with saying_how_to_give_a_token():
            found = client.audit()
    else:
        found = open_storage(place.db).audit_of_all()
    is_table = not (as_json or json_lines)
    if is_table and last is None and len(found) > MOST_LINES:
        said = f"the newest {MOST_LINES:,} of {len(found):,} lines; --last N shows more, --json-lines all"
        print(said, file=sys.stderr)
        last = MOST_LINES
    found = found if last is None else found[len(found) - min(last, len(found)) :]
    if not is_table:
        print_rows(map(_row, found), json_lines=json_lines)
        return
    heads = ["of"] if name is None else []
    table = new_table("time", *heads, "what", "who", "tests", "detail")
    for one in found:
        of = [shown(one.study or one.token or "")] if heads else []
        line = one.line
        table.add_row(moment(line.time), *of, line.kind, shown(line.who), in_ranges(line.tests), shown(line.detail))
    plain_console().print(table)


def _row(one: AuditEntry) -> dict[str, Any]:
    line = one.line
    row: dict[str, Any] = {"time": iso_time(line.time), "study": one.study, "event": line.kind, "who": line.who or None}
    return row | {"tests": line.tests, "token": one.token, "detail": line.detail}
