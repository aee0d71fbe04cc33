"""The command line with tests of several metrics, and with items."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.live import Program, everything, works
from tests.lengths import cases
from tests.tools.patience import PATIENCE, wait_until

import bestarm as ba

BENCH = """
name = "bench"
delta = 0.2
{items}
[objective]
metric = "time"
goal = "minimize"
noise = {{ bounded = [0, 100] }}
[[constraints]]
metric = "time"
at_most = 90
noise = {{ bounded = [0, 100] }}
[[constraints]]
metric = "crash rate"
at_most = 0.5
noise = {{ bounded = [0, 1] }}
[[constraints]]
metric = "size"
at_most = 5
noise = {{ bounded = [0, 10] }}
[[measurements]]
metrics = ["time", "crash rate"]
cost = 2
[[arms]]
name = "a"
[[arms]]
name = "b"
"""
RUN = "time + crash rate"

MEASURE = """
import json, os, sys
how, arm, metric, *item = sys.argv[1:]
assert os.environ["BESTARM_METRICS"].split("\\n") == (["size"] if metric == "size" else ["time", "crash rate"])
assert item == ([os.environ["BESTARM_ITEM"]] if "BESTARM_ITEM" in os.environ else [])
if os.environ["BESTARM_TEST"] == os.environ.get("HANG_AT"):
    import time
    time.sleep(600)
value = 10.0 if arm == "a" else 80.0
found = {"size": 1} if metric == "size" else {"crash rate": 0, "time": value}
if how == "json":
    print(json.dumps(found, indent=2))
elif how == "lines":
    print("\\n".join(f"{name}\\t{value}" for name, value in found.items()))
else:
    print(*found.values())
"""


@pytest.fixture
def studies(bestarm: Program) -> Program:
    """With a study `bench`, and one with items, `asked`."""
    Path("bench.toml").write_text(BENCH.format(items=""), encoding="utf-8")
    asked = BENCH.format(items='items = ["easy", "hard", "-x"]').replace('"bench"', '"asked"')
    Path("asked.toml").write_text(asked, encoding="utf-8")
    Path("measure.py").write_text(MEASURE, encoding="utf-8")
    for name in ("bench", "asked"):
        works(bestarm, "new", f"{name}.toml")
    return bestarm


def measure(how: str, *more: str) -> str:
    return " ".join([sys.executable, "measure.py", how, "{arm}", "{metric}", *more])


def test_a_new_study_says_what_is_measured(studies: Program) -> None:
    said = works(studies, "new", "asked.toml", "--name", "other").splitlines()
    assert said[0].startswith(f"other: 2 arms, 3 metrics ({RUN} in one test), 3 items, policy certify, delta 0.2;")
    assert "bestarm tell other TEST time=VALUE 'crash rate=VALUE'" in said[4]
    data = json.loads(works(studies, "new", "asked.toml", "--name", "third", "--json"))
    assert data["metrics"] == ["time", "crash rate", "size"]
    assert (data["measurements"], data["items"]) == ([["time", "crash rate"]], 3)
    plain = json.loads(works(studies, "new", "dose.toml", "--json"))
    assert list(plain) == ["study", "db", "arms", "metrics", "seed"]


def test_ask_names_metrics_and_items(studies: Program) -> None:
    assert works(studies, "ask", "bench", "-n", "2").splitlines()[0].split() == ["test", "arm", "metric"]
    first, second = json.loads(works(studies, "ask", "bench", "-n", "2", "--json"))
    assert first == {"id": 3, "arm": "b", "metric": RUN, "metrics": ["time", "crash rate"]}
    assert second == {"id": 4, "arm": "b", "metric": "size"}
    assert works(studies, "ask", "asked").splitlines()[0].split() == ["test", "arm", "metric", "item"]
    [asked] = json.loads(works(studies, "ask", "asked", "--json"))
    assert list(asked) == ["id", "arm", "metric", "item"]
    assert asked["item"] in ("easy", "hard", "-x")


def test_tell_and_correct(studies: Program) -> None:
    works(studies, "ask", "bench", "-n", "4")
    assert (
        works(studies, "tell", "bench", "1", "crash rate=0", "time=10") == "Recorded: test 1 = crash rate 0, time 10.\n"
    )
    assert works(studies, "tell", "bench", "2", "3") == "Recorded: test 2 = 3.\n"
    assert works(studies, "tell", "bench", "2", "size=3") == "Recorded: test 2 = size 3.\n"
    said = works(studies, "tell", "bench", "1", "time=11", "--correct", "--reason", "typo")
    assert said == "Corrected: test 1 = time 11.\n"
    said = works(studies, "tell", "bench", "--arm", "b", "time=80", "crash rate=1")
    assert said == "Recorded as test 5: b: time 80, crash rate 1.\n"
    assert works(studies, "tell", "bench", "--arm", "b", "--metric", "size", "2").startswith(
        "Recorded as test 6: size of b"
    )
    log = json.loads(works(studies, "log", "bench", "--json"))
    told = [(event["event"], event.get("value"), event.get("values")) for event in log if "values" in event]
    assert [row for row in told if row[2] is not None] == [
        ("told", None, {"time": 10.0, "crash rate": 0.0}),
        ("corrected", None, {"time": 11.0, "crash rate": 0.0}),
        ("given", None, {"time": 80.0, "crash rate": 1.0}),
    ]
    table = works(studies, "log", "bench")
    assert RUN in table
    assert "11, 0" in table


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("1", "3"), f"result of a test of '{RUN}' = 3.0: must be 'time' and 'crash rate', by name"),
        (("1", "time=3"), "value = {'time': 3.0}: lacks 'crash rate'; a test of time + crash rate is told all its"),
        (("1", "time=3", "crash rate=0", "size=1"), "this test yields 'time' and 'crash rate', and no 'size'"),
        (("1", "time=3", "time=4"), "value = 'time=4': 'time' is given twice"),
        (("1", "time=fast", "crash rate=0"), "value of 'time' = 'fast': must be a number"),
        (("1", "time=3,5", "crash rate=0"), "value of 'time' = '3,5': must be written with a decimal point"),
        (("1", "time=101", "crash rate=0"), "value of 'time' = 101.0: must lie between 0 and 100"),
        (("1", "3", "4"), "tell: give TEST VALUE, or --arm ARM --metric METRIC VALUE, or --from FILE; of several"),
        (("1",), "tell: give TEST VALUE"),
        (("--arm", "a", "--metric", "time", "3"), "metric = 'time': is measured together with 'crash rate'"),
        (("--arm", "a", "3"), "tell: give TEST VALUE"),
        (("--metric", "time", "3"), "tell: give TEST VALUE"),
        (("--arm", "a", "size=1", "--item", "easy"), "item = 'easy': this study has no items"),
        (("1", "3", "--item", "easy"), "--item: goes with --arm; a test's number says which item it is of"),
    ],
)
def test_what_cannot_be_told(studies: Program, words: tuple[str, ...], complaint: str) -> None:
    works(studies, "ask", "bench", "-n", "2")
    before = everything()
    ended = studies("tell", "bench", *words)
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err
    assert everything() == before


def test_results_of_items(studies: Program) -> None:
    works(studies, "ask", "asked")
    assert "Recorded as test 2" in works(studies, "tell", "asked", "--arm", "b", "size=3", "--item", "-x")
    ended = studies("tell", "asked", "--arm", "b", "--metric", "size", "3", "--item", "-x")
    assert "item = '-x': 'size' of 'b' has been measured on it already, or is being measured" in ended.err
    assert "item: is missing" in studies("tell", "asked", "--arm", "b", "--metric", "size", "3").err
    log = json.loads(works(studies, "log", "asked", "--json"))
    assert [event["item"] for event in log][-1] == "-x"
    assert "-x" in works(studies, "log", "asked")
    assert " on " in works(studies, "status", "asked")


@cases(1)
@pytest.mark.parametrize("how", ["json", "lines"])
def test_run_with_a_command_that_prints_several_values(studies: Program, how: str) -> None:
    ended = studies("run", "bench", "--command", measure(how), "--workers", "2")
    assert (ended.code, ended.out[:20]) == (0, "a: feasible and best")
    works(studies, "export", "bench", "-o", "bench.csv")
    with Path("bench.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    tests = {row["test"] for row in rows}
    assert len(rows) == len(tests) + sum(row["metric"] == "crash rate" for row in rows)
    works(studies, "new", "bench.toml", "--name", "copy")
    said = works(studies, "import", "copy", "bench.csv")
    assert said.startswith(f"Recorded {len({row['test'] for row in rows if row['value']})} results as tests 1 to ")
    state = [json.loads(works(studies, "status", name, "--json")) for name in ("bench", "copy")]
    for one in state:
        # The copy did not ask for its results, and says so.
        for said_of in (one, one["conclusion"]):
            said_of.pop("unasked", None)
    assert state[0] | {"study": "", "pending": 0} == state[1] | {"study": "", "pending": 0}


def test_run_on_items(studies: Program) -> None:
    ended = studies("run", "asked", "--command", measure("json", "{item}"))
    assert ended.code == 2
    assert "'-x' begins with a dash and would be taken for an option" in ended.err
    ended = studies("run", "asked", "--shell", "--command", 'echo "{item}"')
    assert 'command = \'echo "{item}"\': {item} stands inside quotes; write "$BESTARM_ITEM" there' in ended.err
    ended = studies("run", "asked", "--shell", "--command", measure("lines") + ' "$BESTARM_ITEM"')
    assert (ended.code, ended.out[:20]) == (0, "a: feasible and best"), ended.err


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("echo 3", "and printed '3' (line = '3': must be a name and a value)"),
        ("echo time 3", "and printed 'time 3' (value = {'time': 3.0}: lacks 'crash rate'; a test of"),
        ("printf 'time 3\\ncrash rate none\\n'", "(crash rate = 'none': must be a number)"),
        ("printf 'time 3\\ncrash rate 0\\nsize 1\\n'", "(value = {'crash rate': 0.0, 'size': 1.0, 'time': 3.0}: this"),
        ("""echo '{"time": 3'""", "(not valid JSON: "),
        ("""echo '{"time": "3", "crash rate": 0}'""", "('time' = '3': must be a number)"),
        ("""echo '{"time": null, "crash rate": 0}'""", "('time' = None: must be a number)"),
        ("""echo '{"time": 101, "crash rate": 0}'""", "value of 'time' = 101: must lie between 0 and 100"),
        ("""echo '{"time": NaN, "crash rate": 0}'""", "value of 'time' = nan: must be a finite number"),
        ("true", "and printed '' (value = {}: lacks 'time' and 'crash rate'"),
    ],
)
def test_a_command_that_prints_something_else(studies: Program, program: str, complaint: str) -> None:
    ended = studies("run", "bench", "--command", program, "--failed-as", "1", "--retry", "2")
    assert ended.code == 1
    # What cannot be read is the command's mistake, as long as there is no result. A value that cannot be is one.
    is_value = complaint.startswith("value of")
    how = "gave an impossible value" if is_value else "was not made"
    assert f"test 1 ('{RUN}' of 'a') {how}: " in ended.err
    assert complaint in ended.err
    study = ba.Study.open("bench", storage="s.db")
    assert [row.aside for _, row in study.pending()] == ["refused" if is_value else None]
    assert study.status().tests == 0


def test_failures_of_a_command(studies: Program) -> None:
    ended = studies("run", "bench", "--command", "false", "--failed-as", "time=99")
    assert (
        "Declare what it counts for each of 'time' (from 0 to 100), 'crash rate' (from 0 to 1): --failed-as"
        in ended.err
    )
    ended = studies("status", "bench")
    declared = [word for text in ("time=99", "crash rate=1", "size=9") for word in ("--failed-as", text)]
    ended = studies("run", "bench", "--command", "false", *declared)
    assert ended.out.startswith("no arm is feasible"), ended.err


def test_ctrl_c_and_resume(studies: Program) -> None:
    words = [sys.executable, "-m", "bestarm", "run", "bench", "--db", "s.db", "--command", measure("lines")]
    stopped = subprocess.Popen(
        words, env=os.environ | {"HANG_AT": "5"}, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    study = ba.Study.open("bench", storage="s.db")
    wait_until(lambda: study.status().tests == 4 and len(study.pending()) == 1)
    os.killpg(stopped.pid, signal.SIGINT)
    assert "were given back" in stopped.communicate(timeout=PATIENCE)[1]
    assert all(row.expires == 0.0 for _, row in study.pending())
    assert studies("run", "bench", "--command", measure("json")).code == 0
    told = [event.test for event in study.log() if event.kind == "told"]
    assert len(told) == len(set(told)) > 4


def test_sheets(studies: Program) -> None:
    sheet = b"arm,time,crash rate,size\na,10,0,\nb,80,0,3\n"
    assert works(studies, "import", "bench", "-", stdin=sheet) == "Recorded 3 results as tests 1 to 3 of bench.\n"
    works(studies, "ask", "bench", "-n", "3")
    told = b"test,time,crash rate\n5,10,0\n"
    assert works(studies, "tell", "bench", "--csv", "-", stdin=told) == "Recorded 1 result of bench.\n"
    ended = studies("tell", "bench", "--csv", "-", stdin=b"test,time,crash rate\n6,10,\n")
    assert ended.err == (
        "error: standard input: line 2: crash rate: is missing; one test yields it together with 'time'; nothing was "
        "recorded\n"
    )


def test_what_waits_is_told_with_all_its_values(studies: Program) -> None:
    assert studies("run", "bench", "--command", "false").code == 1
    shown = json.loads(works(studies, "status", "bench", "--json"))["awaited"]
    assert "item" not in shown
    assert shown["count_command"].startswith("bestarm tell bench 1 time=VALUE 'crash rate=VALUE'")
    assert studies("run", "asked", "--command", "false").code == 1
    shown = json.loads(works(studies, "status", "asked", "--json"))["awaited"]
    assert shown["item"] in ("easy", "hard", "-x")
