"""A command is a function in `cli/`, or an entry point of another package; there is no list of them."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from tests.installed import install
from typer.main import get_command
from typer.testing import CliRunner

import bestarm.cli
from bestarm.cli.app import app
from bestarm.cli.app.discovery import GROUP, own_commands
from bestarm.cli.doctor import examine
from bestarm.cli.shared.command import command, flattened

FOLDER = Path(bestarm.cli.__file__).parent


def test_every_file_has_commands_and_they_are_listed() -> None:
    files = {f"bestarm.cli.{path.stem}" for path in FOLDER.glob("*.py") if path.name != "__init__.py"}
    group: Any = get_command(app)
    assert set(group.commands) == set(own_commands())
    assert {found.body.__module__ for found in own_commands().values()} == files
    for name, found in own_commands().items():
        assert found.body.__name__.rstrip("_") == name


def test_no_two_have_the_same_place() -> None:
    places = [found.place for found in own_commands().values()]
    assert len(set(places)) == len(places)


def test_arguments_stand_in_one_order() -> None:
    """What two commands both take, they take in the same order."""
    taken = {name: list(inspect.signature(flattened(found.body)).parameters) for name, found in own_commands().items()}
    for (one, mine), (other, theirs) in itertools.combinations(taken.items(), 2):
        both = [name for name in mine if name in theirs]
        assert both == [name for name in theirs if name in mine], f"{one} and {other}"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the entry points of other packages load, by name; an exception is raised."""
    loaded: dict[str, Any] = {}

    class Entry(metadata.EntryPoint):
        def load(self) -> Any:
            if isinstance(loaded[self.name], Exception):
                raise loaded[self.name]
            return loaded[self.name]

    def entry_points(*, group: str) -> list[Entry]:
        return [Entry(name, "package.module:function", group) for name in loaded if group == GROUP]

    monkeypatch.setattr("bestarm.plugins.entry_points", entry_points)
    monkeypatch.setattr("bestarm.cli.app.discovery._may_be_installed", lambda: True)
    # Tests share the commands, which look for others only once; these must not be shared.
    cached: Any = get_command
    cached.cache_clear()
    yield loaded
    cached.cache_clear()


@command(place=15, panel="Elsewhere")
def _listed(words: list[str]) -> None:
    """A command that says where it wants to be listed."""
    print("listed", *words)


def _plain(number: int = 3) -> None:
    """A function is enough."""
    print("plain", number)


def test_another_package_adds_commands(installed: dict[str, Any]) -> None:
    installed |= {"plain": _plain, "listed": _listed}
    helped = CliRunner().invoke(app, ["--help"])
    assert "A function is enough." in helped.output
    assert "Elsewhere" in helped.output
    assert CliRunner().invoke(app, ["plain", "--number", "4"]).output == "plain 4\n"
    assert CliRunner().invoke(app, ["listed", "a", "b"]).output == "listed a b\n"
    twice = CliRunner().invoke(app, ["plain", "--number", "4", "--number", "5"])
    assert "is given twice" in twice.output


def test_one_that_does_not_load_breaks_no_other(installed: dict[str, Any]) -> None:
    installed |= {
        "torn": ImportError("no module named 'gone'"),
        "no function": 7,
        "status": _plain,
        "plain": _plain,
    }
    ended = CliRunner().invoke(app, ["plain"])
    assert ended.stdout == "plain 3\n"
    assert "'torn' of the package 'package.module' is left out: ImportError: no module named 'gone'" in ended.stderr
    assert "the command 'no function'" in ended.stderr
    assert "the command 'status'" in ended.stderr
    assert "Where a study stands" in CliRunner().invoke(app, ["status", "--help"]).output
    assert CliRunner().invoke(app, ["torn"]).exit_code == 2


def test_our_own_do_not_look_for_others(installed: dict[str, Any]) -> None:
    installed["torn"] = ImportError("gone")
    ended = CliRunner().invoke(app, ["theory", "exp1-a", "--json"])
    assert (ended.exit_code, ended.stderr) == (0, "")


@pytest.mark.torture
def test_the_doctor_sees_them(installed: dict[str, Any]) -> None:
    installed |= {"torn": ImportError("gone"), "plain": _plain}
    parts = {finding.part: finding for finding in examine()}
    assert parts["command plain"].state == "ok"
    assert parts["command torn"].state == "broken"
    assert "ImportError: gone" in parts["command torn"].detail


def test_an_installed_package_is_found(tmp_path: Path) -> None:
    """By the program itself, which looks only if it sees that there may be one."""
    source = "def hello(name: str) -> None:\n    '''Greets.'''\n    print('hello', name)\n"
    install(tmp_path, f"[{GROUP}]\nhello = hello:hello\n", hello=source)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    program = [sys.executable, "-m", "bestarm", "hello", "you"]
    ended = subprocess.run(program, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert ended.stdout == "hello you\n"


@dataclasses.dataclass(frozen=True)
class Where:
    """A group of options."""

    host: str = "here"
    port: int = 8000


def test_a_data_class_is_a_group_of_options(installed: dict[str, Any]) -> None:
    @command(place=16)
    def show(name: str, *, where: Where, loud: bool = False) -> None:
        print(name, where, loud)

    installed["show"] = show
    ended = CliRunner().invoke(app, ["show", "x", "--port", "7", "--loud"])
    assert ended.output == "x Where(host='here', port=7) True\n"
