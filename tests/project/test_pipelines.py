"""The pipeline files that the documents show, acted out: they are well formed, and do what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tests.lengths import cases
from tests.tools.acted_out import Acted, Stage, read
from typer.main import get_command

from bestarm.cli.app import app

ROOT = Path(__file__).parents[2]
PIPELINES = ROOT / "examples" / "pipelines"
WORKFLOWS = sorted(set(PIPELINES.glob("*.yml")) - set(PIPELINES.glob("*.gitlab-ci.yml")))
OURS = sorted((ROOT / ".github" / "workflows").iterdir())
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*"))
SPEED_GATE, WITH_ACTION, GITLAB = (
    PIPELINES / f"{name}.yml" for name in ("speed-gate", "gate-with-action", "speed-gate.gitlab-ci")
)
ACTION = ROOT / "action.yml"
SCHEMA = json.loads((Path(__file__).parent / "workflow.schema.json").read_text(encoding="utf-8"))


def test_there_are_three() -> None:
    assert sorted(PIPELINES.iterdir()) == sorted([SPEED_GATE, WITH_ACTION, GITLAB])
    assert sorted([SPEED_GATE, WITH_ACTION]) == WORKFLOWS


@pytest.mark.parametrize("file", [*WORKFLOWS, *OURS], ids=lambda file: file.name)
def test_a_workflow_follows_the_schema(file: Path) -> None:
    jsonschema_rs.validator_for(SCHEMA).validate(read(file))


def test_our_workflows_call_what_there_is() -> None:
    """Targets of make, commands of bestarm with their options, extras, and names of matrices."""
    group: Any = get_command(app)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    called = set()
    for job in (job for file in OURS for job in read(file)["jobs"].values()):
        text = json.dumps(job)
        assert set(re.findall(r"matrix\.(\w+)", text)) == set(job.get("strategy", {}).get("matrix", {}))
        for words in (step["run"].split() for step in job["steps"] if "run" in step):
            called.add(words[0])
            if words[0] == "make":
                assert set(words[1:]) <= targets
            elif words[1:3] == ["-m", "bestarm"]:
                known = {name for option in group.get_command(None, words[3]).params for name in option.opts}
                assert {word for word in words[4:] if word.startswith("--")} <= known
            elif words[-1].startswith(".["):
                assert set(words[-1][2:-1].split(",")) <= set(extras)
    assert called == {"make", "python", "bash"}


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.name)
def test_a_form_for_issues_is_whole(file: Path) -> None:
    form = read(file)
    assert set(form) == {"name", "description", "body"}
    names = [field["id"] for field in form["body"]]
    assert len(set(names)) == len(names) > 0
    assert all(field["type"] == "textarea" and field["attributes"]["label"] for field in form["body"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"jobs": {}},
        {"on": {"pull-request": {}}},
        {"jobs": {"speed": {"runs-on": "ubuntu-latest", "steps": [{"uses": "actions/checkout"}]}}},
        {"jobs": {"speed": {"runs-on": "ubuntu-latest", "steps": [{"run": "a", "uses": "b/c@v1"}]}}},
        {"jobs": {"speed": {"steps": [{"run": "a"}]}}},
    ],
)
def test_the_schema_refuses(wrong: dict[str, Any]) -> None:
    assert not jsonschema_rs.is_valid(SCHEMA, read(WORKFLOWS[0]) | wrong)


@pytest.mark.parametrize("file", [SPEED_GATE, GITLAB, ACTION], ids=lambda file: file.name)
def test_the_options_exist(file: Path) -> None:
    group: Any = get_command(app)
    text = file.read_text(encoding="utf-8")
    lines = re.findall(r"^[ -]*bestarm (\w+) (.*)$", text, flags=re.MULTILINE)
    lines += [("gate", words) for words in re.findall(r"words\+?=\((.*)\)", text)]
    assert lines
    for command, words in lines:
        known = {name for option in group.get_command(None, command).params for name in option.opts}
        assert set(re.findall(r"(?<![^\s(])--[a-z-]+", words)) <= known


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A folder with an old and a new program, and `bestarm` on the path."""
    work, programs = tmp_path / "work", tmp_path / "programs"
    for folder in ("new", "old"):
        (work / folder).mkdir(parents=True)
        (work / folder / "bench.py").write_text("import time; time.sleep(0.05)")
    programs.mkdir()
    put(programs / "bestarm", f'exec {sys.executable} -m bestarm "$@"')
    # The interpreter that starts soonest.
    put(programs / "python3", f'exec {sys.executable} -I -S "$@"')
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path)}
    pull_request = {"number": 7, "base": {"sha": "0" * 40}, "head": {"repo": {"full_name": "us/parse"}}}
    github = {"repository": "us/parse", "token": "secret", "event": {"pull_request": pull_request}}
    environment |= {"GITHUB_REPOSITORY": "us/parse"}
    return Stage(work, environment, {"github": github}, {"OWNER/bestarm@v1": ACTION})


def put(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def slower(stage: Stage) -> None:
    (stage.folder / "new" / "bench.py").write_text("import time; time.sleep(0.25)")


def quicker(stage: Stage) -> None:
    (stage.folder / "new" / "bench.py").write_text("")


@cases(1)
@pytest.mark.parametrize(("change", "failed", "said"), [(slower, True, "::error::"), (quicker, False, "certified")])
def test_the_gate_runs_as_written(stage: Stage, change: Any, failed: bool, said: str) -> None:
    change(stage)
    [job] = read(SPEED_GATE)["jobs"].values()
    # To install is the business of the package index.
    steps = [step for step in job["steps"] if "pip install" not in step.get("run", "")]
    acted = stage.job(job | {"env": {"BENCHMARK": "python3 bench.py"}, "steps": steps})
    assert (acted.failed, said in acted.log) == (failed, True), acted.log
    assert "| Verdict |" in acted.summary
    assert (stage.folder / "gate.json").exists()
    assert acted.used[-1] == ("actions/upload-artifact@v4", {"name": "gate", "path": "gate.json"})


def act(stage: Stage, **inputs: str) -> Acted:
    """The action alone, with what is at hand, and with a budget that is soon spent."""
    given = {"candidate": "python3 new/bench.py", "baseline": "python3 old/bench.py", "at-most": "time=1.5x\n\n"}
    given |= {"install": "none", "options": "--seed\n1"}
    return stage.steps([{"uses": "OWNER/bestarm@v1", "with": given | inputs}])


def test_the_action_passes_annotates_and_keeps_a_history(stage: Stage) -> None:
    quicker(stage)
    acted = act(stage, history="gates.jsonl", study="parse, 100%")
    assert not acted.failed, acted.log
    assert "::notice title=bestarm gate::CERTIFIED: python3 new/bench.py meets every limit" in acted.log
    assert ", with 95%25 confidence" in acted.log
    assert acted.outputs == {
        "found": "certified",
        "status": "0",
        "comment": "bestarm-gate/comment.md",
        "report": "bestarm-gate/gate.json",
    }
    assert acted.summary == (stage.folder / acted.outputs["comment"]).read_text()
    first, title, *_, last = acted.summary.splitlines()
    assert (first, title) == ("<!-- bestarm gate: parse, 100% -->", "### parse, 100%: certified")
    assert "\n| time at most 1.5x the baseline | holds | 0." in acted.summary
    assert last.startswith("CERTIFIED: ")
    assert acted.used == [("actions/upload-artifact@v4", {"name": "bestarm-gate", "path": "bestarm-gate"})]
    [line] = (stage.folder / "gates.jsonl").read_text().splitlines()
    report = json.loads((stage.folder / acted.outputs["report"]).read_text())["bestarm"]
    assert json.loads(line)["limits_found"] == report["limits_found"]


@pytest.mark.torture
def test_the_action_fails_what_is_refuted(stage: Stage) -> None:
    slower(stage)
    acted = act(stage, artifact="")
    assert acted.failed
    assert "::error title=bestarm gate::REFUTED: the candidate does not meet every limit" in acted.log
    assert (acted.outputs["found"], acted.outputs["status"], acted.used) == ("refuted", "3", [])


@cases(1)
@pytest.mark.parametrize(("undecided", "failed", "kind"), [("warn", False, "warning"), ("fail", True, "error")])
def test_what_is_undecided_is_no_pass(stage: Stage, undecided: str, failed: bool, kind: str) -> None:
    acted = act(stage, undecided=undecided, options="--total-runs\n2")
    assert acted.failed is failed
    assert f"::{kind} title=bestarm gate::UNDECIDED: the budget is spent after 2 runs" in acted.log
    assert (acted.outputs["found"], acted.outputs["status"]) == ("undecided", "4")


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"candidate": "exit 7"}, "It ended with status 1, and there is no verdict"),
        ({"at-most": "time=fast"}, "It ended with status 2, and there is no verdict"),
        ({"undecided": "pass"}, "undecided must be warn or fail"),
    ],
)
def test_the_action_says_that_there_is_no_verdict(stage: Stage, inputs: dict[str, str], said: str) -> None:
    (stage.folder / "bestarm-gate").mkdir()
    (stage.folder / "bestarm-gate" / "gate.json").write_text("of an earlier step")
    acted = act(stage, **inputs)
    assert acted.failed
    assert f"::error title=bestarm gate::{said}" in acted.log
    assert acted.outputs["found"] == ""


def test_what_is_given_is_never_read_as_a_script(stage: Stage) -> None:
    sly = {
        "study": "$(touch a)`touch b`",
        "artifact": "$(touch c)",
        "candidate": "true",
        "baseline": "true '; touch d'",
    }
    act(stage, **sly, options="--total-runs\n2")
    assert not {"a", "b", "c", "d"} & {path.name for path in stage.folder.iterdir()}


def test_the_action_installs_what_it_is_told(stage: Stage) -> None:
    """With a Python that notes down what it is asked, in place of one that makes an environment."""
    noted = stage.folder.parent / "noted"
    makes = [
        'mkdir -p "$3/bin"; cp "$0" "$3/bin/python"',
        'printf \'#!/bin/sh\\necho it is mine; exit 1\\n\' > "$3/bin/bestarm"; chmod +x "$3/bin/bestarm"',
    ]
    stub = f'echo "$@" >> {noted}\nif [ "$2" = venv ]; then {"; ".join(makes)}; fi'
    put(stage.folder.parent / "programs" / "python3", stub)
    acted = act(stage, install="")
    assert "it is mine" in acted.log
    stage.acted = Acted()
    act(stage, install="bestarm==9")
    lines = noted.read_text().splitlines()
    assert lines[0] == f"-m venv {stage.folder.parent}/bestarm"
    assert [line.rpartition(" ")[2] for line in lines if "pip install" in line] == [str(ROOT), "bestarm==9"]


@cases(1)
@pytest.mark.parametrize("before", ["17", ""])
def test_a_comment_is_written_once_and_then_changed(stage: Stage, before: str) -> None:
    quicker(stage)
    programs, noted = stage.folder.parent / "programs", stage.folder.parent / "noted"
    # The service answers with the comments whose first line is this gate's.
    put(programs / "gh", f'echo "$MARKER / $*" >> {noted}; case "$*" in *--paginate*) echo {before};; esac')
    [job] = read(WITH_ACTION)["jobs"].values()
    for step in job["steps"]:
        if step.get("id") == "gate":
            step["with"] |= {"install": "none", "at-most": "time=1.5x"}
    acted = stage.job(job)
    assert not acted.failed, acted.log
    assert [name for name, _ in acted.used] == ["actions/checkout@v4"] * 2 + ["actions/upload-artifact@v4"]
    asked, written = noted.read_text().splitlines()
    assert asked.startswith("<!-- bestarm gate: parse --> / api repos/us/parse/issues/7/comments --paginate --jq ")
    how = "PATCH repos/us/parse/issues/comments/17" if before else "POST repos/us/parse/issues/7/comments"
    assert written.endswith(f"/ api --method {how} --field body=@bestarm-gate/comment.md")


def test_a_change_from_elsewhere_gets_no_comment(stage: Stage) -> None:
    quicker(stage)
    stage.context["github"]["event"]["pull_request"]["head"]["repo"]["full_name"] = "them/parse"
    [job] = read(WITH_ACTION)["jobs"].values()
    stage.context["steps"] = {"gate": {"outputs": {"comment": "a"}}}
    assert not stage.is_due(job["steps"][-1])
    stage.context["github"]["event"]["pull_request"]["head"]["repo"]["full_name"] = "us/parse"
    assert stage.is_due(job["steps"][-1])


@cases(1)
@pytest.mark.parametrize(("new", "status"), [("", 0), ("import time; time.sleep(0.25)", 3)])
def test_the_gitlab_job_runs_as_written(tmp_path: Path, stage: Stage, new: str, status: int) -> None:
    [(_, job)] = read(GITLAB).items()
    assert job["allow_failure"] == {"exit_codes": [4, 5]}
    assert job["before_script"] == ["python -m pip install bestarm"]
    work = stage.folder
    put(stage.folder.parent / "programs" / "python", 'exec python3 "$@"')
    (work / "bench.py").write_text("import time; time.sleep(0.05)")

    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
        return subprocess.run(["git", *who, *words], cwd=work, check=True, capture_output=True, text=True).stdout

    for words in (["init"], ["add", "bench.py"], ["commit", "-m", "old"]):
        git(*words)
    (work / "bench.py").write_text(new)
    git("commit", "-am", "new")
    (work / "old" / "bench.py").unlink()
    (work / "old").rmdir()
    variables = job["variables"] | {"CI_MERGE_REQUEST_DIFF_BASE_SHA": git("rev-parse", "HEAD~").strip()}
    # As a runner does it: one script, which ends with the first line that fails.
    script = "\n".join(job["script"]).replace("memory=1.10x", "memory=3x")
    ended = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=work, env=stage.environment | variables, check=False
    )
    assert ended.returncode == status
    assert {path for path in job["artifacts"]["paths"] if not (work / path).exists()} == set()


def test_the_page_lists_what_the_action_takes_and_yields() -> None:
    page = (ROOT / "docs" / "how-to" / "gate-a-pipeline.md").read_text(encoding="utf-8")
    section = page.partition("## In a workflow\n")[2].partition("\n## ")[0]
    action = read(ACTION)
    assert re.findall(r"^\| `([a-z-]+)` \|", section, flags=re.MULTILINE) == [*action["inputs"], *action["outputs"]]
