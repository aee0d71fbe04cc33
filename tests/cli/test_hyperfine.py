"""What hyperfine's users type and read: its README with the program's name changed, its options, its exports."""

from __future__ import annotations

import csv
import json
import math
import shlex
import statistics
from pathlib import Path
from typing import Any

import pytest
from tests.program import bestarm

from bestarm.race import race as race_module
from bestarm.race.contestants import Contestant
from bestarm.race.race import Conditions

README = [
    ("hyperfine 'sleep 0.3'", ["sleep 0.3"], {}),
    ("hyperfine --runs 5 'sleep 0.3'", ["sleep 0.3"], {"least_runs": 5, "most_runs": 5}),
    ("hyperfine 'hexdump file' 'xxd file'", ["hexdump file", "xxd file"], {}),
    ("hyperfine --warmup 3 'grep -R TODO *'", ["grep -R TODO *"], {"warmup": 3}),
    (
        "hyperfine --prepare 'sync; echo 3 | sudo tee /proc/sys/vm/drop_caches' 'grep -R TODO *'",
        ["grep -R TODO *"],
        {"prepare": "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches"},
    ),
    (
        "hyperfine --prepare 'make clean' --parameter-scan num_threads 1 12 'make -j {num_threads}'",
        [f"make -j {number}" for number in range(1, 13)],
        {"prepare": "make clean"},
    ),
    (
        "hyperfine --parameter-scan delay 0.3 0.7 -D 0.2 'sleep {delay}'",
        ["sleep 0.3", "sleep 0.5", "sleep 0.7"],
        {},
    ),
    (
        "hyperfine -L compiler gcc,clang '{compiler} -O2 main.cpp'",
        ["gcc -O2 main.cpp", "clang -O2 main.cpp"],
        {},
    ),
    (
        "hyperfine --shell zsh 'for i in {1..10000}; do echo test; done'",
        ["for i in {1..10000}; do echo test; done"],
        {"shell": "zsh"},
    ),
    ("hyperfine -N 'grep TODO /home/user'", ["grep TODO /home/user"], {"shell": "none"}),
    ("hyperfine --shell=none 'grep TODO /home/user'", ["grep TODO /home/user"], {"shell": "none"}),
    ("hyperfine -S 'bash --norc' 'sleep 1'", ["sleep 1"], {"shell": "bash --norc"}),
    ("hyperfine --shell=bash my_function", ["my_function"], {"shell": "bash"}),
    ("hyperfine 'my_function() { sleep 1; }; my_function'", ["my_function() { sleep 1; }; my_function"], {}),
    ("hyperfine '. /tmp/my_alias.sh; my_alias'", [". /tmp/my_alias.sh; my_alias"], {}),
    (
        "hyperfine 'sleep 0.020' 'sleep 0.021' 'sleep 0.022' --export-json sleep.json --export-markdown sleep.md",
        ["sleep 0.020", "sleep 0.021", "sleep 0.022"],
        {},
    ),
    ("hyperfine -w 3 -r 10 -i -n one -n two 'a' 'b' -u second", ["a", "b"], {"ignores_failures": True}),
    (
        "hyperfine -L port 1,2 -p 'start {port}' -s make -c clean -C stop 'ping {port}' -m 4 -M 9",
        ["ping 1", "ping 2"],
        {"setup": "make", "cleanup": "clean", "conclude": "stop", "least_runs": 4, "most_runs": 9},
    ),
    ("hyperfine -p 'rm x' -p 'rm y' 'make x' 'make y'", ["make x", "make y"], {}),
    ("hyperfine --reference 'old f' 'new f' 'newer f'", ["old f", "new f", "newer f"], {}),
    ("hyperfine --style basic --sort mean-time --output pipe --input null 'sleep 1'", ["sleep 1"], {}),
]
"""A command line, the commands that run, and how."""


class Asked(Exception):
    """A race was about to begin."""

    def __init__(self, contestants: list[Contestant], _: object, conditions: Conditions, **__: object) -> None:
        self.contestants = contestants
        self.conditions = conditions


@pytest.mark.parametrize(("line", "commands", "how"), README, ids=[line for line, _, _ in README])
def test_a_command_line_of_hyperfine_means_the_same(
    line: str, commands: list[str], how: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def race(*given: Any, **more: Any) -> None:
        raise Asked(*given, **more)

    monkeypatch.setattr(race_module, "Race", race)
    words = shlex.split(line)
    assert words[0] == "hyperfine"
    with pytest.raises(Asked) as asked:
        bestarm("race", *words[1:], cwd=tmp_path)
    contestants, conditions = asked.value.contestants, asked.value.conditions
    assert [one.command for one in contestants] == commands
    around = {**contestants[0].around}
    assert {name: around.get(name, getattr(conditions, name, None)) for name in how} == how


def results_of(tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    ended = bestarm("race", *words, "--export-json=out.json", cwd=tmp_path)
    assert ended.code in (0, 4), ended.err
    found: list[dict[str, Any]] = json.loads((tmp_path / "out.json").read_text())["results"]
    return found


def test_runs_are_counted_by_command_whether_there_is_an_answer_or_not(tmp_path: Path) -> None:
    for words in (("true", "sleep 0.05"), ("true", ": "), ("true",)):
        found = results_of(tmp_path, *words, "-r14", "--timeout=60s")
        assert [len(one["times"]) for one in found] == [14] * len(words)


def test_plotting_scripts_find_what_they_read(tmp_path: Path) -> None:
    """As hyperfine's `plot_whisker.py`, `plot_parametrized.py` and `advanced_statistics.py` read its file."""
    results = results_of(tmp_path, "sleep {t}", "-P", "t", "0", "0.02", "-D", "0.01", "-r3", "-N", "-w1")
    assert [one["command"] for one in results] == ["sleep 0", "sleep 0.01", "sleep 0.02"]
    for one in results:
        times = one["times"]
        assert math.isclose(one["mean"], statistics.fmean(times))
        assert math.isclose(one["stddev"], statistics.stdev(times))
        assert math.isclose(one["median"], statistics.median(times))
        assert (one["min"], one["max"]) == (min(times), max(times))
        assert all(isinstance(one[name], float) for name in ("user", "system"))
        assert one["exit_codes"] == [0, 0, 0]
    assert [float(one["parameters"]["t"]) for one in results] == [0.0, 0.01, 0.02]
    assert {tuple(one["parameters"]) for one in results} == {("t",)}
    named = results_of(tmp_path, "true", "sleep 0.01", "-n", "nothing", "-r3")
    # Its scripts take the command for the label.
    assert [one["command"] for one in named] == ["nothing", "sleep 0.01"]


def test_tables_begin_with_the_columns_of_hyperfine(tmp_path: Path) -> None:
    kinds = ("csv", "markdown", "asciidoc", "orgmode")
    words = ["sleep {t}", "-L", "t", "0.05,0", "-r3", "-u", "second", "--sort=mean-time"]
    results_of(tmp_path, *words, *(f"--export-{kind}={kind}" for kind in kinds))
    rows = list(csv.reader((tmp_path / "csv").read_text().splitlines()))
    assert rows[0][:9] == ["command", *["mean", "stddev", "median", "user", "system", "min", "max"], "parameter_t"]
    assert [row[0] for row in rows[1:]] == ["sleep 0", "sleep 0.05"]
    heads = ["Command", "Mean [s]", "Min [s]", "Max [s]", "Relative"]
    for kind, name in (("markdown", "`sleep 0`"), ("orgmode", "=sleep 0=")):
        head, rule, first, second, *_ = (tmp_path / kind).read_text().splitlines()
        assert [cell.strip() for cell in head.split("|")[1:6]] == heads
        assert set(rule) <= set("|:-+")
        cells = [cell.strip() for cell in first.split("|")[1:6]]
        assert (cells[0], cells[-1], "±" in cells[1]) == (name, "1.00", True)
        assert float(second.split("|")[5]) > 1.0
    lines = [line.strip() for line in (tmp_path / "asciidoc").read_text().splitlines()]
    assert lines[0].startswith('[cols="<,>,>,>,>')
    assert lines[1:7] == ["|===", *(f"| {head}" for head in heads)]
    assert "| `sleep 0.05`" in lines
    assert lines.count("|===") == 2


def test_a_reference_is_one_more_command_and_the_unit_of_tables(tmp_path: Path) -> None:
    results_of(tmp_path, "sleep 0", "--reference", "sleep 0.05", "-r3", "--export-markdown=table")
    rows = [line.split("|") for line in (tmp_path / "table").read_text().splitlines()[2:4]]
    assert [(row[1].strip(), row[5].strip() == "1.00") for row in rows] == [
        ("`sleep 0.05`", True),
        ("`sleep 0`", False),
    ]


def note(tmp_path: Path, text: str) -> str:
    return f"echo {text} >> {tmp_path / 'notes'}"


def notes(tmp_path: Path) -> list[str]:
    return (tmp_path / "notes").read_text().split()


def test_what_is_run_around_runs(tmp_path: Path) -> None:
    words = [note(tmp_path, "a"), note(tmp_path, "b"), "-r4", "-w0", "--timeout=60s", "--assume=range"]
    words += ["-s", note(tmp_path, "made"), "-c", note(tmp_path, "cleaned"), "-C", note(tmp_path, "after")]
    results_of(tmp_path, *words, "-p", note(tmp_path, "for-a"), "-p", note(tmp_path, "for-b"))
    first, *rounds, last = notes(tmp_path)
    assert (first, last) == ("made", "cleaned")
    made = [tuple(rounds[place : place + 3]) for place in range(0, len(rounds), 3)]
    assert sorted(made[-8:]) == [("for-a", "a", "after")] * 4 + [("for-b", "b", "after")] * 4


def test_a_setup_that_parameters_make_differ_is_run_before_each_run(tmp_path: Path) -> None:
    """Commands take turns, and the setup of one may undo that of another."""
    setup, cleanup = "echo {branch} > state", "rm state"
    words = ["test $(cat state) = {branch}", "-L", "branch", "old,new", "--setup", setup, "--cleanup", cleanup, "-r3"]
    found = results_of(tmp_path, *words)
    assert [one["exit_codes"] for one in found] == [[0, 0, 0]] * 2
    # A parameter need not be in the command.
    (tmp_path / "run").write_text("cat state >> seen\n")
    found = results_of(tmp_path, "sh run", "-L", "branch", "old,new", "-s", setup, "-r3", "-w0")
    assert [(one["name"], one["parameters"]) for one in found] == [
        (f"sh run (branch = {branch})", {"branch": branch}) for branch in ("old", "new")
    ]
    seen = (tmp_path / "seen").read_text().split()
    assert (seen[-6:].count("old"), seen[-6:].count("new")) == (3, 3)


def test_what_was_set_up_is_cleaned_up_after_a_failure(tmp_path: Path) -> None:
    words = ["exit 3", "true", "-s", note(tmp_path, "made"), "-c", note(tmp_path, "cleaned")]
    ended = bestarm("race", *words, cwd=tmp_path)
    assert (ended.code, notes(tmp_path)) == (1, ["made", "cleaned"])
    for option in ("--setup", "--prepare", "--conclude", "--cleanup"):
        ended = bestarm("race", "true", "sleep 0.05", option, "exit 5", "-r2", cwd=tmp_path)
        assert (ended.code, f"{option} 'exit 5' ended with status 5" in ended.err) == (1, True)


def test_input_and_output(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").write_text("one two three\n")
    found = results_of(tmp_path, "wc -w", "cat", "--input=in", "--output=out", "-r2")
    assert [one["output_byte"] for one in found] == [[0, 0], [0, 0]]
    assert (tmp_path / "out").read_text().strip() in ("3", "one two three")
    found = results_of(tmp_path, "cat", "cat -u", "--input=in", "-r2")
    assert [one["output_byte"] for one in found] == [[14, 14], [14, 14]]
    results_of(tmp_path, "cat", "cat nothing; cat", "--input=in", "--output=null", "-r2", "-i")
    assert capfd.readouterr().out == ""
    results_of(tmp_path, "cat", "cat -u; echo hidden >&2", "--input=in", "--show-output", "-r2")
    shown = capfd.readouterr()
    assert shown.out.count("one two three") >= 4
    assert shown.err.count("hidden") >= 2


def test_how_much_is_printed(tmp_path: Path) -> None:
    words = ("race", "true", "sleep 0.05", "-r3", "--export-json=out")
    silent = bestarm(*words, "--style=none", cwd=tmp_path)
    assert (silent.out, silent.err, (tmp_path / "out").exists()) == ("", "", True)
    colored = bestarm(*words, "--style=color", cwd=tmp_path)
    assert "\x1b[" in colored.out
    assert "\x1b[" not in bestarm(*words, "--style=basic", cwd=tmp_path).out
    assert "0.05" in bestarm(*words, "-u", "second", cwd=tmp_path).out
