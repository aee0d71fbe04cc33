"""Live updates: streams of events, and what they cost."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.tools.patience import PATIENCE
from tests.web.service import client_at, new_study, refused, tell

from bestarm.storage.opening import open_storage
from bestarm.web import events
from bestarm.web.limits import Limits
from bestarm.web.server import running
from bestarm.web.shared import SharedStudy


class Stream:
    """Reads a stream of events in a thread."""

    def __init__(self, url: str) -> None:
        self.events: list[tuple[float, str, dict[str, Any]]] = []
        self.comments = 0
        self._client = httpx.Client(timeout=PATIENCE)
        self._context = self._client.stream("GET", url)
        self._response = self._context.__enter__()
        assert self._response.status_code == 200
        assert self._response.headers["content-type"].startswith("text/event-stream")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        kind = ""
        try:
            for line in self._response.iter_lines():
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    self.events.append((time.monotonic(), kind, json.loads(line.removeprefix("data: "))))
                elif line.startswith(":"):
                    self.comments += 1
        except (httpx.HTTPError, httpx.StreamError):
            pass

    def wait(self, wanted: Callable[[list[Any]], bool], seconds: float = PATIENCE) -> None:
        give_up = time.monotonic() + seconds
        while not wanted(self.events):
            assert time.monotonic() < give_up, self.events
            time.sleep(0.02)

    def close(self) -> None:
        # Ends the read in the other thread too.
        network = self._response.extensions["network_stream"].get_extra_info("socket")
        with contextlib.suppress(OSError):
            network.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._context.__exit__(None, None, None)
        self._client.close()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at a study follow each other five times as fast as otherwise."""
    monkeypatch.setattr(events, "EVERY", 0.1)


TELL = """
import sys
from bestarm.study.study import Study
Study.open("live", storage=sys.argv[1]).tell(1, 0.5)
"""


def test_results_of_another_process_arrive(database_url: str) -> None:
    with running(database_url) as url, client_at(url) as client:
        study = new_study(client, "live")
        client.post(f"{study}/ask", json={})
        one, everything = Stream(url + study + "/events"), Stream(f"{url}/api/events")
        one.wait(lambda events: len(events) >= 1)
        everything.wait(lambda events: len(events) >= 1)
        assert one.events[0][1] == "change"
        began = {"version": "0.1.0.2", "state": "running", "guarantee": "none", "tests": 0, "confidence": 0.0}
        assert one.events[0][2] == began
        before = everything.events[-1][2]["version"]
        subprocess.run([sys.executable, "-c", TELL, database_url], check=True)
        one.wait(lambda events: events[-1][2]["tests"] == 1)
        everything.wait(lambda events: events[-1][2]["version"] != before)
        assert everything.events[-1][1] == "studies"
        assert one.events[-1][2]["version"] == client.get(study).json()["version"]
        # Several, because news of what happened before may still be on its way.
        for name in ("second", "third", "fourth"):
            before = everything.events[-1][2]["version"]
            new_study(client, name)
            everything.wait(lambda events, before=before: events[-1][2]["version"] != before)  # type: ignore[misc]
        one.close()
        everything.close()


def test_one_poller_serves_all_streams_and_events_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    look = SharedStudy.snapshot

    def counted(self: SharedStudy) -> Any:
        nonlocal looks
        looks += 1
        return look(self)

    monkeypatch.setattr(SharedStudy, "snapshot", counted)
    monkeypatch.setattr(events, "COMMENT_EVERY", 0.2)
    with running(str(tmp_path / "x.db")) as url, client_at(url) as client:
        study = new_study(client, "watched")
        tests = [test["id"] for test in client.post(f"{study}/ask", json={"n": 4}).json()["tests"]]
        streams = [Stream(url + study + "/events") for _ in range(15)]
        for stream in streams:
            stream.wait(lambda events: len(events) >= 1)
        looks, start = 0, time.monotonic()
        # A change after every answer, until each stream has seen a few of them.
        while min(len(stream.events) for stream in streams) < 6:
            assert time.monotonic() - start < PATIENCE
            tell(client, study, *((test, 1.0) for test in tests))
            client.post(f"{study}/ask", json={"n": 1})
        took = time.monotonic() - start
        # At most so many a second, by the service's clock; a busy machine makes fewer.
        most = took / events.EVERY + 2
        assert looks <= most
        for stream in streams:
            assert len(stream.events) - 1 <= most
        last = client.get(study).json()["version"]
        for stream in streams:
            stream.wait(lambda events: events[-1][2]["version"] == last)
            stream.wait(lambda _, stream=stream: stream.comments > 0)  # type: ignore[misc]
        for stream in streams:
            stream.close()
        give_up = time.monotonic() + PATIENCE
        while True:
            looks = 0
            time.sleep(3 * events.EVERY)
            if not looks:
                break
            assert time.monotonic() < give_up, "it is still polled without a watcher"


def test_nothing_is_looked_at_while_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes open dashboards cheap; how cheap is measured by `benchmarks/web.py`."""
    looks = 0
    look = SharedStudy.snapshot

    def counted(self: SharedStudy) -> Any:
        nonlocal looks
        looks += 1
        return look(self)

    monkeypatch.setattr(SharedStudy, "snapshot", counted)
    with running(str(tmp_path / "x.db")) as url, client_at(url) as client:
        studies = [new_study(client, f"watched {k}") for k in range(3)]
        for study in studies:
            client.post(f"{study}/ask", json={"n": 4})
        paths = ["/api/events", *(f"{study}/events" for study in studies for _ in range(3))]
        streams = [Stream(url + path) for path in paths]
        for stream in streams:
            stream.wait(lambda events: len(events) >= 1)
        give_up = time.monotonic() + PATIENCE
        while True:
            # Three times as long as it takes to look again.
            looks = 0
            time.sleep(3 * events.EVERY)
            if not looks:
                break
            assert time.monotonic() < give_up, "nothing happens, and still it is looked at"
        tell(client, studies[0], (1, 1.0))
        streams[1].wait(lambda events: events[-1][2]["tests"] == 1)
        assert looks > 0
        for stream in streams:
            stream.close()


def test_event_streams_are_bounded_and_unknown_studies_refused(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db"), limits=Limits(streams=2)) as url, client_at(url) as client:
        refused(client.get("/api/studies/5/events"), 404, "no such study")
        streams = [Stream(f"{url}/api/events") for _ in range(2)]
        refused(client.get("/api/events"), 503, "too many event streams")
        for stream in streams:
            stream.close()


@pytest.mark.parametrize("how", ["service", "storage"])
def test_a_stream_ends_when_its_study_is_deleted(tmp_path: Path, how: str) -> None:
    database = str(tmp_path / "x.db")
    with running(database) as url, client_at(url) as client:
        study = new_study(client, "short-lived")
        streams = [Stream(f"{url}{study}/events") for _ in range(2)]
        for stream in streams:
            stream.wait(lambda events: len(events) >= 1)
        assert client.post(f"{study}/archive", json={}).status_code == 200
        if how == "service":
            assert client.post(f"{study}/delete", json={"name": "short-lived"}).status_code == 200
        else:
            with contextlib.closing(open_storage(database)) as storage:
                storage.delete(1, "ann")
        for stream in streams:
            stream._thread.join(PATIENCE)
            assert not stream._thread.is_alive()
            stream.close()


def test_streams_end_when_the_server_stops(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db")) as url:
        stream = Stream(f"{url}/api/events")
        stream.wait(lambda events: len(events) >= 1)
    stream._thread.join(PATIENCE)
    assert not stream._thread.is_alive()
    stream.close()
