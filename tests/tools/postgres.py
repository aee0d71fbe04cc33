"""A private PostgreSQL server for tests, which can be stopped and started like a real one."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from tests.tools.patience import PATIENCE
from tests.tools.ports import reserve_port

_USER = "bestarm"
_PASSWORD = "only-for-tests"

StopMode = Literal["fast", "immediate"]
_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


def find_postgres() -> Path | None:
    """The folder of the newest server's programs, or None if this machine has none."""
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    folders.sort(key=lambda folder: [int(part) for part in folder.parent.name.split(".") if part.isdigit()])
    on_path = shutil.which("postgres")
    if on_path is not None:
        folders.append(Path(on_path).resolve().parent)
    return next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)


class PostgresServer:
    """A private server (14 or newer): its own folder, a free port open to this machine only, durable as by default.

    PostgreSQL refuses to run as root. In that case another user runs it. `settings` are the server's own, by name.
    """

    def __init__(self, programs: Path, settings: Mapping[str, str] | None = None) -> None:
        self.programs = programs
        self._settings = dict(settings or {})
        self._names = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._as_user: dict[str, Any] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="bestarm-postgres-"))
        if os.geteuid() == 0:
            user = _somebody()
            self._as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self._folder, user.pw_uid, user.pw_gid)
        self._data = self._folder / "data"
        password = self._folder / "password"
        password.write_text(_PASSWORD)
        password.chmod(0o644)
        self._run(
            *("initdb", "--no-sync", "--username", _USER, "--pwfile", str(password), "--auth", "scram-sha-256"),
            *("--encoding", "UTF8", "--locale", "C", "--pgdata", str(self._data)),
        )
        # Otherwise another program could get the port while the server is down.
        self._reserved = reserve_port()
        self.port: int = self._reserved.getsockname()[1]
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.programs / program), *arguments],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            **self._as_user,
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        deadline = time.monotonic() + PATIENCE
        while not self._started(deadline):
            # After a kill, the other processes need a moment to notice, and share its memory until then.
            if time.monotonic() > deadline:
                raise RuntimeError("the server did not start: " + (self._folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def _started(self, deadline: float) -> bool:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "shared_buffers": "16MB",
            # Otherwise a start after a crash waits for each file to be synced separately.
            "recovery_init_sync_method": "syncfs",
            **self._settings,
        }
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self.programs / "postgres"),
                    *("-D", str(self._data)),
                    *(word for name, value in options.items() for word in ("-c", f"{name}={value}")),
                ],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in the terminal ends the tests, which then stop the server.
                start_new_session=True,
                **self._as_user,
            )
        while time.monotonic() < deadline and self._process.poll() is None:
            ready = [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
            if subprocess.run(ready).returncode == 0:
                return True
            time.sleep(0.02)
        return False

    def stop(self, mode: StopMode) -> None:
        """Stop it at once: "fast" rolls back and shuts down cleanly, "immediate" amounts to a crash."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(_SIGNALS[mode])
            self._process.wait(PATIENCE)

    def kill(self) -> None:
        """Kill its first process, as a machine short of memory does. The others notice and end on their own."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE)

    def close(self) -> None:
        """Stop it and remove all its data."""
        self.stop("immediate")
        self._reserved.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str = "postgres", *, password: str = _PASSWORD, port: int | None = None) -> str:
        """The address of one of its databases."""
        return f"postgresql://{_USER}:{password}@127.0.0.1:{port or self.port}/{database}"

    def new_database(self) -> str:
        """The address of a new, empty database."""
        import psycopg

        name = f"test_{next(self._names)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)


def _somebody() -> pwd.struct_passwd:
    """A user without rights."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody'")
