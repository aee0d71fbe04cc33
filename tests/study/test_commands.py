"""Commands that measure: what reaches them, what they may print, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tools.patience import PATIENCE, wait_until

import bestarm as ba
from bestarm.study.work.command import Command
from bestarm.study.work.failures import NotStarted
from bestarm.study.work.reading import readers_of

ECHO = f"{sys.executable} -c 'import sys; print(len(sys.argv[1]))'"


@pytest.mark.parametrize(
    "name", ["plain", "two words", "$(touch pwned)", "; touch pwned", "`touch pwned`", "'\"", "{metric}", "*"]
)
@pytest.mark.parametrize("shell", [False, True])
def test_names_cannot_inject_commands(name: str, shell: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = Command(f"{ECHO} {{arm}}", "s", shell=shell)
    assert command(ba.Test(1, name, "m")) == len(name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "template",
    ["echo '{arm}'", 'echo "{arm}"', "sh -c 'echo {arm}'", 'x="a {metric}"; echo 1', r"echo \"{arm}", "echo $'{arm}'"],
)
def test_a_placeholder_inside_quotes_is_refused_in_a_shell(template: str) -> None:
    """Its quotes would end there, and the rest of a name be taken for commands."""
    if template == r"echo \"{arm}":
        template += '"'  # An escaped quotation mark begins nothing, the one at the end does.
        with pytest.raises(ba.InvalidInput, match="cannot be split"):
            Command(template, "s", shell=True)
        return
    with pytest.raises(ba.InvalidInput, match=r'command = .*: \{(arm|metric)\} stands inside quotes; .*"\$BESTARM_'):
        Command(template, "s", shell=True)
    Command(template, "s")


@pytest.mark.parametrize("name", ["$(touch pwned)", "`touch pwned`", '"; touch pwned; "', "'; touch pwned; '", "$HOME"])
@pytest.mark.parametrize(
    "template", ['set -- "$BESTARM_ARM"; echo ${#1}', "set -- {arm}; echo ${#1}", "expr length {arm}"]
)
def test_names_reach_a_shell_as_variables(
    name: str, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Command(template, "s", shell=True)(ba.Test(1, name, "m")) == len(name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", [False, True])
def test_a_name_is_not_taken_for_an_option(shell: bool) -> None:
    with pytest.raises(
        ba.InvalidInput, match=r"'-x' begins with a dash and would be taken for an option.* `--` before"
    ):
        Command(f"{ECHO} {{arm}}", "s", shell=shell).check_names(["a", "-x"], ["m"])
    for template in (f"{ECHO} -- {{arm}}", f"{ECHO} --arm={{arm}}", f"{ECHO} arm-{{arm}}"):
        Command(template, "s", shell=shell).check_names(["a", "-x"], ["m"])
    Command(f"{ECHO} {{arm}}", "s", shell=shell).check_names(["a"], ["-m"])


@pytest.mark.parametrize("shell", [False, True])
@pytest.mark.parametrize(
    ("place", "test"),
    [
        ("arm", ba.Test(1, "-x", "m")),
        ("metric", ba.Test(1, "a", "-x")),
        ("metric", ba.Test(1, "a", "-x + y", ("-x", "y"))),
        ("item", ba.Test(1, "a", "m", item="-x")),
    ],
    ids=["arm", "metric", "metrics", "item"],
)
def test_every_test_is_checked_for_names_that_are_options(
    shell: bool, place: str, test: ba.Test, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = Command(f"touch started {{{place}}}", "s", shell=shell, items=True)
    with pytest.raises(NotStarted, match="begins with a dash and would be taken for an option"):
        command(test)
    assert not (tmp_path / "started").exists()
    Command(f"{ECHO} x{{{place}}}", "s", shell=shell, items=True)(ba.Test(1, "a", "m", item="i"))


@pytest.mark.parametrize(
    "template",
    ["sort -- f; python3 {arm}", "sort -- f && python3 {arm}", "sort -- f | python3 {arm}", "sort -- $(python3 {arm})",
     "sort -- `python3 {arm}`", "sort -- f\npython3 {arm}", "(sort -- f); python3 {arm}", "python3 \\\n{arm}",
     "nice -n 5 -- python3 {arm}", "python3 ${X}{arm}", 'python3 "$X"{arm}'],
)  # fmt: skip
def test_the_end_of_options_counts_for_one_command_of_a_shell(template: str) -> None:
    with pytest.raises(ba.InvalidInput, match="begins with a dash"):
        Command(template, "s", shell=True).check_names(["-x"], ["m"])
    Command(template.replace("python3", "python3 --"), "s", shell=True).check_names(["-x"], ["m"])


def test_secrets_are_not_handed_to_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BESTARM_TOKEN", "opensesame")
    monkeypatch.setenv("BESTARM_DB", "postgresql://me:opensesame@host/db")
    monkeypatch.setenv("OTHER", "12")
    script = "import os; print(os.environ['OTHER'] if 'opensesame' not in str(os.environ) else 0)"
    assert Command(f'{sys.executable} -c "{script}"', "s")(ba.Test(1, "a", "m")) == 12


def test_a_command_that_leaves_a_process_behind(tmp_path: Path) -> None:
    """It has ended when it has ended, whatever keeps its output open."""
    script = f"sh -c 'sleep 600 & echo $! > {tmp_path}/child; echo 7'"
    assert Command(script, "s", timeout=300)(ba.Test(1, "a", "m")) == 7
    child = int((tmp_path / "child").read_text())
    assert _alive(child)
    os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_command_that_says_too_much(stream: str) -> None:
    """What is kept of it is bounded, however much it is."""
    script = (
        f"import sys; [sys.{stream}.write('x' * 10**6) for _ in range(50)]; sys.{stream}.write('the end'); sys.exit(3)"
    )
    with pytest.raises(ba.MeasurementFailed, match="ended with status 3") as failed:
        Command(f'{sys.executable} -c "{script}"', "s")(ba.Test(1, "a", "m"))
    assert len(str(failed.value)) < 3000
    if stream == "stderr":
        assert str(failed.value).endswith("the end")
    with pytest.raises(ba.MeasurementFailed, match=r"and printed '\(the beginning is cut off"):
        Command(f"{sys.executable} -c \"print('x' * 10**7)\"", "s")(ba.Test(1, "a", "m"))


def test_commands_find_the_names_in_their_environment() -> None:
    script = "import os; print(sum(len(os.environ['BESTARM_' + key]) for key in ('ARM', 'METRIC', 'TEST', 'STUDY')))"
    assert Command(f'{sys.executable} -c "{script}"', "dose")(ba.Test(17, "a", "bc")) == 1 + 2 + 2 + 4


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("printf 'one two'", "must print one number, and printed 'one two'"),
        ("printf ''", "must print one number, and printed ''"),
        ("printf one", "must print one number, and printed 'one'"),
        ("sh -c 'echo broken pipe >&2; exit 3'", "ended with status 3; it said: broken pipe"),
        ("sh -c 'kill -9 $$'", "was ended by signal 9"),
        ("no-such-program-anywhere", "cannot be started: No such file or directory"),
        ("sleep 60", "took longer than 0.3 s and was stopped"),
    ],
)
def test_commands_that_fail(template: str, words: str) -> None:
    command = Command(template, "s", timeout=0.3 if "sleep" in template else PATIENCE)
    with pytest.raises(ba.MeasurementFailed, match=words.replace("(", r"\(")):
        command(ba.Test(1, "a", "m"))


def test_a_command_that_hangs_is_ended_with_all_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"sh -c 'sleep 3600 & echo $! > {child}; wait'"
    # On a busy machine it may be ended before it has a child.
    for timeout in (1.0, 10.0, 100.0):
        with pytest.raises(ba.MeasurementFailed, match="took longer"):
            Command(script, "s", timeout=timeout)(ba.Test(1, "a", "m"))
        if child.exists() and child.read_text().endswith("\n"):
            break
    wait_until(lambda: not _alive(int(child.read_text())))


def _alive(process: int) -> bool:
    """Running, and not a zombie."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return bool(state.stdout.strip()) and not state.stdout.strip().startswith("Z")


def test_commands_that_cannot_be() -> None:
    with pytest.raises(ba.InvalidInput, match="command = '': must not be empty"):
        Command("", "s")
    with pytest.raises(ba.InvalidInput, match="cannot be split into words: No closing quotation"):
        Command("echo '", "s")
    with pytest.raises(ba.InvalidInput, match="timeout = -1: must be a positive number of seconds"):
        Command("echo", "s", timeout=-1)


def test_the_end_of_a_long_output_is_read_in_whole_lines() -> None:
    """What is cut off in the middle of a line would be another number."""
    script = "[print(f'loss: {k}') for k in range(30_000)]; print('loss: 0.5')"
    for reader in ("last-line", r"regex:loss: ([0-9.]+)"):
        printed = script.replace("loss: 0.5", "0.5") if reader == "last-line" else script
        readers = readers_of([f"m={reader}"], ["m"])
        assert Command(f'{sys.executable} -c "{printed}"', "s", readers=readers)(ba.Test(1, "a", "m")) == 0.5
