"""Reads logs of evaluations: inspect_ai, lm-evaluation-harness, promptfoo, OpenAI evals, CSV files and data frames.

What a file is follows from what it holds. A folder stands for all logs in it, and an item is then named after its task.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bestarm.integrations.inspect_tasks import LETTERS, parts_of, read_log
from bestarm.parsing import Malformed, is_decimal, read_json, read_text
from bestarm.race.logs.log import LETTERS_RANGE, Log
from bestarm.study.intake.frames import columns_of, is_missing
from bestarm.texts import first_ten
from bestarm.validation import UNSTATED, InvalidInput

ITEM, METRIC, VALUE, ARM = "item", "metric", "value", "arm"
"""Columns of a table that are not metrics."""

_LARGEST_LOG = 2**30
_OF_HARNESS = re.compile(r"samples_(?P<task>.+?)(_\d{4}-\d\d-\d\dT[\d.:-]+)?\.jsonl")
_OF_SAMPLES = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"} | {
    f"{what}_hash" for what in ("doc", "prompt", "target")
}
"""What a sample of the harness has besides metrics."""
_SAME = ("doc", "doc_hash", "target", "target_hash")
"""What a sample of the harness has that does not depend on the model or the prompt."""
_CHOICE = "::"
"""Between a file and one of several arms in it."""
_FAILED = 2
"""promptfoo's `failureReason` of a call that failed, unlike one whose output did not pass."""


def read(given: Any, field: str, columns: Mapping[str, str] | None = None) -> Log:
    """A log: the path of a file or folder, a log of inspect_ai, or a data frame.

    `file::NAME` is one of several arms in a file: a prompt or a provider of promptfoo, or what is in a column `arm`.
    `columns` says what columns of a table mean: {"question": "item", "right": "accuracy"}.
    """
    columns = columns or {}
    if not isinstance(given, str | os.PathLike):
        if hasattr(given, "samples") and hasattr(given, "eval"):
            log = Log(field, "inspect_ai")
            _read_inspect(log, given, field)
        else:
            log = Log(field)
            found = columns_of(given)
            names = [*found]
            _read_table(log, (dict(zip(names, row, strict=True)) for row in zip(*found.values(), strict=True)), columns)
        return _checked(log, field)
    text = os.fspath(given)
    path, _, choice = text.partition(_CHOICE) if not Path(text).exists() else (text, "", "")
    log = Log(text)
    if Path(path).is_dir():
        _read_folder(log, Path(path), field, columns)
    else:
        _read_file(log, Path(path), field, columns, choice)
    return _checked(log, field)


def _checked(log: Log, field: str) -> Log:
    if not log.values:
        raise InvalidInput(field, log.name, "has no item with a number")
    return log


def _read_folder(log: Log, folder: Path, field: str, columns: Mapping[str, str]) -> None:
    """All logs of a folder. Each is of a task of its own, after which its items are named."""
    found = sorted(path for path in folder.rglob("*") if path.suffix == ".eval" or _OF_HARNESS.fullmatch(path.name))
    if not found:
        raise InvalidInput(field, str(folder), "holds no log: no *.eval and no samples_*.jsonl")
    tasks: dict[str, Path] = {}
    for path in found:
        part = Log(log.name)
        task = _read_file(part, path, field, columns, "")
        if task in tasks:
            reason = f"has two logs of the task {task!r}: {tasks[task].name} and {path.name}; name one of them"
            raise InvalidInput(field, str(folder), reason)
        tasks[task] = path
        log.take(part, f"{task}/")


def _read_file(log: Log, path: Path, field: str, columns: Mapping[str, str], choice: str) -> str:
    """Read one file. Returns its task, if it says that."""
    if path.suffix == ".eval":
        return _read_inspect(log, read_log(path, field), field)
    try:
        text = read_text(path, _LARGEST_LOG, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "is not text in UTF-8") or str(error)
        raise InvalidInput(field, str(path), f"cannot be read: {reason}") from None
    if not text.lstrip().startswith("{"):
        log.program = "CSV"
        _read_table(log, _rows_of_csv(text, str(path), field), columns, choice)
        return path.stem
    if text.strip().partition("\n")[0].endswith("}"):
        # A line for each object, or a whole file on one line.
        rows = _objects(text, path, field)
        if "doc_id" in rows[0]:
            _read_harness(log, rows)
            named = _OF_HARNESS.fullmatch(path.name)
            return named["task"] if named else path.stem
        if "spec" in rows[0]:
            _read_openai(log, rows)
            return path.stem
        if len(rows) > 1:
            raise _unknown(path, field)
    try:
        return _read_object(log, read_json(text), path, field, choice)
    except Malformed as error:
        raise InvalidInput(field, str(path), f"is not JSON: {error}") from None


def _unknown(path: Path, field: str) -> InvalidInput:
    known = "a log of inspect_ai, samples of lm-evaluation-harness, results of promptfoo, events of OpenAI evals or CSV"
    return InvalidInput(field, str(path), f"is none of the logs that are known: {known}")


def _objects(text: str, path: Path, field: str) -> list[dict[str, Any]]:
    objects = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                raise InvalidInput(field, str(path), f"line {number} is not a JSON object; the file may be cut off")
            objects.append(found)
    return objects


def _read_object(log: Log, data: Any, path: Path, field: str, choice: str) -> str:
    if isinstance(data, dict) and "eval" in data and "version" in data:
        return _read_inspect(log, read_log(path, field), field)
    results = data.get("results") if isinstance(data, dict) else None
    rows = results.get("results") if isinstance(results, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "vars" in row for row in rows):
        raise _unknown(path, field)
    _read_promptfoo(log, rows, path, field, choice)
    return path.stem


# ------------------------------------------------------------------------------------------------- one format each


def _read_inspect(log: Log, logged: Any, field: str) -> str:
    """Scores are called as their scorers are; a value of a scorer that gives several is called "scorer/key"."""
    logged = read_log(logged, field)
    log.program = "inspect_ai"
    for sample in logged.samples or []:
        item = str(sample.id)
        if sample.error is not None:
            log.failed[item] = sample.error.message
            continue
        values = parts_of({scorer: score.value for scorer, score in (sample.scores or {}).items()})
        letters = {metric: LETTERS[value] for metric, value in values.items() if _is_letter(value)}
        log.ranges |= dict.fromkeys(letters, LETTERS_RANGE)
        log.add(item, values | letters, target=sample.target)
    for name in map(str, logged.eval.dataset.sample_ids or ()):
        if name not in log.items:
            log.failed[name] = "was not run"
    return str(logged.eval.task)


def _is_letter(value: object) -> bool:
    return isinstance(value, str) and value in LETTERS


def _read_harness(log: Log, rows: list[dict[str, Any]]) -> None:
    """A metric of a task with several filters is called "metric,filter", as in the harness's own results. Where a row
    does not list its metrics, they are the numbers that it has besides what every row has.

    Its prompt may differ: it has the model's chat template, and may be what is compared."""
    log.program = "lm-evaluation-harness"
    filters = {row.get("filter", "none") for row in rows}
    for row in rows:
        suffix = f",{row.get('filter', 'none')}" if len(filters) > 1 else ""
        names = row.get("metrics") or [name for name in row if name not in _OF_SAMPLES and _is_number(row[name])]
        values = {f"{metric}{suffix}": row.get(metric) for metric in names}
        log.add(str(row["doc_id"]), values, **{part: row[part] for part in _SAME if part in row})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _read_promptfoo(log: Log, rows: list[dict[str, Any]], path: Path, field: str, choice: str) -> None:
    """A test is known by its variables and assertions, so that its repetitions count as epochs. `choice` is a prompt or
    a provider, by its label or by its number, from 1."""
    log.program = "promptfoo"
    arms: dict[int, list[dict[str, Any]]] = {}
    names: dict[int, tuple[str, str]] = {}
    for row in rows:
        number, provider, prompt = int(row.get("promptIdx", 0)) + 1, row.get("provider"), row.get("prompt")
        called = provider.get("label") or provider.get("id") if isinstance(provider, dict) else provider
        arms.setdefault(number, []).append(row)
        names[number] = (str(prompt.get("label") if isinstance(prompt, dict) else prompt), str(called))
    chosen = [number for number in sorted(arms) if choice in ("", str(number), *names[number])]
    if len(chosen) != 1:
        listed = "; ".join(f"{number}: {prompt!r} with {called}" for number, (prompt, called) in sorted(names.items()))
        found = "no such one of them" if choice and not chosen else "say which of them is meant"
        raise InvalidInput(field, f"{path}{_CHOICE if choice else ''}{choice}", f"{found}, as in {path}::1 ({listed})")
    for row in arms[chosen[0]]:
        test = row.get("testCase") or {}
        item = json.dumps(test.get("vars", row["vars"]), sort_keys=True, ensure_ascii=False)
        scores = {name: row.get(name) for name in ("success", "score", "latencyMs", "cost")}
        if row.get("failureReason") == _FAILED:
            log.failed[item] = str(row.get("error") or "the call failed")
        else:
            log.add(item, {**(row.get("namedScores") or {}), **scores}, assertions=test.get("assert") or [])


def _read_openai(log: Log, events: list[dict[str, Any]]) -> None:
    """A match counts as the metric "match", and metrics that an evaluation records by their names."""
    log.program = "OpenAI evals"
    seen: set[str] = set()
    for event in events:
        item, data = event.get("sample_id"), event.get("data")
        if item is None or not isinstance(data, dict):
            continue
        seen.add(str(item))
        if event.get("type") == "match":
            log.add(str(item), {"match": data.get("correct")}, target=data.get("expected"))
        elif event.get("type") == "metrics":
            log.add(str(item), data)
    log.failed |= {item: "it has events but no match or metrics" for item in seen if not log.values.get(item)}


def _rows_of_csv(text: str, path: str, field: str) -> Iterator[dict[str, Any]]:
    try:
        delimiter = max(",;\t", key=text.partition("\n")[0].count)
        rows = csv.DictReader(io.StringIO(text), delimiter=delimiter, strict=True)
        for row in rows:
            if None in row or None in row.values():
                raise InvalidInput(field, path, f"line {rows.line_num} has more or fewer fields than the header")
            yield row
    except csv.Error as error:
        raise InvalidInput(field, path, f"cannot be read as CSV: {error}") from None


def _read_table(log: Log, rows: Iterator[dict[Any, Any]], columns: Mapping[str, str], choice: str = "") -> None:
    """Each row is an item, or an epoch of one, and has a column for each metric; or it has one value of it."""
    arms: dict[str, None] = {}
    for number, given in enumerate(rows, start=1):
        if number == 1 and (missing := [name for name in columns if name not in given]):
            raise InvalidInput("map", missing[0], f"no such column; there are {first_ten([*map(str, given)])}")
        row = {columns.get(name, name): cell for name, cell in given.items()}
        if ITEM not in row:
            reason = f"needs a column item; it has {first_ten([*map(str, given)])}"
            raise InvalidInput(log.name, UNSTATED, f"{reason} (--map COLUMN=item says which of them it is)")
        arms.setdefault(str(row.get(ARM, "")))
        if choice and str(row.get(ARM)) != choice:
            continue
        item = str(row[ITEM]).strip()
        cells = {row[METRIC]: row[VALUE]} if METRIC in row and VALUE in row else row
        if not item or is_missing(row[ITEM]):
            raise InvalidInput(log.name, UNSTATED, f"row {number} names no item")
        log.add(item, {str(name): _number(cell) for name, cell in cells.items() if name not in (ITEM, ARM)})
    if (choice and choice not in arms) or (not choice and len(arms) > 1):
        found = f"no arm {choice!r} in it" if choice else "has several arms"
        raise InvalidInput(log.name, UNSTATED, f"{found}; write FILE::ARM, with one of {first_ten([*arms])}")


_WORDS = {"true": True, "false": False, "pass": True, "fail": False, "passed": True, "failed": False}


def _number(cell: Any) -> Any:
    """A cell as a number or a boolean, if it is one."""
    if isinstance(cell, str):
        text = cell.strip()
        return float(text) if is_decimal(text) else _WORDS.get(text.casefold())
    return cell.item() if hasattr(cell, "item") else cell
