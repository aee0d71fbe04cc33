"""The client: a study on a server behaves as one that is here, and so do its errors."""

from __future__ import annotations

import dataclasses
import inspect
import math
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tools.patience import PATIENCE, wait_until
from tests.tools.ports import reserve_port

import bestarm as ba
from bestarm.client import Client, RemoteStudy
from bestarm.storage.errors import StorageError
from bestarm.study.study import AlreadyTold, Study, Test
from bestarm.study.work.failures import MeasurementFailed
from bestarm.study.work.workers import drive
from bestarm.web.limits import Limits
from bestarm.web.server import running

MEANS = {"a": {"gain": 0.2, "harm": 0.1}, "b": {"gain": 0.8, "harm": 0.1}, "c": {"gain": 0.9, "harm": 0.9}}


def plan(name: str = "trial") -> ba.Plan:
    return ba.Plan(
        arms=list(MEANS),
        objective=ba.maximize("gain", noise=ba.Gaussian(0.3)),
        constraints=[ba.at_most("harm", 0.5, noise=ba.Bernoulli(), cost=3.0)],
        name=name,
    )


def measured(rng: random.Random, test: Test) -> float:
    mean = MEANS[test.arm][test.metric]
    return rng.gauss(mean, 0.3) if test.metric == "gain" else float(rng.random() < mean)


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return str(tmp_path / "studies.db")


@pytest.fixture
def client(storage: str) -> Iterator[Client]:
    with running(storage) as url:
        client = Client(url)
        yield client
        client.close()


def test_it_has_every_method_and_property_of_a_study() -> None:
    public = {name for name in dir(Study) if not name.startswith("_")}
    here = {name for name in dir(RemoteStudy) if not name.startswith("_")}
    # These are of the record itself, which only its database, or a copy, has.
    of_record = {"storage", "record"}
    assert public - here == {"create", "open"} | of_record
    for name in public & here:
        mine, theirs = getattr(RemoteStudy, name), getattr(Study, name)
        assert isinstance(mine, property) == isinstance(theirs, property), name
        if not isinstance(mine, property):
            assert inspect.signature(mine) == inspect.signature(theirs), name


def test_what_reads_the_whole_record_reads_a_copy(client: Client, storage: str, tmp_path: Path) -> None:
    remote = client.create(plan())
    remote.add([("a", "gain", 0.25), ("b", "gain", 0.75), ("c", "harm", 1.0)])
    local = Study.open("trial", storage=storage)
    assert remote.frame().equals(local.frame())
    assert remote.frame(wide=True).equals(local.frame(wide=True))
    assert remote.course(3) == local.course(3)
    remote.report(tmp_path / "there.html", forecast=False)
    assert "trial" in (tmp_path / "there.html").read_text(encoding="utf-8")
    copy = remote.copy()
    copy.add([("a", "gain", 9.0)])
    assert remote.status().tests == local.status().tests == 3
    assert len(remote.log(20_000)) == len(local.log(20_000))


def test_a_whole_study_is_decided_as_here(client: Client, storage: str) -> None:
    remote, local = client.create(plan()), Study.create(plan(), storage=":memory:")
    rng, same_lots = random.Random(1), random.Random(1)
    while not local.done:
        assert not remote.done
        tests = local.ask(3)
        assert remote.ask(3) == tests
        for test in tests:
            local.tell(test, measured(rng, test))
        remote.tell_many([(test, measured(same_lots, test)) for test in tests])
        assert remote.confidence == local.confidence
    assert remote.done
    assert local.answer is not None
    assert local.answer.arm == "b"
    assert remote.answer == local.answer
    assert str(remote.answer) == str(local.answer)
    assert remote.status() == local.status()
    assert remote._repr_html_() == local._repr_html_()
    assert remote.state == local.state
    assert remote.forecast() is None
    assert remote.differences() == local.differences() == local.answer.differences
    assert remote.differences("a") == local.differences("a")
    assert remote.progress().tests == local.progress().tests
    assert client.open("trial").answer == local.answer
    assert Study.open("trial", storage=storage).answer == local.answer


def test_what_is_not_known_comes_as_it_is_here(client: Client, storage: str) -> None:
    remote = client.create(plan())
    local = Study.open("trial", storage=storage)
    [metric, *_] = remote.state[0].metrics
    assert math.isnan(metric.mean)
    assert (metric.low, metric.high) == (-math.inf, math.inf)
    assert repr(remote.status()) == repr(local.status())
    assert remote.answer is None
    assert remote.differences() == {}
    assert repr(remote.differences("a")) == repr(local.differences("a"))
    with pytest.raises(ba.InvalidInput, match="arm"):
        remote.differences("nobody")
    assert remote.forecast() is None
    for state in ("too early", "simulated"):
        for _ in range(1 if state == "too early" else 5):
            for test in remote.ask(12):
                remote.tell(test, 0.0)
        found, here = (study.forecast(runs=20, seed=3) for study in (remote, local))
        assert found is not None
        assert here is not None
        assert found.state == state
        assert repr(dataclasses.replace(found, made=here.made)) == repr(here)


def test_the_smaller_operations(client: Client, storage: str) -> None:
    remote = client.create(plan(), seed=7, holder="me")
    local = Study.open("trial", storage=storage)
    assert local.record.seed == 7
    tests = remote.ask(4, lease=100.0)
    assert [row.holder for _, row in remote.pending()] == ["me"] * 4
    assert remote.pending() == local.pending()
    remote.renew(tests, lease=5000.0)
    assert all(new[1].expires > 4000 + test.id for new, test in zip(remote.pending(), tests, strict=True))
    remote.fail(tests[0], "broke")
    remote.release(tests[1:2])
    you = client.open("trial", holder="you")
    assert [test.id for test in you.ask(2)] == [1, 2]
    remote.abandon(tests[3], "spilled")
    with pytest.raises(AlreadyTold, match="was handed to you in the meantime, whose result counts"):
        remote.tell(tests[1], True)
    you.tell(tests[1], True)
    remote.correct(tests[1], np.float64(0.0), "misread")
    assert remote.add([("a", "gain", 0.5), ("b", "harm", True)], source="file 1") == [5, 6]
    assert remote.log() == local.log()
    assert [event.kind for event in remote.log(3)] == [event.kind for event in local.log(3)]
    assert {event.detail for event in remote.log()} >= {"broke", "spilled", "misread"}
    remote.archive()
    assert [line.name for line in client.studies()] == []
    assert [line.name for line in client.studies(archived=True)] == ["trial"]
    with pytest.raises(ba.InvalidInput, match="is archived"):
        you.tell(tests[0], 1.0)
    remote.archive(undo=True)
    you.tell(tests[0], 1.0)
    assert remote.pending() == local.pending()
    assert remote.unresolved() == []
    remote.set_aside(tests[2], "out of ink", kind="timed out")
    assert [(test.test, test.state) for test in remote.unresolved()] == [(3, "timed out")]
    assert [(test.test, test.state) for test in local.unresolved()] == [(3, "timed out")]
    assert [(row.aside, row.reason, row.expires) for _, row in remote.pending()] == [
        ("timed out", "out of ink", math.inf)
    ]
    assert remote.pending() == local.pending()
    assert (remote.arm_number("b"), remote.metric_number("harm")) == (1, 1)


def test_errors_are_those_of_a_study(client: Client, storage: str) -> None:
    remote = client.create(plan())
    local = Study.open("trial", storage=storage)
    gain, harm, *_ = remote.ask(6)
    remote.tell(gain, 0.5)
    mistakes: list[tuple[Callable[[Any], object], type[Exception]]] = [
        (lambda study: study.tell(gain, 0.6), AlreadyTold),
        (lambda study: study.tell(99, 0.6), ba.InvalidInput),
        (lambda study: study.tell(harm, 0.5), ba.InvalidInput),
        (lambda study: study.tell(gain.id, True), ba.InvalidInput),
        (lambda study: study.tell(dataclasses.replace(harm, arm="c"), 1), ba.InvalidInput),
        (lambda study: study.add([("z", "gain", 1.0)]), ba.InvalidInput),
        (lambda study: study.add([("a", "z", 1.0)]), ba.InvalidInput),
        (lambda study: study.correct(harm, 1, "misread"), ba.InvalidInput),
        (lambda study: study.ask(0), ba.InvalidInput),
        (lambda study: study.ask(True), ba.InvalidInput),
        (lambda study: study.ask(1, lease=-1.0), ba.InvalidInput),
        (lambda study: study.tell("x", 0.5), ba.InvalidInput),
    ]
    for act, error in mistakes:
        with pytest.raises(error) as there:
            act(remote)
        with pytest.raises(error) as here:
            act(local)
        assert str(there.value) == str(here.value)
        assert type(there.value) is type(here.value)
    for value in (math.nan, math.inf, "0.5", None):
        with pytest.raises(ba.InvalidInput, match="must be a"):
            remote.tell(harm, value)  # type: ignore[arg-type]
    for study in (remote, local):
        study.abandon(harm, "gone")
        with pytest.raises(AlreadyTold, match="was abandoned: gone"):
            study.tell(harm, 1.0)
    with pytest.raises(ba.InvalidInput, match="a study of this name exists already") as taken:
        client.create(plan())
    assert not isinstance(taken.value, AlreadyTold)
    with pytest.raises(ba.InvalidInput, match=r"no such study in 'http://127.*there are 'trial'"):
        client.open("other")
    with pytest.raises(ba.InvalidInput, match="at most 10,000"):
        remote.tell_many([(1, 0.5)] * 10_001)


def test_workers_drive_a_study_on_a_server(client: Client, storage: str) -> None:
    remote, rng = client.create(plan()), random.Random(2)
    told: list[int] = []
    with ThreadPoolExecutor(4) as pool:
        answer = drive(
            remote,
            lambda test, _: pool.submit(measured, rng, test),
            4,
            watch=lambda study, running: told.append(running),
        )
    assert answer.arm == "b"
    assert answer.state == "certified"
    assert told
    failing = client.create(plan("failing"))
    with ThreadPoolExecutor(1) as pool, pytest.raises(MeasurementFailed, match="division"):
        drive(failing, lambda test, _: pool.submit(lambda: 1 / 0), 1)
    # Nobody has said what a failure counts, so the test is not made again.
    assert failing.ask(1)[0].id == 2
    awaited = failing.awaited()
    assert awaited is not None
    assert (awaited.test, awaited.state, awaited.reason) == (1, "failed", "ZeroDivisionError: division by zero")
    # Where the service keeps it is not told.
    here = Study.open("failing", storage=storage).awaited()
    assert here is not None
    assert awaited.command == "bestarm release failing 1"
    assert here.command == f"bestarm release failing 1 --db {storage}"
    no_commands: dict[str, Any] = {"command": "", "count_command": "", "give_up_command": ""}
    assert dataclasses.replace(here, **no_commands) == dataclasses.replace(awaited, **no_commands)
    failing.release(1)
    assert failing.ask(1)[0].id == 1


@pytest.mark.torture
def test_workers_outlive_a_restart_of_the_service(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, answers, gone, refused = random.Random(3), [], threading.Event(), threading.Event()
    reserved = reserve_port()
    port = reserved.getsockname()[1]
    with running(storage, port=port) as url, Client(url) as client:
        remote = client.create(plan())
        post = remote._connection.post

        def watched(path: str, body: dict[str, Any], **key: Any) -> Any:
            try:
                return post(path, body, **key)
            except StorageError:
                refused.set()
                raise

        monkeypatch.setattr(remote._connection, "post", watched)

        def work() -> None:
            with ThreadPoolExecutor(2) as pool:
                answers.append(drive(remote, lambda test, _: pool.submit(slowly, rng, test), 2))

        def slowly(rng: random.Random, test: Test) -> float:
            # Else the study could be at its end before the service is.
            assert test.id <= 8 or gone.wait(PATIENCE)
            return measured(rng, test)

        worker = threading.Thread(target=work)
        worker.start()
        wait_until(lambda: Study.open("trial", storage=storage).status().tests == 8)
    assert worker.is_alive()
    gone.set()
    assert refused.wait(PATIENCE)
    with running(storage, port=port):
        worker.join(PATIENCE)
        assert [answer.arm for answer in answers] == ["b"]
    client.close()
    reserved.close()


def test_threads_share_a_client(client: Client) -> None:
    remote = client.create(plan())
    tests = remote.ask(6) + remote.ask(200)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda test: remote.tell(test, 1.0), tests))
    assert remote.status().tests == len(tests)


def test_a_connection_that_the_server_closed_is_replaced(storage: str) -> None:
    with running(storage) as url:
        client = Client(url)
        remote = client.create(plan())
    with pytest.raises(StorageError, match="cannot be reached; is it running"):
        remote.ask()
    client.close()


def test_tokens_and_rates(storage: str) -> None:
    token = "0123456789abcdef"
    with running(storage, token=token, limits=Limits(rate=20.0, burst=5.0)) as url:
        for wrong in (None, "wrong"):
            with pytest.raises(ba.InvalidInput, match="Authorization: Bearer"):
                Client(url, wrong).studies()
        client = Client(url, token)
        # More than the rate allows: the client waits and comes to its end all the same.
        for _ in range(8):
            assert client.studies() == []
        client.close()


def test_it_needs_no_extra_package_and_the_service_names_its_own() -> None:
    without = "import sys; sys.modules |= dict.fromkeys(('fastapi', 'starlette', 'uvicorn'))\n"
    serve = "import bestarm.client.client\nsys.argv[1:] = ['serve']\nfrom bestarm.cli import main\nmain()"
    refused = subprocess.run([sys.executable, "-c", without + serve], capture_output=True, text=True)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: serve: needs the package")
    assert refused.stderr.rstrip().endswith("pip install 'bestarm[web]'")
