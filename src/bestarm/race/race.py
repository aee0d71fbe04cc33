"""A race: the first runs, then rounds of runs in random order until the study has its answer or the time is up."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from bestarm.answer import DECIDED
from bestarm.problem import Plan
from bestarm.race.around import Commands
from bestarm.race.conditions import DEFAULT_MINUTES
from bestarm.race.conditions import Conditions as Conditions
from bestarm.race.contestants import Contestant, study_name
from bestarm.race.counting import Counting, largest_of
from bestarm.race.finding import find_race, study_before, study_of
from bestarm.race.machines import Machines, runners_on, shares_of, shuffled
from bestarm.race.outlook import shortage_words
from bestarm.race.pauses import Cutoffs, command_on, cutoffs_of
from bestarm.race.plans import (
    Question,
    blocks_of,
    ceilings_in,
    ceilings_of,
    check_memory_floor,
    is_benchmark,
    plan_of,
    runs_of_one,
    timeout_for,
)
from bestarm.race.result import RaceResult
from bestarm.race.run_log import RunLog, digests_of, when_decided
from bestarm.race.runs import MOST_KEPT, Run, Runner
from bestarm.storage.opening import open_storage
from bestarm.study import Study, Test
from bestarm.study.intake.names import is_gone
from bestarm.study.intake.values import Result
from bestarm.study.record.checks import MOST_BLOCKS_HELD
from bestarm.study.work.failures import MeasurementFailed, NotStarted
from bestarm.study.work.workers import new_block
from bestarm.validation import InvalidInput

_POLL = 0.2
"""Seconds between polls while everything waits for another process's runs."""


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
        runners: Sequence[Runner] = (),
    ) -> None:
        self._contestants = tuple(contestants)
        self._commands = Commands(contestants, conditions.shell, question.own)
        self._question = question
        self._conditions = conditions
        runners = runners or [*runners_on(conditions.on)] or [Runner()]
        for runner in runners if question.own else ():
            runner.keeps = MOST_KEPT
        self._machines = Machines(runners)
        self._names = tuple(runner.on for runner in runners)
        self._is_sample = conditions.runs_per_machine is not None
        self._blocks = blocks_of(len(contestants), len(runners), conditions.runs_per_machine)
        self._is_benchmark = is_benchmark(question, len(contestants), self._blocks, db)
        self._storage = open_storage(":memory:" if db is None else db, create=True)
        for runner in runners:
            runner.connect(conditions.streams)
        self._files: dict[str, str] = {}
        if db is not None and not conditions.on:
            self._files = digests_of(self._commands.words, are_scripts=conditions.shell != "none")
        name = study or study_name([one.name for one in contestants])
        self._name, self._run_log, self.replaces = find_race(self._storage, db, name, self._files, fresh=fresh)
        self._study: Study | None = None
        self._ceilings: dict[str, float] = {}
        self._decided_before = ""
        self._deadline = math.inf
        self._is_full = False  # no command may be run any more
        self._timeout = conditions.timeout or self._run_log.about.get("timeout")
        self._ahead: str | None = None  # the command that was ahead in the first runs
        self._cutoffs: Cutoffs = self._run_log.about.get("cutoffs") or {}
        # Refuse an invalid question before the first run, with a placeholder timeout.
        timeout = self._timeout or timeout_for(1.0, question.limits)
        plan = self._plan(ceilings_of(question, timeout, {}))
        self.shortage = shortage_words(plan, question, conditions.most_runs)
        """Why no answer can become certain, if too few runs are allowed."""

    def _plan(self, ceilings: Mapping[str, float]) -> Plan:
        return plan_of(self._name, [one.name for one in self._contestants], self._question, ceilings, self._blocks)

    def run(self, watch: OnRun | None = None) -> RaceResult:
        """Run until there is an answer or the time is up."""
        with self._machines:
            if self._before is not None and self._is_sample and not self._run_log.about:
                reason = "does not keep which machines were used; --fresh starts over"
                raise InvalidInput("--db", self._storage.url, reason)
            self._measure_memory_floor()
            with contextlib.nullcontext() if self.is_over else self._commands.around_all(self._machines):
                self._deadline = time.monotonic() + 60.0 * (self._conditions.minutes or DEFAULT_MINUTES)
                return self._run_study(watch)

    @functools.cached_property
    def _before(self) -> Study | None:
        return study_before(self._storage, self._name)

    @property
    def _is_done(self) -> bool:
        """Whether an earlier session ended the study."""
        return self._before is not None and self._timeout is not None and self._before.done

    @property
    def is_over(self) -> bool:
        """Whether earlier sessions made all runs that are asked for."""
        is_full = max(self._run_log.made.values(), default=0) >= self._conditions.most_runs
        return (self._is_done or is_full) and not self._lacking

    def _run_study(self, watch: OnRun | None) -> RaceResult:
        before, largest = self._before, self._first_runs() if self.first_runs else {}
        assert self._timeout is not None
        self._ceilings = ceilings_of(self._question, self._timeout, largest) | (
            {} if before is None else ceilings_in(before.plan, self._question.known)
        )
        if before is not None and self._question.tolerance_share:
            self._question = dataclasses.replace(self._question, tolerance=before.plan.objective.tolerance)
        if self._is_benchmark and largest and not self._conditions.least_runs:
            least = runs_of_one(largest["time"], self._question, self._conditions.most_runs)
            self._conditions = dataclasses.replace(self._conditions, least_runs=least)
        plan = self._plan(self._ceilings)
        study = study_of(plan, self._storage, self._conditions.seed, self._question.delta, before)
        about = {
            **self._commands.about,
            "timeout": self._timeout,
            "metrics": [metric.text for metric in self._question.own] or None,
            "tolerance": self._question.tolerance_share or None,
            # A sample of machines can grow.
            "on": None if self._is_sample else list(self._conditions.on) or None,
        }
        learned = {"memory_floor": self._run_log.floor, "cutoffs": self._cutoffs, "ahead": self._ahead}
        self._run_log.begin(about, {"files": self._files, **learned})
        self._study = study
        self._settle(study)
        self._is_full = self.is_over
        if self._is_full:
            self._decided_before = when_decided(study, self._run_log.about.get("files"))
        (self._rounds if self._blocks is None else self._blocks_on_machines)(study, watch)
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
            self._names,
            self._machines.lost,
        )

    def remark(self, words: str) -> None:
        """Add to the study what the race concludes about its answer, for readers of the study alone."""
        if self._study is not None and (words or self._storage.last_remark(self._study.record.key)):
            self._storage.remark(self._study.record.key, words, self._study.holder)

    def _measure_memory_floor(self) -> None:
        """Measure the floor below which memory cannot be seen. A limit below it cannot be decided."""
        now = max(self._machines.each(lambda runner: runner.floor()).values())
        self._run_log.floor = float(self._run_log.about.get("memory_floor", now))
        check_memory_floor(self._question, self._run_log.floor, now)

    @property
    def _counting(self) -> Counting:
        ignores_failures = self._conditions.ignores_failures
        return Counting(self._question, self._ceilings, self._cutoffs, self._run_log.floor, ignores_failures)

    @property
    def _is_learning(self) -> bool:
        """Whether it is still to be learned what a pause is."""
        places = {command_on(one.name, machine) for one in self._contestants for machine in self._machines.left}
        return bool(self._question.watched) and not self._is_benchmark and not self._cutoffs.keys() >= places

    @property
    def first_runs(self) -> int:
        """How many runs of each command come first, which do not count."""
        if self._is_done or self.is_over:
            return 0
        # The first run also shows whether the metrics of the user's own can be read.
        must_know = self._timeout is None or self._question.assumed == "range" or self._question.own
        needed = int(bool(must_know or self._question.tolerance_share or self._is_benchmark))
        # The cutoff must not rest on a run with cold caches: the quicker of two first runs counts.
        return max(self._conditions.warmup or 0, 2 if self._is_learning else needed)

    def _first_runs(self) -> dict[str, float]:
        """Make runs that do not count. They warm caches, and show how long a timeout must be and what a pause is.
        Returns the largest value of each metric."""
        is_learning = self._is_learning
        made, largest = self._machines.each(functools.partial(self._first_runs_on, self.first_runs)), {"time": 0.0}
        for machine, first in made.items():
            largest |= largest_of(("time", *self._question.metrics), first, largest)
            if is_learning:
                self._ahead = self._ahead or self._question.ahead_in(first)
                found = cutoffs_of(first, self._question.watched, self._question.limits, self._question.enlarged)
                self._cutoffs = {command_on(name, machine): found[name] for name in found} | {**self._cutoffs}
        runs = [run for first in made.values() for of_one in first.values() for run in of_one]
        if self._timeout is None:
            self._timeout = timeout_for(largest["time"], self._question.limits)
        self._question = self._question.with_tolerance_of(runs, self._run_log.floor)
        return largest

    def _first_runs_on(self, count: int, runner: Runner) -> dict[str, list[Run]]:
        first: dict[str, list[Run]] = {one.name: [] for one in self._contestants}
        for name, runs in first.items():
            for _ in range(count):
                run = self._commands.run(name, self._timeout or self._left, runner)
                if run.timed_out and self._timeout is None:
                    raise NotStarted(f"the first run of {name!r} {run.how}; a race of more --minutes could wait")
                self._commands.check_program(name, run)
                self._counting.check(name, run, f"warm-up run {len(runs) + 1}", is_first=not runs)
                runs.append(run)
        return first

    @property
    def _left(self) -> float | None:
        """The seconds that are left for a first run; None if there is no limit."""
        if self._conditions.minutes is None and self._conditions.least_runs:
            return None
        return max(self._deadline - time.monotonic(), 0.1)

    @property
    def _lacking(self) -> list[str]:
        """The commands with fewer runs than were asked for at least."""
        made = self._run_log.made
        return [one.name for one in self._contestants if made[one.name] < self._conditions.least_runs]

    @property
    def _is_late(self) -> bool:
        """Whether the time is up. The least runs are made in any case, unless the time was stated."""
        is_stated = self._conditions.minutes is not None
        return time.monotonic() >= self._deadline and (is_stated or not self._lacking)

    def _next_runs(self, study: Study) -> list[Test]:
        """The next runs to make; none if there are none, or none now."""
        lacking = self._lacking
        if lacking:
            return study._ask_each(lacking)
        tests = study.ask(len(self._contestants))
        asked = self._run_log.made + Counter(test.arm for test in tests)
        if any(asked[test.arm] > self._conditions.most_runs for test in tests):
            study.release(tests)
            self._is_full = True
            return []
        return tests

    def _complete(self, study: Study, watch: OnRun | None) -> None:
        """Make the runs that are still lacking once there is an answer. They are measured and shown, and are no tests
        of the study, which has ended."""
        rng = random.Random(study.record.seed)
        while study.status().state in DECIDED and (names := self._lacking) and not self._is_late:
            rng.shuffle(names)
            for name in names:
                [run] = self._machines.each(functools.partial(self._commands.run, name, self._timeout)).values()
                self._run_log.add_later(name, run)
                self._counting.check(name, run, f"run {self._run_log.made[name]}")
            if watch is not None:
                watch(study, self._run_log)

    def _rounds(self, study: Study, watch: OnRun | None) -> None:
        """Ask for a run of every command, and make them in random order, so that no command is always the first."""
        rng = random.Random(study.record.seed)
        while not study.done and not self._is_late and not self._is_full:
            tests = self._next_runs(study)
            if not tests:
                time.sleep(_POLL)
            tests = shuffled(tests, rng)
            held = {test.id: test for test in tests}
            try:
                for test in tests:
                    if self._is_late or study.done:
                        break
                    assert self._timeout is not None
                    made = self._machines.each(functools.partial(self._commands.run, test.arm, self._timeout))
                    self._take(study, held, [(test, run) for run in made.values()])
                    if watch is not None:
                        watch(study, self._run_log)
            finally:
                if held:
                    study.release(held.values())
        self._complete(study, watch)

    def _blocks_on_machines(self, study: Study, watch: OnRun | None) -> None:
        """Ask for a block, and let all machines make their share of it at the same time. If each is used only once, ask
        for as many blocks. A block that has begun is completed, since which runs are slow must not decide what counts.
        """
        used = {run.on for _, run in self._run_log.runs.values()} if self._is_sample else set()
        unused = [name for name in self._machines.left if name not in used]
        rng = random.Random(study.record.seed)
        while not study.done and time.monotonic() < self._deadline and unused:
            machines = unused[:MOST_BLOCKS_HELD] if self._is_sample else self._machines.left
            rng.shuffle(machines)
            shares: dict[str, list[Test]] = {}
            left_over: list[Test] = []
            for together in [[name] for name in machines] if self._is_sample else [machines]:
                more, rest = shares_of(new_block(study), together)
                shares |= more
                left_over += rest
            if not any(shares.values()):
                time.sleep(_POLL)
                continue
            unused = [name for name in unused if not (self._is_sample and shares.get(name))]
            self._measure_shares(study, shares, left_over)
            if watch is not None:
                watch(study, self._run_log)

    def _measure_shares(self, study: Study, shares: Mapping[str, Sequence[Test]], left_over: Sequence[Test]) -> None:
        held = {test.id: test for tests in (*shares.values(), left_over) for test in tests}
        whys = {test.id: name for name, tests in shares.items() for test in tests}
        limit = self._timeout
        assert limit is not None
        reason = "the round was interrupted"
        try:
            made = self._machines.each(
                lambda runner: [
                    (test, self._commands.run(test.arm, limit, runner)) for test in shares.get(runner.on, ())
                ]
            )
            reason = "a whole round does not fit into the budget"
            self._take(study, held, [pair for pairs in made.values() for pair in pairs])
        finally:
            for test in held.values():
                lost = self._machines.lost.get(whys.get(test.id, ""))
                study.abandon(test, reason if lost is None else f"the machine was lost: {lost}")

    def _take(self, study: Study, held: dict[int, Test], made: Sequence[tuple[Test, Run]]) -> None:
        """Take in runs, all at once. One that failed is set aside, which ends the race."""
        told: list[tuple[Test, Result]] = []
        failed: MeasurementFailed | None = None
        for test, run in made:
            self._run_log.add(test.id, test.arm, run)
            try:
                self._counting.check(test.arm, run, f"run {test.id}")
                told.append((test, self._counting.values(test, run)))
            except MeasurementFailed as error:
                # It blocks later results until the user says what it counts as.
                study.set_aside(held.pop(test.id), str(error), kind=error.kind)
                failed = failed or error
        study.tell_many(told)
        for test, _ in told:
            del held[test.id]
        if failed is not None:
            raise failed

    def _settle(self, study: Study) -> None:
        """Settle what an earlier session left. Failed runs count if failures are allowed now. Runs of a process that
        has ended are made again, without waiting for a missed heartbeat."""
        for test, row in study.pending():
            if row.aside is None:
                if is_gone(row.holder) and self._blocks is None:
                    study.release([test])
                elif is_gone(row.holder):
                    study.abandon(test, "the round was interrupted")
                continue
            _, run = self._run_log.runs.get(test.id, (None, None))
            if run is None:
                study.fail(test, "the record of the run is lost; it is made again")
                continue
            which = f"no run was made now (--fresh starts over): run {test.id}, which was kept,"
            self._counting.check(test.arm, run, which)
            study.tell(test, self._counting.values(test, run))
