"""Work on a study: ask it for tests, have them made anywhere, tell it their results."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import Any, TypeVar

from bestarm.analysis.status.waiting import SHOWN_AFTER
from bestarm.analysis.status.words import differences
from bestarm.answer import Answer
from bestarm.problem import Plan
from bestarm.storage.base import Aside, Storage
from bestarm.storage.errors import NameTaken, StorageError, StudyArchived
from bestarm.study.intake.values import RefusedValue, Result
from bestarm.study.live import LiveStudy
from bestarm.study.record.amending import is_amended, unamended
from bestarm.study.record.checks import most_held
from bestarm.study.record.seeds import check_same_seeds
from bestarm.study.study import AlreadyTold, Study, Test
from bestarm.study.work.failures import Declared, MeasurementFailed, NotStarted, ProgramMistake, wrong_form
from bestarm.study.work.pace import Pace, http_status
from bestarm.validation import InvalidInput

_log = logging.getLogger("bestarm")

PATIENCE = 120.0
"""For how many seconds a result is offered to a database that is out of reach."""

_POLL = 0.5


S = TypeVar("S", bound=LiveStudy)
Watcher = Callable[[S, int], None]
"""Called now and then with the study and the number of tests under way."""

Submit = Callable[[Test, int], Future[Any]]
"""Starts a test that has failed so often. The future gets its result."""


def create_or_open(
    plan: Plan,
    storage: Storage,
    seed: int | None,
    items_seed: int | None = None,
    *,
    advice: str = "give another name to start over",
) -> Study:
    """A new study of this plan, or the study of that name if it has the same plan. If not, an error with `advice`."""
    if storage.find_study(plan.name) is None:
        # Another process may be quicker. Then we join its study.
        with contextlib.suppress(NameTaken):
            return Study.create(plan, storage=storage, seed=seed, items_seed=items_seed)
    study = Study.open(plan.name, storage=storage)
    # A study goes on by the rules that it began with, and with its budget unless another is stated.
    asked = plan.budget
    plan = dataclasses.replace(plan, rules=study.plan.rules, budget=asked or study.plan.budget)
    if not is_amended(study.plan, plan):
        raise InvalidInput(
            "name",
            plan.name,
            f"there is a study of this name in {storage.url!r} with another plan "
            f"({differences(unamended(study.plan, plan), unamended(plan, plan))}); {advice}",
        )
    check_same_seeds(study.plan, study.record, seed, items_seed)
    if asked is not None:
        study._extend_to(asked)
    return study


def drive(study: S, submit: Submit, workers: int, **how: Any) -> Answer:
    """`work` until the study is done. Returns its answer."""
    work(study, submit, workers, **how)
    answer: Answer | None = _patiently(lambda: study.answer)
    assert answer is not None, "the study is done"
    return answer


def work(
    study: S,
    submit: Submit,
    workers: int,
    *,
    declared: Declared | None = None,
    pace: Pace | None = None,
    watch: Watcher[S] | None = None,
    says: bool = True,
    blocks: int | None = None,
) -> None:
    """Keep `workers` tests under way, as far as `pace` allows, until the study is done, or until so many blocks were
    made. Tests are asked for when they can begin, and not before: what is known by then decides which they are.

    A failure without a declared value ends it, once everything else under way has ended. When interrupted
    by Ctrl-C or any other exception, it gives back the tests that are not finished. Unless `says` is false, it logs it
    when everything waits for another holder's test.
    """
    declared, pace = declared or Declared(), pace or Pace()
    workers = min(workers, most_held(study.plan))
    # The first of many calls begin while the next ones are asked for. Then they do not all end at once, either.
    at_once = max(4, workers // 2)
    held: dict[int, Test] = {}
    block: list[Test] = []
    """Tests of a block that are ours and not under way: each block is made in one place."""
    running: dict[Future[Any], Test] = {}
    failures: dict[int, int] = {}
    notice = Notice()
    stopped: MeasurementFailed | None = None
    try:
        settle_failures(study, declared)
        while True:
            if stopped is not None and not running:
                raise stopped
            room = pace.room(min(at_once, workers - len(running))) if stopped is None else 0
            if study.plan.blocks is not None:
                if blocks == 0 and not block and not running and stopped is None:
                    break
                if room and not block and not running:
                    block = _patiently(functools.partial(new_block, study))
                    held.update((test.id, test) for test in block)
                    blocks = blocks if blocks is None or not block else blocks - 1
                tests, block = block[:room], block[room:]
            else:
                tests = _patiently(functools.partial(study.ask, room)) if room else []
                held.update((test.id, test) for test in tests)
            pace.begin(len(tests))
            for test in tests:
                running[submit(test, failures.get(test.id, 0))] = test
            if not running and not tests and stopped is None and _patiently(lambda: study.done):
                break
            # Where all that may begin has begun, look again when more may. If there was nothing to begin, others are at
            # work: look again soon.
            is_paced = len(tests) == room and len(running) < workers and stopped is None
            patience = pace.seconds(_POLL) if is_paced else _POLL
            if not running:
                time.sleep(patience)
            ended = {future: running.pop(future) for future in _ended(running, patience)}
            interrupted = [future for future in ended if _is_interrupted(future)]
            for future in interrupted:
                del ended[future]
            for test in ended.values():
                del held[test.id]
            for future, test in _tell_together(study, ended, pace).items():
                try:
                    _tell(study, test, future, declared, pace, failures, alone=workers == 1)
                except MeasurementFailed as error:
                    # Finish what is under way first. Giving it back would favor quick results.
                    stopped = stopped or error
            for future in interrupted:
                future.result()
            if says:
                notice.look(study)
            if watch is not None:
                watch(study, len(running))
    finally:
        for future in running:
            future.cancel()
        if held:
            # If the database is out of reach, they come free on their own once our heartbeat is missed.
            with contextlib.suppress(StorageError, StudyArchived):
                if study.plan.blocks is None:
                    study.release(held.values())
                for test in held.values() if study.plan.blocks is not None else ():
                    study.abandon(test, "the block was interrupted")


def new_block(study: LiveStudy) -> list[Test]:
    """The next block, to be made here as a whole. What is left of one that was begun elsewhere is given up: here it
    would not be the same block."""
    while is_rest_of_block(study, tests := study.ask_block()):
        for test in tests:
            study.abandon(test, "the block was begun elsewhere, and its rest was not made")
    return tests


def is_rest_of_block(study: LiveStudy, tests: Sequence[Test]) -> bool:
    """Whether others have held tests of the block that these are of."""
    blocks = study.plan.blocks
    if blocks is None or not tests:
        return False
    label = blocks.label_in(tests[0].item or "")
    mine = {test.id for test in tests}
    return tests[0].item != f"{label} {blocks.place(0)}" or any(
        blocks.label_in(test.item or "") == label and (row.attempts > 1 or row.id not in mine)
        for test, row in study.pending()
    )


def settle_failures(study: LiveStudy, declared: Declared) -> None:
    """Apply what is declared now to earlier failures. Raise an error for those that nothing is declared for."""
    for test, row in _patiently(study.pending):
        if row.aside is None:
            continue
        counted = declared.result(test, row.aside)
        if counted is not None:
            _patiently(functools.partial(study.tell, test, _plain(counted)))
        elif declared.may_retry(row.aside, 1):
            _patiently(functools.partial(study.fail, test, f"{row.aside}; declared to be tried again"))
        else:
            raise _failed(study, test, row.aside, row.reason, declared, attempts=1, earlier="nothing was run now: ")


def _plain(result: Mapping[str, float]) -> Result:
    """A result of one metric as its number."""
    return result if len(result) > 1 else next(iter(result.values()))


def _ended(running: Mapping[Future[Any], Test], patience: float) -> list[Future[Any]]:
    """Those that have ended, in the order of their tests. Waits for the first one, for so many seconds."""
    done = wait(running, timeout=patience, return_when=FIRST_COMPLETED).done
    return sorted(done, key=lambda future: running[future].id)


def _is_interrupted(future: Future[Any]) -> bool:
    """Whether what measured was to end, as by Ctrl-C or sys.exit(). That is no result, and no failure of the test."""
    return not future.cancelled() and not isinstance(future.exception(), Exception | None)


def _wrong(study: LiveStudy, test: Test, result: object) -> str:
    """Why it is no result of the test, whatever the values; empty if it is one."""
    duels = {metric for part in study.plan.parts if part.noise.words for metric in (*part.measures, part.judge)}
    return wrong_form(test.metrics, result, takes_verdicts=not duels.isdisjoint(test.metrics))


def _tell_together(study: LiveStudy, ended: dict[Future[Any], Test], pace: Pace) -> dict[Future[Any], Test]:
    """Tell the results of several tests at once. Returns the tests that the caller must still handle one by one."""
    results = {
        future: test
        for future, test in ended.items()
        if not future.cancelled() and future.exception() is None and not _wrong(study, test, future.result())
    }
    if len(results) < 2:
        return ended
    try:
        _patiently(lambda: study.tell_many([(test, future.result()) for future, test in results.items()]))
    except InvalidInput:
        return ended  # each on its own shows which it is
    pace.go_on()
    return {future: test for future, test in ended.items() if future not in results}


def _tell(
    study: LiveStudy,
    test: Test,
    future: Future[Any],
    declared: Declared,
    pace: Pace,
    failures: dict[int, int],
    *,
    alone: bool,
) -> None:
    """Tell a test's result, or what its failure counts as. If that is not declared, set it aside and stop; if nothing
    was measured, give it back and stop."""
    try:
        value: Result = future.result()
        if mistake := _wrong(study, test, value):
            raise ProgramMistake(mistake)
        pace.go_on()
    except ProgramMistake as error:
        mistake = str(error)
        _patiently(lambda: study.fail(test, mistake))
        raise MeasurementFailed(
            f"test {test.id} ({test.words}) was not made: {error}. The test is given back. Mend that, and "
            f"{declared.words.go_on}."
        ) from None
    except NotStarted as error:
        _patiently(lambda: study.release([test]))
        raise MeasurementFailed(f"test {test.id} ({test.words}) was not made: {error}") from error
    except Exception as error:
        kind, reason = _how(error, alone=alone)
        is_transient = declared.is_transient(error)
        if is_transient:
            pace.pause(error)
        counted = None if is_transient and declared.retry_on is not None else declared.result(test, kind)
        if counted is None:
            failures[test.id] = failures.get(test.id, 0) + 1
            if not declared.may_retry(kind, failures[test.id], is_transient=is_transient):
                if is_transient and declared.retry_on is not None:
                    _patiently(lambda: study.fail(test, reason))
                    raise _not_made(test, reason, declared, failures[test.id]) from error
                _patiently(lambda: study.set_aside(test, reason, kind=kind))
                raise _failed(study, test, kind, reason, declared, attempts=failures[test.id]) from error
            # A test of a block is not made again: it might be elsewhere, which would not be the same block.
            again = study.fail if study.plan.blocks is None else study.abandon
            _patiently(lambda: again(test, reason))
            return
        value = _plain(counted)
    try:
        _patiently(lambda: study.tell(test, value))
    except AlreadyTold:
        # While we were silent, the test was handed on, or told. Each test has one result.
        return
    except RefusedValue as error:
        reason = str(error)
        _patiently(lambda: study.set_aside(test, reason, kind="refused"))
        raise _failed(study, test, "refused", reason, declared, attempts=1) from None


def _how(error: Exception, *, alone: bool) -> tuple[Aside, str]:
    """How an attempt ended, and what to say about it."""
    if isinstance(error, MeasurementFailed):
        return error.kind, str(error)
    status = http_status(error)
    named = f"{'' if status is None else f'HTTP {status}, '}{type(error).__name__}"
    reason = f"{named}: {error}" if str(error) else named
    if isinstance(error, TimeoutError):
        return "timed out", reason
    # A broken pool takes all of its tests down, whichever one broke it.
    return "lost" if isinstance(error, BrokenExecutor) and not alone else "failed", reason


def _not_made(test: Test, reason: str, declared: Declared, attempts: int) -> MeasurementFailed:
    """What to raise if a service did not do what was asked, and that was declared to be no result. The test is given
    back."""
    return MeasurementFailed(
        f"test {test.id} ({test.words}) was not made {attempts} times, the last time: {reason}. The test is given "
        f"back. Once the service is there, {declared.words.go_on}."
    )


def _failed(
    study: LiveStudy, test: Test, kind: Aside, reason: str, declared: Declared, *, attempts: int, earlier: str = ""
) -> MeasurementFailed:
    often = f" {attempts} times, the last time" if attempts > 1 else ""
    how = {"failed": "failed", "timed out": "timed out", "refused": "gave an impossible value", "lost": "was lost"}
    return MeasurementFailed(
        f"{earlier}test {test.id} ({test.words}) {how[kind]}{often}: {reason}. It is set aside, and no later result "
        f"counts before it. {declared.advice(study.plan, test, kind)}."
    )


class Notice:
    """Logs, once each, which tests of others everything waits for."""

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self._said: set[tuple[int, str]] = set()

    def look(self, study: LiveStudy) -> None:
        if time.monotonic() - self._looked < SHOWN_AFTER:
            return
        self._looked = time.monotonic()
        try:
            awaited = study.awaited()
        except StorageError:
            return
        if awaited is None or not awaited.needs_attention or awaited.holder == study.holder:
            return
        if (awaited.test, awaited.state) not in self._said:
            self._said.add((awaited.test, awaited.state))
            _log.warning("No result counts before that of %s", awaited)


def _patiently(act: Callable[[], Any]) -> Any:
    """Do it, and retry for a while if the database is out of reach. Nothing counts twice."""
    give_up = time.monotonic() + PATIENCE
    delay = 0.1
    while True:
        try:
            return act()
        except StorageError:
            if time.monotonic() + delay > give_up:
                raise
            time.sleep(delay)
            delay = min(2 * delay, 5.0)
