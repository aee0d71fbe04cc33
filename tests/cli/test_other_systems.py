"""Where names that only POSIX has are missing, as on Windows, and macOS's units of memory."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.race import runner

WITHOUT = """
import asyncio, multiprocessing, select, selectors, signal, socket, subprocess, sys, os
# Popen itself has another form on Windows, so what it needs here stays: SIGKILL, waitpid, selectors.
for module, names in {
    os: "fork posix_spawn posix_spawnp killpg wait4 wait3 getuid pidfd_open forkpty nice".split(),
    signal: ["SIGHUP", "SIGUSR1", "SIGALRM", "SIGXFSZ"],
    select: ["POLLRDHUP"],
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for name in ("resource", "fcntl", "pwd", "grp", "termios", "tty"):
    sys.modules[name] = None
from bestarm.cli.app import main
for line in sys.stdin:
    sys.argv = ["bestarm", *eval(line)]
    try:
        main()
        status = 0
    except SystemExit as end:
        status = end.code
    print("status", status, flush=True)
"""


def without_posix(folder: Path, *commands: list[str]) -> tuple[list[int], str, str]:
    """The exit status of each command, and what they printed."""
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        input="".join(f"{words!r}\n" for words in commands),
        cwd=folder,
        env=os.environ | {"USERNAME": "ann"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    found = [line for line in ended.stdout.splitlines() if line.startswith("status ")]
    return [int(line.split()[1]) for line in found], ended.stdout, ended.stderr


def test_race_refuses_and_the_rest_works(tmp_path: Path) -> None:
    plan = ba.Plan(("a", "b"), objective=ba.minimize("time", noise=ba.Gaussian(0.1)), name="bench")
    ba.Study.create(plan, storage=tmp_path / "s.db")
    kept = ["--db", "s.db"]
    status, out, err = without_posix(
        tmp_path,
        ["race", "true", "sleep 0"],
        ["gate", "true", "--baseline", "sleep 0", "--at-most", "time=2x"],
        ["race", "true", "sleep 0", "--on", "localhost"],
        ["ask", "bench", *kept],
        ["tell", "bench", "1", "1.5", *kept],
        ["run", "bench", "--command", "sh -c 'test {arm} = a && echo 1 || echo 2'", "--timeout", "60", *kept],
        ["status", "bench", "--json", *kept],
    )
    assert status == [1, 1, 1, 0, 0, 0, 0], (out, err)
    assert err.count("error: this system cannot measure commands; Linux and macOS can") == 3
    assert "Traceback" not in err
    about = json.loads(out[out.index("{") : out.rindex("}") + 1])
    assert (about["state"], about["answer"]) == ("certified", "a")


def test_a_command_that_takes_too_long_or_fails(tmp_path: Path) -> None:
    objective = ba.minimize("time", noise=ba.Gaussian(0.1))
    for name in ("slow", "broken"):
        ba.Study.create(ba.Plan(("a", "b"), objective=objective, name=name), storage=tmp_path / "s.db")
    status, _, err = without_posix(
        tmp_path,
        ["run", "slow", "--db", "s.db", "--command", "sleep 60", "--timeout", "0.2"],
        ["run", "broken", "--db", "s.db", "--command", "sh -c 'echo out of ink >&2; exit 7'"],
    )
    assert status == [1, 1]
    assert "the command took longer than 0.2 s and was stopped" in err
    assert "it said: out of ink" in err


@pytest.mark.parametrize(("platform", "unit"), [("darwin", 1), ("linux", 1024)])
def test_peak_memory_is_in_the_units_of_the_system(platform: str, unit: int) -> None:
    """macOS counts it in bytes, Linux in units of 1,024."""
    spec = importlib.util.spec_from_file_location("another_runner", runner.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch.object(sys, "platform", platform):
        spec.loader.exec_module(module)
    assert unit == module._UNIT


def test_names_of_all_languages_in_a_console_that_lacks_them(tmp_path: Path) -> None:
    """A console of Western Europe, names and paths that it cannot show, and files and pipes that lose nothing."""
    folder = tmp_path / "Büro und Labor α"
    folder.mkdir()
    plan = ba.Plan(
        arms=["Größe 1", "μ"],
        objective=ba.maximize("Ausbeute %", noise=ba.Gaussian(2.0)),
        constraints=[ba.at_most("Säure β", 0.2, noise=ba.Bernoulli())],
        name="Überstudie α",
    )
    (folder / "plan é.toml").write_text(plan.to_toml(), encoding="utf-8")

    def called(*words: str) -> bytes:
        command = [sys.executable, "-m", "bestarm", *words, "--db", "läb γ.db"]
        encodings = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "1"}
        ended = subprocess.run(
            command, cwd=folder, env=os.environ | encodings, capture_output=True, timeout=PATIENCE, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert "Überstudie".encode("cp1252") in called("new", "plan é.toml")
    called("ask", plan.name, "-n", "4")
    called("tell", plan.name, "1", "7.5")
    assert b"\\u03b1" in called("status", plan.name)
    called("export", plan.name, "-o", "Blatt ω.csv")
    exported = called("export", plan.name)
    assert exported == (folder / "Blatt ω.csv").read_bytes()
    assert "μ" in exported.decode()
    (folder / "Ganzes ω").write_bytes(called("export", plan.name, "--all"))
    called("import", "Ganzes ω", "--as", "Kopie δ")
    assert called("export", "Kopie δ") == exported
    called("report", "Kopie δ", "-o", "Bericht ω.html")
    assert "Säure β" in (folder / "Bericht ω.html").read_text(encoding="utf-8")
