"""A TCP proxy for tests, between a client and a server of this machine, that breaks connections as networks do.

with Proxy(server.port) as proxy:
    storage = open_storage(server.url(port=proxy.port))
    proxy.cut_after(b"COMMIT")  # the server does it, and the client never learns that
"""

from __future__ import annotations

import contextlib
import dataclasses
import select
import socket
import struct
import threading
from typing import Literal

_PIECE = 65536
_TICK = 0.02
"""Seconds between two looks at a test's orders."""

_Fate = Literal["cut before", "cut after", "silence after"]


@dataclasses.dataclass(eq=False)
class _Trap:
    """Waits for words."""

    words: bytes
    fate: _Fate
    refuse: bool = False
    sprung: threading.Event = dataclasses.field(default_factory=threading.Event)


class _Pair:
    """A client's connection, and the connection to the server that belongs to it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.closed = threading.Event()
        self.is_silent = False
        self.condemned: _Trap | None = None
        """What happens as soon as the server answers."""
        self.heard = {client: b"", server: b""}
        """The last bytes of each side: words may come in pieces."""

    def close(self) -> None:
        """Break both connections at once, as a reset does."""
        self.closed.set()
        _reset(self.client)
        _reset(self.server)

    def hears(self, words: bytes, end: socket.socket, data: bytes) -> bool:
        heard = self.heard[end] + data
        self.heard[end] = heard[len(heard) - len(words) + 1 :] if len(heard) >= len(words) else heard
        return words in heard


class Proxy:
    """Listens on `port` of this machine and forwards to `target_port`, until a test orders otherwise.

    A context manager. New connections go to whatever server is there at that time, so it may stop and start.
    """

    def __init__(self, target_port: int, target_host: str = "127.0.0.1") -> None:
        self._target = target_host, target_port
        self._lock = threading.RLock()
        self._pairs: set[_Pair] = set()
        self._trap: _Trap | None = None
        self._refuses = False
        self._is_silent = False
        self._ended = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.settimeout(_TICK)
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0
        """How many connections clients have made."""
        threading.Thread(target=self._listen, name="proxy", daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and break what is left."""
        with self._lock:
            self._ended = True
            self.cut()
        self._listener.close()

    # ------------------------------------------------------------------------------------------ what a test orders

    def cut(self, *, refuse: bool = False) -> None:
        """Break all connections; with `refuse`, refuse new ones, too, until `resume`."""
        with self._lock:
            self._refuses = refuse
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            pair.close()

    def silence(self) -> None:
        """Swallow what both sides say without closing anything. New connections meet silence, too."""
        with self._lock:
            self._is_silent = True
            for pair in self._pairs:
                pair.is_silent = True

    def resume(self) -> None:
        """Forward again, and forget traps. Silenced connections stay silent: some of their bytes are missing."""
        with self._lock:
            self._is_silent = self._refuses = False
            self._trap = None

    def cut_after(self, words: bytes, *, refuse: bool = False) -> threading.Event:
        """Once, when either side says `words`: let the server act and answer, but cut before the client hears it.

        A client's words and all that follows are passed on until the server answers. The returned event is set when
        this has happened. Later connections work or, with `refuse`, are refused until `resume`.
        """
        return self._set(words, "cut after", refuse)

    def silence_after(self, words: bytes) -> threading.Event:
        """Like `cut_after`, but silence that one connection instead of cutting it."""
        return self._set(words, "silence after")

    def cut_before(self, words: bytes) -> threading.Event:
        """Once, when a client says `words`: cut, so that the server never hears them."""
        return self._set(words, "cut before")

    # ----------------------------------------------------------------------------------------------------- inside

    def _set(self, words: bytes, fate: _Fate, refuse: bool = False) -> threading.Event:
        if not words:
            raise ValueError("words: must not be empty")
        with self._lock:
            self._trap = _Trap(words, fate, refuse)
            return self._trap.sprung

    def _listen(self) -> None:
        while not self._ended:
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self.accepted += 1
            try:
                if self._refuses:
                    raise ConnectionRefusedError
                server = socket.create_connection(self._target, timeout=10.0)
            except OSError:
                _reset(client)
                continue
            for end in (client, server):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(client, server)
            with self._lock:
                if self._ended:
                    pair.close()
                    return
                pair.is_silent = self._is_silent
                self._pairs.add(pair)
            threading.Thread(target=self._serve, args=(pair,), name="proxy connection", daemon=True).start()

    def _serve(self, pair: _Pair) -> None:
        """Both directions in one thread, so that no answer slips past an order."""
        open_ends = [pair.client, pair.server]
        try:
            while open_ends and not pair.closed.is_set():
                ready, _, _ = select.select(open_ends, [], [], _TICK)
                for end in ready:
                    data = end.recv(_PIECE)
                    if pair.is_silent:
                        if not data:
                            # The side that gave up is gone, and the other does not learn of it.
                            open_ends.remove(end)
                    elif not data or not self._pass_on(pair, end, data):
                        return
        except (OSError, ValueError):
            # If one side is gone, or we have been cut, the other is gone, too.
            return
        finally:
            pair.close()
            with self._lock:
                self._pairs.discard(pair)

    def _pass_on(self, pair: _Pair, end: socket.socket, data: bytes) -> bool:
        """Pass on what one side said, unless a test forbids it. Returns whether the connection goes on."""
        from_server = end is pair.server
        with self._lock:
            trap = self._trap
            concerns = trap is not None and not (from_server and trap.fate == "cut before")
            if trap is not None and concerns and pair.condemned is None and pair.hears(trap.words, end, data):
                pair.condemned, self._trap = trap, None
        doom = pair.condemned
        if doom is not None and (from_server or doom.fate == "cut before"):
            self._refuses = self._refuses or doom.refuse
            pair.is_silent = doom.fate == "silence after"
            # Before the client can notice: once it has, and has tried again, this must have been said.
            doom.sprung.set()
            if not pair.is_silent:
                pair.close()
            return pair.is_silent
        (pair.client if from_server else pair.server).sendall(data)
        return True


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(OSError):
        end.close()
