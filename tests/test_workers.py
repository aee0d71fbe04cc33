"""Workers: functions on any executor, commands, failures, interruption and resumption."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import bestarm as ba
from bestarm.study import workers
from bestarm.study.command import Command
from bestarm.study.storage import StorageError
from bestarm.testing.patience import PATIENCE, wait_until

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
    monkeypatch.syspath_prepend(Path(__file__).parent.parent)


def test_identify_alone() -> None:
    answer = ba.identify(plan(), exact)
    assert (answer.state, answer.arm) == ("certified", "high")
    assert answer.reasons["harmful"].startswith("infeasible")


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("policy", ["certify", "feasible-lucb"])
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


def test_identify_on_dask(needs: Callable[[str], None]) -> None:
    needs("distributed")
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


def test_equal_calls_are_made_anew_on_dask(
    needs: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask knows a call with equal arguments again and would return its old result."""
    needs("distributed")
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


def test_failures_are_tried_again_and_kept(tmp_path: Path) -> None:
    failed: list[str] = []

    def moody(arm: str, metric: str) -> float:
        if len(failed) < 2:
            failed.append(metric)
            raise OSError("the instrument is warming up")
        return exact(arm, metric)

    assert ba.identify(plan(), moody, storage=tmp_path / "s.db").arm == "high"
    log = ba.Study.open("study", storage=tmp_path / "s.db").log()
    assert [event.detail for event in log if event.kind == "failed"] == ["OSError: the instrument is warming up"] * 2


def test_too_many_failures_end_the_work_and_not_the_study(tmp_path: Path) -> None:
    with pytest.raises(
        ba.MeasurementFailed,
        match=r"test 1 \('gain' of 'low'\) failed 3 times, the last time: ValueError: cannot measure gain of low",
    ):
        ba.identify(plan(), stubborn, storage=tmp_path / "s.db")
    # Another function goes on with it.
    assert ba.identify(plan(), exact, storage=tmp_path / "s.db").arm == "high"
    with pytest.raises(ba.InvalidInput, match=r"name = 'study': there is a study of this name .* with another plan"):
        ba.identify(plan(delta=0.2), exact, storage=tmp_path / "s.db")


def test_a_value_that_cannot_be_is_a_failure() -> None:
    with pytest.raises(ba.MeasurementFailed, match=r"value of 'harm' = 0.5: must be 0 or 1"):
        ba.identify(plan(), lambda arm, metric: 0.5)
    with pytest.raises(ba.MeasurementFailed, match=r"value of 'gain' = None: must be a number"):
        ba.identify(plan(), lambda arm, metric: None, retries=0)  # type: ignore[arg-type, return-value]


@pytest.mark.usefixtures("importable")
def test_a_worker_process_that_dies_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BESTARM_TEST_MARK", str(tmp_path / "mark"))
    answer = ba.identify(plan(), killed_once, executor="processes", workers=1)
    assert answer.arm == "high"
    assert (tmp_path / "mark").exists()


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
    monkeypatch.setattr(study.storage, "find_study", troubled)
    troubles = iter(range(99))
    with pytest.raises(StorageError):
        workers.drive(study, submit, 2)


ECHO = f"{sys.executable} -c 'import sys; print(len(sys.argv[1]))'"


@pytest.mark.parametrize(
    "name", ["plain", "two words", "$(touch pwned)", "; touch pwned", "`touch pwned`", "'\"", "-n", "{metric}", "*"]
)
@pytest.mark.parametrize("shell", [False, True])
def test_names_cannot_inject_commands(name: str, shell: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = Command(f"{ECHO} {{arm}}", "s", shell=shell)
    assert command(ba.Test(1, name, "m")) == len(name)
    assert list(tmp_path.iterdir()) == []


def test_commands_find_the_names_in_their_environment() -> None:
    script = "import os; print(sum(len(os.environ['BESTARM_' + key]) for key in ('ARM', 'METRIC', 'TEST', 'STUDY')))"
    assert Command(f'{sys.executable} -c "{script}"', "dose")(ba.Test(17, "a", "bc")) == 1 + 2 + 2 + 4


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("printf 'one two'", "must print one number, and printed 'one two'"),
        ("printf ''", "must print one number, and printed ''"),
        ("printf one", "the command's output = 'one': must be a number"),
        ("sh -c 'echo broken pipe >&2; exit 3'", "ended with status 3; it said: broken pipe"),
        ("sh -c 'kill -9 $$'", "was ended by signal 9"),
        ("no-such-program-anywhere", "cannot be started: No such file or directory"),
        ("sleep 60", "took longer than 0.3 s and was stopped"),
    ],
)
def test_commands_that_fail(template: str, words: str) -> None:
    command = Command(template, "s", timeout=0.3 if "sleep" in template else PATIENCE)
    with pytest.raises(ba.MeasurementFailed, match=words.replace("(", r"\(")):
        command(ba.Test(1, "a", "m"))


def test_a_command_that_hangs_is_ended_with_all_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"sh -c 'sleep 3600 & echo $! > {child}; wait'"
    # On a busy machine it may be ended before it has a child.
    for timeout in (1.0, 10.0, 100.0):
        with pytest.raises(ba.MeasurementFailed, match="took longer"):
            Command(script, "s", timeout=timeout)(ba.Test(1, "a", "m"))
        if child.exists() and child.read_text().endswith("\n"):
            break
    wait_until(lambda: not _alive(int(child.read_text())))


def _alive(process: int) -> bool:
    """Running, and not a zombie that nobody has waited for."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return bool(state.stdout.strip()) and not state.stdout.strip().startswith("Z")


def test_commands_that_cannot_be() -> None:
    with pytest.raises(ba.InvalidInput, match="command = '': must not be empty"):
        Command("", "s")
    with pytest.raises(ba.InvalidInput, match="cannot be split into words: No closing quotation"):
        Command("echo '", "s")
    with pytest.raises(ba.InvalidInput, match="timeout = -1: must be a positive number of seconds"):
        Command("echo", "s", timeout=-1)
