"""Workers: functions on any executor, failures, interruption and lost databases."""

from __future__ import annotations

import functools
import importlib
import itertools
import logging
import math
import os
import random
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from tests.lengths import lengths
from tests.tools.patience import PATIENCE, wait_until

import bestarm as ba
from bestarm.analysis.status import waiting
from bestarm.storage.errors import StorageError
from bestarm.storage.sql.storage import SQLStorage
from bestarm.study import heartbeat
from bestarm.study.work import workers

GAINS = {"low": 0.0, "high": 3.0, "harmful": 6.0}


def plan(**options: Any) -> ba.Plan:
    return ba.Plan(
        arms=tuple(ba.Arm(name) for name in GAINS),
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("harm", 0.5, noise=ba.Bernoulli()),),
        **options,
    )


def exact(arm: str, metric: str) -> float:
    """A measurement without noise: the answer is certain, and the number of tests always the same."""
    return GAINS[arm] if metric == "gain" else float(arm == "harmful")


def stubborn(arm: str, metric: str) -> float:
    raise ValueError(f"cannot measure {metric} of {arm}")


def killed_once(arm: str, metric: str) -> float:
    """The first worker process that gets here dies."""
    mark = Path(os.environ["BESTARM_TEST_MARK"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return exact(arm, metric)


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let worker processes import this file, where the functions are."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])


def test_identify_alone() -> None:
    answer = ba.identify(plan(), exact)
    assert (answer.state, answer.arm) == ("certified", "high")
    assert answer.reasons["harmful"].startswith("infeasible")


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("policy", lengths("certify", "feasible-lucb"))
def test_identify_on_executors(policy: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as threads, ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        executors: dict[str, Any] = {"threads": threads, "processes": processes, "by name": "threads"}
        for name, executor in executors.items():
            answer = ba.identify(
                plan(policy=policy), exact, name=name, storage=tmp_path / "s.db", executor=executor, workers=3
            )
            assert answer.arm == "high"
            study = ba.Study.open(name, storage=tmp_path / "s.db")
            assert study.answer == answer


@pytest.mark.parts("distributed")
def test_identify_on_dask() -> None:
    distributed: Any = importlib.import_module("distributed")

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):

        def noisy(arm: str, metric: str) -> float:
            import random

            return exact(arm, metric) + (random.gauss(0.0, 1.0) if metric == "gain" else 0.0)

        answer = ba.identify(plan(delta=1e-6), noisy, executor=client.get_executor(), workers=2)
    # Wrong with probability at most 1e-6.
    assert answer.arm == "high"


@pytest.mark.parts("distributed")
def test_equal_calls_are_made_anew_on_dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask knows a call with equal arguments again and would return its old result."""
    distributed: Any = importlib.import_module("distributed")

    def counted(arm: str, metric: str) -> float:
        with open(os.environ["BESTARM_TEST_CALLS"], "a") as calls:
            calls.write(f"{arm} {metric}\n")
        return exact(arm, metric)

    calls = tmp_path / "calls"
    monkeypatch.setenv("BESTARM_TEST_CALLS", str(calls))
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        answer = ba.identify(plan(), counted, executor=client.get_executor(), workers=1)
    made = calls.read_text().splitlines()
    assert len(made) == answer.tests > len(set(made))


def test_failures_are_tried_again_if_they_are_declared_harmless(tmp_path: Path) -> None:
    failed: list[str] = []

    def moody(arm: str, metric: str) -> float:
        if len(failed) < 2:
            failed.append(metric)
            raise OSError("the instrument is warming up")
        return exact(arm, metric)

    assert ba.identify(plan(), moody, storage=tmp_path / "s.db", retries=2).arm == "high"
    log = ba.Study.open("study", storage=tmp_path / "s.db").log()
    assert [event.detail for event in log if event.kind == "failed"] == ["OSError: the instrument is warming up"] * 2


def test_a_failure_stops_the_work_and_not_the_study(tmp_path: Path) -> None:
    def identify(function: Callable[[str, str], float], **options: Any) -> ba.Answer:
        return ba.identify(plan(), function, storage=tmp_path / "s.db", **options)

    with pytest.raises(ba.MeasurementFailed) as stopped:
        identify(stubborn)
    said = str(stopped.value)
    assert said.startswith("test 1 ('gain' of 'low') failed: ValueError: cannot measure gain of low. It is set aside")
    assert "failed_as=VALUE to record that value; or retries=N, if failures have nothing to do with results" in said
    study = ba.Study.open("study", storage=tmp_path / "s.db")
    assert [(row.id, row.aside) for _, row in study.pending()] == [(1, "failed")]
    # It is not handed out again, and a new start without a declaration fails in the same way.
    assert study.ask(1)[0].id == 2
    study.release(2)
    with pytest.raises(ba.MeasurementFailed, match=r"test 1 .* failed: ValueError.* Declare what it counts"):
        identify(exact)
    with pytest.raises(ba.MeasurementFailed, match=r"test 1 .* failed 3 times, the last time: ValueError"):
        identify(stubborn, retries=2)
    # What is declared goes for failures from before, too.
    assert identify(exact, retries=1).arm == "high"
    with pytest.raises(ba.InvalidInput, match=r"name = 'study': there is a study of this name .* with another plan"):
        ba.identify(plan(delta=0.2), exact, storage=tmp_path / "s.db")


def test_what_is_under_way_when_a_test_fails_is_told(tmp_path: Path) -> None:
    """To give it back would have it made again, and prefer results that are quick."""
    failed = threading.Event()

    def measure(arm: str, metric: str) -> float:
        if (arm, metric) == ("low", "gain"):
            failed.set()
            raise RuntimeError("broke")
        assert failed.wait(PATIENCE)
        wait_until(lambda: ba.Study.open("study", storage=tmp_path / "s.db").unresolved())
        return exact(arm, metric)

    with pytest.raises(ba.MeasurementFailed, match="RuntimeError: broke"):
        ba.identify(plan(), measure, storage=tmp_path / "s.db", workers=3)
    study = ba.Study.open("study", storage=tmp_path / "s.db")
    assert [row.id for _, row in study.pending()] == [1]
    assert study.status().waiting >= 2
    assert "released" not in {event.kind for event in study.log()}


def test_what_a_failure_counts(tmp_path: Path) -> None:
    """Values by metric, for errors and for time-outs, also of a test that failed before anything was declared."""

    def fragile(arm: str, metric: str) -> float:
        if metric == "harm" and arm == "harmful":
            raise RuntimeError("crashed")
        if metric == "gain" and arm == "low":
            raise TimeoutError("took too long")
        return exact(arm, metric)

    with pytest.raises(ba.MeasurementFailed, match=r"test 1 \('gain' of 'low'\) timed out: .*timeout_as=VALUE"):
        ba.identify(plan(), fragile, storage=tmp_path / "s.db", failed_as={"harm": 1})
    answer = ba.identify(
        plan(), fragile, storage=tmp_path / "s.db", failed_as={"harm": True}, timeout_as={"gain": -9.0}
    )
    assert answer.arm == "high"
    assert answer.reasons["harmful"].startswith("infeasible")
    study = ba.Study.open("study", storage=tmp_path / "s.db")
    assert study.state[0].metrics[0].mean == -9.0
    assert [event.kind for event in study.log() if event.kind in ("failed", "set aside")] == ["set aside"]
    for options, words in (
        ({"failed_as": {"pain": 1}}, "failed_as: no metric 'pain'; there are 'gain', 'harm'"),
        ({"failed_as": 0.5}, "failed_as: value of 'harm' = 0.5: must be 0 or 1, or k/n.*; values can be given"),
        ({"timeout_as": {"harm": 2}}, "timeout_as: value of 'harm' = 2: must be 0 or 1"),
        ({"failed_as": "1"}, "failed_as: value of 'gain' = '1': must be a number"),
        ({"retries": -1}, "retries = -1: must be a whole number, 0 or more"),
        ({"retries": True}, "retries = True: must be a whole number, 0 or more"),
        ({"workers": 0}, "workers = 0: must be a whole number from 1 to 10,000"),
    ):
        with pytest.raises(ba.InvalidInput, match=words):
            ba.identify(plan(name="other"), exact, **options)


@pytest.mark.torture
@pytest.mark.parametrize(("studies", "at_most"), lengths((3, 2), (10, 4)))
def test_what_is_recorded_is_not_what_succeeds(studies: int, at_most: int) -> None:
    """A program that crashes on three inputs of ten, where two are allowed, must not be called safe.

    With failures counted, a study certifies it with probability at most 0.05; that all of 3 seeded ones do has
    probability below 2e-4, more than 4 of 10 below 1e-4.
    """
    problem = ba.Problem(
        arms=["only"],
        objective=ba.maximize("speed", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most("crash", 0.2, noise=ba.Bernoulli())],
    )
    certified = 0
    for seed in range(studies):
        rng = random.Random(seed)

        def crashing(arm: str, metric: str, rng: random.Random = rng) -> float:
            if metric == "crash" and rng.random() < 0.3:
                raise RuntimeError("segmentation fault")
            return 0.0 if metric == "crash" else rng.gauss(0.0, 1.0)

        with pytest.raises(ba.MeasurementFailed):
            ba.identify(problem, crashing, delta=0.05)
        certified += ba.identify(problem, crashing, delta=0.05, failed_as={"crash": 1}).state == "certified"
    assert certified <= at_most


@pytest.mark.parametrize(("studies", "at_most"), lengths((3, 2), (10, 4)))
def test_adverse_results_that_take_long_are_heard(studies: int, at_most: int) -> None:
    """Two workers with heartbeats, by a clock of ours. What is adverse takes a minute, what is not a second.

    Each study is wrong with probability at most 0.05; that all of 3 seeded ones are, below 2e-4, more
    than 4 of 10, below 1e-4.
    """
    problem = ba.Problem(
        arms=["only"],
        objective=ba.maximize("speed", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most("crash", 0.3, noise=ba.Bernoulli())],
    )
    wrong = 0
    for seed in range(studies):
        rng, clock = random.Random(seed), itertools.count(0.0, heartbeat._EVERY)
        storage = SQLStorage(":memory:", create=True)
        ba.Study.create(problem, delta=0.05, storage=storage)
        pair = [ba.Study.open("study", storage=storage, holder=name) for name in ("ann", "bob")]
        under_way: list[tuple[float, ba.Test, float] | None] = [None, None]
        while not pair[0].done:
            now = next(clock)
            storage._database.clock = functools.partial(float, now)
            for k, worker in enumerate(pair):
                task = under_way[k]
                if task is None and (asked := worker.ask(1, lease=heartbeat.LEASE)):
                    crash = asked[0].metric == "crash"
                    value = float(rng.random() < 0.6) if crash else rng.gauss(0.0, 1.0)
                    under_way[k] = (now + (60.0 if crash and value else 1.0), asked[0], value)
                elif task is not None and task[0] <= now:
                    # Accepted without complaint: a living holder's result always counts.
                    worker.tell(task[1], task[2])
                    under_way[k] = None
                elif task is not None:
                    worker.renew([task[1]], heartbeat.LEASE)
        answer = pair[0].answer
        assert answer is not None
        wrong += answer.state == "certified"
    assert wrong <= at_most


def test_a_value_that_cannot_be_is_never_measured_again() -> None:
    calls: list[str] = []

    def wrong(arm: str, metric: str) -> float:
        calls.append(metric)
        return 0.5

    with pytest.raises(ba.MeasurementFailed, match=r"gave an impossible value: value of 'harm' = 0.5: must be 0"):
        ba.identify(plan(), wrong, retries=5, failed_as={"harm": 1})
    assert calls.count("harm") == 1
    with pytest.raises(ba.MeasurementFailed, match=r"value of 'gain' = nan: must be a finite number"):
        ba.identify(plan(), lambda arm, metric: math.nan)
    with pytest.raises(ba.MeasurementFailed, match="the noise that the study states for 'harm' is wrong, or what"):
        ba.identify(plan(), lambda arm, metric: 7.0)


def test_waiting_for_somebody_who_forgot_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (workers, waiting):
        monkeypatch.setattr(module, "SHOWN_AFTER", 0.0)
    lost = ba.Study.create(plan(), storage=tmp_path / "s.db", holder="ann").ask(2, days=math.inf)

    def free(study: ba.Study, running: int) -> None:
        if caplog.records:
            study.release(lost)

    with caplog.at_level(logging.WARNING, "bestarm"):
        assert ba.identify(plan(), exact, storage=tmp_path / "s.db", watch=free).arm == "high"
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith("No result counts before that of test 1 (gain of low), which ann has held for ")
    where = f"--db {tmp_path / 's.db'}"
    assert f"if its result will not come: bestarm abandon study 1 --reason WHY {where} (later results" in said[0]
    assert said[0].endswith(f"bestarm release study 1 {where} (it is made again, and they wait for it)")
    assert len(said) == len(set(said)), "each is said once"


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("count", lengths(1, 2))
def test_a_worker_process_that_dies(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a failed attempt: of the one test that was under way, or of an unknown one."""
    monkeypatch.setenv("BESTARM_TEST_MARK", str(tmp_path / "mark"))
    storage = tmp_path / "s.db"
    words = "failed: BrokenProcessPool" if count == 1 else "it is unknown whose measurement ended this one"
    with pytest.raises(ba.MeasurementFailed, match=words):
        ba.identify(plan(), killed_once, executor="processes", workers=count, storage=storage)
    # Going on needs no processes.
    answer = ba.identify(plan(), killed_once, workers=count, storage=storage, retries=1)
    assert answer.arm == "high"
    (tmp_path / "mark").unlink()
    answer = ba.identify(plan(name="again"), killed_once, executor="processes", workers=1, retries=1)
    assert answer.arm == "high"


def test_interrupted_work_is_given_back(tmp_path: Path) -> None:
    study = ba.Study.create(plan(policy="racing"), storage=tmp_path / "s.db")

    out: list[Future[Any]] = []

    def hanging(test: ba.Test, tries: int) -> Future[Any]:
        if len(out) == 3:
            raise KeyboardInterrupt
        out.append(Future())
        return out[-1]

    with pytest.raises(KeyboardInterrupt):
        workers.drive(study, hanging, 4)
    assert len(out) == 3
    # At once, and not when the lease is over.
    again = ba.Study.open("study", storage=tmp_path / "s.db").ask(6)
    assert [test.id for test in again] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
def test_a_function_that_ends_the_program_gives_its_test_back(end: type[BaseException], count: int) -> None:
    """Otherwise later results would wait for it, and more tests would be made than are needed."""
    calls = itertools.count(1)

    def measure(arm: str, metric: str) -> float:
        if next(calls) == 7:
            raise end
        return 1.0 if metric == "gain" else 0.0

    study = ba.Study.create(plan(), storage=":memory:")
    with pytest.raises(end):
        ba.identify(plan(), measure, storage=study.storage, workers=count)
    assert study.pending()
    assert all(held.expires == 0.0 for _, held in study.pending())
    [first, *_] = study.ask(1)
    assert first.id == 7


def test_a_database_out_of_reach_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    tell, troubles = study.storage.tell, iter(range(3))

    def troubled(*arguments: Any) -> Any:
        if next(troubles, None) is not None:
            raise StorageError("the database server cannot be reached")
        return tell(*arguments)

    monkeypatch.setattr(study.storage, "tell", troubled)

    def submit(test: ba.Test, tries: int) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(exact(test.arm, test.metric))
        return future

    assert workers.drive(study, submit, 2).arm == "high"
    monkeypatch.setattr(workers, "PATIENCE", 0.0)
    monkeypatch.setattr(study.storage, "look", troubled)
    troubles = iter(range(99))
    with pytest.raises(StorageError):
        workers.drive(study, submit, 2)
