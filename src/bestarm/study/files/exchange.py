"""Results in files: reading them from CSV and Excel workbooks, and writing a whole study as CSV or JSON.

A file is accepted as a whole or not at all, and every bad line is named. An export read into a new study of the same
plan gives the same answer: results keep their order and their rounds. A test of several metrics is a line for each of
them, with the same number. Names that a spreadsheet would take for formulas are written with an apostrophe in front,
and read back without it.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO, TextIO

from bestarm.noises.shares import as_told, told_words
from bestarm.storage.base import Told
from bestarm.storage.errors import SourceTaken, reporting_damage
from bestarm.study.files.sheets import read_told
from bestarm.study.files.workbook import check_origin
from bestarm.study.intake.csv_file import CsvFile, reading
from bestarm.study.intake.results_file import COLUMNS, DUE, ITEM, ResultsFile, headings_of
from bestarm.study.intake.tables import read_file
from bestarm.study.intake.xlsx_file import LARGEST, OLD_OR_LOCKED, ZIPPED, XlsxFile
from bestarm.study.record.far_values import MOST_CHECKED
from bestarm.study.record.seeds import seeds_of
from bestarm.study.study import Study
from bestarm.texts import cell
from bestarm.validation import InvalidInput

# ------------------------------------------------------------------------------------------------------- reading


@dataclasses.dataclass(frozen=True)
class Recorded:
    """What was read from a file: how many results, the ids of the first and last new test, tests without a result that
    were passed over, and results that the study had already."""

    results: int
    first: int | None = None
    last: int | None = None
    skipped: int = 0
    known: int = 0


def import_results(
    study: Study,
    data: bytes | BinaryIO,
    name: str,
    *,
    once: bool = True,
    key: str | None = None,
    check_far: bool = False,
    columns: Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
) -> Recorded:
    """Record the results (arm, metric, value) of a CSV file or an Excel workbook, all or none.

    With `once`, the same content is recorded once only. In place of metric and value there may be a column for each
    metric. Under the same `key` they are recorded once, as in `Study.add`. A sheet that was written to be filled in has
    results of tests that were asked for. With `check_far`, values that need confirmation are refused with `FarValue`.
    `columns` says what columns mean: {"dose": "arm", "kg": "yield"}. `ignore` names columns to leave out, which
    the study does not know.
    """
    file = _open(study, data, name, columns or {}, ignore)
    is_sheet = file.has("test") and file.has(DUE)
    return _tell(study, file, check_far) if is_sheet else _import(study, file, once, key, check_far)


def tell_results(
    study: Study,
    data: bytes | BinaryIO,
    name: str,
    *,
    once: bool = True,
    key: str | None = None,
    check_far: bool = False,
    ignore: Collection[str] = (),
) -> Recorded:
    """Record the results of a CSV file or an Excel workbook.

    They are of tests that were asked for (test, value), or not (arm, metric, value).
    """
    file = _open(study, data, name, ignored=ignore)
    return _tell(study, file, check_far) if file.has("test") else _import(study, file, once, key, check_far)


def _tell(study: Study, file: ResultsFile, check_far: bool) -> Recorded:
    found = read_told(study, file)
    if not found.results and not found.known:
        yet = f" yet: none of its {found.skipped:,} tests has a value" if found.skipped else " below its header"
        raise InvalidInput(f"{file.name}: has no results{yet}")
    if check_far and len(found.results) <= MOST_CHECKED:
        study.check_far(found.results)
    if found.results:
        study.tell_many(found.results)
    return Recorded(len(found.results), skipped=found.skipped, known=found.known)


def _open(
    study: Study,
    data: bytes | BinaryIO,
    name: str,
    columns: Mapping[str, str] = {},
    ignored: Collection[str] = (),
) -> ResultsFile:
    """A file, read as what it is, whatever its name says."""
    study._look_for_arms()
    _check_columns(study, columns)
    known: dict[str, Any] = {"metrics": study.plan.measured, "items": study.plan.items is not None}
    known |= {"ignored": ignored, "study": study.name}
    known["headings"] = headings_of(study.plan) | dict(columns)
    file = io.BytesIO(data) if isinstance(data, bytes) else data
    begun = b""
    with reading(name):
        # From a pipe, even these few bytes may arrive one at a time.
        while len(begun) < len(ZIPPED) and (more := file.read(len(ZIPPED) - len(begun))):
            begun += more
        if begun not in (ZIPPED, OLD_OR_LOCKED):
            return _with(columns, CsvFile(file, name, **known, begun=begun))
        workbook = XlsxFile(begun + file.read(LARGEST), name, **known)
    check_origin(study, workbook)
    return _with(columns, workbook)


def read_columns(given: Iterable[str] | None) -> dict[str, str]:
    """What columns mean, as `--map` says it."""
    found: dict[str, str] = {}
    for text in given or ():
        column, equals, meaning = (part.strip() for part in text.rpartition("="))
        if not equals or not column or not meaning:
            raise InvalidInput("map", text, "must be COLUMN=MEANING, such as question=item")
        if column in found or meaning in found.values():
            twice = column if column in found else meaning
            raise InvalidInput("map", twice, "is there twice")
        found[column] = meaning
    return found


def _check_columns(study: Study, columns: Mapping[str, str]) -> None:
    meanings = (*COLUMNS[:4], *([ITEM] if study.plan.items is not None else []), *study.plan.measured)
    for column, meaning in columns.items():
        if meaning not in meanings:
            reason = f"column {column!r} cannot mean that; it can mean {', '.join(meanings)}"
            raise InvalidInput("map", meaning, reason, meanings)


def _with(columns: Mapping[str, str], file: ResultsFile) -> ResultsFile:
    """The same file, if it has the columns that were said to mean something."""
    for column, meaning in columns.items():
        # With a line for each value, the name of a metric stands on its lines.
        if meaning not in file.columns and (file.metrics or meaning in (*COLUMNS, ITEM)):
            raise file.complain(f"has no column {column!r}, which was said to mean {meaning!r}")
    return file


def _import(study: Study, file: ResultsFile, once: bool, key: str | None, check_far: bool) -> Recorded:
    found = read_file(study.plan, file)
    if not found.columns:
        raise InvalidInput(f"{file.name}: has no results below its header")
    # An export has been asked about when it was recorded.
    is_export = file.has("test") and file.has("told")
    if check_far and not is_export and len(found.columns) <= MOST_CHECKED:
        study._check_far([], found.columns)
    source = f"sha256:{file.digest}" if once else ""
    try:
        ids = study._add(found, source, key)
    except SourceTaken:
        raise SourceTaken(
            f"{file.name}: is in this study already; `bestarm import --again` records the same results once more"
        ) from None
    return Recorded(len(ids), ids[0], ids[-1], found.skipped.total())


# ------------------------------------------------------------------------------------------------------- writing


# Tests of a round, and results of a file, have the same time.
@functools.lru_cache(maxsize=1024)
def iso_time(seconds: float) -> str:
    """A time as ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _sensible(write: Callable[[Study, TextIO], int]) -> Callable[[Study, TextIO], int]:
    """A writer that reports a record that makes no sense as damaged."""

    @functools.wraps(write)
    def careful(study: Study, out: TextIO) -> int:
        with reporting_damage(study.storage.url):
            return write(study, out)

    return careful


def _outcome(told: Told, metrics: Sequence[str], metric: int | None = None) -> dict[str, Any]:
    """One outcome of a test, or of one of its metrics, by number: "value" or, of several metrics, "values" by name."""
    values = () if told.value is None else tuple(map(as_told, (told.value, *told.more)))
    said: dict[str, Any]
    if len(metrics) > 1 and metric is None:
        said = {"values": dict(zip(metrics, values, strict=True)) if values else None}
    else:
        said = {"value": values[metric or 0] if values else None}
    return said | {"reason": told.reason or "", "who": told.holder, "told": iso_time(told.time)}


@_sensible
def write_csv(study: Study, out: TextIO) -> int:
    """Write every test of the study with its result, a line for each metric. Returns how many tests there are."""
    arms, has_items = [*map(cell, study.plan.arm_names)], study.plan.items is not None
    yields = {lead: [*map(cell, metrics)] for lead, metrics in study.plan.yields.items()}
    writer, quoting = (csv.writer(out, lineterminator="\n", quoting=q) for q in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    writer.writerow((*COLUMNS, ITEM) if has_items else COLUMNS)
    count, number = 0, 1
    for test in study.storage.history(study.record.key):
        metrics, item = yields[test.metric], [cell(study.item_name(test.item) or "")] if has_items else []
        for k, metric in enumerate(metrics):
            row: list[Any] = [test.id, arms[test.arm], metric]
            if not test.outcomes:
                writer.writerow([*row, "", "", "", iso_time(test.issued), "", number, "", *item])
                continue
            present, before = test.outcomes[-1], [_outcome(told, metrics, k) for told in test.outcomes[:-1]]
            value = "" if present.value is None else told_words((present.value, *present.more)[k], "r")
            corrections = json.dumps(before, ensure_ascii=False) if before else ""
            row += [value, cell(present.reason or ""), cell(present.holder)]
            # Readers take a carriage return for the end of a line, but not all of Python's writers quote it.
            chosen = quoting if "\r" in row[4] + row[5] else writer
            chosen.writerow([*row, iso_time(test.issued), iso_time(present.time), number, corrections, *item])
        count, number = count + 1, number + test.ends
    return count


@_sensible
def write_json(study: Study, out: TextIO) -> int:
    """Write the study's plan and seeds, and every test with all its recorded outcomes, the current one last."""
    record, arms, has_items = study.record, study.plan.arm_names, study.plan.items is not None
    head = {
        "study": study.name,
        "created": iso_time(record.created),
        "archived": None if record.archived is None else iso_time(record.archived),
        **seeds_of(study.plan, record).to_dict(),
        "plan": study.plan.to_data(),
    }
    out.write(json.dumps(head, ensure_ascii=False, indent=2).removesuffix("\n}") + ',\n  "tests": [')
    encode = json.JSONEncoder(ensure_ascii=False).encode
    count, number, separator = 0, 1, "\n    "
    for test in study.storage.history(record.key):
        metrics = study.plan.yields[test.metric]
        row = {
            "test": test.id,
            "arm": arms[test.arm],
            "metric": study.plan.test_names[test.metric],
            **({"metrics": metrics} if len(metrics) > 1 else {}),
            **({"item": study.item_name(test.item)} if has_items else {}),
            "round": number,
            "asked": not test.given,
            "issued": iso_time(test.issued),
            "outcomes": [_outcome(told, metrics) for told in test.outcomes],
        }
        out.write(separator + encode(row))
        count, number, separator = count + 1, number + test.ends, ",\n    "
    out.write("\n  ]\n}\n")
    return count
