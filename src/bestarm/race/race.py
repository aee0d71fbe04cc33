"""A race: the first runs, then rounds of runs in random order until the study has its answer or the time is up."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from bestarm.answer import DECIDED
from bestarm.race.contestants import Contestant, words_of
from bestarm.race.limits import size_words
from bestarm.race.pauses import Cutoffs, cutoffs_of, is_pause
from bestarm.race.plans import CANDIDATE, Question, ceilings_in, ceilings_of, plan_of, question_as_stored, timeout_for
from bestarm.race.result import RaceResult
from bestarm.race.run_log import RunLog, changed, digests_of, file_beside
from bestarm.race.runs import Run, Runner
from bestarm.storage.opening import open_storage
from bestarm.study import Study, Test
from bestarm.study.intake.names import is_gone
from bestarm.study.work.failures import MeasurementFailed, MeasurementTimedOut, NotStarted
from bestarm.study.work.workers import create_or_open
from bestarm.validation import InvalidInput

_POLL = 0.2
"""Seconds between polls while everything waits for another process's runs."""
_NO_SUCH_PROGRAM = (126, 127)
"""How a shell says that there is no such program, or that it may not be started."""
_FLOOR_BEFORE = 16e6
"""Bytes of memory below which earlier versions could not tell programs apart."""


@dataclasses.dataclass(frozen=True)
class Conditions:
    """How commands are run."""

    shell: str = "default"
    prepare: str | None = None
    warmup: int | None = None
    """Runs of each command before the first that counts; by default as many as it takes to learn something from them:
    two to know pauses, or one for a timeout."""
    timeout: float | None = None
    minutes: float = 5.0
    ignores_failures: bool = False
    seed: int | None = None
    """The seed of the random order of runs. Drawn for each new race unless stated."""


OnRun = Callable[[Study, RunLog], None]


class Race:
    """Commands that compete. With `db` the race is kept there, and goes on where it stopped.

    If a program or file that a command names has changed since, or with `fresh`, it starts over, as a study of the same
    name with a number. The old study is kept.
    """

    def __init__(
        self,
        contestants: Sequence[Contestant],
        question: Question,
        conditions: Conditions,
        *,
        study: str | None = None,
        db: str | None = None,
        fresh: bool = False,
        runner: Runner | None = None,
    ) -> None:
        self._contestants = tuple(contestants)
        self._words = {one.name: words_of(one.command, conditions.shell) for one in contestants}
        self._prepare = None if conditions.prepare is None else words_of(conditions.prepare, conditions.shell)
        self._question = question
        self._conditions = conditions
        self._storage = open_storage(":memory:" if db is None else db, create=True)
        self._db = db
        self._files: dict[str, str] = {}
        if db is not None:
            commands = [*self._words.values(), *([] if self._prepare is None else [self._prepare])]
            self._files = digests_of(commands, are_scripts=conditions.shell != "none")
        name = " vs ".join(one.name for one in contestants)
        self._find(study or (name if len(name) <= 100 else f"{name[:99].rstrip()}…"), fresh)
        self._runner = runner or Runner()
        self._study: Study | None = None
        self._ceilings: dict[str, float] = {}
        self._decided_before = ""
        self._deadline = time.monotonic() + 60.0 * conditions.minutes
        self._timeout = conditions.timeout or self._run_log.about.get("timeout")
        self._cutoffs: Cutoffs = self._run_log.about.get("cutoffs") or {}
        # Refuse an invalid question before the first run, with a placeholder timeout.
        timeout = self._timeout or timeout_for(1.0, question.limits)
        plan_of(self._name, [one.name for one in contestants], question, ceilings_of(question, timeout, {}))

    def _find(self, name: str, fresh: bool) -> None:
        """The newest study of this race, or a new one if that cannot go on."""
        self.replaces = ""
        self._name, following = name, name
        # The studies of one race are numbered, the oldest first.
        for following in itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2))):
            if self._storage.find_study(following) is None:
                break
            self._name = following
        self._run_log = self._open_log()
        altered = changed(self._run_log.about.get("files", {}), self._files)
        if following == self._name or not (fresh or altered):
            return
        why = f"{', '.join(altered)} changed since this race began" if altered else "as you asked"
        self.replaces = f"Started over as {following!r}, {why}; {self._name!r} is kept."
        self._name = following
        self._run_log = self._open_log()

    def _open_log(self) -> RunLog:
        return RunLog(None if self._db is None else file_beside(self._db, self._name))

    def run(self, watch: OnRun | None = None) -> RaceResult:
        """Run until there is an answer or the time is up."""
        with self._runner:
            found = self._storage.find_study(self._name)
            before = None if found is None else Study.open(self._name, storage=self._storage)
            if before is not None:
                before._heeds_remarks = False
                self._question = question_as_stored(self._question, before.plan)
            self._measure_memory_floor()
            is_decided = before is not None and self._timeout is not None and before.status().state in DECIDED
            largest = {} if is_decided else self._first_runs()
            assert self._timeout is not None
            self._ceilings = ceilings_of(self._question, self._timeout, largest) | (
                {} if before is None else ceilings_in(before.plan)
            )
            plan = plan_of(self._name, [one.name for one in self._contestants], self._question, self._ceilings)
            if before is not None and self._question.runs is None:
                # Without a stated number of runs, the budget stays as it is.
                plan = dataclasses.replace(plan, budget=before.plan.budget)
            if before is not None and before.plan.delta == self._question.delta:
                # Studies of earlier versions have all of delta. Then what is said of pauses comes on top of it.
                plan = dataclasses.replace(plan, delta=before.plan.delta)
            study = create_or_open(plan, self._storage, self._conditions.seed, advice="--fresh starts over")
            study._heeds_remarks = False
            about = {
                "commands": {one.name: one.command for one in self._contestants},
                "shell": self._conditions.shell,
                "prepare": self._conditions.prepare,
                "timeout": self._timeout,
            }
            learned = {"files": self._files, "memory_floor": self._run_log.floor, "cutoffs": self._cutoffs}
            self._run_log.begin(about, learned)
            self._settle(study)
            if study.done:
                self._decided_before = self._when(study)
            self._study = study
            self._rounds(study, watch)
            result = self.result()
            assert result is not None
            return result

    def result(self, *, is_interrupted: bool = False) -> RaceResult | None:
        """What the race has come to so far; None before the first run that counts."""
        if self._study is None or self._timeout is None:
            return None
        return RaceResult(
            self._contestants,
            self._question,
            self._study.plan,
            self._study.status(),
            self._study.differences(),
            self._run_log,
            self._timeout,
            self._conditions.timeout is None,
            self._ceilings,
            self._cutoffs,
            self._decided_before,
            self.replaces,
            is_interrupted,
        )

    def remark(self, words: str) -> None:
        """Add to the study what the race concludes about its answer, for readers of the study alone."""
        if self._study is not None and (words or self._storage.last_remark(self._study.record.key)):
            self._storage.remark(self._study.record.key, words, self._study.holder)

    def _measure_memory_floor(self) -> None:
        """Measure the floor below which memory cannot be seen. A limit below it cannot be decided."""
        now, about = self._runner.floor(), self._run_log.about
        # Earlier versions did not record it, and saw less.
        before = about.get("memory_floor", _FLOOR_BEFORE) if about else now
        self._run_log.floor = before
        if "memory" not in self._question.metrics:
            return
        if now > before:
            reason = f"could be seen when this race began, and now {size_words(now)} cannot; --fresh starts over"
            raise InvalidInput("memory", size_words(before), reason)
        for limit in self._question.limits:
            if limit.metric == "memory" and not limit.is_relative and not limit.value > before:
                advice = "; --fresh starts over, and sees more" if now < before else ""
                reason = f"must be more than {size_words(before)}: memory below that cannot be seen{advice}"
                raise InvalidInput("--at-most", f"memory={size_words(limit.value)}", reason)

    def _when(self, study: Study) -> str:
        """When the last run was made, and whether the programs may be others by now."""
        told = [event.time for event in study.log(last=100) if event.kind == "told"]
        when = datetime.fromtimestamp(told[-1] if told else study.record.created, UTC)
        files = self._run_log.about.get("files")
        known = "No file named in the commands has changed since" if files else "Whether programs changed is not known"
        ended = "Decided" if study.status().state in DECIDED else "The budget was spent"
        return f"{ended} on {when:%Y-%m-%d at %H:%M} UTC; no run was made now. {known}. --fresh starts over."

    def _first_runs(self) -> dict[str, float]:
        """Make runs that do not count. They warm caches, and show how long a timeout must be and what a pause is.
        Returns the largest value of each metric."""
        watched = self._question.watched
        # The cutoff must not rest on a run with cold caches: the quicker of two first runs counts.
        needed = 2 if watched and not self._cutoffs else int(self._timeout is None or self._question.assumed == "range")
        count = needed if self._conditions.warmup is None else max(self._conditions.warmup, needed)
        largest = {"time": 0.0}
        first: dict[str, list[Run]] = {one.name: [] for one in self._contestants}
        for one in self._contestants:
            for _ in range(count):
                limit = max(self._deadline - time.monotonic(), 0.1) if self._timeout is None else self._timeout
                run = self._run(one.name, limit)
                if run.timed_out and self._timeout is None:
                    raise NotStarted(f"the first run of {one.name!r} {run.how}; a race of more --minutes could wait")
                if self._conditions.shell != "none" and run.status in _NO_SUCH_PROGRAM:
                    raise NotStarted(f"{one.name!r} {run.how}")
                self._check(one.name, run)
                first[one.name].append(run)
                for metric in self._question.metrics:
                    if metric not in (CANDIDATE, "pauses"):
                        largest[metric] = max(largest.get(metric, 0.0), run.value(metric))
                largest["time"] = max(largest["time"], run.time)
        if self._timeout is None:
            self._timeout = timeout_for(largest["time"], self._question.limits)
        if not self._cutoffs:
            self._cutoffs = cutoffs_of(first, watched, self._question.limits)
        return largest

    def _run(self, name: str, timeout: float) -> Run:
        if self._prepare is not None:
            prepared = self._runner.run(self._prepare, None)
            if prepared.failed:
                raise NotStarted(f"--prepare {self._conditions.prepare!r} {prepared.how}")
        return self._runner.run(self._words[name], timeout)

    def _check(self, name: str, run: Run) -> None:
        """An undeclared failure ends the race. A timeout counts as a time."""
        allowed = self._conditions.ignores_failures or "failures" in self._question.metrics
        if run.status != 0 and not run.timed_out and not allowed:
            raise MeasurementFailed(
                f"{name!r} {run.how}. Say how many runs may fail, as in --at-most failures=1%, or that it does not "
                "matter: --ignore-failure"
            )

    def _rounds(self, study: Study, watch: OnRun | None) -> None:
        """Ask for a run of every command, and make them in random order, so that no command is always the first. The
        runs of one command are made in the order of their places."""
        rng = random.Random(study.record.seed)
        while not study.done and time.monotonic() < self._deadline:
            tests = study.ask(len(self._contestants))
            if not tests:
                time.sleep(_POLL)
            order = [test.arm for test in tests]
            rng.shuffle(order)
            waiting = {arm: iter([test for test in tests if test.arm == arm]) for arm in order}
            tests = [next(waiting[arm]) for arm in order]
            held = {test.id: test for test in tests}
            try:
                for test in tests:
                    if time.monotonic() >= self._deadline or study.done:
                        break
                    self._measure(study, held, test)
                    if watch is not None:
                        watch(study, self._run_log)
            finally:
                if held:
                    study.release(held.values())

    def _measure(self, study: Study, held: dict[int, Test], test: Test) -> None:
        assert self._timeout is not None
        run = self._run(test.arm, self._timeout)
        self._run_log.add(test.id, test.arm, run)
        try:
            self._check(test.arm, run)
            values = self._values(test, run)
        except MeasurementFailed as error:
            # It blocks later results until the user says what it counts as.
            study.set_aside(held.pop(test.id), str(error), kind=error.kind)
            raise
        study.tell(test, values)
        del held[test.id]

    def _values(self, test: Test, run: Run) -> dict[str, float] | float:
        values = {metric: self._value(test.arm, metric, run) for metric in test.metrics}
        return values if len(values) > 1 else next(iter(values.values()))

    def _value(self, name: str, metric: str, run: Run) -> float:
        if metric == CANDIDATE:
            return float(name != self._question.baseline)
        if metric == "pauses":
            return float(is_pause(run, self._cutoffs[name]))
        if run.timed_out and metric not in ("time", "failures"):
            return self._unfinished(name, metric, run)
        value = run.value(metric)
        if metric == "memory":
            value = max(value, self._run_log.floor)
        return min(value, self._ceilings.get(metric, math.inf))

    def _unfinished(self, name: str, metric: str, run: Run) -> float:
        """What a run that was stopped counts as. What it used until then says nothing about a whole run: a command that
        hangs writes nothing. So it counts as the most that there is.

        This certifies nothing false. A value that is told is at least the smaller of the ceiling and what a whole run
        would have yielded. So if the mean of what is told is below a limit, so is the mean of whole runs, cut off at
        the ceiling. The same holds for a quantile, where only values above the limit matter.
        """
        if metric in self._ceilings:
            return self._ceilings[metric]
        if metric in self._question.compared:
            raise MeasurementTimedOut(
                f"{name!r} {run.how}, so its {metric} is not known, and commands are compared by it. State a longer "
                "--timeout, or --assume range, which counts such a run as the most that can be; --fresh starts over"
            )
        return 2.0 * max(limit.value for limit in self._question.limits if limit.metric == metric)

    def _settle(self, study: Study) -> None:
        """Settle what an earlier session left. Failed runs count if failures are allowed now. Runs of a process that
        has ended are made again, without waiting for a missed heartbeat."""
        for test, row in study.pending():
            if row.aside is None:
                if is_gone(row.holder):
                    study.release([test])
                continue
            _, run = self._run_log.runs.get(test.id, (None, None))
            if run is None:
                study.fail(test, "the record of the run is lost; it is made again")
                continue
            self._check(test.arm, run)
            study.tell(test, self._values(test, run))
