"""Requests to a service: kept-alive connections that threads share, and errors as a study raises them."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import selectors
import ssl
import threading
import time
from typing import Any
from urllib.parse import urlencode, urlsplit

from bestarm.parsing import read_json
from bestarm.storage.errors import NameTaken, OutcomeUnknown, SourceTaken, StorageError
from bestarm.study.intake.values import RefusedValue
from bestarm.study.record.far_values import FarValue
from bestarm.study.study import AlreadyTold
from bestarm.validation import UNSTATED, Complaint, InvalidInput, NotFound

_MOST_IDLE = 64

MOST_ATTEMPTS = 6
"""How often a request is sent whose connection breaks. It counts once all the same."""

_FIRST_PAUSE = 0.05
"""Seconds before the third attempt, and twice as long before each later one. The second is made at once."""


class _Broken(Exception):
    """The connection ended, or nothing came, before an answer did; `may_retry` if there is time to ask again."""

    def __init__(self, said: str, *, may_retry: bool) -> None:
        super().__init__(said)
        self.may_retry = may_retry


class Unanswered(OutcomeUnknown):
    """The service itself has not answered; else it says by itself how to go on."""


class Connection:
    """Requests to one service. Threads may share it, and so may a process and its children."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        # A password with a # in it would look like another part of the address.
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or set(url) & set("@?#"):
            # A password or a token that somebody has put there is not repeated.
            said = UNSTATED if set(url) & set("@?#=") else url
            raise InvalidInput(
                "url", said, "must be the address of a service, such as http://127.0.0.1:8000, and nothing else"
            )
        if not timeout > 0:
            raise InvalidInput("timeout", timeout, "must be a positive number of seconds")
        self.url = url.rstrip("/")
        self._secure = parts.scheme == "https"
        self._host, self._port, self._prefix = parts.hostname, port, parts.path.rstrip("/")
        self._timeout = timeout
        self._headers = {"Accept-Encoding": "gzip", "Accept": "application/json"}
        if token is not None:
            if not token.isascii() or not token.isprintable():
                raise InvalidInput("token", UNSTATED, "must be printable ASCII")
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[http.client.HTTPConnection] = []
        self._keeps_idle = True
        self._process = os.getpid()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close what is idle now, and from now on every connection when its request is answered: a heartbeat may be on
        its way."""
        with self._lock:
            idle, self._idle, self._keeps_idle = self._idle, [], False
        for connection in idle:
            connection.close()

    def get(self, path: str, query: dict[str, Any] | None = None, *, tag: str | None = None) -> Any:
        """What is at a path; None if its version is still `tag`."""
        headers = {} if tag is None else {"If-None-Match": f'W/"{tag}"'}
        whole = f"{path}?{urlencode(query)}" if query else path
        return self._request("GET", whole, None, headers)

    def post(self, path: str, body: dict[str, Any], *, key: str | None = None) -> Any:
        """The answer to a request, which may be sent twice: it must be harmless when repeated, or have a `key`."""
        try:
            data = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidInput("request", UNSTATED, f"cannot be written as JSON: {error}") from None
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
        return self._request("POST", path, data, headers)

    def post_csv(self, path: str, data: bytes, *, key: str) -> Any:
        """The same for a CSV file."""
        return self._request("POST", path, data, {"Content-Type": "text/csv", "Idempotency-Key": key})

    def _request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        give_up = time.monotonic() + self._timeout
        broken: _Broken | None = None
        attempts = 0
        while True:
            attempts += 1
            try:
                status, wait, data = self._send(method, path, body, headers)
            except (_Broken, StorageError) as error:
                # Even if the service is not to be reached now: it may have done what it was told before.
                first = broken or (error if isinstance(error, _Broken) else None)
                if attempts < MOST_ATTEMPTS and isinstance(error, _Broken) and error.may_retry:
                    broken = first
                    time.sleep(_FIRST_PAUSE * (2 ** (attempts - 1) - 1))
                    continue
                if first is None:
                    raise
                raise self._unanswered(method, first) from None
            if status == 429 and time.monotonic() + wait < give_up:
                time.sleep(wait)
                continue
            return self._answer(status, data, headers)

    def _unanswered(self, method: str, error: _Broken) -> StorageError:
        said = f"service = {self.url!r}: {error}"
        if method == "GET":
            return StorageError(said)
        return Unanswered(f"{said}; whether this was recorded is not known")

    def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> Any:
        if status == 304:
            return None
        try:
            answer = read_json(data)
            if 200 <= status < 300:
                return answer
            reason, complaints = answer["error"]["reason"], _complaints(answer["error"])
            kind = _of_kind(status, answer["error"])
        except (ValueError, KeyError, TypeError):
            raise StorageError(
                f"service = {self.url!r}: answered with status {status} and not as bestarm does"
            ) from None
        if status == 504:
            raise OutcomeUnknown(f"service = {self.url!r}: {reason}", headers.get("Idempotency-Key"))
        if status in (408, 429) or status >= 500:
            raise StorageError(f"service = {self.url!r}: {reason}")
        raise kind.of(complaints, reason)

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, float, bytes]:
        connection = self._take()
        try:
            connection.request(method, self._prefix + path, body, self._headers | headers)
            response = connection.getresponse()
            data = response.read()
            if response.headers.get("Content-Encoding") == "gzip":
                data = gzip.decompress(data)
        except (OSError, http.client.HTTPException, EOFError) as error:
            connection.close()
            if isinstance(error, ConnectionRefusedError | ssl.SSLError):
                raise StorageError(f"service = {self.url!r}: {_words(error)}") from None
            raise _Broken(_words(error), may_retry=not isinstance(error, TimeoutError)) from None
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._give_back(connection)
        try:
            wait = float(response.headers.get("Retry-After", "1"))
        except ValueError:
            wait = 1.0
        return response.status, wait, data

    def _take(self) -> http.client.HTTPConnection:
        """A connection that the server has not closed meanwhile."""
        with self._lock:
            if self._process != os.getpid():
                # They are the parent's; closing our ends of them is harmless.
                self._process, self._idle = os.getpid(), []
            while self._idle:
                connection = self._idle.pop()
                if not _is_closed(connection):
                    return connection
                connection.close()
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if self._keeps_idle and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        with contextlib.suppress(OSError):
            connection.close()


def _of_kind(status: int, error: dict[str, Any]) -> type[InvalidInput]:
    """The class of mistakes that the service speaks of. An older one does not say; its status and field do."""
    if "kind" in error:
        return _KINDS.get(error["kind"], InvalidInput)
    return AlreadyTold if status == 409 else RefusedValue if error["field"] == "value" else InvalidInput


_KINDS = {kind.kind: kind for kind in (AlreadyTold, FarValue, NameTaken, NotFound, RefusedValue, SourceTaken)}


def _complaints(error: dict[str, Any]) -> list[Complaint]:
    """What a service says in detail."""
    told = error.get("complaints") or [error]
    return [
        Complaint(
            one.get("sentence", one["reason"]),
            one["field"],
            one.get("value", UNSTATED),
            one["reason"],
            tuple(one.get("choices", ())),
        )
        for one in told
    ]


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has hung up; nothing else can be there to read between two requests."""
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as waiting:
        waiting.register(connection.sock, selectors.EVENT_READ)
        return bool(waiting.select(0))


def _words(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "cannot be reached; is it running?"
    if isinstance(error, TimeoutError):
        return "did not answer in time"
    return f"the connection failed: {error or type(error).__name__}"
