"""The proxy that other tests break connections with does what it says."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.tools.patience import PATIENCE, wait_until
from tests.tools.proxy import Proxy


class Parrot:
    """A server that repeats what it hears, and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                end, _ = self._listener.accept()
                threading.Thread(target=self._repeat, args=(end,), daemon=True).start()

    def _repeat(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError), end:
            while data := end.recv(1000):
                self.heard += data
                end.sendall(data)

    def has_heard(self, words: bytes) -> bool:
        return words in self.heard

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def parrot() -> Iterator[Parrot]:
    parrot = Parrot()
    yield parrot
    parrot.close()


@pytest.fixture
def proxy(parrot: Parrot) -> Iterator[Proxy]:
    with Proxy(parrot.port) as proxy:
        yield proxy


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE)


def works(end: socket.socket, words: bytes = b"hello") -> bool:
    end.sendall(words)
    heard = b""
    while len(heard) < len(words):
        heard += end.recv(1000)
    return heard == words


def is_cut(end: socket.socket) -> bool:
    try:
        return end.recv(1000) == b""
    except ConnectionError:
        return True


def is_refused(proxy: Proxy) -> bool:
    """Whether a new connection is cut, be it while it is made or afterwards."""
    try:
        with connect(proxy) as end:
            return is_cut(end)
    except ConnectionError:
        return True


def test_it_forwards_until_it_is_told_to_cut(proxy: Proxy) -> None:
    with connect(proxy) as first, connect(proxy) as second:
        assert works(first)
        assert works(second)
        proxy.cut()
        assert is_cut(first)
        assert is_cut(second)
    with connect(proxy) as third:
        assert works(third)
    proxy.cut(refuse=True)
    assert is_refused(proxy)
    proxy.resume()
    with connect(proxy) as fifth:
        assert works(fifth)


def test_it_goes_silent_without_closing(proxy: Proxy, parrot: Parrot) -> None:
    with connect(proxy) as end:
        assert works(end)
        proxy.silence()
        with connect(proxy) as other:
            for quiet in (end, other):
                quiet.sendall(b"unheard")
                quiet.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    quiet.recv(1000)
        proxy.resume()
        with connect(proxy) as third:
            assert works(third)
    assert b"unheard" not in parrot.heard


@pytest.mark.parametrize("pieces", [[b"say COMMIT now"], [b"say COM", b"MIT", b" now"]])
def test_it_cuts_between_the_deed_and_its_answer(proxy: Proxy, parrot: Parrot, pieces: list[bytes]) -> None:
    happened = proxy.cut_after(b"MIT now")
    with connect(proxy) as end:
        assert works(end)
        for piece in pieces:
            end.sendall(piece)
            wait_until(functools.partial(parrot.has_heard, piece))
        # What it repeated of the first pieces may have come before.
        with contextlib.suppress(ConnectionError):
            while end.recv(1000):
                pass
        assert happened.wait(PATIENCE)
    assert b"COMMIT now" in parrot.heard
    with connect(proxy) as end:
        assert works(end, b"say COMMIT now")


def test_it_goes_silent_after_a_word(proxy: Proxy, parrot: Parrot) -> None:
    happened = proxy.silence_after(b"COMMIT")
    with connect(proxy) as end, connect(proxy) as other:
        end.sendall(b"COMMIT")
        assert happened.wait(PATIENCE)
        end.settimeout(0.2)
        with pytest.raises(TimeoutError):
            end.recv(1000)
        assert works(other)
    assert b"COMMIT" in parrot.heard


def test_it_cuts_before_a_word_is_heard(proxy: Proxy, parrot: Parrot) -> None:
    happened = proxy.cut_before(b"COMMIT")
    with connect(proxy) as end:
        assert works(end)
        end.sendall(b"COMMIT")
        assert is_cut(end)
        assert happened.wait(PATIENCE)
    assert b"COMMIT" not in parrot.heard


def test_a_server_that_is_away_is_met_as_such() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with Proxy(unused.getsockname()[1]) as proxy:
            assert is_refused(proxy)
