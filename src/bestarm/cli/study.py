"""`bestarm new`, `list`, `ask`, `tell`, `fail`, `release`, `abandon`, `archive`."""

from __future__ import annotations

import dataclasses
import math
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Any

from bestarm.cli.app import load_plan, print_json
from bestarm.cli.exchange import recorded_words, results_file
from bestarm.cli.opening import check_text, open_study, repeatable_with_key, whoami
from bestarm.cli.show import age, counted, new_table, percent, plain_console, shown, state_words
from bestarm.storage.base import Pending, Storage, StudyRecord
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage
from bestarm.study import Status, Study, Test
from bestarm.study.checks import find_record
from bestarm.study.csv_reader import read_test, read_value
from bestarm.study.exchange import iso_time, tell_results
from bestarm.validation import UNSTATED, InvalidInput

MOST_NAMED = 20


def new(source: str, name: str | None, seed: int, db: str | None, as_json: bool) -> None:
    plan = load_plan(source)
    study = Study.create(plan, name=name, seed=seed, storage=db)
    plan = study.plan
    if as_json:
        print_json({"study": study.name, "db": study.storage.url, "arms": plan.arm_names, "metrics": plan.metrics})
        return
    console = plain_console()
    what = f"{counted(len(plan.arms), 'arm')}, {counted(len(plan.metrics), 'metric')}"
    console.print(
        f"{shown(study.name)}: {what}, policy {plan.policy}, delta {plan.delta:g}; kept in {study.storage.url}"
    )
    called = shlex.quote(study.name)
    # A URL may hold a password: it is not repeated.
    where = "" if db is None else " --db URL" if "://" in db else f" --db {shlex.quote(db)}"
    steps = (
        (f"bestarm ask {called} -n 4{where}", "which tests to make"),
        (f"bestarm tell {called} TEST VALUE{where}", "what came out"),
        (f"bestarm status {called}{where}", "where it stands"),
    )
    console.print("Next:")
    for command, purpose in steps:
        console.print(f"  {shown(command):<{max(len(step) for step, _ in steps)}}  # {purpose}", soft_wrap=True)


@dataclasses.dataclass(frozen=True)
class _Listed:
    record: StudyRecord
    status: Status | None
    error: str = ""

    @classmethod
    def of(cls, storage: Storage, record: StudyRecord) -> _Listed:
        try:
            return cls(record, Study(storage, record).status())
        except StorageError:
            raise
        except InvalidInput as error:
            # One study that needs a policy not installed here must not hide the others.
            return cls(record, None, str(error))
        except Exception as error:  # nor must one whose record is damaged in a way that nobody foresaw
            return cls(record, None, f"study = {record.name!r}: cannot be computed: {type(error).__name__}: {error}")

    def to_dict(self) -> dict[str, Any]:
        record, status = self.record, self.status
        return {
            "study": record.name,
            "state": None if status is None else status.state,
            "answer": None if status is None else status.answer,
            "leader": None if status is None else status.leader,
            "confidence": None if status is None else status.confidence,
            "tests": None if status is None else status.tests,
            "created": iso_time(record.created),
            "archived": None if record.archived is None else iso_time(record.archived),
            "error": self.error or None,
        }

    def cells(self) -> list[str]:
        name, old = shown(self.record.name), age(time.time() - self.record.created)
        away = "" if self.record.archived is None else ", archived"
        if self.status is None:
            return [name, f"cannot be read{away}", "", shown(self.error), "", old]
        status = self.status
        state = state_words(status.state) + away
        return [name, state, f"{status.tests:,}", shown(status.leader or "–"), percent(status.confidence), old]


def list_studies(show_all: bool, db: str | None, as_json: bool) -> None:
    storage = open_storage(db)
    rows = [_Listed.of(storage, record) for record in storage.studies() if show_all or record.archived is None]
    if as_json:
        print_json([row.to_dict() for row in rows])
        return
    console = plain_console()
    if not rows:
        console.print(f"No studies in {shown(storage.url)}{'' if show_all else '; --all lists archived ones too'}.")
        return
    table = new_table("study", "state", "tests", "leader", "confidence", "age", right=("tests", "confidence"))
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)


def ask(
    name: str, number: int, days: float | None, key: str | None, worker: str | None, db: str | None, as_json: bool
) -> None:
    study = open_study(name, db, worker)
    with repeatable_with_key():
        tests = study.ask(number, days=math.inf if days is None else days, key=key)
    if as_json:
        print_json([dataclasses.asdict(test) for test in tests])
        if not tests:
            print(_nothing_to_do(study), file=sys.stderr)
        return
    console = plain_console()
    if not tests:
        console.print(_nothing_to_do(study), soft_wrap=True)
        return
    table = new_table("test", "arm", "metric", right=("test",))
    for test in tests:
        table.add_row(str(test.id), shown(test.arm), shown(test.metric))
    console.print(table)
    if len(tests) < number:
        console.print(f"{len(tests)} of the {number:,}: what comes next depends on their results.", soft_wrap=True)


def _nothing_to_do(study: Study) -> str:
    answer = study.answer
    if answer is not None:
        return f"Nothing to test any more. {shown(str(answer))}"
    awaited = study.awaited()
    first = "" if awaited is None else f" First of all it waits for {awaited}."
    return f"Nothing to test now: the study waits for {counted(len(study.pending()), 'result')}.{shown(first)}"


def tell(
    name: str,
    words: Sequence[str],
    arm: str | None,
    metric: str | None,
    table: str | None,
    correct: bool,
    reason: str,
    key: str | None,
    worker: str | None,
    db: str | None,
) -> None:
    by_name = arm is not None or metric is not None
    expected = 0 if table is not None else 1 if by_name else 2
    if len(words) != expected or (table is not None and by_name) or (arm is None) != (metric is None):
        raise InvalidInput("tell: give TEST VALUE, or --arm ARM --metric METRIC VALUE, or --csv FILE")
    if correct and expected != 2:
        raise InvalidInput("--correct", UNSTATED, "goes with TEST VALUE, one test at a time")
    if reason and not correct:
        raise InvalidInput("--reason", UNSTATED, "goes with --correct")
    if key is not None and expected == 2:
        raise InvalidInput("--key", UNSTATED, "goes with --arm and --metric, or --csv; a test's number is key enough")
    check_text("reason", reason)
    if table is not None:
        study = open_study(name, db, worker)
        with results_file(table) as (file, called), repeatable_with_key():
            # The same lines may well be piped in twice, as yes and no often are; a file is one set of results.
            said = recorded_words(study, tell_results(study, file, called, once=table != "-", key=key))
    elif arm is not None and metric is not None:
        value = read_value(words[0].strip())
        study = open_study(name, db, worker)
        with repeatable_with_key():
            [number] = study.add([(check_text("arm", arm), check_text("metric", metric), value)], key=key)
        said = f"Recorded as test {number}: {metric} of {arm} = {value:g}."
    else:
        number, value = read_test(words[0].strip()), read_value(words[1].strip())
        study = open_study(name, db, worker)
        if correct:
            study.correct(number, value, reason)
        else:
            study.tell(number, value)
        said = f"{'Corrected' if correct else 'Recorded'}: test {number} = {value:g}."
    plain_console().print(shown(said), soft_wrap=True)


def fail(name: str, test: str, reason: str, worker: str | None, db: str | None) -> None:
    number = read_test(test)
    study = open_study(name, db, worker)
    _, held = _pending(study, number)
    study.fail(number, check_text("reason", reason))
    if held is None:
        said = f"Noted. Test {number} has its result already."
    elif _pending(study, number)[1] == held and held.expires > 0.0:
        said = f"Noted. Test {number} is with {held.holder} by now, and stays there."
    else:
        said = f"Noted. Test {number} will be handed out again."
    plain_console().print(shown(said), soft_wrap=True)


def _pending(study: Study, number: int) -> tuple[Test | None, Pending | None]:
    return next(((test, row) for test, row in study.pending() if test.id == number), (None, None))


def release(name: str, tests: Sequence[str], held_by: str | None, worker: str | None, db: str | None) -> None:
    if bool(tests) == (held_by is not None):
        raise InvalidInput("release: give the numbers of tests, or --held-by NAME")
    numbers = [read_test(test) for test in tests]
    study = open_study(name, db, worker)
    pending = {row.id: row for _, row in study.pending()}
    if held_by is not None:
        numbers = study.release_held_by(held_by)
        if not numbers:
            holders = sorted({row.holder for row in pending.values() if row.expires > 0.0})
            there = f"tests are held by {', '.join(holders[:10])}" if holders else "nobody holds any"
            raise InvalidInput("--held-by", held_by, f"holds no test of {name!r}; {there}")
    else:
        for number in numbers:
            if number not in pending:
                raise InvalidInput(
                    "test",
                    number,
                    f"is not waited for in study {name!r}; `bestarm status` says which tests are pending",
                )
        study.release(numbers)
    for number in numbers[:MOST_NAMED]:
        row = pending[number]
        held = f", which {row.holder} held" if row.expires > 0.0 else ", which nobody held"
        plain_console().print(shown(f"Test {number}{held}, will be handed out again."), soft_wrap=True)
    if len(numbers) > MOST_NAMED:
        plain_console().print(f"So will {len(numbers) - MOST_NAMED:,} more.")


def abandon(name: str, test: str, reason: str, worker: str | None, db: str | None) -> None:
    number = read_test(test)
    open_study(name, db, worker).abandon(number, check_text("reason", reason))
    plain_console().print(f"Test {number} is given up; its result is no longer expected.", soft_wrap=True)


def archive(name: str, undo: bool, db: str | None) -> None:
    storage = open_storage(db)
    # Without opening the study: one that cannot be read can be put away, too.
    record = find_record(storage, check_text("study", name))
    storage.archive(record.key, whoami(), undo=undo)
    said = "is back" if undo else "is archived; `bestarm archive --undo` brings it back"
    plain_console().print(f"{shown(record.name)} {said}.", soft_wrap=True)
