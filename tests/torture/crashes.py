"""Database servers that crash, and connections that are cut or fall silent, while this process writes.

The call itself may return an answer, because it was done again on a new connection, or say that it could not be done,
or that nobody knows. Whatever it says must be true.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from bestarm.client import Client, RemoteStudy
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage
from bestarm.web.server import running
from tests.tools.postgres import PostgresServer
from tests.tools.proxy import Proxy
from tests.torture.deeds import DEEDS, Deed, Place, holder, plan
from tests.torture.trials import Here, Trials

LIMITS = "?answer_timeout=2&connect_timeout=20"
"""Seconds to wait for a silent server: few, so that there is time for many trials."""

REMOTE = tuple(deed for deed in DEEDS if deed.name not in ("import", "copy", "copy all"))
"""Files are sent to a service in another way, or not at all."""

_TYPICAL = 0.02
"""Seconds that a call takes, plus a little."""

_STATEMENTS = (b"COMMIT", b"COMMIT", b"INSERT", b"UPDATE")

Fault = Callable[[], object]
"""Begins or ends a fault. One that begins a fault may return an event that is set when the fault has happened."""


@contextlib.contextmanager
def _place(url: str, name: str, mark: int) -> Iterator[Here]:
    storage = open_storage(url)
    try:
        yield Here(storage, name, mark)
    finally:
        with contextlib.suppress(StorageError):
            storage.close()


def _break(trials: Trials, deed: Deed, mark: int, before: Place, place: Place, fault: tuple[Fault, Fault]) -> None:
    """Prepare it over a good connection, do it over another one while that breaks, and see what happened."""
    start, mend = fault
    facts = deed.prepare(before, trials.rng, mark)
    if isinstance(place, Here):
        place.study.request = f"key {mark}"
    came = start()
    answered = True
    try:
        deed.do(place, facts)
    except StorageError as error:
        answered = False
        if "\n" in str(error):
            trials.row.complain("stuck", f"not one line: {error}")
    finally:
        mend()
    struck = came.is_set() if isinstance(came, threading.Event) else True
    trials.settle(deed, facts, mark, answered, struck=struck)


def _later(rng: random.Random, act: Callable[[], object]) -> tuple[Fault, Fault]:
    """Do the act at some moment during a call, in its own thread. Returns a way to wait for its end."""
    pause = rng.uniform(0.0, _TYPICAL)

    def wait_and_act() -> None:
        time.sleep(pause)
        act()

    thread = threading.Thread(target=wait_and_act)
    return thread.start, thread.join


def crash_servers(trials: Trials, server: PostgresServer, times: int, until: float) -> None:
    """The server is killed, or stops at once, at some moment during a call, and starts again."""

    def crash() -> None:
        if trials.rng.random() < 0.5:
            server.kill()
        else:
            server.stop("immediate")
        server.start()

    while trials.row.goes_on(times, until):
        deed, mark = trials.next()
        with _place(trials.url, trials.name, mark) as place:
            _break(trials, deed, mark, place, place, _later(trials.rng, crash))
    trials.finish()


def _line_fault(rng: random.Random, proxy: Proxy, words: tuple[bytes, ...], *, silent: bool) -> tuple[Fault, Fault]:
    """One way or another to break a connection, and to mend it."""
    said = rng.choice(words)
    start: Fault
    start, join = _later(rng, proxy.cut)

    def mend() -> None:
        # In the end every connection is cut. Otherwise a server would keep the locks of a silent client.
        if start == begin:
            join()
        proxy.cut()
        proxy.resume()

    ways: list[Fault] = [lambda: proxy.cut_after(said), lambda: proxy.cut_before(said), start]
    begin = (lambda: proxy.silence_after(said)) if silent else rng.choice(ways)
    return begin, mend


def break_lines(trials: Trials, server: PostgresServer, times: int, until: float, *, silent: bool) -> None:
    """Between this process and a PostgreSQL server: at a commit, before it, or at any time."""
    head, _, database = trials.url.rpartition("/")
    with Proxy(server.port) as proxy:
        url = f"{head.rpartition('@')[0]}@127.0.0.1:{proxy.port}/{database}{LIMITS}"
        while trials.row.goes_on(times, until):
            deed, mark = trials.next()
            fault = _line_fault(trials.rng, proxy, (b"COMMIT",) if silent else _STATEMENTS, silent=silent)
            with _place(trials.url, trials.name, mark) as before, _place(url, trials.name, mark) as place:
                _break(trials, deed, mark, before, place, fault)
            proxy.cut()
    trials.finish()


class _There:
    """A study on a server. The client in between knows only its number."""

    def __init__(self, sound: Client, client: Client, name: str, mark: int) -> None:
        self._sound, self._client, self._name, self._mark = sound, client, name, mark
        found = sound.open(name, holder=holder(mark))
        self.study = RemoteStudy(client._connection, found.id, found.plan, holder=holder(mark))

    @property
    def other(self) -> object:
        return self._sound.open(self._name, holder=f"other {self._mark}")

    def create(self, name: str) -> object:
        return self._client.create(plan(name, "certify", "issue"))


def break_requests(trials: Trials, times: int, until: float, *, silent: bool) -> None:
    """Between a client and the HTTP service: before or after a request, in its answer, or at any time."""
    trials.is_remote = True
    with (
        running(trials.url) as service,
        Proxy(urlsplit(service).port or 0) as proxy,
        Client(service) as sound,
        Client(f"http://127.0.0.1:{proxy.port}", timeout=2.0 if silent else 60.0) as client,
    ):
        while trials.row.goes_on(times, until):
            deed, mark = trials.next()
            fault = _line_fault(trials.rng, proxy, (b"POST /api", b"HTTP/1.1 2"), silent=silent)
            before, place = (_There(sound, one, trials.name, mark) for one in (sound, client))
            _break(trials, deed, mark, before, place, fault)
            proxy.cut()
    trials.finish()
