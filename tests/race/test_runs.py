"""Real commands, measured."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tools.patience import PATIENCE, wait_until

from bestarm.race import runner as runner_module
from bestarm.race.runs import Runner
from bestarm.study.work.failures import NotStarted

FOREVER = "while true; do sleep 1; done"


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as started:
        yield started


def test_one_run_yields_everything(runner: Runner) -> None:
    allocate = "import sys; x = bytearray(150_000_000); sys.stdout.write('y' * 300_000)"
    run = runner.run([sys.executable, "-I", "-S", "-c", allocate], PATIENCE)
    assert (run.status, run.timed_out, run.failed, run.output) == (0, False, False, 300_000)
    assert run.time > 0
    assert run.user > 0
    assert 150e6 < run.memory < 300e6
    assert run.value("failures") == 0.0
    assert run.value("memory") == run.memory


def test_memory_is_the_commands_own(runner: Runner) -> None:
    """A process that is started from one with numpy in it would seem to need as much memory as that one."""
    ballast = bytearray(os.urandom(1) * 200_000_000)
    assert runner.run(["true"], PATIENCE).memory < 60e6
    assert len(ballast) == 200_000_000


def test_small_programs_are_told_apart(runner: Runner) -> None:
    """A program whose process was forked from Python would seem to need more than 10 MB."""
    copying = [
        runner.run(["dd", "if=/dev/zero", "of=/dev/null", f"bs={size}M", "count=1"], PATIENCE) for size in (4, 8)
    ]
    assert runner.run(["true"], PATIENCE).memory < runner.floor()
    if sys.platform == "linux":
        assert runner.floor() in (2e6, 4e6)  # with dash, and with bash as the system's shell
        assert 4e6 < copying[0].memory < 8e6 < copying[1].memory < 12e6


def test_commands_find_signals_streams_and_variables_as_they_should_be(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner.run(["/bin/sh", "-c", "kill -INT $$; exit 7"], PATIENCE)
    assert run.how == "was ended by signal 2"
    run = runner.run(["/bin/sh", "-c", "kill -PIPE $$; exit 7"], PATIENCE)
    assert run.how == "was ended by signal 13"
    assert runner.run(["/bin/sh", "-c", "echo >&3"], PATIENCE).status != 0
    monkeypatch.setenv("odd.name", "four")
    with Runner() as fresh:
        assert fresh.run(["printenv", "odd.name"], PATIENCE).output == 5


def test_failures(runner: Runner) -> None:
    run = runner.run(["/bin/sh", "-c", "echo oops >&2; exit 3"], PATIENCE)
    assert (run.status, run.failed, run.output, run.how) == (3, True, 0, "ended with status 3: oops")
    run = runner.run(["/bin/sh", "-c", "kill -9 $$"], PATIENCE)
    assert (run.status, run.how) == (-9, "was ended by signal 9")
    assert run.value("failures") == 1.0


def test_a_slow_command_is_stopped_with_its_children(runner: Runner, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    run = runner.run(["/bin/sh", "-c", f"sleep {PATIENCE} & echo $! > {pids}; {FOREVER}"], 0.3)
    assert (run.timed_out, run.failed, run.time) == (True, True, 0.3)
    assert run.how == "took longer than 0.3 s and was stopped"
    child = int(pids.read_text())
    wait_until(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text())


def test_processes_left_behind_are_not_waited_for(runner: Runner, tmp_path: Path) -> None:
    run = runner.run(["/bin/sh", "-c", f"sleep {PATIENCE} & echo $! > {tmp_path / 'pid'}; echo done"], PATIENCE)
    os.kill(int((tmp_path / "pid").read_text()), 9)
    assert (run.timed_out, run.status, run.output) == (False, 0, 5)


def test_no_such_program(runner: Runner) -> None:
    with pytest.raises(NotStarted, match="'no-such-program' cannot be started: No such file or directory"):
        runner.run(["no-such-program"], PATIENCE)
    assert runner.run(["true"], PATIENCE).status == 0


def test_standard_input_is_empty_and_secrets_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BESTARM_TOKEN", "secret")
    with Runner() as fresh:
        assert fresh.run(["cat"], PATIENCE).output == 0
        assert fresh.run(["/bin/sh", "-c", 'printf %s "$BESTARM_TOKEN"'], PATIENCE).output == 0


def test_an_end_ends_what_runs(tmp_path: Path) -> None:
    import threading

    runner = Runner()
    ends: list[str] = []
    pid = tmp_path / "pid"

    def wait() -> None:
        try:
            runner.run(["/bin/sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; {FOREVER}"], None)
        except NotStarted as error:
            ends.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until((tmp_path / "pid").exists)
    runner.close()
    thread.join(PATIENCE)
    assert ends == ["the process that measures commands has ended"]
    child = (tmp_path / "pid").read_text().strip()
    wait_until(lambda: not Path(f"/proc/{child}").exists())


def test_without_a_small_shell_commands_are_started_from_python() -> None:
    """As on systems that do not hand over orphans."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import runner; runner._can_start_from_shell = lambda: False; "
        "run = runner.run(['/bin/sh', '-c', 'echo hello; exit 3'], None); "
        "print(run['status'], run['output'], runner.run(['true'], None)['memory'] < runner.floor()['floor'])"
    )
    words = [sys.executable, "-I", "-S", "-c", script, str(Path(runner_module.__file__).parent)]
    assert subprocess.run(words, check=True, capture_output=True, text=True).stdout == "3 6 True\n"
