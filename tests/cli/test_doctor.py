"""`bestarm doctor`: what it finds, and how it tells what is broken from what was never installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import warnings
from email.message import Message
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.tools.postgres import PostgresServer
from typer.testing import CliRunner, Result

from bestarm.cli import doctor
from bestarm.cli.app import app
from bestarm.cli.doctor import Finding, examine
from bestarm.kernel.native.disk_cache import CacheFolder
from bestarm.study import Study

ROOT = Path(__file__).parents[2]
CORE = ("llvmlite", "numpy", "pydantic", "rich", "sqlalchemy", "tomli-w", "typer")


def found(db: str | None = None) -> dict[str, Finding]:
    # What other people's packages warn of when they load is not what is tested.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {finding.part: finding for finding in examine(db)}


def doctor_says(*arguments: str) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CliRunner().invoke(app, ["doctor", *arguments])


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the default database in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BESTARM_DB", "")
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_everything_is_named_and_nothing_made(empty_folder: Path) -> None:
    result = doctor_says("--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert (data["broken"], list(data["parts"][0])) == (0, ["part", "state", "detail", "remedy"])
    parts = {part["part"]: part for part in data["parts"]}
    assert {"bestarm", "Python", "cores", *CORE, "dashboard", "GPU", "database", "compiled kernels"} <= set(parts)
    assert parts["database"]["detail"] == "bestarm.db will be made by the first study"
    assert parts["numpy"]["detail"] == metadata.version("numpy")
    assert "can be written" in parts["compiled kernels"]["detail"]
    assert list(empty_folder.iterdir()) == []


def test_every_extra_for_users_is_there_with_its_pip_line() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    extras = [part for part in found() if part.startswith("extra ")]
    named = {name for part in extras for name in part.removeprefix("extra ").split(", ")}
    assert named == set(declared) - {"dev", "docs"}


@pytest.mark.usefixtures("empty_folder")
def test_as_a_table() -> None:
    result = doctor_says()
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("Nothing that is installed is broken.\n")
    assert "extra postgres" in result.stdout


def test_absent_is_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["numpy>=1.26", "no-such-thing>=1; extra == 'a'", "no-such-thing>=1; extra == 'b'", "numpy<1; extra == 'c'"]
    about = Message()
    for line in lines:
        about["Requires-Dist"] = line
    for extra in "abc":
        about["Provides-Extra"] = extra
    monkeypatch.setattr(metadata, "metadata", lambda name: about)
    findings = found()
    assert findings["numpy"].state == "ok"
    absent = findings["extra a, b"]
    assert (absent.state, absent.detail) == ("absent", "without no-such-thing")
    assert absent.remedy == "pip install 'bestarm[a]' or pip install 'bestarm[b]'"
    assert findings["extra c"].state == "broken"
    assert findings["extra c"].detail.endswith("is installed; <1 is needed")


def test_what_bestarm_needs_must_be_there_new_enough_and_loadable(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = doctor._package(Requirement("no-such-thing"), if_missing="broken")
    assert (missing.state, missing.remedy) == ("broken", "pip install 'no-such-thing'")
    old = doctor._package(Requirement("numpy>=99.0"))
    assert (old.state, old.remedy) == ("broken", "pip install 'numpy>=99.0'")
    monkeypatch.setitem(sys.modules, "tomli_w", None)
    torn = doctor._package(Requirement("tomli-w"))
    assert torn.state == "broken"
    assert "is installed and cannot be loaded" in torn.detail


def test_something_broken_ends_with_status_1(empty_folder: Path) -> None:
    (empty_folder / "bestarm.db").write_text("not a database, and long enough to be taken for a file of pages" * 100)
    result = doctor_says()
    assert result.exit_code == 1
    assert re.search(r"✗ +database", result.stdout)
    assert result.stdout.endswith("1 broken\n")
    assert isinstance(result.exception, SystemExit)


def test_the_default_database_is_the_one_that_commands_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bestarm import instance

    path = str(tmp_path / "lab.db")
    for name in ("one", "two"):
        Study.create(instance("exp1-a"), name=name, storage=path)
    monkeypatch.setenv("BESTARM_DB", path)
    assert found()["database"].detail == f"{path} holds 2 studies"
    assert found(str(tmp_path / "no" / "folder.db"))["database"].state == "broken"


def test_a_postgresql_server_is_reached_and_its_password_not_shown(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    empty = found(url)["database"]
    assert empty.state == "ok"
    assert empty.detail.endswith("can be reached and holds no studies yet")
    away = found("postgresql://lab:secret@127.0.0.1:1/studies")["database"]
    assert away.state == "broken"
    assert "secret" not in away.detail


@pytest.mark.torture
def test_kernels_need_a_folder_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "bestarm", "doctor", "--json"]
    variables = {**os.environ, "BESTARM_CACHE_DIR": str(tmp_path / "kept")}
    chosen = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=variables, timeout=300)
    parts = {part["part"]: part for part in json.loads(chosen.stdout)["parts"]}
    assert parts["compiled kernels"]["detail"].startswith(str(tmp_path / "kept"))

    monkeypatch.setenv("BESTARM_CACHE_DIR", "/proc/nowhere")
    finding = found()["compiled kernels"]
    assert finding.state == "broken"
    assert "nothing is kept" in finding.detail
    assert "/proc/nowhere cannot be written" in finding.detail
    assert finding.remedy == "set BESTARM_CACHE_DIR to a folder that only you can write"


def test_kernels_that_others_could_replace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "shared" / "kept"
    kept.mkdir(parents=True)
    monkeypatch.setenv("BESTARM_CACHE_DIR", str(kept))
    tmp_path.chmod(0o755)
    for path in (kept, kept.parent):
        assert found()["compiled kernels"].state == "ok"
        path.chmod(0o777)
        finding = found()["compiled kernels"]
        assert finding.state == "broken"
        assert f"compiles them again: other users can write to {path}" in finding.detail
        assert finding.remedy == f"chmod go-w {path}"
        path.chmod(0o755)
    # As in /tmp: all users may write, and none can replace what belongs to another.
    kept.parent.chmod(0o1777)
    assert found()["compiled kernels"].state == "ok"


def test_a_folder_that_is_passed_over_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, own = tmp_path / "beside", tmp_path / "own"
    places = [
        CacheFolder(beside, f"other users can write to {beside}", f"chmod go-w {beside}", is_open=True),
        CacheFolder(own),
    ]
    monkeypatch.setattr("bestarm.kernel.compile.cache_places", lambda root: places)
    finding = found()["compiled kernels"]
    assert finding.state == "ok"
    assert finding.detail.startswith(f"{own} can be written; 0 files")
    assert finding.detail.endswith(f"nothing is kept in {beside}, because other users can write to {beside}")
