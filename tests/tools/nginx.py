"""A private nginx for tests: a reverse proxy as services have it in front of them."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.tools.patience import PATIENCE, wait_until
from tests.tools.ports import reserve_port

_CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
  log_format plain '$request_method $request_uri $status';
  access_log {folder}/access.log plain;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1;
    {server}
  }}
}}
"""


def find_nginx() -> str | None:
    """The program, which Debian keeps where only root's path leads."""
    return shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


class Nginx:
    """Runs in `folder`. `server` is what its one server does: locations and settings."""

    def __init__(self, folder: Path, server: str) -> None:
        folder.mkdir()
        self._log = folder / "access.log"
        self._errors = folder / "error.log"
        self._reserved = reserve_port()
        port = self._reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        configuration = folder / "nginx.conf"
        configuration.write_text(_CONFIGURATION.format(folder=folder, port=port, server=server))
        program = find_nginx()
        assert program is not None
        self._process = subprocess.Popen(
            [program, "-p", str(folder), "-e", str(self._errors), "-c", str(configuration)], stdin=subprocess.DEVNULL
        )

        def answers() -> bool:
            assert self._process.poll() is None, self._errors.read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE):
                return True
            return False

        wait_until(answers)

    def requests(self) -> list[str]:
        """All requests so far that have ended, such as "GET / 200"."""
        return self._log.read_text().splitlines()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._reserved.close()


@contextlib.contextmanager
def nginx(folder: Path, server: str) -> Iterator[Nginx]:
    """Nginx, for a while."""
    running = Nginx(folder, server)
    try:
        yield running
    finally:
        running.close()
