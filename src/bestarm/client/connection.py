"""Requests to a service: kept-alive connections that threads share, and errors as a study raises them."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any, BinaryIO
from urllib.parse import unquote, urlencode

import httpx

from bestarm.client.answers import read as read_as
from bestarm.parsing import read_json
from bestarm.storage.errors import NameTaken, OutcomeUnknown, SourceTaken, StorageError
from bestarm.study.intake.values import RefusedValue
from bestarm.study.intake.xlsx_file import XLSX, ZIPPED
from bestarm.study.record.far_values import FarValue
from bestarm.study.study import AlreadyTold
from bestarm.validation import UNSTATED, Complaint, InvalidInput, NotFound

_MOST_IDLE = 64

MOST_ATTEMPTS = 6
"""How often a request is sent if its connection breaks. It is carried out once."""

_FILE_SECONDS = 3600.0
"""How long a service may take to restore a backup."""

_FIRST_PAUSE = 0.05
"""Seconds before the third attempt, and twice as long before each later one. The second is made at once."""


_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)
"""No connection was made, so the service has not heard of the request."""


_UNKNOWN_AUTHORITY = range(18, 22)
"""OpenSSL's codes for a certificate whose issuer this machine does not know."""


class Unanswered(OutcomeUnknown):
    """The service itself has not answered. When it does answer, it says how to go on."""


class Connection:
    """Requests to one service. Threads may share it, and so may a process and its children."""

    def __init__(self, url: str, token: str | None, timeout: float, ca_file: str | None = None) -> None:
        if not _is_address(url):
            # Never show a password or a token that is part of it.
            said = UNSTATED if set(url) & set("@?#=") else url
            raise InvalidInput(
                "url", said, "must be the address of a service, such as http://127.0.0.1:8000, and nothing else"
            )
        if not timeout > 0:
            raise InvalidInput("timeout", timeout, "must be a positive number of seconds")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidInput("token", UNSTATED, "must be printable ASCII")
        self.url = url.rstrip("/")
        self._timeout = timeout
        self._trust = _trusted(ca_file) if httpx.URL(url).scheme == "https" else None
        self._headers = {"Accept-Encoding": "gzip", "Accept": "application/json", "User-Agent": "bestarm"}
        # A service behind a login wants it with whatever changes something: no page of another site can send it.
        self._headers["X-Requested-With"] = "bestarm"
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._http: httpx.Client | None = None
        self._in_flight = 0
        self._closed = False
        self._identity = ""
        self._process = os.getpid()
        self._lock = threading.Lock()

    def as_holder(self, name: str) -> str:
        """The name under which this service records what `name` does: with a token, that of the token comes first."""
        own = self._identity
        return name if not own or name == own or name.startswith(f"{own}@") else f"{own}@{name}"

    def close(self) -> None:
        """Close all connections once no request is under way. A later request opens one of its own: a heartbeat may
        outlast its study."""
        with self._lock:
            self._closed = True
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._closed and not self._in_flight and self._http is not None:
            self._http.close()
            self._http = None

    def get(self, path: str, query: dict[str, Any] | None = None, *, tag: str | None = None) -> Any:
        """What is at a path; None if its version is still `tag`."""
        headers = {} if tag is None else {"If-None-Match": f'W/"{tag}"'}
        whole = f"{path}?{urlencode(query)}" if query else path
        return self._request("GET", whole, None, headers)

    def get_file(self, path: str, into: BinaryIO) -> None:
        """Write the file at a path."""
        self._request("GET", path, None, {}, into=into)

    def post(self, path: str, body: dict[str, Any], *, key: str | None = None) -> Any:
        """The answer to a request, which may be sent twice: it must be harmless when repeated, or have a `key`."""
        try:
            data = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidInput("request", UNSTATED, f"cannot be written as JSON: {error}") from None
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
        return self._request("POST", path, data, headers)

    def post_csv(self, path: str, data: bytes, *, key: str) -> Any:
        """The same for a CSV file or an Excel workbook."""
        kind = XLSX if data.startswith(ZIPPED) else "text/csv"
        return self._request("POST", path, data, {"Content-Type": kind, "Idempotency-Key": key})

    def post_file(self, path: str, file: BinaryIO, query: dict[str, str]) -> Any:
        """The answer to a whole file, which is sent as it is read, and once."""
        return self._request("POST", f"{path}?{urlencode(query)}", file, {"Content-Type": "application/octet-stream"})

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None,
        headers: dict[str, str],
        into: BinaryIO | None = None,
    ) -> Any:
        file = None if body is None or isinstance(body, bytes) else body
        timeout = httpx.Timeout(self._timeout, read=max(self._timeout, _FILE_SECONDS) if file else self._timeout)
        give_up = time.monotonic() + self._timeout
        broken: httpx.RequestError | None = None
        attempts = 0
        while True:
            attempts += 1
            if file is not None:
                file.seek(0)
            try:
                with (
                    self._client() as client,
                    client.stream(method, path, content=body, headers=headers, timeout=timeout) as response,
                ):
                    if into is None or response.status_code != 200:
                        response.read()
                    else:
                        into.seek(0)
                        into.truncate()
                        for piece in response.iter_bytes():
                            into.write(piece)
                        return None
                _check_who_answered(response)
            except httpx.RequestError as error:
                # An earlier attempt may have been recorded, even if the service cannot be reached now.
                broken = broken or (None if isinstance(error, _NOT_SENT) else error)
                if attempts < MOST_ATTEMPTS and _may_retry(error) and file is None:
                    time.sleep(_FIRST_PAUSE * (2 ** (attempts - 1) - 1))
                    continue
                raise self._unanswered(method, broken, error) from None
            wait = _seconds(response.headers.get("Retry-After"))
            if response.status_code == 429 and time.monotonic() + wait < give_up:
                time.sleep(wait)
                continue
            self._identity = unquote(response.headers.get("Bestarm-Name", "")) or self._identity
            return self._answer(response.status_code, response.content, headers)

    @contextlib.contextmanager
    def _client(self) -> Iterator[httpx.Client]:
        """The client that all requests of this process share. Closing it in the middle of a request of another thread
        would break that request, so the last one does it."""
        with self._lock:
            if self._process != os.getpid():
                # The sockets are the parent's.
                self._process, self._http, self._in_flight = os.getpid(), None, 0
            if self._http is None:
                self._http = self._new_client()
            client = self._http
            self._in_flight += 1
        try:
            yield client
        finally:
            with self._lock:
                self._in_flight -= 1
                self._close_if_unused()

    def _new_client(self) -> httpx.Client:
        address = httpx.URL(self.url)
        return httpx.Client(
            base_url=address,
            headers=self._headers,
            timeout=self._timeout,
            verify=self._trust or False,
            limits=httpx.Limits(max_keepalive_connections=_MOST_IDLE, keepalive_expiry=None),
            # The address and the token are those that were given, whatever proxies or passwords the environment names.
            trust_env=False,
        )

    def _unanswered(self, method: str, broken: httpx.RequestError | None, last: httpx.RequestError) -> StorageError:
        said = f"service = {self.url!r}: {_words(broken or last)}"
        if method == "GET" or broken is None:
            return StorageError(said)
        return Unanswered(f"{said}; whether this was recorded is not known")

    def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> Any:
        if status == 304:
            return None
        try:
            if 200 <= status < 300:
                return read_json(data)
            answer = read_json(data)
            reason, complaints = answer["error"]["reason"], _complaints(answer["error"])
            kind = _KINDS.get(answer["error"].get("kind"), InvalidInput)
        except (ValueError, KeyError, TypeError):
            raise StorageError(
                f"service = {self.url!r}: answered with status {status} and not as bestarm does"
            ) from None
        if status == 504:
            raise OutcomeUnknown(f"service = {self.url!r}: {reason}", headers.get("Idempotency-Key"))
        if status in (408, 429) or status >= 500:
            raise StorageError(f"service = {self.url!r}: {reason}")
        raise kind.of(complaints, reason)


def _check_who_answered(response: httpx.Response) -> None:
    """A proxy that answers in the service's place cannot know whether the service carried the request out."""
    if response.status_code in (502, 503, 504) and not response.content.startswith(b'{"error":'):
        kind = httpx.ReadTimeout if response.status_code == 504 else httpx.RemoteProtocolError
        raise kind(f"a proxy answered with status {response.status_code} in the service's place")


def _is_address(url: str) -> bool:
    """Whether it names a service and nothing else. A password with a # in it would look like another part."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    is_whole = parts.scheme in ("http", "https") and bool(parts.host) and (parts.port or 0) < 2**16
    return is_whole and not set(url) & set("@?#")


def _trusted(ca_file: str | None) -> ssl.SSLContext:
    """The system's certificates, not those that come with httpx, and those in `ca_file`. Loading them takes 90 ms, and
    plain HTTP has no use for them."""
    trust = ssl.create_default_context()
    if ca_file is not None:
        try:
            trust.load_verify_locations(ca_file)
        except OSError as error:
            is_ssl = isinstance(error, ssl.SSLError)
            reason = "has no certificate in PEM" if is_ssl else f"cannot be read: {error.strerror}"
            raise InvalidInput(
                "ca_file", ca_file, f"{reason}; name the file with the authority's certificate"
            ) from None
    return trust


def _may_retry(error: httpx.RequestError) -> bool:
    cannot_help = isinstance(_system_error(error), ConnectionRefusedError | ssl.SSLError)
    return not isinstance(error, httpx.TimeoutException) and not cannot_help


def _system_error(error: httpx.RequestError) -> BaseException | None:
    """Why no connection could be made, as the system said it."""
    found: BaseException | None = error if isinstance(error, httpx.ConnectError) else None
    while found is not None and not isinstance(found, OSError):
        found = found.__context__
    return found


def _words(error: httpx.RequestError) -> str:
    if isinstance(_system_error(error), ConnectionRefusedError):
        return "cannot be reached; is it running?"
    if isinstance(error, httpx.TimeoutException):
        return "did not answer in time"
    if isinstance(cause := _system_error(error), ssl.SSLCertVerificationError):
        said = f"its certificate is not trusted: {cause.verify_message.rstrip('.')}"
        advice = "; if your organization has an authority of its own, give its certificate with --ca-file FILE"
        return f"{said}{advice}, or set BESTARM_CA_FILE" if cause.verify_code in _UNKNOWN_AUTHORITY else said
    return f"the connection failed: {str(error).rstrip('.') or type(error).__name__}"


def _seconds(wait: str | None) -> float:
    """How long to wait, by a header; a second if it does not say."""
    try:
        return max(float(wait or 1), 0.0)
    except ValueError:
        return 1.0


_KINDS = {kind.kind: kind for kind in (AlreadyTold, FarValue, NameTaken, NotFound, RefusedValue, SourceTaken)}


def _complaints(error: dict[str, Any]) -> list[Complaint]:
    """What a service says in detail. An older one does not."""
    return [read_as(Complaint, {"sentence": one["reason"]} | one) for one in error.get("complaints") or [error]]
