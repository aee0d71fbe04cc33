"""Options and files that cannot be read, and output that cannot be written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.lengths import cases, first
from tests.outside import DEEP, HUGE, PLAN, one_line
from tests.tools.patience import PATIENCE
from typer.main import get_command
from typer.testing import CliRunner

import bestarm as ba
from bestarm.cli.app import app
from bestarm.cli.app.command_line import number_kind


def _numbers() -> list[tuple[str, str]]:
    group: Any = get_command(app)
    return [
        (command, max(option.opts, key=len))
        for command in group.list_commands(None)
        for option in group.get_command(None, command).params
        if option.param_type_name == "option" and number_kind(option)
    ]


def _needed(command: str, option: str) -> list[str]:
    """What the command cannot be called without, besides this option."""
    group: Any = get_command(app)
    params = group.get_command(None, command).params
    required = [param for param in params if param.required and option not in param.opts]
    names = [[] if param.param_type_name == "argument" else param.opts[:1] for param in required]
    return [word for name in names for word in [*name, "x"]]


@cases(15)
@pytest.mark.parametrize(("command", "option"), _numbers())
def test_a_number_that_python_alone_would_take_is_refused(command: str, option: str) -> None:
    for value in ("1_000", "１", "0x10", "ten"):
        ended = CliRunner().invoke(app, [command, *_needed(command, option), option, value])
        assert ended.exit_code == 2, ended.output
        assert "must be a" in re.sub(r"[\s│]+", " ", ended.output)


@cases(15)
@pytest.mark.parametrize(("command", "option"), _numbers())
def test_a_number_of_any_size_gives_no_traceback(command: str, option: str, tmp_path: Path) -> None:
    for value in ("-1", str(10**20), str(-(10**20)), "9" * 10_000):
        if (command, option) in (("serve", "--rate"), ("serve", "--wait-for-db")) and value[0] != "-":
            # So many requests, or seconds, may well be stated; the service would start.
            continue
        words = [command, *_needed(command, option), option, value]
        ended = CliRunner().invoke(app, words, env={"BESTARM_DB": str(tmp_path / "none.db")})
        assert ended.exception is None or isinstance(ended.exception, SystemExit | ba.InvalidInput | ba.StorageError)
        assert ended.exit_code != 0


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose tables are longer than what is buffered before it is written."""
    path = tmp_path_factory.mktemp("database") / "s.db"
    study = ba.Study.create(PLAN, storage=str(path))
    study.add([("a", "p", float(k)) for k in range(600)])
    return path


def bestarm(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "bestarm", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=PATIENCE, check=False, **options)


WRITING = [
    ["export", "s"],
    ["status", "s"],
    ["log", "s", "--last", "600", "--json"],
    ["--help"],
]


@cases(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", first(2, WRITING), ids=" ".join)
def test_output_that_cannot_be_written_is_one_line(words: list[str], database: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = bestarm(*words, stdout=full, env=os.environ | {"BESTARM_DB": str(database)})
    assert ended.returncode == 1
    assert ended.stderr.decode() == "error: output: No space left on device\n"


@cases(1)
@pytest.mark.parametrize("words", first(2, WRITING), ids=" ".join)
def test_a_reader_that_stops_is_not_an_error(words: list[str], database: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = bestarm(*words, stdout=writing, env=os.environ | {"BESTARM_DB": str(database)})
    finally:
        os.close(writing)
    assert ended.stderr == b""
    assert ended.returncode == 1


def test_closed_output_is_not_an_error(database: Path) -> None:
    words = f"{sys.executable} -m bestarm status s --db {database} >&- 2>&-"
    assert subprocess.run(words, shell=True, check=False, timeout=PATIENCE).returncode == 0


@pytest.mark.parametrize("name", ["deep.toml", "deep.json", "huge.toml", "huge.json", "zero.toml", "folder.toml"])
@pytest.mark.parametrize("command", ["new", "simulate", "theory", "forecast"])
def test_a_study_file_that_cannot_be_read_is_one_line(command: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    contents = {"deep.toml": "a = " + "[" * DEEP, "deep.json": "[" * DEEP, "huge.toml": f"delta = {HUGE}"}
    contents |= {"huge.json": f'{{"delta": {HUGE}}}', "zero.toml": "\x00"}
    if name == "folder.toml":
        path.mkdir()
    else:
        path.write_text(contents[name])
    ended = CliRunner().invoke(app, [command, str(path)], env={"BESTARM_DB": str(tmp_path / "x.db")})
    assert isinstance(ended.exception, ba.InvalidInput)
    one_line(ended.exception)
    assert str(path) in str(ended.exception)
