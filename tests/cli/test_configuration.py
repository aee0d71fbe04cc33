"""Options of `bestarm serve` from the command line, the environment and a file; what holds, and where it comes from."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.program import Ended, bestarm
from tests.tools.patience import PATIENCE
from typer.main import get_command

from bestarm.cli.app import app

TOKEN = "correct horse battery".replace(" ", "-")


def printed(*words: str, cwd: Path, **environment: Any) -> dict[str, tuple[Any, str]]:
    """The options that hold, and where each comes from."""
    ended = bestarm("serve", *words, "--print-config", cwd=cwd, **environment)
    assert (ended.code, ended.err) == (0, ""), ended
    found = {}
    for line in ended.out.splitlines():
        text, _, source = line.rpartition("  # ")
        if text.startswith("# "):
            found[text.split()[1]] = (None, source)
        else:
            [(key, value)] = tomllib.loads(text).items()
            found[key] = (value, source)
    return found


def options() -> dict[str, Any]:
    """Every option of `serve` by its name in a file, but those about the configuration itself."""
    group: Any = get_command(app)
    command = group.get_command(None, "serve")
    names = {max(option.opts, key=len).removeprefix("--"): option for option in command.params}
    return {name: option for name, option in names.items() if name not in ("config", "print-config")}


def test_every_option_is_a_variable_and_a_key(tmp_path: Path) -> None:
    """Those that are added later, too."""
    help_page = " ".join(re.sub(r"[^\w-]", " ", bestarm("serve", "--help", COLUMNS="200").out).split())
    found = printed(cwd=tmp_path)
    assert set(found) == set(options())
    assert len(found) > 8
    for name, option in options().items():
        assert option.envvar == f"BESTARM_{name.upper().replace('-', '_')}"
        assert f"env var {option.envvar}" in help_page
    # A value that each takes, through the environment and through a file.
    values = {
        name: (True, "1")
        if option.is_flag
        else (7, "7")
        if "int" in str(option.type_descriptor.annotation) or "float" in str(option.type_descriptor.annotation)
        else ("@there", "@there")
        for name, option in options().items()
    }
    variables = {options()[name].envvar: text for name, (_, text) in values.items()}
    from_variables = printed(cwd=tmp_path, **variables)
    lines = [
        f"{name} = {str(value).lower() if value is True else repr(value)}\n" for name, (value, _) in values.items()
    ]
    (tmp_path / "all.toml").write_text("".join(lines))
    from_file = printed("--config", "all.toml", cwd=tmp_path)
    for name, (value, _) in values.items():
        expected = [value] if options()[name].multiple else value
        assert from_variables[name] == (expected, options()[name].envvar)
        assert from_file[name] == (expected, "all.toml")


def test_which_takes_precedence(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(
        'port = 9000\nhost = "10.0.0.1"\nrate = 50\ntokens = true\nallow-host = ["a", "b c"]\n'
    )
    words = ["--config", "b.toml", "--host", "::1"]
    found = printed(*words, cwd=tmp_path, BESTARM_PORT="7000", BESTARM_HOST="10.0.0.2", BESTARM_RATE="")
    assert found["host"] == ("::1", "command line")
    assert found["port"] == (7000, "BESTARM_PORT")
    # A variable without a value counts as not set.
    assert found["rate"] == (50.0, "b.toml")
    assert found["tokens"] == (True, "b.toml")
    assert found["allow-host"] == (["a", "b c"], "b.toml")
    assert found["access-log"] == (None, "default")
    assert printed(cwd=tmp_path, BESTARM_CONFIG="b.toml", BESTARM_ALLOW_HOST="x y")["allow-host"] == (
        ["x", "y"],
        "BESTARM_ALLOW_HOST",
    )


def test_secrets_are_masked(tmp_path: Path) -> None:
    db = "postgresql://me:hidden@db.example/studies?sslpassword=hidden"
    (tmp_path / "b.toml").write_text(f'token = "{TOKEN}"\ndb = "{db}"\n')
    cases: list[tuple[list[str], dict[str, Any]]] = [
        (["--config", "b.toml"], {}),
        ([], {"BESTARM_TOKEN": TOKEN, "BESTARM_DB": db}),
    ]
    for words, environment in cases:
        ended = bestarm("serve", *words, "--print-config", cwd=tmp_path, **environment)
        assert 'token = "***"' in ended.out
        assert "@db.example/studies" in ended.out
        assert TOKEN not in ended.out + ended.err
        assert "hidden" not in ended.out + ended.err
    # Where a secret is kept is none.
    assert printed("--token", "@/run/secrets/token", cwd=tmp_path)["token"] == ("@/run/secrets/token", "command line")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("alow-host = 'x'", "b.toml: 'alow-host': is not an option; did you mean 'allow-host'?"),
        ("allow_host = 'x'", "did you mean 'allow-host'?"),
        ("zzz = 1", "b.toml: 'zzz': is not an option; there are access-log, allow-host, db,"),
        ("config = 'c.toml'", "'config': is not an option"),
        ("print-config = true", "'print-config': is not an option"),
        ("port = 80.5", "b.toml: port = 80.5: must be a whole number"),
        ("port = true", "b.toml: port = True: must be a text or a number"),
        ("rate = 'fast'", "b.toml: rate = 'fast': must be a number"),
        ("tokens = 'yes'", "b.toml: tokens = 'yes': must be true or false"),
        ("host = ['a']", "b.toml: host = ['a']: must be a text or a number"),
        ("allow-host = [true]", "must be a text or a number, or a list of them"),
        ("token = ['hidden']", "b.toml: token: must be a text or a number"),
        ("port =", "--config = 'b.toml': not valid TOML"),
        ("port = 1\nport = 2", "--config = 'b.toml': not valid TOML"),
        ("x" * 200_000, "--config = 'b.toml': has more than 100,000 characters"),
    ],
)
def test_files_that_are_refused(line: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(line)
    ended = bestarm("serve", "--config", "b.toml", cwd=tmp_path)
    assert_refused(ended, words)
    assert "hidden" not in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["b.toml"]


def assert_refused(ended: Ended, words: str) -> None:
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), ended
    assert words in ended.err


def test_what_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    cases: list[tuple[list[str], dict[str, Any], str]] = [
        (["--config", "nowhere.toml"], {}, "--config = 'nowhere.toml': cannot be read: No such file or directory"),
        (["--config", "bytes.toml"], {}, "--config = 'bytes.toml': is not text in UTF-8"),
        ([], {"BESTARM_CONFIG": "nowhere.toml"}, "cannot be read"),
        ([], {"BESTARM_PORT": "tcp://10.0.0.1:80"}, "BESTARM_PORT = 'tcp://10.0.0.1:80': must be a whole number"),
        ([], {"BESTARM_RATE": "1,000"}, "BESTARM_RATE = '1,000': must be"),
    ]
    for words, environment, said in cases:
        assert_refused(bestarm("serve", *words, cwd=tmp_path, **environment), said)
    # What does not hold need not be right.
    assert printed("--port", "1", cwd=tmp_path, BESTARM_PORT="tcp://10.0.0.1:80")["port"] == (1, "command line")
    assert bestarm("serve", "--config", "nowhere.toml", "--help", cwd=tmp_path).code == 0


def test_a_service_is_what_its_file_says(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text('port = 0\ntoken = "@token"\ndb = "studies.db"\naccess-log = "access.log"\n')
    (tmp_path / "token").write_text(TOKEN)
    command = [sys.executable, "-m", "bestarm", "serve", "--config", "b.toml"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            url = process.stderr.readline().split()[-1]
            assert httpx.get(f"{url}api/studies", timeout=PATIENCE).status_code == 401
            allowed = {"Authorization": f"Bearer {TOKEN}"}
            assert httpx.get(f"{url}api/studies", headers=allowed, timeout=PATIENCE).status_code == 200
        finally:
            process.terminate()
    assert {path.name for path in tmp_path.iterdir()} >= {"studies.db", "access.log"}
