"""Results in files: reading them from CSV, and writing a whole study as CSV or JSON.

What is read is taken in whole or not at all, and every line that cannot be accepted is named. An export read into a new
study of the same plan gives the same answer: results keep their order, and their rounds.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import json
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, NamedTuple, TextIO

from bestarm.study.sheet import COLUMNS, Complaints, Sheet, read_test, read_value, short
from bestarm.study.storage import Told
from bestarm.study.study import Study, Test
from bestarm.study.values import check_value
from bestarm.validation import LONGEST_NAME, InvalidInput

# ------------------------------------------------------------------------------------------------------- reading


class NewResults(NamedTuple):
    """Results (arm, metric, value) measured without asking; `ends` has the places of those that ended a round."""

    results: list[tuple[str, str, float]]
    ends: Collection[int]
    skipped: int
    """Lines of an export without a value: tests given up, or not yet told."""


def read_new_results(study: Study, sheet: Sheet) -> NewResults:
    """The results of a file with the columns arm, metric, value."""
    sheet.need("arm", "metric", "value")
    exported = {"test", "told"} <= set(sheet.columns)
    parts = {part.metric: part for part in study.plan.parts}
    complaints, listed = Complaints(sheet.name), False
    results: list[tuple[str, str, float]] = []
    ends: set[int] = set()
    skipped, last_round = 0, None
    for number, fields in sheet.lines(complaints):
        arm, metric, value = fields["arm"], fields["metric"], fields["value"]
        if exported and not value:
            skipped += 1
            continue
        try:
            _check_name("arm", arm)
            _check_name("metric", metric)
            study.arm_number(arm)
            study.metric_number(metric)
            row = arm, metric, check_value(parts[metric], read_value(value))
        except InvalidInput as error:
            reason = str(error)
            if "; there are " in reason:
                # To list the choices once is enough.
                reason = reason.split("; there are ")[0] if listed else reason
                listed = True
            complaints.add(number, reason)
            continue
        if results and fields.get("round") != last_round:
            ends.add(len(results) - 1)
        last_round = fields.get("round")
        results.append(row)
    complaints.check()
    return NewResults(results, ends, skipped)


def _check_name(field: str, name: str) -> None:
    if not name:
        raise InvalidInput(f"{field}: is missing")
    if len(name) > LONGEST_NAME:
        raise InvalidInput(f"{field} = {short(name)}: no such {field}")


def read_told(study: Study, sheet: Sheet) -> list[tuple[Test | int, float]]:
    """The results of a file with the columns test, value, and perhaps arm and metric to be checked against the test."""
    sheet.need("test", "value")
    complaints = Complaints(sheet.name)
    results: list[tuple[Test | int, float]] = []
    lines: dict[int, int] = {}
    for number, fields in sheet.lines(complaints):
        try:
            test = read_test(fields["test"])
            if test in lines:
                raise InvalidInput(f"test = {test}: is on line {lines[test]} too")
            lines[test] = number
            results.append((test, _checked_result(study, test, fields)))
        except InvalidInput as error:
            complaints.add(number, error)
    complaints.check()
    return results


def _checked_result(study: Study, test: int, fields: dict[str, str]) -> float:
    found = study.storage.test(study.record.key, test)
    if found is None:
        raise InvalidInput(f"test = {test}: no such test in study {study.name!r}")
    issued, outcome = found
    arm, part = study.plan.arm_names[issued.arm], study.plan.parts[issued.metric]
    if fields.get("arm", arm) != arm or fields.get("metric", part.metric) != part.metric:
        raise InvalidInput(f"test = {test}: is {part.metric!r} of {arm!r}")
    value = check_value(part, read_value(fields["value"]))
    if outcome is not None and outcome.value != value:
        has = "was abandoned" if outcome.value is None else f"has the result {outcome.value:g} already"
        raise InvalidInput(f"test = {test} ({part.metric!r} of {arm!r}): {has}")
    return value


@dataclasses.dataclass(frozen=True)
class Recorded:
    """What a file brought: how many results, the ids of the first and last new test, and lines passed over."""

    results: int
    first: int | None = None
    last: int | None = None
    skipped: int = 0


def import_results(study: Study, data: bytes, name: str, *, once: bool = True) -> Recorded:
    """Record the results (arm, metric, value) of a CSV file, all or none; with `once`, the same content once only."""
    sheet = Sheet(data, name)
    found = read_new_results(study, sheet)
    if not found.results:
        raise InvalidInput(f"{name}: has no results below its header")
    source = f"sha256:{sheet.digest}" if once else ""
    try:
        ids = study.add(found.results, source=source, ends=found.ends)
    except InvalidInput as error:
        if source and str(error).startswith(source):
            raise InvalidInput(
                f"{name}: is in this study already; `bestarm import --again` records the same results once more"
            ) from None
        raise
    return Recorded(len(ids), ids[0], ids[-1], found.skipped)


def tell_results(study: Study, data: bytes, name: str, *, once: bool = True) -> Recorded:
    """Record the results of a CSV file, of tests that were asked for (test, value) or not (arm, metric, value)."""
    sheet = Sheet(data, name)
    if "test" not in sheet.columns:
        return import_results(study, data, name, once=once)
    results = read_told(study, sheet)
    if not results:
        raise InvalidInput(f"{name}: has no results below its header")
    study.tell_many(results)
    return Recorded(len(results))


# ------------------------------------------------------------------------------------------------------- writing


# Tests of a round, and results of a file, bear the same time.
@functools.lru_cache(maxsize=1024)
def iso_time(seconds: float) -> str:
    """A time as ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _outcome(told: Told) -> dict[str, Any]:
    return {"value": told.value, "reason": told.reason or "", "who": told.holder, "told": iso_time(told.time)}


def write_csv(study: Study, out: TextIO) -> int:
    """Every test of the study with its result, test by test. Returns how many."""
    arms, metrics = study.plan.arm_names, study.plan.metrics
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count, number = 0, 1
    for test in study.storage.history(study.record.key):
        row = [test.id, arms[test.arm], metrics[test.metric]]
        if test.outcomes:
            present, before = test.outcomes[-1], test.outcomes[:-1]
            value = "" if present.value is None else repr(present.value)
            corrections = json.dumps([_outcome(told) for told in before], ensure_ascii=False) if before else ""
            row += [value, present.reason or "", present.holder, iso_time(test.issued), iso_time(present.time)]
            writer.writerow([*row, number, corrections])
        else:
            writer.writerow([*row, "", "", "", iso_time(test.issued), "", number, ""])
        count, number = count + 1, number + test.ends
    return count


def write_json(study: Study, out: TextIO) -> int:
    """The study's plan and seed, and every test with all that was told of it, the present outcome last."""
    record, arms, metrics = study.record, study.plan.arm_names, study.plan.metrics
    head = {
        "study": study.name,
        "created": iso_time(record.created),
        "archived": None if record.archived is None else iso_time(record.archived),
        "seed": record.seed,
        "plan": study.plan.to_data(),
    }
    out.write(json.dumps(head, ensure_ascii=False, indent=2).removesuffix("\n}") + ',\n  "tests": [')
    encode = json.JSONEncoder(ensure_ascii=False).encode
    count, number, separator = 0, 1, "\n    "
    for test in study.storage.history(record.key):
        row = {
            "test": test.id,
            "arm": arms[test.arm],
            "metric": metrics[test.metric],
            "round": number,
            "asked": not test.given,
            "issued": iso_time(test.issued),
            "outcomes": [_outcome(told) for told in test.outcomes],
        }
        out.write(separator + encode(row))
        count, number, separator = count + 1, number + test.ends, ",\n    "
    out.write("\n  ]\n}\n")
    return count
