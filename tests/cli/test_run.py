"""`bestarm run` as a user has it: commands, progress, interruption, several at once, and `bestarm report`."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lengths import cases, lengths
from tests.program import Ended, bestarm
from tests.tools.patience import PATIENCE, wait_until

import bestarm as ba

# A shell starts in a tenth of the time of Python, and is started for each test.
MEASURE = """
arm=$1 metric=$2 pause=$3 hang_after=$4
[ "$pause" = 0 ] || sleep "$pause"
[ "$BESTARM_TEST" -le "$hang_after" ] || "$5" hang.py
case "$metric $arm" in
"latency a") echo 3 ;;
"latency b") echo 1 ;;
"latency c; rm -rf x") echo 0 ;;
"crash c; rm -rf x") echo 1 ;;
*) echo 0 ;;
esac
"""

HANG = """
import select
reader = select.poll()
reader.register(1, 0)
reader.poll()  # until its reader is gone
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study `bench` in s.db, whose right answer is b, and a program that measures."""
    plan = ba.Plan(
        arms=("a", "b", "c; rm -rf x"),
        objective=ba.minimize("latency", noise=ba.Gaussian(0.5)),
        constraints=(ba.at_most("crash", 0.5, noise=ba.Bernoulli()),),
        name="bench",
        delta=0.01,
    )
    ba.Study.create(plan, storage=tmp_path / "s.db")
    (tmp_path / "measure.sh").write_text(MEASURE)
    (tmp_path / "hang.py").write_text(HANG)
    return tmp_path


def command(*more: str, pause: float = 0, hang_after: int = 10**9) -> list[str]:
    """Tests take `pause` seconds; those with a higher number than `hang_after` last as long as the run."""
    measure = f"sh measure.sh {{arm}} {{metric}} {pause} {hang_after} {sys.executable}"
    measuring = () if "--command" in more else ("--command", measure)
    return ["run", "bench", "--db", "s.db", *measuring, *more]


def process(*more: str, pause: float = 0, hang_after: int = 10**9) -> list[str]:
    """The same, in a process of its own."""
    return [sys.executable, "-m", "bestarm", *command(*more, pause=pause, hang_after=hang_after)]


def test_run_to_the_answer(folder: Path) -> None:
    ended = subprocess.run(process("--workers", "3"), cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(r"b: feasible and best, with 99% confidence, after \d+ tests\n", ended.stdout)
    # Done is done.
    status = json.loads(bestarm(*command("--json"), cwd=folder).out)
    assert (status["state"], status["answer"]) == ("certified", "b")
    assert bestarm("report", "bench", "--db", "s.db", cwd=folder).out == "Report: bench.html\n"
    assert "b: feasible and best" in (folder / "bench.html").read_text(encoding="utf-8")


@cases(1)
@pytest.mark.parametrize("number", [signal.SIGINT, *lengths(signal.SIGTERM, signal.SIGHUP)])
def test_ctrl_c_gives_back_and_the_same_command_goes_on(folder: Path, number: int) -> None:
    stopped = subprocess.Popen(
        process("--workers", "2", hang_after=4), cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    study = ba.Study.open("bench", storage=folder / "s.db")
    wait_until(lambda: study.status().tests == 4 and len(study.pending()) == 2)
    os.killpg(stopped.pid, number)
    _, errors = stopped.communicate(timeout=PATIENCE)
    assert stopped.returncode == 130
    assert "stopped; the tests under way were given back, and the same command goes on" in errors
    assert "Traceback" not in errors
    told = study.status().tests
    assert all(row.expires == 0.0 for _, row in study.pending())
    assert bestarm(*command("--workers", "2"), cwd=folder).code == 0
    assert study.status().state == "certified"
    assert study.status().tests > told


@pytest.mark.torture
def test_several_runs_at_once_and_one_killed(folder: Path) -> None:
    dying = subprocess.Popen(process(hang_after=0), cwd=folder, stderr=subprocess.DEVNULL, start_new_session=True)
    study = ba.Study.open("bench", storage=folder / "s.db")
    wait_until(study.pending)
    dying.kill()
    dying.wait()
    others = [
        subprocess.Popen(
            process("--workers", "2"), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for _ in range(2)
    ]
    # Half a minute of silence would do as well.
    freed = bestarm("release", "bench", "1", "--db", "s.db", cwd=folder)
    assert "will be handed out again" in freed.out + freed.err or "is not waited for" in freed.err
    said = {other.communicate(timeout=PATIENCE)[0] for other in others}
    assert len(said) == 1
    assert said.pop().startswith("b: feasible and best")
    told = [event.test for event in study.log() if event.kind == "told"]
    assert len(told) == len(set(told))


@pytest.mark.torture
def test_a_run_says_what_it_waits_for(folder: Path) -> None:
    """Tests asked for by hand and forgotten: which, by whom, and the command that frees them, which works."""
    assert bestarm("ask", "bench", "-n", "2", "--worker", "ann", "--db", "s.db", cwd=folder).code == 0
    sooner = (
        "from bestarm.analysis.status import waiting; waiting.SHOWN_AFTER = 0.1; from bestarm.cli import main; main()"
    )
    program = [sys.executable, "-c", sooner, *command(pause=0.01)]
    run = subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stderr is not None
    line = next(line for line in run.stderr if "waiting for" in line)
    assert "(not counting" in line
    waits = (
        r"waiting for test 1 \(latency of a\), which ann has held for .*, or (bestarm release .*) \(it is made again"
    )
    found = re.search(waits, line)
    assert found is not None, line
    assert found[1] in bestarm("status", "bench", "--db", "s.db", cwd=folder).out
    freed = bestarm(*found[1].split()[1:], cwd=folder)
    assert freed.out.startswith("Test 1, which ann held, will be handed out again.\n")
    assert bestarm("release", "bench", "--held-by", "ann", "--db", "s.db", cwd=folder).code == 0
    assert run.communicate(timeout=PATIENCE)[0].startswith("b: feasible and best")


def test_progress_on_a_terminal(folder: Path) -> None:
    main, side = pty.openpty()
    watched = subprocess.Popen(
        process("--workers", "2", pause=0.03),
        cwd=folder,
        stderr=side,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "120", "TERM": "xterm"},
    )
    os.close(side)
    shown = b""
    while watched.poll() is None or select.select([main], [], [], 0)[0]:
        if select.select([main], [], [], 0.1)[0]:
            try:
                shown += os.read(main, 65536)
            except OSError:
                break
    os.close(main)
    assert watched.communicate()[0].startswith("b: feasible and best")
    text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).decode()
    assert "running: b leads" in text
    assert re.search(r"open +\S.* of b: about [\d,]+ tests?", text)
    assert re.search(r"evidence +█*░+ \d+% of the evidence needed", text)
    assert re.search(r"cost +\d+, \d+\.\d tests a second, \d under way", text)
    assert "confidence" not in text.replace("With 99% confidence", "")


CRASH = "sh -c 'echo out of ink >&2; exit 7'"


def run_with(folder: Path, measure: str, *more: str) -> Ended:
    return bestarm("run", "bench", "--db", "s.db", "--command", measure, *more, cwd=folder)


def test_a_command_that_fails(folder: Path) -> None:
    ended = run_with(folder, CRASH)
    assert ended.code == 1
    assert ended.err.splitlines()[-1] == (
        "error: test 1 ('latency' of 'a') failed: the command ended with status 7; it said: out of ink. It is set "
        "aside, and no later result counts before it. Declare what it counts: --failed-as VALUE to record that value; "
        "or --retry N, if failures have nothing to do with results, to try again; or, once a mistake of what measures "
        "is mended, free the test with `bestarm release bench 1 --db s.db`. Then run it again to go on."
    )
    again = run_with(folder, "sh -c 'echo 3; echo 4 >&2'")
    assert again.err.splitlines()[-1].startswith("error: nothing was run now: test 1 ('latency' of 'a') failed: ")
    ended = run_with(folder, CRASH, "--retry", "2")
    assert "failed 3 times, the last time: the command ended with status 7" in ended.err
    log = ba.Study.open("bench", storage=folder / "s.db").log()
    kinds = [event.kind for event in log if event.kind in ("failed", "set aside")]
    assert kinds == ["set aside", "failed", "failed", "failed", "set aside"]
    # Counted, it decides: whatever crashes is not safe. The failure from before is counted too.
    ended = run_with(folder, CRASH, "--failed-as", "crash=1", "--failed-as", "latency=60")
    assert ended.out.startswith("no arm is feasible"), ended.err


def test_a_command_that_times_out(folder: Path) -> None:
    ended = run_with(folder, "sleep 60", "--timeout", "0.2")
    assert "timed out: the command took longer than 0.2 s and was stopped" in ended.err
    assert "--timeout-as VALUE to record that value" in ended.err
    ended = run_with(folder, "sleep 60", "--timeout", "0.05", "--timeout-as", "1", "--workers", "4")
    assert ended.out.startswith("no arm is feasible"), ended.err


def test_a_command_that_is_at_fault_itself(folder: Path) -> None:
    """Neither counted nor tried again: what it printed is no value. What cannot be started has measured nothing."""
    for measure in ("no-such-program-anywhere", "./no-such-program", "/etc/passwd"):
        for more in ((), ("--shell",)):
            ended = run_with(folder, measure, "--failed-as", "1", "--retry", "3", *more)
            assert "was not made: the command" in ended.err, ended.err
    study = ba.Study.open("bench", storage=folder / "s.db")
    assert [row.aside for _, row in study.pending()] == [None]
    ended = run_with(folder, "echo fine", "--failed-as", "1", "--retry", "3")
    assert "test 1 ('latency' of 'a') was not made: the command must print one number, and printed 'fine" in ended.err
    assert "Nothing is recorded, and the test is free: mend the command (--dry-run shows what is read)" in ended.err
    assert "`bestarm ask bench` and `bestarm tell bench 1 VALUE`" in ended.err
    assert [row.aside for _, row in study.pending()] == [None]
    # Once there is a result, output that cannot be read may depend on what was measured.
    [test] = study.ask(1)
    study.tell(test, 3)
    ended = run_with(folder, "echo fine", "--failed-as", "1", "--retry", "3")
    assert "gave an impossible value: the command must print one number, and printed 'fine" in ended.err
    assert "or record what was measured: `bestarm tell bench 2 VALUE --db s.db`" in ended.err
    assert [row.aside for _, row in study.pending()] == ["refused"]
    assert bestarm("tell", "bench", "2", "1", "--db", "s.db", cwd=folder).code == 0
    assert study.status().tests == 2


@pytest.mark.parametrize("printed", ["inf", "nan", "-1e308"])
def test_an_impossible_number_is_set_aside_even_if_it_is_the_first(folder: Path, printed: str) -> None:
    """Whether it is made again must not depend on its size."""
    ended = run_with(folder, f"echo {printed}")
    assert "gave an impossible value" in ended.err
    assert "An impossible value is not measured again by itself" in ended.err
    study = ba.Study.open("bench", storage=folder / "s.db")
    assert [row.aside for _, row in study.pending()] == ["refused"]


def test_a_dry_run_shows_what_would_be_read(folder: Path) -> None:
    shown = bestarm(*command("--dry-run"), cwd=folder)
    assert (shown.code, shown.out) == (0, "latency of a: 3.0\ncrash of a: 0.0\nNothing was recorded.\n")
    data = json.loads(bestarm(*command("--dry-run", "--json"), cwd=folder).out)
    assert data == {"arm": "a", "item": None, "values": {"latency": 3.0, "crash": 0.0}}
    wrong = run_with(folder, "echo 3 ms", "--dry-run")
    assert (wrong.code, "must print one number, and printed '3 ms'" in wrong.err) == (1, True)
    study = ba.Study.open("bench", storage=folder / "s.db")
    assert (study.status().tests, study.pending(), [event.kind for event in study.log()]) == (0, [], ["created"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--workers", "0"), "error: workers = 0: must be a whole number from 1"),
        (("--timeout", "-1"), "error: timeout = -1.0: must be a positive number of seconds"),
        (("--retry", "-1"), "error: --retry = -1: must be a whole number, 0 or more"),
        (("--failed-as", "2"), "error: --failed-as: value of 'crash' = 2.0: must be 0 or 1"),
        (("--failed-as", "boom=1"), "error: --failed-as: no metric 'boom'; there are 'latency', 'crash'"),
        (("--failed-as", "high"), "error: --failed-as = 'high': must be VALUE or METRIC=VALUE"),
        (("--failed-as", "1", "--failed-as", "crash=1"), "error: --failed-as = '1': stands for every metric"),
        (("--timeout-as", "1"), "error: --timeout-as: needs --timeout SECONDS"),
        (("--command", ""), "error: command = '': must not be empty"),
    ],
)
def test_options_that_cannot_be(folder: Path, options: tuple[str, ...], words: str) -> None:
    ended = bestarm(*command(*options), cwd=folder)
    assert ended.code == 2
    assert ended.err.startswith(words)
    assert ba.Study.open("bench", storage=folder / "s.db").status().pending == 0


def test_a_machine_makes_one_block(tmp_path: Path) -> None:
    """Who made it is in the log: the machine is named."""
    blocks = ba.Blocks("machine", size=4)
    plan = ba.Plan(("a", "b"), objective=ba.minimize("time", noise=ba.Symmetric()), blocks=blocks, name="bench")
    ba.Study.create(plan, storage=tmp_path / "s.db")
    ended = bestarm(*command("--blocks", "1", "--workers", "2", "--command", "echo 1"), cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("running")
    log = bestarm("log", "bench", "--db", "s.db", "--json", cwd=tmp_path)
    told = [event for event in json.loads(log.out) if event["event"] == "told"]
    assert sorted(event["item"] for event in told) == [f"machine 1 {place}" for place in range(1, 5)]
    assert all(f"@{socket.gethostname()}/" in event["who"] for event in told)
    ba.Study.create(ba.Plan(("a", "b"), objective=plan.objective, name="other"), storage=tmp_path / "s.db")
    for name, count, reason in (
        ("bench", "0", "must be a whole number from 1 on"),
        ("other", "1", "can only be stated of a study with blocks, and 'other' has none"),
    ):
        refused = bestarm("run", name, "--db", "s.db", "--command", "echo 1", "--blocks", count, cwd=tmp_path)
        assert (refused.code, reason in refused.err) == (2, True)


def test_metrics_are_read_from_what_is_printed(tmp_path: Path) -> None:
    plan = ba.Plan(
        arms=("a", "b"),
        objective=ba.minimize("latency", noise=ba.Gaussian(0.5)),
        constraints=(ba.at_most("crash", 0.5, noise=ba.Bernoulli()),),
        measurements=(ba.Measurement(("latency", "crash")),),
        name="bench",
        delta=0.01,
    )
    ba.Study.create(plan, storage=tmp_path / "s.db")
    (tmp_path / "measure.sh").write_text(
        'echo loading\ncase $1 in a) n=3;; *) n=1;; esac\necho "p99: $n ms, crash 0"\n'
    )
    run = ("run", "bench", "--db", "s.db", "--command", "sh measure.sh {arm}", "--metric", "crash=regex:crash ([01])")
    missing = bestarm(*run, cwd=tmp_path)
    assert (missing.code, "say how 'latency' is read" in missing.err) == (2, True)
    wrong = bestarm(*run, "--metric", "latency=json:.p99", cwd=tmp_path)
    assert wrong.code == 1
    assert "'latency' cannot be read with json:.p99: neither the output nor its last line is JSON" in wrong.err
    assert "the output ends with 'loading\\np99: " in wrong.err
