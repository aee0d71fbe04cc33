"""A race: the first runs, then rounds of runs in random order until the study has its answer or the time is up."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Sequence

from bestarm.analysis.status import Status
from bestarm.answer import Difference
from bestarm.plan import Plan
from bestarm.race.contestants import Contestant, words_of
from bestarm.race.pauses import Cutoffs, cutoffs_of, is_pause
from bestarm.race.plans import CANDIDATE, Question, as_kept, ceilings_in, ceilings_of, plan_of, timeout_for
from bestarm.race.records import Records, file_beside
from bestarm.race.runs import Run, Runner
from bestarm.storage.opening import open_storage
from bestarm.study import Study, Test
from bestarm.study.failures import MeasurementFailed, NotStarted
from bestarm.study.names import is_gone
from bestarm.study.workers import create_or_open

_POLL = 0.2
"""Seconds between two looks while everything waits for somebody else's runs."""
_NO_SUCH_PROGRAM = (126, 127)
"""How a shell says that there is no such program, or that it may not be started."""


@dataclasses.dataclass(frozen=True)
class Conditions:
    """How commands are run."""

    shell: str = "default"
    prepare: str | None = None
    warmup: int | None = None
    """Runs of each command before the first that counts; by default one, if something must be learned from it."""
    timeout: float | None = None
    minutes: float = 5.0
    ignores_failures: bool = False
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a race ended: where its study stands, and every run."""

    contestants: tuple[Contestant, ...]
    question: Question
    plan: Plan
    status: Status
    differences: dict[str, Difference]
    records: Records
    timeout: float
    is_own_timeout: bool
    """Whether nobody stated a timeout."""
    ceilings: dict[str, float]
    cutoffs: Cutoffs
    """By command and metric: what a run that pauses exceeds."""

    @property
    def delta(self) -> float:
        """The probability at most that the verdict is wrong: of its study, and of what is said of pauses."""
        question = self.question
        return self.plan.delta if question.is_gate else round(self.plan.delta + question.delta_of_pauses, 15)


Watch = Callable[[Study, Records], None]


class Race:
    """Commands that compete. With `db` the race is kept there, and goes on where it stopped."""

    def __init__(
        self,
        contestants: Sequence[Contestant],
        question: Question,
        conditions: Conditions,
        *,
        study: str | None = None,
        db: str | None = None,
        runner: Runner | None = None,
    ) -> None:
        self._contestants = tuple(contestants)
        self._words = {one.name: words_of(one.command, conditions.shell) for one in contestants}
        self._prepare = None if conditions.prepare is None else words_of(conditions.prepare, conditions.shell)
        self._question = question
        self._conditions = conditions
        self._name = study or _name_of(self._contestants)
        self._storage = open_storage(":memory:" if db is None else db, create=True)
        self._records = Records(None if db is None else file_beside(db, self._name))
        self._runner = runner or Runner()
        self._deadline = time.monotonic() + 60.0 * conditions.minutes
        self._timeout = conditions.timeout or self._records.about.get("timeout")
        self._cutoffs: Cutoffs = self._records.about.get("cutoffs") or {}
        # Whatever cannot be asked is refused before the first run, with a timeout that would do.
        timeout = self._timeout or timeout_for(1.0, question.limits)
        plan_of(self._name, [one.name for one in contestants], question, ceilings_of(question, timeout, {}))

    def go(self, watch: Watch | None = None) -> Outcome:
        """Run until there is an answer or the time is up."""
        with self._runner:
            found = self._storage.find_study(self._name)
            before = None if found is None else Study.open(self._name, storage=self._storage).plan
            if before is not None:
                self._question = as_kept(self._question, before)
            largest = self._first_runs()
            assert self._timeout is not None
            ceilings = ceilings_of(self._question, self._timeout, largest) | (
                {} if before is None else ceilings_in(before)
            )
            plan = plan_of(self._name, [one.name for one in self._contestants], self._question, ceilings)
            if before is not None and self._question.runs is None:
                # Whoever says nothing of it leaves it as it is.
                plan = dataclasses.replace(plan, budget=before.budget)
            if before is not None and before.delta == self._question.delta:
                # Studies of earlier versions have all of delta. Then what is said of pauses comes on top of it.
                plan = dataclasses.replace(plan, delta=before.delta)
            study = create_or_open(plan, self._storage, self._conditions.seed)
            self._records.begin(
                {
                    "commands": {one.name: one.command for one in self._contestants},
                    "shell": self._conditions.shell,
                    "prepare": self._conditions.prepare,
                    "timeout": self._timeout,
                    "cutoffs": self._cutoffs,
                }
            )
            self._settle(study, ceilings)
            self._rounds(study, ceilings, watch)
            return Outcome(
                self._contestants,
                self._question,
                study.plan,
                study.status(),
                study.differences(),
                self._records,
                self._timeout,
                self._conditions.timeout is None,
                ceilings,
                self._cutoffs,
            )

    def _first_runs(self) -> dict[str, float]:
        """Runs that do not count: they warm caches, and say how long a timeout must be, and what a pause is. The
        largest of each metric."""
        watched = self._question.watched
        needs = self._timeout is None or self._question.assumed == "range" or bool(watched and not self._cutoffs)
        count = int(needs) if self._conditions.warmup is None else max(self._conditions.warmup, int(needs))
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
            self._cutoffs = cutoffs_of(first, watched)
        return largest

    def _run(self, name: str, timeout: float) -> Run:
        if self._prepare is not None:
            prepared = self._runner.run(self._prepare, None)
            if prepared.failed:
                raise NotStarted(f"--prepare {self._conditions.prepare!r} {prepared.how}")
        return self._runner.run(self._words[name], timeout)

    def _check(self, name: str, run: Run) -> None:
        """A failure that nobody has said anything about ends the race. A timeout is a time like any other."""
        allowed = self._conditions.ignores_failures or "failures" in self._question.metrics
        if run.status != 0 and not run.timed_out and not allowed:
            raise MeasurementFailed(
                f"{name!r} {run.how}. Say how many runs may fail, as in --at-most failures=1%, or that it does not "
                "matter: --ignore-failure"
            )

    def _rounds(self, study: Study, ceilings: dict[str, float], watch: Watch | None) -> None:
        """Ask for a run of every command, and make them in random order, so that no command is always the first."""
        lots = random.Random(self._conditions.seed)
        while not study.done and time.monotonic() < self._deadline:
            tests = study.ask(len(self._contestants))
            if not tests:
                time.sleep(_POLL)
            lots.shuffle(tests)
            held = {test.id: test for test in tests}
            try:
                for test in tests:
                    if time.monotonic() >= self._deadline or study.done:
                        break
                    self._measure(study, held, test, ceilings)
                    if watch is not None:
                        watch(study, self._records)
            finally:
                if held:
                    study.release(held.values())

    def _measure(self, study: Study, held: dict[int, Test], test: Test, ceilings: dict[str, float]) -> None:
        assert self._timeout is not None
        run = self._run(test.arm, self._timeout)
        self._records.add(test.id, test.arm, run)
        try:
            self._check(test.arm, run)
        except MeasurementFailed as error:
            # It stays in the way of later results until somebody says what it counts.
            study.set_aside(held.pop(test.id), str(error), kind="failed")
            raise
        self._tell(study, test, run, ceilings)
        del held[test.id]

    def _tell(self, study: Study, test: Test, run: Run, ceilings: dict[str, float]) -> None:
        values = {metric: self._value(test.arm, metric, run, ceilings) for metric in test.metrics}
        study.tell(test, values if len(values) > 1 else next(iter(values.values())))

    def _value(self, name: str, metric: str, run: Run, ceilings: dict[str, float]) -> float:
        if metric == CANDIDATE:
            return float(name != self._question.baseline)
        if metric == "pauses":
            return float(is_pause(run, self._cutoffs[name]))
        return min(run.value(metric), ceilings.get(metric, float("inf")))

    def _settle(self, study: Study, ceilings: dict[str, float]) -> None:
        """What an earlier session left: runs that failed count, if failures are allowed by now; runs of a process that
        is no more are made again, and nobody waits for its heartbeat to be missed."""
        for test, row in study.pending():
            if row.aside is None:
                if is_gone(row.holder):
                    study.release([test])
                continue
            _, run = self._records.runs.get(test.id, (None, None))
            if run is None:
                study.fail(test, "the record of the run is lost; it is made again")
                continue
            self._check(test.arm, run)
            self._tell(study, test, run, ceilings)


def _name_of(contestants: Sequence[Contestant]) -> str:
    """What a race is called if nobody says: its commands, as far as there is room."""
    name = " vs ".join(one.name for one in contestants)
    return name if len(name) <= 100 else f"{name[:99].rstrip()}…"
