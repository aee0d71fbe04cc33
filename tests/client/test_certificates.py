"""Services behind TLS whose certificate comes from an authority that this machine does not know."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme
from tests.program import bestarm
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.client import Client
from bestarm.storage.errors import StorageError
from bestarm.web.server import running


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(path)
    return path


@contextlib.contextmanager
def behind_tls(authority: trustme.CA, name: str, target: str) -> Iterator[str]:
    """The address of a proxy that takes TLS off, with a certificate for `name`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=pass_on, args=(listener.accept()[0],), daemon=True).start()

    def pass_on(client: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", urlsplit(target).port or 0)) as there,
            context.wrap_socket(client, server_side=True) as here,
            selectors.DefaultSelector() as ready,
        ):
            here.settimeout(PATIENCE)
            ready.register(here, selectors.EVENT_READ, there)
            ready.register(there, selectors.EVENT_READ, here)
            while True:
                for key, _ in ready.select():
                    source: socket.socket = key.fileobj  # type: ignore[assignment]
                    data = source.recv(65536)
                    while isinstance(source, ssl.SSLSocket) and source.pending():
                        data += source.recv(source.pending())
                    if not data:
                        return
                    key.data.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"https://localhost:{listener.getsockname()[1]}"
    finally:
        listener.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    database = str(tmp_path / "s.db")
    problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1)))
    ba.Study.create(problem, name="trial", storage=database)
    with running(database) as url:
        yield url


def test_an_authority_of_ones_own(authority: trustme.CA, ca_file: Path, service: str) -> None:
    with behind_tls(authority, "localhost", service) as url:
        with Client(url, ca_file=str(ca_file)) as client:
            assert [line.name for line in client.studies()] == ["trial"]
        with Client(url) as client, pytest.raises(StorageError, match="is not trusted") as raised:
            client.studies()
        assert "give its certificate with --ca-file FILE, or set BESTARM_CA_FILE" in str(raised.value)
        assert bestarm("status", "trial", "--url", url, "--ca-file", str(ca_file)).code == 0
        assert bestarm("list", "--url", url, BESTARM_CA_FILE=str(ca_file)).code == 0
        ended = bestarm("list", "--url", url)
        assert (ended.code, ended.err.count("\n"), "--ca-file FILE" in ended.err) == (1, 1, True)
    with behind_tls(authority, "elsewhere.example", service) as url, Client(url, ca_file=str(ca_file)) as client:
        with pytest.raises(StorageError, match="not valid for 'localhost'") as raised:
            client.studies()
        assert "--ca-file" not in str(raised.value)


def test_a_file_without_a_certificate(tmp_path: Path, ca_file: Path) -> None:
    (tmp_path / "empty.pem").write_text("none")
    with pytest.raises(ba.InvalidInput, match=r"ca_file = '.*empty\.pem': has no certificate in PEM"):
        Client("https://lab.example", ca_file=str(tmp_path / "empty.pem"))
    with pytest.raises(ba.InvalidInput, match=r"ca_file = '.*nowhere\.pem': cannot be read: No such file"):
        Client("https://lab.example", ca_file=str(tmp_path / "nowhere.pem"))
    ended = bestarm("list", "--db", str(tmp_path / "s.db"), "--ca-file", str(ca_file))
    assert (ended.code, "--ca-file: goes with --db http" in ended.err) == (2, True)
