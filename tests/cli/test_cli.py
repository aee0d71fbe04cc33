"""The command line, as a user runs it."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lengths import cases, lengths
from tests.program import bestarm
from tests.tools.patience import PATIENCE
from typer.main import get_command
from typer.testing import CliRunner

import bestarm as ba
from bestarm.cli.app import app
from bestarm.cli.app.command_line import OnceCommand
from bestarm.storage.sql import schema


def test_help_needs_no_heavy_module() -> None:
    """What makes `bestarm --help` quick; how quick is measured by `make bench`."""
    script = (
        "import sys\n"
        "from bestarm.cli.app import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'llvmlite', 'numpy', 'pydantic', 'sqlalchemy', 'matplotlib', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "simulate" in result.stdout


def commands() -> dict[str, Any]:
    group: Any = get_command(app)
    return {name: group.get_command(None, name) for name in group.list_commands(None)}


def options(**wanted: bool) -> list[tuple[str, str]]:
    """Every option with these properties, by command and name."""
    return [
        (command, name)
        for command, found in commands().items()
        for option in found.params
        if option.param_type_name == "option" and all(getattr(option, key) == value for key, value in wanted.items())
        for name in option.opts
    ]


def words(output: str) -> str:
    """The message, without the frame and the line breaks of a terminal."""
    return re.sub(r"[\s\u2500-\u257f]+", " ", output)


def test_every_command_refuses_repeated_options() -> None:
    assert all(isinstance(command, OnceCommand) for command in commands().values())


@cases(40)
@pytest.mark.parametrize(("command", "option"), options(multiple=False, is_flag=False))
def test_an_option_given_twice_is_refused(command: str, option: str) -> None:
    [param] = [one for one in commands()[command].params if option in one.opts]
    first, second = ["first"] * param.nargs, ["second"] * param.nargs
    ended = CliRunner().invoke(app, [command, option, *first, option, *second])
    assert ended.exit_code == 2
    stated = "--db" if option in ("--db", "--url") else max(param.opts, key=len)
    values = "" if option == "--token" else f": {' '.join(first)!r} and {' '.join(second)!r}"
    assert f"{stated} is given twice{values}. It takes one value." in words(ended.output)


def test_repeated_options_are_refused_in_every_form() -> None:
    for arguments, message in (
        (["ask", "study", "-n", "1", "-n2", "-n3"], "-n is given 3 times: '1', '2' and '3'"),
        (["export", "study", "-o", "a", "--out=b"], "--out is given twice: 'a' and 'b'"),
        (["tell", "study", "--arm", "a", "3", "--arm", "a"], "--arm is given twice: 'a' and 'a'"),
        (["report", "study", "--forecast", "--no-forecast"], "--forecast and --no-forecast are given together"),
    ):
        ended = CliRunner().invoke(app, arguments)
        assert (ended.exit_code, message in words(ended.output)) == (2, True), ended.output


REPEATED = ("--at-most", "--at-least", "--metric", "--on", "--prepare", "-p", "--conclude", "-C")
"""Options that `race` and `gate` share."""


def test_what_may_be_given_twice(tmp_path: Path) -> None:
    assert options(multiple=True) == [
        *(("race", name) for name in ("--command-name", "-n", "--name", "--parameter-list", "-L")),
        *((command, name) for command in ("race", "gate") for name in REPEATED),
        *(("gate", name) for name in ("--range", "--symmetric", "--missing", "--map")),
        *(("simulate", "--option"), ("forecast", "--option")),
        *(("campaign", name) for name in ("--policy", "--bound", "--delta")),
        ("paper", "--policy"),
        ("tell", "--ignore"),
        *(("import", name) for name in ("--ignore", "--map")),
        *(("run", name) for name in ("--metric", "--failed-as", "--timeout-as")),
        *(("serve", name) for name in ("--allow-host", "--trusted-proxies", "--proxy", "--proxy-role")),
        ("token", "--role"),
    ]
    # A flag, a list, a word that only looks like an option, and help whatever else is said.
    assert bestarm("theory", "exp1-a", "--json", "--json").code == 0
    result = bestarm(
        *("campaign", "exp1-a", "--out", str(tmp_path), "--policy", "racing", "--policy", "tf-lucb"),
        *("--delta", "0.1", "--delta", "0.2", "--runs", "1", "--json"),
    )
    assert [(row["policy"], row["delta"]) for row in json.loads(result.out)] == [
        *(("racing", 0.1), ("racing", 0.2), ("tf-lucb", 0.1), ("tf-lucb", 0.2))
    ]
    asked = bestarm("status", "--db", "nowhere.db", "--", "--db", cwd=tmp_path)
    assert "is given twice" not in asked.err
    assert bestarm("simulate", "--policy", "a", "--policy", "b", "--help").code == 0


def test_policies_load_without_a_compiler() -> None:
    script = "import sys, bestarm.policies as p; p.all_policies(); assert 'llvmlite' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_simulate_json() -> None:
    result = bestarm(
        *("simulate", "exp1-a", "--policy", "feasibility-first", "--bound", "mixture"),
        *("--runs", "30", "--delta", "0.2", "--seed", "3", "--json"),
    )
    assert result.code == 0, result.err
    data = json.loads(result.out)
    assert list(data) == [
        *("instance", "policy", "bound", "delta", "runs", "seed", "mean_tests", "sd_tests", "se_tests"),
        *("mean_cost", "error_rate", "unfinished", "answers", "tests_per_second"),
    ]
    assert data["instance"] == "exp1-a"
    assert (data["policy"], data["bound"], data["delta"]) == ("feasibility-first", "mixture", 0.2)
    assert (data["runs"], data["seed"], data["unfinished"]) == (30, 3, 0)
    assert data["answers"] == {"arm 5": 30}
    assert data["mean_cost"] == data["mean_tests"] > 100
    assert data["se_tests"] == pytest.approx(data["sd_tests"] / 30**0.5)


def test_theory_and_forecast_json() -> None:
    theory = json.loads(bestarm("theory", "exp1-a", "--delta", "0.1", "--json").out)
    assert list(theory) == [
        *("answer", "H", "lower_bound", "upper_bound", "characteristic_time", "kl_bound", "arms", "allocation"),
        "not_computed",
    ]
    assert theory["lower_bound"] == pytest.approx(319.7, rel=1e-3)
    assert theory["arms"][0]["phi"] is None
    forecast = json.loads(bestarm("forecast", "exp1-a", "--runs", "50", "--json").out)
    assert {"mean_tests", "median_tests", "p90_tests", "mean_cost", "lower_bound", "per_metric"} <= set(forecast)
    assert forecast["median_tests"] <= forecast["p90_tests"]
    assert sum(forecast["per_metric"].values()) == pytest.approx(forecast["mean_tests"])


def test_simulate_table_and_unfinished_runs() -> None:
    result = bestarm("simulate", "drug", "--runs", "3", "--max-tests", "1000")
    assert result.code == 0, result.err
    assert "certify" in result.out
    assert "stopped at 1,000 tests" in result.out


def test_simulate_a_file_where_no_arm_is_feasible(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        'name = "hot"\n[objective]\nmetric = "yield"\ngoal = "minimize"\nnoise = { gaussian = 1 }\n'
        '[[constraints]]\nmetric = "heat"\nat_least = 2\nnoise = { gaussian = 1 }\ncost = 2\n'
        '[[arms]]\nname = "x"\nmeans = { yield = 0, heat = 0 }\n'
    )
    result = bestarm("simulate", "study.toml", "--runs", "5", "--json", cwd=tmp_path)
    data = json.loads(result.out)
    assert data["answers"] == {"none": 5}
    assert data["error_rate"] == 0
    assert data["delta"] == 0.05
    assert data["mean_cost"] == 2 * data["mean_tests"] - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simulate", "exp9"), "error: 'exp9' is neither a file nor a built-in instance; these are exp1-a"),
        (("simulate", "exp1-a", "--policy", "x"), "error: policy = 'x': no such policy; there are"),
        (("simulate", "exp1-a", "--bound", "x"), "error: bound = 'x': no such confidence bound"),
        (("simulate", "exp1-a", "--delta", "1"), "error: delta = 1.0: must lie strictly between 0 and 1"),
        (("simulate", "exp1-a", "--runs", "0"), "error: runs = 0: must be a whole number from 1"),
        (("simulate", "exp1-a", "--runs", "many"), "Invalid value for '--runs'"),
        (("simulate", "exp1-a", "--seed", "-1"), "error: seed = -1: must be a whole number from 0"),
        (("simulate", "exp1-a", "--max-tests", "0"), "error: max_tests = 0"),
        (("simulate", "exp1-a", "--workers", "0"), "error: workers = 0: must be a whole number from 1"),
        (("simulate",), "Missing argument"),
        (("unknown",), "No such command"),
        (("demo", "--report", "no/such/folder/r.html"), "error: report = 'no/such/folder/r.html': the folder"),
        (("demo", "--rate", "-1"), "error: rate = -1"),
        (("demo", "--delta", "0"), "error: delta = 0.0: must lie strictly"),
    ],
)
def test_a_users_mistake_is_one_clear_line_and_status_2(arguments: tuple[str, ...], message: str) -> None:
    result = bestarm(*arguments)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err
    assert result.out == ""


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        '[objective]\nmetric = "m"\ngoal = "maximize"\nnoise = "bernoulli"\n[[arms]]\nname = ""\n'
    )
    result = bestarm("simulate", "study.toml", cwd=tmp_path)
    assert result.code == 2
    assert result.err == "error: study.toml: arms[0].name = '': must not be empty\n"


def further_from_their_limits(plan: ba.Plan) -> ba.Plan:
    """The same question, which takes a fraction of the tests."""
    limits = {part.metric: part.threshold for part in plan.constraints}

    def mean(metric: str, value: Any) -> float:
        return float(min(max(value + 3.0 * (value - limits.get(metric, value)), 0.01), 0.99))

    arms = [
        dataclasses.replace(arm, means={metric: mean(metric, value) for metric, value in (arm.means or {}).items()})
        for arm in plan.arms
    ]
    return dataclasses.replace(plan, arms=tuple(arms))


@pytest.mark.parametrize(
    ("delta", "confidence", "at_once", "world"),
    lengths(("0.5", 50, 400, further_from_their_limits), ("0.05", 95, 8, lambda plan: plan)),
)
def test_demo_ends_certified_with_a_report(
    tmp_path: Path,
    delta: str,
    confidence: int,
    at_once: int,
    world: Callable[[ba.Plan], ba.Plan],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = world(ba.instance("drug-bernoulli"))
    monkeypatch.setattr("bestarm.paper.instances.instance", lambda name: plan)
    monkeypatch.setattr("bestarm.cli.demo._AT_ONCE", at_once)
    result = bestarm("demo", "--report", "report.html", "--db", "demo.db", "--delta", delta, cwd=tmp_path)
    assert result.code == 0, result.err
    assert f"150 mg: feasible and best, with {confidence}% confidence, after" in result.out
    assert result.out.endswith("Report: report.html\nDashboard: bestarm serve --db demo.db\n")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"150 mg: feasible and best, with {confidence}% confidence" in page
    assert all(f"<tr><td>{dose}</td>" in page for dose in ("25 mg", "75 mg", "150 mg", "300 mg", "placebo"))
    assert "<svg" in page
    assert "src=" not in page
    assert "href=" not in page


def test_version() -> None:
    import bestarm as package

    assert bestarm("--version").out == f"bestarm {package.__version__} (schema {schema.VERSION})\n"


def test_ctrl_c_ends_a_long_simulation() -> None:
    """Tied arms never stop; the interrupt must, with status 130 and no traceback."""
    # What the command runs, but it says when the first runs are under way.
    program = """
import sys
from bestarm.simulation.engine import Job
compiled = Job._compiled
def announced(job, first_run, runs, *more):
    if runs:
        sys.stdout.write("running\\n")
        sys.stdout.flush()
    return compiled(job, first_run, runs, *more)
Job._compiled = announced
from bestarm.cli import main
main()
"""
    arguments = ["simulate", "drug", "--runs", "1000000", "--policy", "performance-first"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert "running" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
